"""What a person in Python reads: the place, the fix in parameters, and no entry of the data."""

import numpy as np
import pandas as pd
import pytest

import fedsvd
from fedsvd.errors import ConfigError, NotFinite, NotNumeric, ShapeError, UnknownFormat


@pytest.fixture
def tables():
    rng = np.random.default_rng(8)
    return [pd.DataFrame({"age": rng.normal(50, 9, 40), "dose": rng.normal(3, 1, 40)}) for _ in range(2)]


def test_text_labels_of_a_linear_regression_are_refused_without_showing_one(tables):
    y = [np.array(["alive", "dead"] * 20)] * 2
    with pytest.raises(NotNumeric, match="y holds text, not numbers") as caught:
        fedsvd.FederatedLinearRegression().fit(tables, y)
    assert "FederatedLogisticRegression" in caught.value.fix
    assert "alive" not in str(caught.value)


def test_columns_that_differ_are_named_with_the_nearest(tables):
    a, b = tables
    with pytest.raises(ConfigError, match=r"party 2 has no column 'dose', which party 1 has.*mean 'Dose'"):
        fedsvd.FederatedPCA(n_components=1).fit([a, b.rename(columns={"dose": "Dose"})])
    with pytest.raises(ConfigError, match="party 2 has its columns in another order than party 1"):
        fedsvd.FederatedPCA(n_components=1).fit([a, b[["dose", "age"]]])


def test_a_misspelt_id_is_no_column_of_data(tables):
    with_ids = [table.assign(patient=[f"p{i}" for i in range(40)]) for table in tables]
    with pytest.raises(ConfigError, match=r"party 1: the table has no column 'pateint'.*mean 'patient'"):
        fedsvd.prepared(with_ids, id="pateint")


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_a_gap_and_a_column_of_text_name_what_prepares_them(tables):
    a, b = tables
    with pytest.raises(NotFinite, match=r"of fedsvd\.prepared"):
        fedsvd.FederatedPCA(n_components=1).fit([a.mask(a > 60.0), b])
    with pytest.raises(NotNumeric, match=r"column 'sex' holds text.*categories= of fedsvd.prepared"):
        fedsvd.FederatedPCA(n_components=1).fit([each.assign(sex=["f", "m"] * 20) for each in (a, b)])


def test_a_file_that_is_not_there_has_a_neighbour(tmp_path, tables):
    tables[0].to_csv(tmp_path / "north.csv", index=False)
    with pytest.raises(UnknownFormat, match=r"did you mean 'north\.csv'"):
        fedsvd.open_source(tmp_path / "nort.csv")
    with pytest.raises(UnknownFormat, match="there is no folder"):
        fedsvd.open_source(tmp_path / "nowhere" / "north.csv")


def test_an_event_of_text_is_not_sent_to_a_classifier():
    X, time, event = [np.ones((6, 1))] * 2, [np.arange(1.0, 7.0)] * 2, [np.array(["no", "yes"] * 3)] * 2
    with pytest.raises(NotNumeric) as refused:
        fedsvd.FederatedCox().fit(X, time, event=event)
    assert refused.value.fix == 'give numbers: (values == "yes").astype(float), say'


def test_a_party_without_labels_is_counted_in_arrays():
    with pytest.raises(ShapeError, match=r"y has 2 arrays for 3 parties\. Fix: give one array for each party"):
        fedsvd.FederatedLinearRegression().fit([np.ones((6, 1))] * 3, [np.ones(6)] * 2)
