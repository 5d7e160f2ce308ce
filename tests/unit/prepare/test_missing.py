"""Missing values: exact joint means, constants, indicators, dropped rows; pandas on the joint table decides."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.impute import SimpleImputer
from tests.tolerances import assert_close, digits_lost
from tests.unit.prepare.jointly import joint_totals

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError, EmptyData, NotFinite
from fedsvd.prepare.missing import (
    Filled,
    FillReport,
    Missing,
    Totals,
    complete_rows,
    expect_no_gaps,
    filled_with_constant,
    gaps,
    totals,
)

NAMES = ("a", "b", "c", "d")


@pytest.fixture(params=[1 << 20, 8], ids=["one panel", "many panels"])
def parts(request, monkeypatch):
    monkeypatch.setattr("fedsvd.prepare.derived.PANEL_CELLS", request.param)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 4)) * [1, 1e6, 1e-6, 1] + [0, 1e7, 0, 3]
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 3] = np.arange(30)  # nothing is missing here
    return [pd.DataFrame(part, columns=NAMES) for part in np.split(X, [7, 18])]


def test_gaps_filled_with_joint_means_are_those_of_scikit_learn_on_the_joint_table(parts):
    whole = pd.concat(parts)
    expected = SimpleImputer(strategy="mean", add_indicator=True).fit_transform(whole)
    sources = [open_source(part) for part in parts]
    agreed = joint_totals(sources)
    fills, marked = agreed.means(NAMES), agreed.with_gaps(NAMES)
    filled = [Filled(source, fills, marked) for source in sources]
    assert marked == ("a", "b", "c")
    assert filled[0].names == (*NAMES, "a_missing", "b_missing", "c_missing")
    found = np.vstack([source.rows(0, source.shape[0]) for source in filled])
    for column in range(found.shape[1]):
        assert_close(found[:, column], expected[:, column], digits_lost(1))


def test_present_entries_keep_every_bit(parts):
    source = open_source(parts[1])
    found = Filled(source, np.zeros(4)).rows(0, len(parts[1]))
    held = parts[1].notna().to_numpy()
    assert_array_equal(found[held], parts[1].to_numpy()[held])
    assert not found[~held].any()


def test_panels_of_rows_and_of_columns_agree(parts):
    source = Filled(open_source(parts[0]), np.arange(4.0), ["c", "a"])
    whole = source.rows(0, 7)
    assert_array_equal(np.hstack([source.columns(j, j + 1) for j in range(6)]), whole)
    assert_array_equal(source.columns(1, 5), whole[:, 1:5])
    assert_array_equal(source.reordered([3, 0]).columns(4, 6), whole[[3, 0], 4:6])
    assert_array_equal(source.without(["b", "c_missing"]).rows(0, 7), whole[:, [0, 2, 3, 5]])


def test_what_goes_into_the_sum_comes_out_of_it(parts):
    own = [totals(open_source(part)) for part in parts]
    vector = np.sum([each.vector() for each in own], axis=0)
    back = Totals.of_vector(vector, 4)
    assert_array_equal(back.present, pd.concat(parts).notna().sum())
    assert back.rows == 30


def test_a_column_that_no_party_has_is_named():
    source = open_source(pd.DataFrame({"a": [1.0], "b": [np.nan]}))
    with pytest.raises(DataError, match="no party has an entry in column 'b'"):
        totals(source).means(["a", "b"])


def test_a_constant_fills_every_gap(parts):
    expected = parts[0].fillna(-1.0).to_numpy()
    assert_array_equal(filled_with_constant(open_source(parts[0]), -1).rows(0, 7), expected)


def test_rows_without_gaps_are_those_that_pandas_leaves():
    frame = pd.DataFrame({"x": [1, np.nan, 3, 4], "t": ["a", "b", None, "d"]})
    source = open_source(frame, drop=["t"])
    assert complete_rows(source).tolist() == [0, 2, 3]
    assert complete_rows(source, ["t"]).tolist() == frame.dropna().index.tolist()
    with pytest.raises(EmptyData, match="every row"):
        complete_rows(open_source(np.array([[np.nan, 1.0]])))


def test_the_error_counts_the_gaps_of_ones_own_columns_and_shows_no_entry(parts):
    frame = parts[0]
    found = gaps(open_source(frame))
    assert_array_equal(found.counts, frame.isna().sum())
    with pytest.raises(NotFinite) as caught:
        expect_no_gaps(found)
    most = frame.isna().sum().idxmax()
    assert f"{int(frame.isna().sum().sum())} of 28 entries are missing: {most} (" in str(caught.value)
    expect_no_gaps(gaps(open_source(np.ones((2, 2)))))


def test_the_report_says_how_much_was_done(parts):
    found = gaps(open_source(parts[0]))
    report = FillReport(Missing.MEAN, found)
    assert report.filled == found.total
    assert f"{found.total} of 28 entries were filled in (mean)" in str(report)
    assert "3 of 7 rows were left out" in str(FillReport(Missing.DROP, found, dropped=3))
    assert str(FillReport(Missing.MEAN, gaps(open_source(np.ones((2, 2)))))) == "no entry was missing"


def test_faults_of_the_caller_are_refused():
    source = open_source(np.ones((2, 2)))
    with pytest.raises(ConfigError, match="not finite"):
        Filled(source, np.array([1.0, np.nan]))
    with pytest.raises(ConfigError, match="no column 'z'"):
        Filled(source, np.ones(2), ["z"])
