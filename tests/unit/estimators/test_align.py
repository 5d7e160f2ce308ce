"""``align``: estimators on tables of other records in other orders, against scikit-learn and NumPy on common ones."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from tests.tolerances import RESULT_BAR, VALUES_BAR, assert_close

from fedsvd import FederatedLinearRegression, FederatedLSA, FederatedPCA, FederatedSVD, Policy, Simulation
from fedsvd.errors import ConfigError, RepeatedIds, TooFewCommon

HELD = (range(90), range(10, 100), range(5, 95))
COMMON = range(10, 90)
COLUMNS = ((0, 1), (2,), (3, 4))
ANY = Policy.permissive()


@pytest.fixture
def joint():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 5))
    y = X @ rng.normal(size=5) + 0.1 * rng.normal(size=100)
    rows = [rng.permutation(held) for held in HELD]
    tables = [
        pd.DataFrame({"pid": [f"P{i:03d}" if who else f" p{i:03d}" for i in own], "site": "x"})
        .assign(**{f"x{j}": X[own, j] for j in COLUMNS[who]})
        .drop(columns="site")
        for who, own in enumerate(rows)
    ]
    return X, y, rows, tables


def people(ids):
    return [int(text.strip().lower().removeprefix("p")) for text in ids]


@pytest.mark.parametrize("align", ["server", "ecdh"])
def test_a_regression_is_that_of_the_common_records(joint, align):
    X, y, rows, tables = joint
    model = FederatedLinearRegression(split="vertical", id="pid", align=align, federation=Simulation(policy=ANY)).fit(
        tables, y[rows[2]]
    )
    reference = LinearRegression().fit(X[COMMON], y[COMMON])
    assert_close(model.coef_, reference.coef_, RESULT_BAR)
    assert sorted(people(model.row_ids_)) == list(COMMON)
    assert [report.matched for report in model.matching_] == [80] * 3
    predicted = model.predict(tables)
    known = np.isin(rows[2], COMMON)
    assert np.array_equal(~np.isnan(predicted), known)
    assert_close(predicted[known], reference.predict(X[rows[2]])[known], RESULT_BAR)


@pytest.mark.parametrize("estimator", [FederatedSVD, FederatedLSA])
def test_factors_are_those_of_the_common_records_in_the_order_of_their_ids(joint, estimator):
    X, _, _, tables = joint
    model = estimator(3, split="vertical", id="pid", align="server", federation=Simulation(policy=ANY)).fit(tables)
    values = np.linalg.svd(X[COMMON], compute_uv=False)
    assert_close(model.singular_values_, values[:3], VALUES_BAR)
    D = X[people(model.row_ids_)]
    assert_close(model.U_ * model.singular_values_, D @ model.components_.T, RESULT_BAR)
    first = [int(text.strip()[1:]) for text in tables[0]["pid"] if int(text.strip()[1:]) in COMMON]
    assert_close(model.transform(tables), X[first] @ model.components_.T, RESULT_BAR)


def test_several_columns_make_an_id_together(joint):
    X, _, _, tables = joint
    for table in tables:
        table["day"] = table["pid"].str.strip().str[-1]
        table["pid"] = table["pid"].str.strip().str.lower().str[:-1]
    model = FederatedSVD(2, split="vertical", id=["pid", "day"], align="server", federation=Simulation(policy=ANY)).fit(
        tables
    )
    assert_close(model.singular_values_, np.linalg.svd(X[COMMON], compute_uv=False)[:2], VALUES_BAR)
    assert clone(model).get_params()["id"] == ["pid", "day"]
    sorted_tables = [
        table[table["pid"].str[1:].add(table["day"]).astype(int).isin(COMMON)].sort_values(["pid", "day"])
        for table in tables
    ]
    again = FederatedSVD(2, split="vertical", id=["pid", "day"], federation=Simulation(policy=ANY)).fit(sorted_tables)
    assert_close(again.singular_values_, model.singular_values_, VALUES_BAR)
    assert not hasattr(again, "row_ids_")


@pytest.mark.filterwarnings("ignore:party 1 and party 2 bring the same table")
def test_what_cannot_be_matched_is_refused(joint):
    tables = joint[3]
    with pytest.raises(ConfigError, match="no id is named"):
        FederatedSVD(split="vertical", align="server").fit(tables)
    with pytest.raises(ConfigError, match="align is 'psi'"):
        FederatedSVD(split="vertical", id="pid", align="psi").fit(tables)
    with pytest.raises(ConfigError, match="one table was given"):
        FederatedSVD(split="vertical", id="pid", align="server").fit(tables[0])
    with pytest.raises(ConfigError, match="columns are split"):
        FederatedSVD(id="pid", align="server").fit([tables[0], tables[0]])
    with pytest.raises(RepeatedIds, match="party 2"):
        FederatedSVD(split="vertical", id="pid", align="server").fit(
            [tables[0], pd.concat((tables[1], tables[1][:1])), tables[2]]
        )
    with pytest.raises(TooFewCommon):
        FederatedSVD(
            split="vertical", id="pid", align="server", federation=Simulation(policy=Policy(least_overlap=81))
        ).fit(tables)
    assert "align" not in FederatedPCA().get_params()


def test_ids_of_the_joint_samples_join_the_first_partys_table(joint):
    _, y, rows, tables = joint
    tables = [table.assign(pid=table["pid"].str.strip().str.replace("p", "Ab-")) for table in tables]
    tables[1]["pid"] = tables[1]["pid"].str.replace("P", "AB-")
    tables[2]["pid"] = tables[2]["pid"].str.replace("P", "ab-")
    model = FederatedLinearRegression(
        split="vertical", id="pid", align="server", federation=Simulation(policy=ANY)
    ).fit(tables, y[rows[2]])
    assert set(model.row_ids_) <= set(tables[0]["pid"])
    joined = pd.Series(np.arange(len(model.row_ids_)), index=model.row_ids_).reindex(tables[0]["pid"])
    assert joined.notna().sum() == len(COMMON)
