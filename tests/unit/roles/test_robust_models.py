"""Robust errors of models by Newton steps, through the real roles: R's sandwich and survival, and statsmodels."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize, special
from tests.robust_data import FAMILIES, TERMS, by_site, table
from tests.tolerances import (
    DIGITS_ERRORS_BAR,
    DIGITS_MORE_BAR,
    DIGITS_STEP_BAR,
    GLM_BAR,
    PRINTED_BAR,
    ROBUST_BAR,
    STATISTIC_BAR,
    assert_close,
)

from fedsvd.errors import ConfigError, NotConverged
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits, granted_bits, opened
from fedsvd.protocol.steps import What, listed
from fedsvd.protocol.tasks import LINKS, Family, Item, Robust, Split, Task
from fedsvd.statistics.newton_requests import Point
from fedsvd.statistics.ordinal import OrdinalRecords
from fedsvd.tasks.declared import declared
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore")
SAID = json.loads((Path(__file__).parents[2] / "vectors" / "robust-r.json").read_text(encoding="utf-8"))
BARS = {Digits.TABLE: ROBUST_BAR, Digits.MORE: DIGITS_MORE_BAR, Digits.ALL: GLM_BAR}
ALL = tuple(str(kind) for kind in Robust)


def session(family, outcome, kind, digits, *beside, link=None, tables=None, labels=None, clusters=None, **keys):
    """A model of the recorded table with these errors; ``beside`` are columns next to the outcome."""
    task = Task.GLM if family in LINKS and family not in (Family.COX, Family.ORDINAL) else Task(family.value)
    about = ModelPlan(family, link or LINKS[family][0], digits=digits, **keys)
    release = (*declared(task).released, *((Item.ROBUST,) if kind else ()))
    return Federation(
        tables or by_site(*TERMS),
        task,
        Split.HORIZONTAL,
        labels=labels or by_site(outcome, *beside),
        glm=about,
        release=release,
        robust=kind,
        clusters=clusters or [own[:, 0] for own in by_site("cluster")],
    )


def fitted(*asked, **keys):
    return session(*asked, **keys).run()[0].models[0]


def planned(*asked, **keys):
    return session(*asked, **keys).assemble().plan


def met(model, said, kind, bar):
    errors = np.array(said[kind])
    assert np.abs(model.standard_errors / errors - 1.0).max() < bar
    assert np.abs(model.coefficients - np.array(said["coef"])[: len(errors)]).max() < DIGITS_ERRORS_BAR
    assert (model.errors.kind, model.freedom) == (kind, None)
    naive = np.sqrt(np.diag(model.naive))
    if "nonrobust" in said:
        assert np.abs(naive / np.array(said["nonrobust"]) - 1.0).max() < max(bar, DIGITS_ERRORS_BAR)


def family_of(name):
    return (Family.BINOMIAL, "probit") if name == "probit" else (Family(name), None)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("name", FAMILIES)
def test_generalised_linear_models_have_rs_robust_errors(name, kind):
    family, link = family_of(name)
    levels = (Digits.TABLE, Digits.MORE) if name == "negative-binomial" else tuple(BARS)
    for digits in levels:
        # R stops its fit of theta some 1e-8 away.
        met(fitted(family, name, kind, digits, link=link), SAID[name], kind, BARS[digits])


@pytest.mark.parametrize("kind", ["HC0", "HC3", "cluster"])
def test_prior_weights_are_in_every_score(kind):
    for digits, bar in BARS.items():
        model = fitted(Family.POISSON, "poisson", kind, digits, "w", weighted=True)
        met(model, SAID["weighted"], kind, bar)


@pytest.mark.parametrize("kind", ["HC0", "cluster"])
def test_a_gaussian_model_is_the_linear_regression_of_statsmodels(kind):
    X, y, groups = sm.add_constant(table()[TERMS]), table()["gaussian"], table()["cluster"]
    expected = sm.OLS(y, X).fit(cov_type=kind, cov_kwds={"groups": groups} if kind == "cluster" else {})
    model = fitted(Family.GAUSSIAN, "gaussian", kind, Digits.ALL)
    assert_close(model.standard_errors, expected.bse.to_numpy(), STATISTIC_BAR)
    assert_close(model.p, expected.pvalues.to_numpy(), GLM_BAR)


@pytest.mark.parametrize("kind", ["HC0", "HC1", "cluster"])
def test_a_multinomial_model_has_the_errors_of_statsmodels(kind):
    X, y, groups = sm.add_constant(table()[TERMS]).to_numpy(), table()["grade"], table()["cluster"]
    fit = sm.MNLogit(y, X).fit(method="newton", tol=1e-14, maxiter=50, disp=False)
    scores = sm.MNLogit(y, X).score_obs(fit.params.to_numpy().ravel(order="F"))
    if kind == "cluster":
        scores = np.stack([scores[groups == name].sum(axis=0) for name in np.unique(groups)])
    n, P, G = len(y), scores.shape[1], len(np.unique(groups))
    few = {"HC0": 1.0, "HC1": n / (n - P), "cluster": G / (G - 1) * (n - 1) / (n - P)}[kind]
    bread = np.linalg.inv(-sm.MNLogit(y, X).hessian(fit.params.to_numpy().ravel(order="F")))
    expected = np.sqrt(few * np.diag(bread @ scores.T @ scores @ bread)).reshape(3, -1)
    for digits, bar in BARS.items():
        model = fitted(Family.MULTINOMIAL, "grade", kind, digits, classes=4)
        assert np.abs(model.standard_errors / expected - 1.0).max() < bar
        assert model.naive.shape == model.covariance.shape == (P, P)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_scores_of_ordinal_records_are_slopes_of_their_likelihood(link):
    (X, *_), (y, *_) = by_site(*TERMS), by_site("grade")
    w = np.linspace(0.5, 2.0, len(y))
    own = OrdinalRecords(X, y[:, 0], 4, link, w)
    at = Point(np.array([0.02, 0.3, -0.2, -1.0, 0.1, 1.2]), X.mean(axis=0), information=True)
    each = [OrdinalRecords(X[i : i + 1], y[i], 4, link, w[i : i + 1]) for i in range(20)]
    found, scores = own.scores(at), own.scores(at).rows
    assert found.pull is None
    assert_close(scores.sum(axis=0), own.part(at).score, STATISTIC_BAR)
    for i, record in enumerate(each):
        slope = optimize.approx_fprime(
            at.beta, lambda beta, of=record: -0.5 * of.part(replace(at, beta=beta, information=False)).deviance, 1e-7
        )
        assert_close(scores[i], slope, PRINTED_BAR * 10.0)


@pytest.mark.parametrize(("kind", "said"), [("HC0", "HC0"), ("cluster", "cluster"), ("HC1", "HC0")])
def test_an_ordinal_model_has_rs_robust_errors(kind, said):
    n, P = len(table()), 6
    expected = np.array(SAID["ordinal"][said]) * (np.sqrt(n / (n - P)) if kind == "HC1" else 1.0)
    for digits in (Digits.TABLE, Digits.MORE):
        model = fitted(Family.ORDINAL, "grade", kind, digits, classes=4)
        assert np.abs(model.standard_errors / expected - 1.0).max() < ROBUST_BAR  # polr stops some 1e-6 away


COX = {"efron": (), "breslow": (), "weighted": ("w",), "entry": ("entry",)}


@pytest.mark.parametrize("kind", ["HC0", "cluster"])
@pytest.mark.parametrize("name", COX)
def test_a_cox_model_has_rs_robust_errors(name, kind):
    said, ties = SAID["cox"][name], "breslow" if name == "breslow" else "efron"
    more = {"weighted": True} if name == "weighted" else {"beside": COX[name]} if name == "entry" else {}
    for digits in (Digits.TABLE, Digits.MORE):
        model = fitted(Family.COX, "time", kind, digits, "status", *COX[name], ties=ties, **more)
        met(model, said, kind, BARS[digits])
        assert (np.abs(model.coefficients - said["coef"]) / said["nonrobust"]).max() < DIGITS_STEP_BAR
        if kind == "cluster":
            assert abs(model.wald[0] / said["wald"] - 1.0) < 4.0 * BARS[digits]


def test_hc1_of_a_cox_model_counts_records_as_sandwich_does():
    n, p = len(table()), len(TERMS)
    model = fitted(Family.COX, "time", "HC1", Digits.MORE, "status", ties="efron")
    expected = np.array(SAID["cox"]["efron"]["HC0"]) * np.sqrt(n / (n - p))
    assert np.abs(model.standard_errors / expected - 1.0).max() < DIGITS_MORE_BAR


def test_each_class_against_the_rest_has_its_own_sum():
    federation = session(Family.BINOMIAL, "grade", "HC0", Digits.TABLE, classes=4)
    models = federation.run()[0].models
    X = sm.add_constant(table()[TERMS])
    for code, model in enumerate(models):
        y = (table()["grade"] == code).astype(float)
        expected = sm.GLM(y, X, sm.families.Binomial()).fit(tol=1e-14, cov_type="HC0").bse
        assert np.abs(model.standard_errors / expected - 1.0).max() < ROBUST_BAR
    assert sum(step.name == "squares 1 1" for step in listed(federation.plan.steps)) == 1
    assert expected_bits(federation.plan) > 4 * 24 * 4 * 5 // 2


# --- what is opened ---------------------------------------------------------------------------------------------------


def drawn(seed):
    """A problem of random shape: tables off centre, in units of their own, clusters, and outcomes of a family."""
    rng = np.random.default_rng(seed)
    p, rows = int(rng.integers(1, 7)), rng.integers(50, 220, int(rng.integers(2, 6)))
    units, shift, b = 10.0 ** rng.integers(-2, 3, p), rng.uniform(-5, 5, p), rng.normal(0, 0.4, p)
    Z = [rng.normal(size=(n, p)) for n in rows]
    family = (Family.BINOMIAL, Family.POISSON, Family.GAUSSIAN)[seed % 3]
    eta = [own @ b for own in Z]
    draw = {
        Family.BINOMIAL: lambda e: (rng.random(len(e)) < special.expit(e)).astype(float),
        Family.POISSON: lambda e: rng.poisson(np.exp(e)).astype(float),
        Family.GAUSSIAN: lambda e: e + rng.normal(size=len(e)) * np.exp(0.5 * e),
    }[family]
    clusters = [rng.integers(0, max(5, n // 8), n) for n in rows]
    tables = [(own + shift) * units for own in Z]
    return family, {"tables": tables, "labels": [draw(e)[:, None] for e in eta], "clusters": clusters}


SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 64))]


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_stay_within_what_is_expected_and_errors_are_those_of_all_digits(seed):
    family, problem = drawn(seed)
    for kind in ("HC1", "cluster"):
        federation = session(family, "", kind, Digits.TABLE, **problem)
        result = federation.run()[0]
        exact = fitted(family, "", kind, Digits.ALL, **problem)
        assert np.abs(result.models[0].standard_errors / exact.standard_errors - 1.0).max() < ROBUST_BAR
        plain = expected_bits(planned(family, "", None, Digits.TABLE, **problem))
        usual = session(family, "", None, Digits.TABLE, **problem).run()[0].bits
        # One matrix more, in the bits of the table: what it adds stays near what is expected of it.
        assert result.bits - usual < 1.5 * (expected_bits(federation.plan) - plain) + 60.0
        assert result.bits < granted_bits(federation.plan)


def test_one_matrix_more_is_declared_and_nothing_without_robust_errors():
    plain = planned(Family.BINOMIAL, "binomial", None, Digits.TABLE)
    robust = planned(Family.BINOMIAL, "binomial", "HC0", Digits.TABLE)
    clustered = planned(Family.BINOMIAL, "binomial", "cluster", Digits.TABLE)
    assert What.SQUARED_SCORES not in opened(plain)
    assert opened(robust) - opened(plain) == {What.SQUARED_SCORES}
    assert opened(clustered) - opened(plain) == {What.SQUARED_SCORES, What.COUNT}
    assert expected_bits(robust) - expected_bits(plain) == 24 * 4 * 5 // 2


# --- what has no answer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [Family.MULTINOMIAL, Family.ORDINAL, Family.COX])
def test_leverage_is_of_one_linear_predictor(family):
    keys = {"classes": 4} if family is not Family.COX else {"ties": "efron"}
    beside = ("status",) if family is Family.COX else ()
    with pytest.raises(ConfigError, match="HC3 divides by the leverage of one linear predictor"):
        planned(family, "time" if beside else "grade", "HC3", Digits.TABLE, *beside, **keys)


def test_a_record_that_makes_up_most_of_what_a_party_sends_ends_the_study():
    labels = by_site("gaussian")
    labels[2] = labels[2].copy()
    labels[2][7] += 1e4
    with pytest.raises(NotConverged, match="does not sum its rows"):
        fitted(Family.GAUSSIAN, "", "HC0", Digits.TABLE, labels=labels)


def test_a_name_at_three_parties_is_three_clusters():
    """Of a party that is one cluster its owner is asked before; what was approved is summed."""
    one = [np.zeros(len(own)) for own in by_site("site")]
    model = fitted(Family.BINOMIAL, "binomial", "cluster", Digits.TABLE, clusters=one)
    X, y = sm.add_constant(table()[TERMS]), table()["binomial"]
    expected = sm.GLM(y, X, sm.families.Binomial()).fit(
        tol=1e-14, cov_type="cluster", cov_kwds={"groups": table()["site"]}
    )
    assert model.errors.clusters == 3
    assert np.abs(model.standard_errors / expected.bse - 1.0).max() < ROBUST_BAR
