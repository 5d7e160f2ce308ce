"""Cumulative incidences and medians from counts in bins: R's survfit with several states, its errors and intervals."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.incidence_data import NAMES, edges_of, table
from tests.tolerances import CURVE_BAR, RESULT_BAR, STATISTIC_BAR

from fedsvd.statistics.incidence import groups_of
from fedsvd.statistics.life_table import curves, staircases

R = json.loads((Path(__file__).parents[2] / "vectors" / "incidence-r.json").read_text(encoding="utf-8"))


def counted(data, edges):
    return staircases(*data[["time", "status"]].to_numpy(float).T, edges, 2)[None]


def of_groups(name, interval="log-log"):
    data, edges = table(name), edges_of(name)
    each = [data.loc[data["group"] == g, ["time", "status"]].to_numpy(float) for g in sorted(data["group"].unique())]
    return groups_of(np.stack([staircases(*rows.T, edges, 2) for rows in each]), edges, 2, interval, 0.95)


@pytest.mark.parametrize("name", NAMES)
def test_incidences_of_exact_counts_are_rs_on_counts_in_bins(name):
    for group, recorded in zip(of_groups(name), R[name]["bins"], strict=True):
        for cause, key in zip(group.causes, ("one", "two"), strict=True):
            assert np.abs(cause.share - np.array(recorded[key])).max() < 10 * CURVE_BAR
        total = group.curve.survival + sum(cause.share for cause in group.causes)
        assert np.abs(total - 1.0).max() < RESULT_BAR


@pytest.mark.parametrize("name", NAMES)
def test_errors_and_intervals_are_rs_where_no_follow_up_ends_inside_a_bin(name):
    data, edges = table(name), edges_of(name)
    data = data[(data["status"] > 0) | (data["time"] >= edges[-1])]
    (group,) = groups_of(counted(data, edges), edges, 2, "log-log", 0.95)
    recorded = R[name]["complete"]
    for cause, key in zip(group.causes, ("one", "two"), strict=True):
        assert np.abs(cause.share - np.array(recorded[key])).max() < 10 * CURVE_BAR
        assert np.abs(cause.error - np.array(recorded[f"se.{key}"])).max() < STATISTIC_BAR
    first, some = group.causes[0], group.causes[0].share > 0.0
    for ours, key in ((first.low, "low"), (first.high, "high")):
        theirs = np.array(recorded[key], dtype=float)
        assert np.abs(ours - theirs)[some].max() < STATISTIC_BAR


@pytest.mark.parametrize("name", NAMES)
def test_at_the_edges_they_are_near_those_of_cmprsk_on_exact_times(name):
    data, edges, said = table(name), edges_of(name), R[name]["exact"]
    (group,) = groups_of(counted(data, edges), edges, 2, "log", 0.95)
    spread = np.sqrt(np.array(said["var"], dtype=float))
    for cause, key in zip(group.causes, ("one", "two"), strict=True):
        assert np.abs(cause.share - np.array(said[key], dtype=float)).max() < 0.25 * spread.max()
    late = group.causes[0].share > 0.0
    assert np.min(group.causes[0].error[late] / spread[late]) > 0.8
    assert np.max(group.causes[0].error[late] / spread[late]) < 1.2


@pytest.mark.parametrize("name", NAMES)
def test_medians_and_their_intervals_are_those_that_r_reads_off_the_curve_in_bins(name):
    edges = edges_of(name)
    for group, recorded in zip(of_groups(name), R[name]["median"], strict=True):
        for ours, theirs in zip(group.curve.median(), recorded, strict=True):
            if theirs is None:
                assert np.isnan(ours)
                continue
            # R's times are twice the number of a bin; between two of them, at one half, both take the middle.
            assert ours == np.interp(theirs / 2.0, np.arange(1, len(edges) + 1), edges)


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
def test_incidences_and_survival_add_up_whatever_the_counts_are(seed, causes):
    rng = np.random.default_rng(seed)
    time, event = rng.uniform(0, 12, 60), rng.integers(0, causes + 1, 60).astype(float)
    edges = np.arange(1.0, 11.0)
    (group,) = groups_of(staircases(time, event, edges, causes)[None], edges, causes, "log-log", 0.95)
    assert np.abs(group.curve.survival + sum(cause.share for cause in group.causes) - 1.0).max() < RESULT_BAR
    (curve,) = curves(staircases(time, (event > 0).astype(float), edges)[None], edges, "log-log", 0.95)
    assert (curve.survival == group.curve.survival).all()
    for cause in group.causes:
        assert (np.diff(cause.share) >= 0.0).all()
        assert np.isfinite(cause.error).all()
