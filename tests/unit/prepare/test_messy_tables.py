"""Tables as they are, from files to a study: three hospitals, three formats, gaps, text, other names and orders."""

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler
from tests.tolerances import RESULT_BAR, assert_close, assert_same_vectors, digits_lost
from tests.unit.prepare.jointly import joint_levels, joint_totals

from fedsvd import FederatedLinearRegression, FederatedPCA
from fedsvd.data.open import open_source
from fedsvd.errors import PrivacyWarning
from fedsvd.linalg.common_rows import common_rows
from fedsvd.prepare.categories import own_levels
from fedsvd.prepare.columns import ColumnChoice, arranged, chosen
from fedsvd.prepare.encoding import Indicators, encoded
from fedsvd.prepare.identifiers import IdRule, hashed, record_ids
from fedsvd.prepare.matching import checked_positions
from fedsvd.prepare.missing import Filled
from fedsvd.prepare.rule import Rule
from fedsvd.prepare.script import play_together, prepare
from fedsvd.prepare.sites import Over
from fedsvd.randomness.seed import Seed

KEY = Seed(bytes(32))
FEATURES = ("mean radius", "mean texture", "mean area", "stage")


@pytest.fixture
def hospitals(tmp_path):
    """A CSV with decimal commas and a byte order mark, a Parquet file and a workbook, of one messy joint table."""
    rng = np.random.default_rng(21)
    data = load_breast_cancer(as_frame=True)
    frame = data.data[["mean radius", "mean texture", "mean area"]][:360].copy()
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    frame["stage"] = rng.choice(["early", "late", "unclear"], len(frame))
    frame["outcome"] = rng.normal(size=len(frame)) + frame["mean texture"].fillna(0) / 10
    frame["id"] = [f"P{i:04d}" for i in range(len(frame))]
    a, b, c = frame[:110], frame[110:240], frame[240:]
    a.to_csv(tmp_path / "a.csv", sep=";", decimal=",", encoding="utf-8-sig", index=False)
    b[b.columns[::-1]].to_parquet(tmp_path / "b.parquet", index=False)
    c.rename(columns={"mean area": "Fläche"}).to_excel(tmp_path / "c.xlsx", index=False)
    return [tmp_path / name for name in ("a.csv", "b.parquet", "c.xlsx")], frame


def prepared(paths):
    choices = [ColumnChoice(), ColumnChoice(), ColumnChoice(rename=(("Fläche", "mean area"),))]
    tables = [chosen(open_source(path), choice) for path, choice in zip(paths, choices, strict=True)]
    labels = [table.column("outcome") for table in tables]
    tables = [arranged(table, FEATURES) for table in tables]
    levels = joint_levels([own_levels(table, "stage") for table in tables], KEY, minimum=5)
    tables = [encoded(table, [Indicators(levels, first=True)]) for table in tables]
    agreed = joint_totals(tables)
    names = tables[0].names
    return [Filled(table, agreed.means(names), agreed.with_gaps(names)) for table in tables], labels


def expected_table(frame):
    numbers = list(FEATURES[:3])
    filled = frame[numbers].fillna(frame[numbers].mean())
    dummies = pd.get_dummies(frame["stage"], prefix="stage", drop_first=True, dtype=float)
    flags = frame[numbers].isna().astype(float).add_suffix("_missing")
    return pd.concat([filled, dummies, flags], axis=1)


def test_principal_components_are_those_of_scikit_learn_on_the_jointly_prepared_table(hospitals):
    paths, frame = hospitals
    tables, _ = prepared(paths)
    whole = expected_table(frame)
    assert tables[0].names == tuple(whole.columns)
    found = FederatedPCA(n_components=4).fit(tables)
    expected = PCA(n_components=4, svd_solver="full").fit(whole)
    assert_close(found.explained_variance_, expected.explained_variance_, RESULT_BAR)
    signs = np.sign(np.sum(found.components_ * expected.components_, axis=1))
    assert_close(found.components_ * signs[:, None], expected.components_, digits_lost(5))


def test_a_regression_is_that_of_scikit_learn_on_the_jointly_prepared_table(hospitals):
    paths, frame = hospitals
    tables, labels = prepared(paths)
    found = FederatedLinearRegression().fit(tables, labels)
    expected = LinearRegression().fit(expected_table(frame), frame["outcome"])
    assert_close(np.ravel(found.coef_), expected.coef_, digits_lost(5))
    assert_close(np.ravel(found.intercept_), np.ravel(expected.intercept_), digits_lost(5))


def test_a_regression_on_matched_records_is_that_of_the_merged_table():
    rng = np.random.default_rng(4)
    a = pd.DataFrame({"ID": [f"p{i} " for i in rng.permutation(250)[:220]]})
    b = pd.DataFrame({"patient": [f"P{i}" for i in rng.permutation(250)[:230]]})
    names = [f"x{j}" for j in range(20)]
    a[[*names[:10], "y"]] = rng.normal(size=(220, 11))
    b[names[10:]] = rng.normal(size=(230, 10))
    ids = [record_ids(open_source(a), ["ID"], IdRule()), record_ids(open_source(b), ["patient"], IdRule())]
    places = common_rows([hashed(each, KEY) for each in ids]).positions
    left = open_source(a, drop=["ID", "y"]).reordered(checked_positions(places[0], 220))
    right = open_source(b, drop=["patient"]).reordered(checked_positions(places[1], 230))
    y = a["y"].to_numpy()[places[0]]
    found = FederatedLinearRegression(split="vertical", ids="trust").fit([left, right], y)
    merged = a.assign(key=a["ID"].str.strip()).merge(b.assign(key=b["patient"].str.lower()), on="key")
    expected = LinearRegression().fit(merged[names], merged["y"])
    assert left.shape[0] == len(merged)
    assert_close(np.ravel(found.coef_), expected.coef_, digits_lost(5))


@pytest.fixture
def single_cells(tmp_path):
    """Counts of two laboratories, sparse on disk, one by rows and one by columns; the second counts twice as much."""
    rng = np.random.default_rng(8)
    paths, tables = [], []
    for place, (form, cells) in enumerate(((sp.csr_array, 150), (sp.csc_array, 120))):
        counts = rng.poisson(0.8 * (1 + place), size=(cells, 14)).astype(float)
        obs = pd.DataFrame(index=[f"lab{place}-cell{i}" for i in range(cells)])
        var = pd.DataFrame(index=[f"gene{j}" for j in range(14)])
        anndata.AnnData(form(counts), obs, var).write_h5ad(tmp_path / f"{place}.h5ad")
        paths.append(tmp_path / f"{place}.h5ad")
        tables.append(counts)
    return paths, tables


def test_components_of_sparse_files_are_those_of_the_joint_counts(single_cells):
    paths, tables = single_cells
    with pytest.warns(PrivacyWarning, match="2 parties"):
        found = FederatedPCA(n_components=3).fit(paths)
    expected = PCA(n_components=3, svd_solver="full").fit(np.vstack(tables))
    assert_close(found.explained_variance_, expected.explained_variance_, RESULT_BAR)


def test_components_without_a_site_effect_are_those_of_the_tables_centred_apart(single_cells):
    paths, tables = single_cells
    rule = Rule(centre=Over.SITE, scale=Over.SITE)
    prepared_tables = play_together([prepare(open_source(path), rule, KEY) for path in paths])
    with pytest.warns(PrivacyWarning, match="2 parties"):
        found = FederatedPCA(n_components=3).fit([each.table for each in prepared_tables])
    apart = np.vstack([StandardScaler().fit_transform(counts) for counts in tables])
    expected = PCA(svd_solver="full").fit(apart)
    assert_close(found.explained_variance_, expected.explained_variance_[:3], RESULT_BAR)
    assert_same_vectors(found.components_, expected.components_[:3], expected.singular_values_)
