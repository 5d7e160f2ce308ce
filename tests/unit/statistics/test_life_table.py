"""Curves and tests from counts: R's survfit on counts in bins, R's survdiff with strata, recorded."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.survival_data import MADE, OF_R, edges_of, table
from tests.tolerances import CURVE_BAR, STATISTIC_BAR

from fedsvd.statistics.life_table import curves, staircases
from fedsvd.statistics.log_rank import joined, numbers, own_part

R = json.loads((Path(__file__).parents[2] / "vectors" / "survival-r.json").read_text(encoding="utf-8"))
KIN = {
    "log-rank": "logrank",
    "peto": "peto",
    "gehan": "gehan",
    "tarone-ware": "tarone",
    "fleming-harrington": "fleming",
}


def numbers_of(recorded):
    return np.array([np.nan if value is None else value for value in recorded], dtype=float)


def counted(name):
    """Joint counts of each group, summed over sites."""
    data, edges = table(name), edges_of(name)
    by_site = [data[data["site"] == site] for site in sorted(data["site"].unique())]
    return np.stack(
        [
            sum(staircases(*own.loc[own["group"] == g, ["time", "status"]].to_numpy(float).T, edges) for own in by_site)
            for g in sorted(data["group"].unique())
        ]
    )


@pytest.mark.parametrize("name", [*MADE, *OF_R])
@pytest.mark.parametrize("interval", ["log-log", "log"])
def test_a_curve_of_exact_counts_is_rs_on_counts_in_bins(name, interval):
    found = curves(counted(name), edges_of(name), interval, 0.95)
    for curve, recorded in zip(found, R[name]["bins"], strict=True):
        said = recorded["log"] if interval == "log" else recorded
        on = curve.at_risk > 0
        pairs = ((curve.survival, "surv"), (curve.error, "se"), (curve.low, "low"), (curve.high, "high"))
        pairs += ((curve.hazard, "cumhaz"), (curve.hazard_error, "chaz.se"))
        for ours, key in pairs:
            theirs = numbers_of(said[key])
            both = on & np.isfinite(theirs)
            assert np.abs(ours - theirs)[both].max() <= CURVE_BAR * max(1.0, np.abs(theirs[both]).max())
        assert (np.isnan(curve.low[on]) == np.isnan(numbers_of(said["low"])[on])).all()


@pytest.mark.parametrize("name", [*MADE, *OF_R])
def test_at_the_edges_it_is_within_a_quarter_of_an_error_of_rs_curve_on_exact_times(name):
    (curve,) = curves(counted(name).sum(axis=0)[None], edges_of(name), "log", 0.95)
    exact, error = numbers_of(R[name]["times"]["surv"]), numbers_of(R[name]["times"]["se"])
    assert np.abs(curve.survival - exact).max() < 0.25 * np.nanmax(error)
    mean, its_error = curve.restricted_mean(R[name]["until"])
    assert abs(mean - R[name]["rmean"]) < 0.5 * R[name]["rmean.se"]
    assert 0.9 < its_error / R[name]["rmean.se"] < 1.1


@pytest.mark.parametrize("name", [*MADE, *OF_R])
def test_medians_are_the_first_edges_at_or_after_rs(name):
    edges = edges_of(name)
    for curve, median in zip(curves(counted(name), edges, "log-log", 0.95), R[name]["median"], strict=True):
        found, low, high = curve.median()
        if median is None:
            assert np.isnan(found)
            continue
        assert abs(found - median) <= edges[0]
        assert low <= found
        assert np.isnan(high) or high >= found


@pytest.mark.parametrize("name", [*MADE, *OF_R])
@pytest.mark.parametrize("test", KIN)
def test_comparisons_within_sites_are_rs_survdiff_with_strata(name, test):
    data = table(name)
    groups = data["group"].nunique()
    total = np.zeros(numbers(groups))
    for site in data["site"].unique():
        own = data[data["site"] == site]
        total += own_part(*own[["time", "status"]].to_numpy(float).T, own["group"].to_numpy(float) - 1, groups, test)
    found = joined(total, groups, test, 0.0)
    assert abs(found.statistic / R[name][KIN[test]] - 1.0) < STATISTIC_BAR
    assert found.df == groups - 1
    assert abs(sum(found.difference)) < STATISTIC_BAR


def test_without_events_a_curve_stays_at_one_and_nothing_is_compared():
    time, none = np.arange(1.0, 41.0), np.zeros(40)
    edges = np.array([10.0, 20.0, 40.0])
    (curve,) = curves(staircases(time, none, edges)[None], edges, "log-log", 0.95)
    assert curve.survival.tolist() == [1.0, 1.0, 1.0]
    assert np.isnan(curve.median()).all()
    found = joined(own_part(time, none, np.arange(40.0) % 2, 2, "log-rank"), 2, "log-rank", 0.0)
    assert found.df == 0
    assert np.isnan(found.statistic)


def test_an_empty_group_takes_no_degree_of_freedom():
    data = table("made")
    one = data[data["site"] == 1]
    part = own_part(*one[["time", "status"]].to_numpy(float).T, one["group"].to_numpy(float) - 1, 4, "log-rank")
    three = own_part(*one[["time", "status"]].to_numpy(float).T, one["group"].to_numpy(float) - 1, 3, "log-rank")
    found, known = joined(part, 4, "log-rank", 0.0), joined(three, 3, "log-rank", 0.0)
    assert found.df == known.df == 2
    assert abs(found.statistic / known.statistic - 1.0) < STATISTIC_BAR


def test_a_curve_at_one_half_has_its_median_in_the_middle_as_r_has_it():
    time, edges = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 4.0])
    (curve,) = curves(staircases(time, np.ones(4), edges)[None], edges, "plain", 0.95)
    assert curve.survival.tolist() == [0.75, 0.5, 0.25, 0.0]
    assert curve.median()[0] == 2.5
