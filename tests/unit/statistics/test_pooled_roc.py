"""The ROC curve, calibration and Hosmer-Lemeshow test of all parties' counts: R, pROC and scikit-learn, and bounds."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm
from sklearn.metrics import roc_auc_score
from tests.classes_data import TABLES, THRESHOLDS, parties
from tests.tolerances import CURVE_BAR, EPS, GLM_BAR, RESULT_BAR, assert_close

from fedsvd import FederatedGLM, FederatedLogisticRegression
from fedsvd.statistics.families import family_named
from fedsvd.statistics.fives import SCORE_EDGES, fives
from fedsvd.statistics.pooled_roc import PooledROC, grid, own_counts

R = json.loads((Path(__file__).parents[2] / "vectors" / "roc-r.json").read_text())
LOGIT = family_named("binomial", "logit")
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore:events")


@cache
def fitted(name, counts):
    asked = {"roc": 1 if counts == "exact" else 5, "thresholds": THRESHOLDS, "tolerance": 1e-11}
    return FederatedLogisticRegression(**asked).fit(*parties(name)).roc_


@pytest.mark.parametrize("counts", ["exact", "fives"])
@pytest.mark.parametrize("name", TABLES)
def test_counts_and_test_are_those_that_r_takes_of_the_joint_table(name, counts):
    found, theirs = fitted(name, counts), R[name]
    assert_close(found.edges, theirs["edges"], CURVE_BAR)
    assert found.cases.tolist() == theirs[counts]["cases"]
    assert found.controls.tolist() == theirs[counts]["controls"]
    test, recorded = found.hosmer_lemeshow(), theirs["hosmer" if counts == "exact" else "hosmer.fives"]
    assert (test.df, test.groups) == (recorded["df"], len(recorded["ends"]))
    assert_close(test.statistic, recorded["statistic"], RESULT_BAR)
    assert_close(test.p, recorded["p"], RESULT_BAR)


@pytest.mark.parametrize("name", TABLES)
def test_area_error_and_thresholds_of_exact_counts_are_procs(name):
    found, theirs = fitted(name, "exact"), R[name]
    assert_close(found.area, theirs["binned"], RESULT_BAR)
    assert_close(found.area_error, theirs["binned.se"], RESULT_BAR)
    for k, at in enumerate(found.at_thresholds):
        assert at.threshold == THRESHOLDS[k]
        ours = {"sensitivity": at.sensitivity, "specificity": at.specificity, "ppv": at.positive, "npv": at.negative}
        for word, value in ours.items():
            assert_close(value, theirs["at"][word][k], RESULT_BAR)


@pytest.mark.parametrize("counts", ["exact", "fives"])
@pytest.mark.parametrize("name", TABLES)
def test_the_area_is_within_the_printed_bounds_of_that_of_single_records(name, counts):
    found = fitted(name, counts)
    assert abs(found.area - R[name]["auc"]) <= found.area_off + found.area_in_cells
    assert (found.area_off == 0.0) is (counts == "exact")


@pytest.mark.parametrize("name", TABLES)
def test_the_test_is_near_the_one_that_books_have(name):
    """Tenths end at edges, and a cell has the mean of its ends: the statistic is another one, of the same law."""
    statistic = fitted(name, "exact").hosmer_lemeshow().statistic
    assert abs(statistic - R[name]["hosmer.by.hand"]) < 0.25 * R[name]["hosmer.by.hand"]


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_edges_are_an_eighth_of_a_deviation_apart_and_thresholds_are_among_them(link):
    rng, family = np.random.default_rng(1), family_named("binomial", link)
    eta = -4.0 + 0.7 * rng.normal(size=500)
    edges = grid(eta.sum(), np.square(eta).sum(), len(eta), (0.02, 0.3), family)
    regular = np.setdiff1d(edges, [family.link(0.02), family.link(0.3)])
    assert len(regular) == SCORE_EDGES
    step = np.diff(regular)
    assert_close(step, np.full(len(step), step[0]), 1e3 * EPS)
    assert abs(step[0] / (eta.std() / 8.0) - 1.0) <= 1.0 / 8.0  # three binary digits
    assert abs(regular.mean() - eta.mean()) <= step[0] / 2.0
    assert {family.link(0.02), family.link(0.3)} <= set(edges)


def test_a_model_that_predicts_one_number_has_a_grid():
    edges = grid(-30.0, 90.0, 10, (), LOGIT)
    assert (np.diff(edges) > 0.0).all()
    assert edges[0] < -3.0 < edges[-1]


def joint(eta, y, site, least):
    edges = grid(eta.sum(), np.square(eta).sum(), len(eta), (0.25,), LOGIT)
    own = [own_counts(y[site == i], eta[site == i], edges) for i in np.unique(site)]
    total = sum(own) if least == 1 else sum(fives(each, least) for each in own)
    return PooledROC.of(total, edges, LOGIT, (0.25,), least, len(own))


@given(seed=st.integers(0, 10**6), n=st.integers(60, 900), k=st.integers(2, 6), least=st.sampled_from((1, 5, 10)))
def test_rounding_moves_nothing_beyond_what_is_printed(seed, n, k, least):
    rng = np.random.default_rng(seed)
    eta, site = rng.normal(-0.5, 1.0, n), rng.integers(0, k, n)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    y[:2] = 0.0, 1.0
    found, exact = joint(eta, y, site, least), joint(eta, y, site, 1)
    assert np.abs(found.cases - exact.cases).max() <= found.most_off
    for cells in (np.diff(found.cases, prepend=0.0), np.diff(found.controls, prepend=0.0)):
        assert (cells >= 0.0).all()
        assert (cells % least == 0.0).all()
    if found.both:
        assert abs(found.area - exact.area) <= found.area_off + 1e3 * EPS
        assert abs(exact.area - roc_auc_score(y, eta)) <= exact.area_in_cells + 1e3 * EPS


def test_shares_of_groups_are_within_two_deviations_of_rounding():
    """Of the same groups without rounding, at 40 tables of 600 records of four parties."""
    rng, far = np.random.default_rng(5), []
    for _ in range(40):
        eta, site = rng.normal(-0.5, 1.0, 600), rng.integers(0, 4, 600)
        y = (rng.random(600) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        found, exact = joint(eta, y, site, 5), joint(eta, y, site, 1)
        groups = found.calibration()
        ends = np.searchsorted(found.cases + found.controls, np.cumsum([each.records for each in groups]))
        cases, controls = (np.diff(each[ends], prepend=0.0) for each in (exact.cases, exact.controls))
        shares = cases / (cases + controls)
        far += [(each.found - share) / each.deviation for each, share in zip(groups, shares, strict=True)]
    assert 0.9 <= np.mean(np.abs(far) <= 2.0) < 1.0
    assert 0.8 <= np.std(far) <= 1.2
    assert {each.deviation for each in exact.calibration()} == {0.0}


def test_the_test_keeps_its_level_in_fives():
    """Of 400 studies of 400 records at four parties, whose model holds: without the variance of rounding half fail."""
    rng, p, naive = np.random.default_rng(7), [], []
    for _ in range(400):
        eta, site = rng.normal(-0.5, 1.0, 400), rng.integers(0, 4, 400)
        y = (rng.random(400) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        found = joint(eta, y, site, 5)
        test = found.hosmer_lemeshow()
        p.append(chi_squared(test.statistic, test.groups))
        plain = PooledROC.of(np.concatenate((found.cases, found.controls)), found.edges, LOGIT, (), 1, 4)
        naive.append(chi_squared(plain.hosmer_lemeshow().statistic, test.groups))
    assert np.mean(np.array(p) < 0.05) <= 0.05 + norm.ppf(0.999) * np.sqrt(0.05 * 0.95 / 400)
    assert np.mean(np.array(naive) < 0.05) > 0.3


def chi_squared(statistic, df):
    """Of a model that was not fitted on these records there is no degree of freedom to take off."""
    return float(chi2.sf(statistic, df))


def test_without_cases_or_controls_in_fives_there_is_no_curve():
    eta = np.linspace(-1.0, 1.0, 40)
    y = (np.arange(40) < 2).astype(float)
    found = joint(eta, y, np.repeat([0, 1], 20), 5)
    assert not found.both
    assert (found.area, found.area_error, found.at_thresholds, found.record()["hosmer_lemeshow"]) == (
        None,
        None,
        (),
        None,
    )


def test_a_probit_model_with_an_offset_has_the_curve_of_its_probabilities():
    rng = np.random.default_rng(4)
    tables = [rng.normal(size=(n, 2)) for n in (150, 220, 130)]
    known = [rng.normal(size=len(X)) for X in tables]
    outcomes = [
        (rng.normal(size=len(X)) < X @ [0.5, -0.3] + o).astype(float) for X, o in zip(tables, known, strict=True)
    ]
    model = FederatedGLM("binomial", link="probit", roc=1, thresholds=[0.4])
    model.fit(tables, outcomes, offset=known)
    shares, y = model.predict(tables, offset=np.concatenate(known)), np.concatenate(outcomes)
    (at,) = model.roc_.at_thresholds
    assert_close(at.sensitivity, np.mean(shares[y == 1] > 0.4), GLM_BAR)
    assert_close(at.specificity, np.mean(shares[y == 0] <= 0.4), GLM_BAR)
    groups = model.roc_.calibration()
    assert sum(group.records for group in groups) == len(y)
    assert_close(sum(group.cases for group in groups), y.sum(), EPS)
