"""A party's own partial likelihood: statsmodels' PHReg, hand computed ones, and the part of each record in it."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from tests.survival_data import MADE, OF_R
from tests.survival_data import table as survival_table
from tests.tolerances import RESULT_BAR, STATISTIC_BAR, TEN_DIGITS, assert_close

from fedsvd.errors import DataError
from fedsvd.statistics.cox import Cohort, deviance_residuals

RECORDED_R = json.loads((Path(__file__).parents[2] / "vectors" / "survival-r.json").read_text(encoding="utf-8"))


def drawn(n=150, p=3, seed=0, last=20):
    """Records with many ties, entries before their exits, and four strata."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + rng.uniform(-30, 30, p)
    time = rng.integers(1, last, n).astype(float)
    event = (rng.random(n) < 0.6).astype(float)
    entry = np.maximum(0.5, time - rng.integers(1, last, n)) - 0.5  # statsmodels takes in who enters at an event
    return X, time, event, entry, rng.integers(0, 4, n).astype(float), rng.normal(0, 0.3, n)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("more", [(), ("entry",), ("strata", "offset")], ids=["plain", "entry", "strata and offset"])
def test_likelihood_score_and_information_are_statsmodels(ties, more):
    X, time, event, entry, strata, offset = drawn()
    given = {key: value for key, value in (("entry", entry), ("strata", strata), ("offset", offset)) if key in more}
    model = sm.PHReg(time, X, event, ties=ties, **given)
    beta = np.array([0.3, -0.2, 0.1])
    own = Cohort(X, time, event, **given, efron=ties == "efron")
    found = own.evaluate(beta, information=True)
    assert_close(own.deviance(beta), -2.0 * model.loglike(beta), RESULT_BAR)
    assert found.deviance == own.deviance(beta)
    assert_close(found.score, model.score(beta), STATISTIC_BAR)
    assert_close(found.information, -model.hessian(beta), STATISTIC_BAR)


def test_a_weight_is_that_number_of_records_with_breslows_ties():
    X, time, event, entry, _, _ = drawn(60)
    weights = np.random.default_rng(5).integers(1, 4, 60)
    rows = np.repeat(np.arange(60), weights)
    once = Cohort(X, time, event, entry=entry, weights=weights.astype(float), efron=False)
    often = Cohort(X[rows], time[rows], event[rows], entry=entry[rows], efron=False)
    beta = np.array([0.2, 0.1, -0.4])
    one, other = once.evaluate(beta, information=True), often.evaluate(beta, information=True)
    assert_close(once.deviance(beta), often.deviance(beta), RESULT_BAR)
    assert_close(one.score, other.score, STATISTIC_BAR)
    assert_close(one.information, other.information, STATISTIC_BAR)


def test_weights_below_one_leave_the_deviance_of_a_step_above_zero_and_rs_as_it_is():
    X, time, event, _, _, _ = drawn(40)
    own = Cohort(X, time, event, weights=np.full(40, 1e-3))
    beta = np.zeros(3)
    events = event.sum()
    # By hand: log of 1e-3 comes off each term's risk set.
    plain = Cohort(X, time, event).deviance(beta)
    assert_close(own.deviance(beta), 1e-3 * (plain + 2.0 * events * math.log(1e-3)), RESULT_BAR)
    assert own.evaluate(beta, information=False).deviance > 0.0 > own.deviance(beta)


def test_the_trial_of_freireich_has_the_published_effects():
    """Remission times of 42 children, 6-MP against placebo (Freireich et al. 1963; Cox 1972): log hazard ratios 1.509
    (Breslow) and 1.572 (Efron), standard errors 0.410 and 0.412, as R's survival prints them."""
    control = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
    treated = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    censored = [0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1]
    time = np.array(control + treated, dtype=float)
    event = np.array([1.0] * 21 + [1.0 - each for each in censored])
    X = np.array([[1.0]] * 21 + [[0.0]] * 21)
    for efron, effect, error in ((True, 1.572, 0.412), (False, 1.509, 0.410)):
        own, beta = Cohort(X, time, event, efron=efron), np.zeros(1)
        for _ in range(20):
            found = own.evaluate(beta, information=True)
            beta = beta + np.linalg.solve(found.information, found.score)
        assert round(float(beta[0]), 3) == effect
        assert round(1.0 / math.sqrt(float(found.information[0, 0])), 3) == error


def part_of(j, X, time, event, beta, entry, efron):
    """One record's part of the information, term by term: (a1 of the others included) sum w (x - a1) (x - a1)^T."""
    r, M = np.exp(X @ beta), np.zeros((X.shape[1],) * 2)
    for u in np.unique(time[event == 1]):
        at = (time >= u) & (entry < u)
        dead = (time == u) & (event == 1)
        d = int(dead.sum())
        for f in np.arange(d) / d if efron else np.zeros(d):
            w = r * at * (1.0 - f * dead)
            w = w / w.sum()
            apart = X[j] - w @ X
            M += w[j] * np.outer(apart, apart)
    return M


@pytest.mark.parametrize("efron", [True, False])
def test_leverage_is_the_largest_eigenvalue_of_a_records_part_and_parts_add_up_to_the_information(efron):
    X, time, event, entry, _, _ = drawn(14, 2, seed=3, last=8)
    X -= X.mean(axis=0)
    X[0] *= 5.0
    beta = np.array([0.4, -0.3])
    own = Cohort(X, time, event, entry=entry, efron=efron)
    information = own.evaluate(beta, information=True).information
    parts = [part_of(j, X, time, event, beta, entry, efron) for j in range(14)]
    assert_close(np.sum(parts, axis=0), information, STATISTIC_BAR)
    values, vectors = np.linalg.eigh(information)
    root = vectors / np.sqrt(values)
    largest = max(float(np.linalg.eigvalsh(root.T @ M @ root)[-1]) for M in parts)
    traces = max(float(np.trace(root.T @ M @ root)) for M in parts)
    found = own.leverage(beta, root)
    assert largest <= found * (1.0 + STATISTIC_BAR)
    assert found <= max(traces, largest) * (1.0 + STATISTIC_BAR)
    assert largest > 0.5, "a record is measured by its eigenvalue"
    assert_close(found, largest, STATISTIC_BAR)


@pytest.mark.parametrize("efron", [True, False])
def test_where_all_parts_are_small_leverage_is_a_bound_of_them_and_is_small(efron):
    X, time, event, entry, _, _ = drawn(120, 2, seed=4, last=8)
    beta = np.array([0.4, -0.3])
    own = Cohort(X, time, event, entry=entry, efron=efron)
    own.evaluate(-beta, information=True)  # what is kept of another point is not taken for this one
    parts = [part_of(j, X, time, event, beta, entry, efron) for j in range(len(X))]
    values, vectors = np.linalg.eigh(np.sum(parts, axis=0))
    root = vectors / np.sqrt(values)
    traces = [float(np.trace(root.T @ M @ root)) for M in parts]
    found = own.leverage(beta, root)
    assert max(traces) <= found * (1.0 + STATISTIC_BAR)
    assert found <= 0.5
    own.of_person = np.arange(len(X)) // 2
    assert max(np.add(traces[::2], traces[1::2])) <= own.leverage(beta, root) * (1.0 + STATISTIC_BAR)


def test_rows_of_a_person_in_a_stratum_without_events_add_nothing_to_its_leverage():
    X, time, event, entry, _, _ = drawn(14, 2, seed=3, last=8)
    X -= X.mean(axis=0)
    X[0] *= 5.0
    beta, quiet = np.array([0.4, -0.3]), np.arange(14) >= 10
    event[quiet] = 0.0
    own = Cohort(X, time, event, entry=entry, strata=quiet.astype(float))
    parts = [part_of(j, X[:10], time[:10], event[:10], beta, entry[:10], True) for j in range(10)]
    values, vectors = np.linalg.eigh(np.sum(parts, axis=0))
    root = vectors / np.sqrt(values)
    shares = [np.linalg.eigvalsh(root.T @ M @ root)[-1] for M in parts]
    own.of_person = np.concatenate((np.arange(10), np.full(4, np.argmax(shares))))
    assert max(shares) > 0.5
    assert_close(own.leverage(beta, root), max(shares), STATISTIC_BAR)


def test_martingale_residuals_are_events_less_lived_hazard_and_add_up_to_zero():
    # Three records, by hand: hazards 1/3 at time 1, 1/2 at 2; the last one leaves without an event.
    own = Cohort(np.zeros((3, 1)), np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0]))
    assert_close(own.martingale(np.zeros(1)), [1 - 1 / 3, 1 - 5 / 6, -5 / 6], RESULT_BAR)
    X, time, event, entry, strata, offset = drawn()
    many = Cohort(X, time, event, entry=entry, strata=strata, offset=offset)
    assert abs(many.martingale(np.array([0.1, 0.2, 0.0])).sum()) < 150 * STATISTIC_BAR


def test_records_without_an_event_add_nothing():
    X, time, _, entry, _, _ = drawn(20)
    own = Cohort(X, time, np.zeros(20), entry=entry)
    found = own.evaluate(np.ones(3), information=True)
    assert (found.deviance, own.leverage(np.ones(3), np.eye(3))) == (0.0, 0.0)
    assert not found.score.any()
    assert not found.information.any()


def test_an_event_that_is_neither_0_nor_1_and_an_entry_at_the_exit_are_refused():
    with pytest.raises(DataError, match="neither 0 nor 1"):
        Cohort(np.zeros((2, 1)), np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    with pytest.raises(DataError, match="1 records enter at or after"):
        Cohort(np.zeros((2, 1)), np.array([1.0, 2.0]), np.array([1.0, 0.0]), entry=np.array([0.0, 2.0]))


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("name", [*MADE, *OF_R])
def test_martingale_and_deviance_residuals_are_rs(name, ties):
    data, said = survival_table(name), RECORDED_R[name][ties]
    terms, left = np.atleast_1d(said["terms"]).tolist(), np.zeros(len(data))
    for site in data["site"].unique():
        own = (data["site"] == site).to_numpy()
        X, time, event = (data.loc[own, key].to_numpy(float) for key in (terms, "time", "status"))
        left[own] = Cohort(X, time, event, efron=ties == "efron").martingale(np.atleast_1d(said["coef"]))
    deviance = deviance_residuals(left, data["status"].to_numpy(float))
    first = len(said["martingale"])
    assert np.abs(left[:first] - said["martingale"]).max() < RESULT_BAR
    assert np.abs(deviance[:first] - said["deviance"]).max() < RESULT_BAR


@pytest.mark.parametrize("gap", [5.0, 40.0, 200.0])
def test_a_risk_set_keeps_its_digits_beside_a_record_that_is_not_in_it(gap):
    """The last record comes after the others left; its risk is exp(gap) times theirs."""
    X, time, event, entry, _, _ = drawn(40, 2, seed=5, last=12)
    X, time, entry = np.vstack((X - X.mean(axis=0), [[gap, 0.0]])), np.append(time, 99.0), np.append(entry, 98.0)
    event, beta = np.append(event, 1.0), np.array([1.0, 0.3])
    found = Cohort(X, time, event, entry=entry, efron=False).evaluate(beta, True)
    eta, score, likelihood = X @ beta, [[], []], []
    for j in np.flatnonzero(event):
        at = (time >= time[j]) & (entry < time[j])
        risk = np.exp(eta[at] - eta[at].max())
        likelihood.append(eta[j] - eta[at].max() - math.log(math.fsum(risk)))
        for k in range(2):
            score[k].append(X[j, k] - math.fsum(risk * X[at, k]) / math.fsum(risk))
    assert abs(found.deviance / (-2.0 * math.fsum(likelihood)) - 1.0) < TEN_DIGITS
    assert np.max(np.abs(found.score - [math.fsum(column) for column in score])) < TEN_DIGITS * np.abs(X).max()
