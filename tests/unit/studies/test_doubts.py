"""What a person is told before a study: codes, misread numbers, shares, repeated records, tables without names."""

import warnings

import numpy as np
import pandas as pd
import pytest
from tests.tolerances import RESULT_BAR, assert_close

import fedsvd
from fedsvd import FederatedGLM, FederatedLinearRegression, FederatedMixedLM, Policy, Simulation
from fedsvd.data.open import open_source
from fedsvd.data.suspects import misread_columns
from fedsvd.errors import ConfigError, DataWarning
from fedsvd.studies.doubts import of_repeated
from fedsvd.studies.parties import PartyData

OWN = Simulation(policy=Policy.permissive())


def column(values):
    return misread_columns(open_source(pd.DataFrame({"x": np.asarray(values, dtype=float)})))


RNG = np.random.default_rng(4)
AGES = RNG.integers(20, 90, 200)


@pytest.mark.parametrize(
    ("values", "count"),
    [
        (np.append(AGES, [999] * 4), 4),
        (np.append(AGES, [-9] * 3), 3),
        (np.append(RNG.normal(3.5, 0.4, 100).round(1), [99.0] * 6), 6),
        (np.append(RNG.normal(1.2, 0.4, 100), [-99999.0] * 3), 3),
        (np.append(AGES, [999, 999]), 0),  # two may be a slip
        (AGES, 0),
        (RNG.choice([0, 1, 9], 200), 0),  # levels
        (np.minimum(RNG.exponential(20, 300), 90.0), 0),  # censored at 90: nothing lies between
        (RNG.poisson(0.4, 300), 0),
        (RNG.normal(size=300), 0),
        (np.append(RNG.normal(size=100), [np.nan] * 50), 0),
    ],
)
def test_many_equal_extremes_are_taken_for_codes(values, count):
    found = column(values)
    assert len(found) == (count > 0)
    if count:
        assert f"column 'x' has {count} entries " in str(found[0])
        assert f"x = {{ missing = [{int(values[-1])}] }} in the map of the table" in str(found[0])


def test_thousands_points_that_were_read_as_decimal_points_are_pointed_out():
    written = [1564, 987, 2310, 850, 1003, 999, 1781, 640, 1225, 3456, 720, 2017] * 3
    misread = [value / 1000 if value >= 1000 else value for value in written]
    (found,) = column(misread)
    assert "mixes whole numbers of three digits with small numbers of three decimals" in str(found)
    assert 'thousands = "."' in str(found)
    assert column(written) == ()
    assert column(RNG.normal(2, 0.5, 200).round(3)) == ()
    assert column(np.append(RNG.normal(2, 0.5, 200).round(3), [1, 2, 3, 2, 1])) == ()


def tables(n=60, k=3):
    rng = np.random.default_rng(9)
    return [pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"]) for _ in range(k)]


def test_shares_without_trials_are_pointed_out():
    X, rng = tables(), np.random.default_rng(2)
    y = [rng.choice([0.0, 1.0], 60) for _ in X]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FederatedGLM("binomial", federation=OWN).fit(X, y)
    y[1][:7] = 0.5
    with pytest.warns(DataWarning, match="party 2: 7 outcomes of 60 are neither 0 nor 1, and no weights"):
        FederatedGLM("binomial", federation=OWN).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FederatedGLM("binomial", federation=OWN).fit(X, y, sample_weight=[np.full(60, 2.0)] * 3)


def test_a_table_without_names_among_named_ones_is_pointed_out():
    X = tables()
    y = [frame["a"].to_numpy() for frame in X]
    with pytest.warns(DataWarning, match="party 2 gives a table without column names"):
        FederatedLinearRegression(federation=OWN).fit([X[0], X[1].to_numpy(), X[2]], y)


def repeated(ids=None, X=None):
    X = X or tables()
    given = [None] * len(X) if ids is None else [np.asarray(each) for each in ids]
    return list(of_repeated([PartyData(open_source(one), ids=own) for one, own in zip(X, given, strict=True)]))


def test_records_that_count_twice_are_pointed_out():
    own = [[f"{at}{i:03d}" for i in range(60)] for at in "abc"]
    assert repeated() == []
    assert repeated(own) == []
    own[1][3] = own[1][2]
    (text,) = repeated(own)
    assert text.startswith("party 2: 1 of 60 rows have an id that another row has too")
    own[1][3], own[2][:4] = "b003", own[0][:4]
    (text,) = repeated(own)
    assert text.startswith("party 1 and party 3 have 4 ids in common")
    numbers = [[str(i) for i in range(60)]] * 3  # which every site gives by itself
    assert repeated(numbers) == []


def test_rows_of_one_person_are_pointed_out_in_python_unless_clusters_say_so(tmp_path):
    rng = np.random.default_rng(6)
    index = [pd.Index([f"{site}{row // 2}" for row in range(60)], name="patient") for site in "abc"]
    X = [pd.DataFrame(rng.normal(size=(60, 2)), index=each, columns=["x", "z"]) for each in index]
    y = [pd.Series(rng.normal(size=60), index=each) for each in index]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        FederatedLinearRegression(federation=OWN).fit(X, y)
    said = [str(each.message) for each in seen]
    assert [text.split(" rows have an id")[0] for text in said] == [f"party {i}: 30 of 60" for i in (1, 2, 3)]
    assert all("(cluster=)" in text for text in said)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FederatedLinearRegression(inference=True, cov_type="cluster", federation=OWN).fit(
            X, y, groups=[each.to_numpy() for each in index]
        )
        FederatedMixedLM(federation=OWN).fit(X, y, subject=[each.to_numpy() for each in index])
        plain = [each.reset_index(drop=True) for each in X]
        FederatedLinearRegression(federation=OWN).fit(plain, [each.to_numpy() for each in y])
    for site, table in zip("abc", X, strict=True):
        table.to_csv(tmp_path / f"{site}.csv")
    with pytest.warns(DataWarning, match="party 1: 30 of 60 rows have an id"):
        fedsvd.prepared(tmp_path / "a.csv", id="patient")


def test_one_table_given_twice_is_pointed_out():
    X = tables()
    (text,) = repeated(X=[X[0], X[1], X[0].copy()])
    assert text.startswith("party 1 and party 3 bring the same table")
    constant = [pd.DataFrame({"a": np.ones(60)}) for _ in range(2)]
    assert repeated(X=constant) == []


def test_a_formula_without_an_intercept_gets_none_back():
    frames = [frame.assign(y=frame["a"] + 1.0) for frame in tables()]
    made = fedsvd.prepared(frames, formula="y ~ a + b - 1", policy=Policy.permissive())
    y = [table.column("y") for table in made]
    with pytest.raises(ConfigError, match="fit_intercept=True adds one"):
        FederatedLinearRegression(federation=OWN).fit(made, y)
    model = FederatedLinearRegression(fit_intercept=False, federation=OWN).fit(made, y)
    joint = pd.concat(frames)
    expected = np.linalg.lstsq(joint[["a", "b"]], joint["y"], rcond=None)[0]
    assert_close(model.coef_, expected, RESULT_BAR)


@pytest.mark.parametrize("whole", [0, 1, 2, 3])
def test_one_whole_number_among_many_of_three_decimals_is_enough(whole):
    rng = np.random.default_rng(3)
    column = np.concatenate((rng.integers(1000, 9999, 60) / 1000, rng.integers(100, 999, whole)))
    found = misread_columns(open_source(pd.DataFrame({"alk": column})))
    assert [each.words for each in found] == [{"thousands": "."}] * bool(whole)
