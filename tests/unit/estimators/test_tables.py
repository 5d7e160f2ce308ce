"""What may be given as a table, what is read as one table per party, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from tests.tolerances import RESULT_BAR, VALUES_BAR, assert_close, digits_lost

from fedsvd import FederatedLinearRegression, FederatedPCA, FederatedSVD, Simulation
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataWarning, NotFinite, NotNumeric, ShapeError, UnknownFormat
from fedsvd.estimators.tables import are_parties

from .joint import parts, table

# One table is divided here, so its rows are in one order.
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore::fedsvd.errors.RowsNotCompared")

NAMES = ["age", "dose", "height", "weight"]
D = table(60, 4)


def npy(part, folder):
    path = folder / f"{len(part)}.npy"
    np.save(path, part)
    return path


def mapped(part, folder):
    return np.load(npy(part, folder), mmap_mode="r")


def csv(part, folder):
    path = folder / f"{len(part)}.csv"
    frame(part, folder).to_csv(path, index=False)
    return str(path)


def frame(part, folder):
    return pd.DataFrame(part, columns=NAMES)


def polars(part, folder):
    return pl.DataFrame(part, schema=NAMES)


KINDS = {
    "array": lambda part, folder: part,
    "column-major array": lambda part, folder: np.asfortranarray(part),
    "read-only memory map": mapped,
    "path of an array": npy,
    "path of a text table": csv,
    "pandas": frame,
    "polars": polars,
    "csr": lambda part, folder: sparse.csr_array(part),
    "coo": lambda part, folder: sparse.coo_array(part),
    "source": lambda part, folder: open_source(part),
    "rows": lambda part, folder: part.tolist(),
}
NAMED = ("path of a text table", "pandas", "polars")


@pytest.fixture(scope="module")
def expected():
    return FederatedPCA(2).fit(parts(D, "horizontal"))


@pytest.mark.parametrize("kind", KINDS)
def test_parties_may_bring_any_kind_of_table(kind, expected, tmp_path):
    held = [KINDS[kind](part, tmp_path) for part in parts(D, "horizontal")]
    pca = FederatedPCA(2).fit(held)
    assert_close(pca.components_, expected.components_, VALUES_BAR)
    assert_close(pca.transform(held), expected.transform(D), RESULT_BAR)
    assert (list(getattr(pca, "feature_names_in_", [])) == NAMES) == (kind in NAMED)
    assert pca.n_features_in_ == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_one_table_of_any_kind_is_divided_evenly(split, kind, tmp_path):
    whole = KINDS[kind](D, tmp_path)
    svd = FederatedSVD(split=split, federation=Simulation(parties=3)).fit(whole)
    assert svd.plan_.counts == ((20, 20, 20) if split == "horizontal" else (1, 1, 2))
    assert_close(svd.U_ * svd.singular_values_ @ svd.components_, D, RESULT_BAR)
    assert_close(svd.transform(whole), D @ svd.components_.T, RESULT_BAR)
    assert hasattr(svd, "feature_names_in_") == (kind in NAMED)


def test_parties_may_bring_different_kinds(expected, tmp_path):
    a, b, c = parts(D, "horizontal")
    with pytest.warns(DataWarning, match="party 2 gives a table without column names"):
        pca = FederatedPCA(2).fit([csv(a, tmp_path), sparse.csr_array(b), c.astype(np.float64)])
    assert_close(pca.components_, expected.components_, VALUES_BAR)
    assert list(pca.feature_names_in_) == NAMES


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_labels_may_be_a_series(kind):
    y = D @ np.arange(1.0, 5.0)
    series = pd.Series(y) if kind == "pandas" else pl.Series(y)
    regression = FederatedLinearRegression(split="vertical").fit(parts(D, "vertical"), series)
    np.testing.assert_allclose(regression.coef_, np.arange(1.0, 5.0), rtol=digits_lost(6))


@pytest.mark.parametrize(
    ("X", "many"),
    [
        ([D, D], True),
        ((D, D), True),
        ([D], True),
        (["a.npy", "b.npy"], True),
        ([D.tolist(), D.tolist()], True),
        ([frame(D, None), D], True),
        (D, False),
        (D.tolist(), False),
        (list(D), False),
        ([1.0, 2.0], False),
        ([], False),
        ("a.npy", False),
        (frame(D, None), False),
    ],
)
def test_a_list_of_tables_is_one_per_party_and_anything_else_is_one_table(X, many):
    assert are_parties(X) is many


def test_names_are_joined_when_features_are_split():
    whole = frame(D, None)
    svd = FederatedSVD(split="vertical").fit([whole[NAMES[:1]], whole[NAMES[1:]]])
    assert list(svd.feature_names_in_) == NAMES
    # Two parties may call different columns by one name; then the joint table has none.
    twice = whole[NAMES[1:]].rename(columns={"dose": "age"})
    assert not hasattr(svd.fit([whole[NAMES[:1]], twice]), "feature_names_in_")


def test_numbered_columns_are_no_names():
    held = [pd.DataFrame(part) for part in parts(D, "horizontal")]
    pca = FederatedPCA(2).fit(held)
    assert not hasattr(pca, "feature_names_in_")
    pca.transform(held[0])


def test_names_must_agree():
    a, b = frame(D[:30], None), frame(D[30:], None)
    with pytest.raises(ConfigError, match="has its columns in another order than party 1"):
        FederatedPCA().fit([a, b[NAMES[::-1]]])
    pca = FederatedPCA().fit([a, b])
    with pytest.raises(ValueError, match="feature names"):
        pca.transform([a, b[NAMES[::-1]]])
    with pytest.raises(ConfigError, match="feature names"):
        pca.transform(open_source(a[NAMES[::-1]]))


def test_shapes_must_agree():
    with pytest.raises(ShapeError, match="different numbers of columns: party 1 has 4, party 2 has 3"):
        FederatedPCA().fit([D, D[:, :3]])
    with pytest.raises(ShapeError, match="different numbers of rows: party 1 has 60, party 2 has 59"):
        FederatedSVD(split="vertical").fit([D, D[:-1]])
    svd = FederatedSVD(split="vertical").fit([D[:, :1], D[:, 1:]])
    with pytest.raises(ShapeError, match=r"parties have \(2, 2\) columns, in fit they had \(1, 3\)"):
        svd.transform([D[:, :2], D[:, 2:]])
    with pytest.raises(ShapeError, match="X has 3 features, but FederatedSVD is expecting 4"):
        svd.transform(open_source(D[:, :3]))
    with pytest.raises(ShapeError, match="5 coordinates, expected 4"):
        svd.inverse_transform(np.ones((2, 5)))


def test_one_party_is_not_a_federation():
    with pytest.raises(ConfigError, match="at least two parties"):
        FederatedPCA().fit([D])


def test_a_table_too_small_to_divide_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="n_samples=2 cannot be divided among 3 parties"):
        FederatedPCA(federation=Simulation(parties=3)).fit(npy(D[:2], tmp_path))
    with pytest.raises(ValueError, match="2 sample"):
        FederatedPCA(federation=Simulation(parties=3)).fit(D[:2])


def test_what_is_no_table_is_refused_without_quoting_it():
    with pytest.raises(ShapeError, match="Reshape your data") as refusal:
        FederatedPCA().fit(np.array([12345.678, 2.0, 3.0]))
    assert "12345" not in str(refusal.value)
    with pytest.raises(ShapeError, match="Reshape your data"):
        FederatedPCA().fit([1.0, 2.0])
    with pytest.raises(UnknownFormat):
        FederatedPCA().fit(["missing.npy", "file.xyz"])
    with pytest.raises(NotNumeric, match="'name'"):
        FederatedPCA().fit([pd.DataFrame({"name": ["a", "b"], "age": [1, 2]})] * 2)
    broken = D.copy()
    broken[5, 1] = np.inf
    with pytest.raises(NotFinite, match=r"party 1.*row 5, column 1"):
        FederatedPCA().fit([broken, D])
