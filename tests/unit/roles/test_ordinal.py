"""Ordinal regression through the real roles: R's recorded values, statsmodels, and every degenerate case."""

import json
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize, special
from tests.kit import kit, r_said
from tests.tolerances import DIGITS_ERRORS_BAR, DIGITS_MORE_BAR, DIGITS_STEP_BAR, PRINTED_BAR, SEVEN_DIGITS

from fedsvd.errors import ConfigError, DataError, NotConverged, ReleaseRefused, Separated
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.statistics.newton_requests import Point
from fedsvd.statistics.ordinal import OrdinalRecords
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore")
RECORDED = json.loads((Path(__file__).parent / "r_ordinal.json").read_text(encoding="utf-8"))
LINKS = {"logistic": "logit"}


def cumulative(link, u):
    """F of the law of a link."""
    if link == "logit":
        return special.expit(u)
    return special.ndtr(u) if link == "probit" else -np.expm1(-np.exp(np.minimum(u, 700.0)))


def session(tables, labels, link="logit", digits=Digits.TABLE, alpha=0.0, classes=None, **keys):
    classes = classes or int(max(own[:, 0].max() if own.ndim > 1 else own.max() for own in labels)) + 1
    labels = [own.reshape(len(own), -1).astype(float) for own in labels]
    about = ModelPlan(Family.ORDINAL, link, classes=classes, digits=digits, **keys)
    return Federation(tables, Task.ORDINAL, Split.HORIZONTAL, labels=labels, glm=about, alpha=alpha)


def drawn(rows=(160, 90, 50), p=2, classes=4, seed=0, spread=2):
    """Tables off centre and in units of their own, and classes by a hidden logistic variable."""
    rng = np.random.default_rng(seed)
    units, shift, b = 10.0 ** rng.integers(-spread, spread + 1, p), rng.uniform(-5, 5, p), rng.normal(0, 0.7, p)
    Z = [rng.normal(size=(n, p)) for n in rows]
    edges = special.logit(np.arange(1, classes) / classes)
    labels = [np.digitize(own @ b + rng.logistic(size=len(own)), edges) for own in Z]
    return [(own + shift) * units for own in Z], labels


def apart(model, coef, se):
    coef, se = np.array(coef), np.array(se)
    return np.max(np.abs(model.coefficients - coef) / se), np.max(np.abs(model.standard_errors / se - 1.0))


def in_sites(X, y, shares=(0.6, 0.9)):
    cuts = [int(share * len(y)) for share in shares]
    return np.split(X, cuts), np.split(y, cuts)


def scaled(X):
    return np.round((X - X.mean(axis=0)) / X.std(axis=0), 6)


def of_statsmodels(name):
    """anes96 and fair as they come with statsmodels, columns in standard deviations, six decimals."""
    data = getattr(sm.datasets, name).load_pandas().data
    columns = {
        "anes96": (["logpopul", "selfLR", "age", "educ", "income"], "PID"),
        "fair": (["age", "yrs_married", "religious", "educ"], "rate_marriage"),
    }
    features, outcome = columns[name]
    y = data[outcome].to_numpy(float)
    return scaled(data[features].to_numpy(float)), np.unique(y, return_inverse=True)[1]


@pytest.mark.parametrize("said", RECORDED["ordinal"], ids=lambda said: f"{said['data']} {said['link']}")
def test_recorded_values_of_r_are_met(said):
    X, y = of_statsmodels(said["data"])
    link = LINKS.get(said["link"], said["link"])
    model = session(*in_sites(X, y), link, Digits.MORE).run()[0].models[0]
    step, relative = apart(model, said["coef"], said["se"])
    assert step < DIGITS_STEP_BAR
    assert relative < DIGITS_MORE_BAR
    assert abs(model.log_likelihood / said["loglik"] - 1.0) < 1e-2 * SEVEN_DIGITS
    assert apart(model, said["polr"], said["polr_se"])[0] < PRINTED_BAR, "where polr stops"


def test_housing_is_as_r_has_it():
    data = kit("housing")
    table, head = data.to_numpy(float), list(data.columns)
    table = table[table[:, head.index("w")] > 0]
    features = [j for j, column in enumerate(head) if column not in ("y", "w", "site")]
    sites = [table[table[:, head.index("site")] == s] for s in np.unique(table[:, head.index("site")])]
    sites = [np.repeat(own, own[:, head.index("w")].astype(int), axis=0) for own in sites]  # a row for each household
    labels = [own[:, head.index("y")] - 1 for own in sites]
    model = session([own[:, features] for own in sites], labels, digits=Digits.MORE).run()[0].models[0]
    step, relative = apart(model, r_said("housing", "coef"), r_said("housing", "se"))
    assert step < SEVEN_DIGITS
    assert relative < SEVEN_DIGITS
    assert abs(model.deviance / r_said("housing", "deviance")[0] - 1.0) < 1e-2 * SEVEN_DIGITS


MORE = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 68)]


@pytest.mark.parametrize("seed", [0, 1, 2, 3, *MORE])
def test_bits_stay_within_what_is_expected_and_the_score_of_scipys_gradient_is_zero(seed):
    rng = np.random.default_rng(seed)
    rows = tuple(rng.integers(60, 300, int(rng.integers(2, 6))))
    tables, labels = drawn(rows, int(rng.integers(1, 5)), int(rng.integers(3, 6)), seed)
    link = ("logit", "probit", "cloglog")[seed % 3]
    federation = session(tables, labels, link)
    found = federation.run()[0]
    assert found.bits <= expected_bits(federation.plan)
    model, X, y = found.models[0], np.concatenate(tables), np.concatenate(labels)
    scale = np.concatenate((X.std(axis=0), np.ones(y.max())))
    centre, p = X.mean(axis=0), X.shape[1]

    def minus(b):
        z = np.concatenate(([-np.inf], b[p:], [np.inf]))
        eta = (X - centre) @ (b[:p] / scale[:p])
        return -float(np.log(cumulative(link, z[y + 1] - eta) - cumulative(link, z[y] - eta)).sum())

    at = model.coefficients * scale
    at[p:] -= model.coefficients[:p] @ centre
    best = optimize.minimize(minus, at, method="BFGS", options={"gtol": 1e-9})
    assert minus(at) <= best.fun + SEVEN_DIGITS
    slope = optimize.approx_fprime(at, minus, 1e-6)
    assert np.abs(slope).max() < len(y) * PRINTED_BAR


# --- own parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_score_and_curvature_are_differences_of_the_deviance_and_parts_add_up(link):
    (X,), (y,) = drawn((60,), 2, 4, 3, spread=0)
    own = OrdinalRecords(X, y.astype(float), 4, link)
    beta, centre = np.array([0.3, -0.2, -1.0, 0.2, 1.1]), X.mean(axis=0)

    def at(b, expected=False):
        return own.part(Point(b, centre, information=True, expected=expected))

    found, h = at(beta), 1e-6
    score = [(at(beta - h * e).deviance - at(beta + h * e).deviance) / (4 * h) for e in np.eye(5)]
    assert np.abs(found.score - score).max() < PRINTED_BAR
    curved = [(at(beta - h * e).score - at(beta + h * e).score) / (2 * h) for e in np.eye(5)]
    assert np.abs(found.information - curved).max() < PRINTED_BAR
    drawn_often = np.mean(  # the expected one is the mean of the curvature over outcomes
        [_curvature(X, beta, centre, link, seed) for seed in range(400)], axis=0
    )
    assert np.abs(at(beta, expected=True).information - drawn_often).max() < 0.1 * len(y)
    here = Point(beta, centre, True, False)
    each = [OrdinalRecords(X[[i]], y[[i]].astype(float), 4, link).part(here).information for i in range(len(y))]
    assert np.abs(np.sum(each, axis=0) - found.information).max() < PRINTED_BAR
    root = np.linalg.inv(np.linalg.cholesky(found.information / 40.0)).T  # of a fortieth: some parts are above a half
    largest = max(np.linalg.eigvalsh(root.T @ one @ root)[-1] for one in each)
    assert abs(own.largest_part(here, root) - largest) < PRINTED_BAR


def _curvature(X, beta, centre, link, seed):
    rng = np.random.default_rng(seed)
    edges = np.hstack((cumulative(link, beta[2:][None, :] - ((X - centre) @ beta[:2])[:, None]), np.ones((len(X), 1))))
    y = (rng.random((len(X), 1)) > edges).sum(axis=1)
    return OrdinalRecords(X, y.astype(float), 4, link).part(Point(beta, centre, True, False)).information


# --- what has no answer -----------------------------------------------------------------------------------------------


def test_classes_that_a_feature_separates_have_no_finite_effect():
    X = [np.arange(n, dtype=float)[:, None] / n for n in (60, 50, 40)]
    labels = [np.digitize(own[:, 0], [0.3, 0.6]) for own in X]
    with pytest.raises((Separated, NotConverged)):
        session(X, labels).run()


def test_two_levels_are_a_logistic_regression():
    with pytest.raises(ConfigError, match="needs the names of three classes") as found:
        ModelPlan(Family.ORDINAL, "logit", classes=2, digits=Digits.TABLE)
    assert "logistic regression" in found.value.fix


def test_a_class_without_a_record_is_an_error_before_any_score():
    tables, labels = drawn(classes=3)
    labels = [np.where(own == 1, 2, own) for own in labels]
    with pytest.raises(DataError, match="has no record at any party"):
        session(tables, labels, classes=3).run()


def test_a_small_class_ends_the_session():
    tables, labels = drawn(classes=3)
    for own in labels:
        own[own == 0] = 1
        own[0] = 0
    with pytest.raises(ReleaseRefused):
        session(tables, labels, least_class=10).run()


def test_a_ridge_has_its_effects_and_no_errors():
    tables, labels = drawn(spread=0)
    model = session(tables, labels, alpha=5.0).run()[0].models[0]
    X, y, p = np.concatenate(tables), np.concatenate(labels), 2

    def minus(b):
        z = np.concatenate(([-np.inf], b[p:], [np.inf]))
        eta = X @ b[:p]
        return -float(np.log(special.expit(z[y + 1] - eta) - special.expit(z[y] - eta)).sum()) + 2.5 * b[:p] @ b[:p]

    best = optimize.minimize(minus, model.coefficients, method="BFGS", options={"gtol": 1e-10})
    assert np.abs(best.x - model.coefficients).max() < PRINTED_BAR
    assert not isinstance(model.standard_errors, np.ndarray)


def test_digits_of_the_table_give_errors_to_four_digits():
    tables, labels = drawn(seed=7)
    few, more = (session(tables, labels, digits=d).run()[0].models[0] for d in (Digits.TABLE, Digits.MORE))
    step, relative = apart(few, more.coefficients, more.standard_errors)
    assert step < DIGITS_STEP_BAR * 10
    assert relative < DIGITS_ERRORS_BAR
