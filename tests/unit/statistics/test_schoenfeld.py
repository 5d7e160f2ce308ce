"""The test of proportional hazards, and a hazard that is level between times: R's values, to rounding."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.survival_data import MADE, OF_R, table
from tests.tolerances import RESULT_BAR, SEVEN_DIGITS, STATISTIC_BAR

from fedsvd.errors import DataError
from fedsvd.statistics.cox import Cohort
from fedsvd.statistics.piecewise import hazards, survival, time_in_bins
from fedsvd.statistics.schoenfeld import clock, joined, own_part

VECTORS = Path(__file__).parents[2] / "vectors"
R = json.loads((VECTORS / "survival-r.json").read_text(encoding="utf-8"))
HAZARDS = json.loads((VECTORS / "hazards-r.json").read_text(encoding="utf-8"))


def sites(name, terms, efron=True):
    for _, own in table(name).groupby("site"):
        columns = own["time"].to_numpy(float), own["status"].to_numpy(float)
        yield Cohort(own[terms].to_numpy(float), *columns, efron=efron), *columns


def chisquares(name, kind, ties, shift=0.0):
    said = R[name][ties]
    terms, beta = np.atleast_1d(said["terms"]).tolist(), np.atleast_1d(said["coef"]).astype(float)
    own = list(sites(name, terms, ties == "efron"))
    information = sum(cohort.evaluate(beta, True).information for cohort, *_ in own)
    root = np.linalg.cholesky(np.linalg.inv(information))
    parts = []
    for cohort, time, event in own:
        g = clock(kind, time, event, None)
        parts.append(own_part(cohort, beta, root, lambda u, g=g: g(u) - shift))
    found = joined(*(sum(part[place] for part in parts) for place in range(3)), root)
    return np.array([test.chisq for test in found.tests({term: [place] for place, term in enumerate(terms)})])


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("name", [*MADE, *OF_R])
@pytest.mark.parametrize("kind", ["identity", "log"])
def test_tests_by_time_are_rs_cox_zph_with_strata_by_site(name, kind, ties):
    found = chisquares(name, kind, ties)
    assert np.max(np.abs(found / np.atleast_1d(R[name][ties][kind])[: len(found)] - 1.0)) < STATISTIC_BAR


@pytest.mark.parametrize("name", ["made", "colon", "pbc"])
@pytest.mark.parametrize("kind", ["km", "rank"])
def test_tests_by_a_clock_of_each_site_are_rs_score_tests_of_records_split_at_its_event_times(name, kind):
    assert np.max(np.abs(chisquares(name, kind, "efron") / np.array(HAZARDS[name][kind]) - 1.0)) < SEVEN_DIGITS


def test_a_constant_of_the_clock_changes_nothing():
    moved = chisquares("made", "identity", "efron", shift=7.0) / chisquares("made", "identity", "efron")
    assert np.max(np.abs(moved - 1.0)) < STATISTIC_BAR


def test_an_event_at_time_zero_has_no_logarithm():
    with pytest.raises(DataError, match="no logarithm"):
        clock("log", np.array([0.0, 1.0]), np.ones(2), None)


@pytest.mark.parametrize("name", ["made", "colon", "pbc"])
def test_a_level_hazard_is_rs_piecewise_exponential_model(name):
    said, edges = HAZARDS[name]["level"], np.array(HAZARDS[name]["edges"], dtype=float)
    terms, beta = R[name]["efron"]["terms"], np.array(R[name]["efron"]["coef"])
    own = list(sites(name, terms))
    exposed = sum(cohort.exposure(beta, edges) for cohort, *_ in own)
    assert np.max(np.abs(exposed / np.array(said["exposure"]) - 1.0)) < SEVEN_DIGITS
    # An event at an edge is of the bin that it ends.
    right = sum(np.searchsorted(np.sort(time[event > 0]), edges, side="right") for _, time, event in own)
    assert (np.diff(right, prepend=0) == np.array(said["events"])).all()
    found = hazards(edges, np.array(said["events"], dtype=float), exposed)
    rate = np.diff(found[:, 3], prepend=0.0) / np.diff(edges, prepend=0.0)
    some = np.array(said["events"]) > 0
    assert np.max(np.abs(np.log(rate[some]) - np.array(said["log.hazard"])[some])) < SEVEN_DIGITS


@given(st.integers(0, 2**32 - 1))
def test_time_in_bins_is_the_time_at_risk(seed):
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.uniform(1, 20, 5))
    entry = rng.uniform(-2, 15, 30)
    exit = entry + rng.exponential(5, 30)
    lived = time_in_bins(entry, exit, edges)
    inside = np.clip(np.minimum(exit, edges[-1]) - np.maximum(entry, 0.0), 0.0, None)
    assert np.max(np.abs(lived.sum(axis=1) - inside)) < RESULT_BAR * 20


def test_survival_by_a_common_baseline_is_not_known_beyond_its_last_time():
    found = hazards(np.array([1.0, 2.0]), np.array([10.0, 5.0]), np.array([100.0, 50.0]))
    alive = survival(found, np.array([0.0, 1.5, 2.0, 3.0]), np.array([1.0, 2.0]))
    assert alive[0, :3].tolist() == pytest.approx([1.0, np.exp(-0.15), np.exp(-0.2)], rel=RESULT_BAR)
    assert alive[1, 1] == pytest.approx(np.exp(-0.3), rel=RESULT_BAR)
    assert np.isnan(alive[:, 3]).all()
