"""Negative binomial models through the real roles: R's recorded values, SciPy's, and every degenerate case."""

import json
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize, stats
from tests.kit import kit, r_said
from tests.tolerances import DIGITS_ERRORS_BAR, DIGITS_MORE_BAR, PRINTED_BAR, SEVEN_DIGITS

from fedsvd.errors import ConfigError, DataError, NotConverged
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.statistics.negative_binomial import CountRecords
from fedsvd.statistics.newton_requests import Point
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore")
RECORDED = json.loads((Path(__file__).parent / "r_negative_binomial.json").read_text(encoding="utf-8"))


def session(tables, labels, digits=Digits.TABLE, alpha=0.0, **keys):
    labels = [own.reshape(len(own), -1).astype(float) for own in labels]
    about = ModelPlan(Family.NEGATIVE_BINOMIAL, "log", digits=digits, **keys)
    return Federation(tables, Task.GLM, Split.HORIZONTAL, labels=labels, glm=about, alpha=alpha, centre=True)


def drawn(rows=(160, 90, 50), p=2, theta=1.5, seed=0):
    rng = np.random.default_rng(seed)
    b = rng.normal(0, 0.4, p)
    Z = [rng.normal(size=(n, p)) for n in rows]
    means = [np.exp(1.0 + own @ b) for own in Z]
    units, shift = 10.0 ** rng.integers(-2, 3, p), rng.uniform(-5, 5, p)
    labels = [rng.poisson(mu * rng.gamma(theta, 1.0 / theta, len(mu))) for mu in means]
    return [(own + shift) * units for own in Z], labels


def made():
    """Counts by a formula that R and Python have alike, to three decimals."""
    i = np.arange(1, 401)
    u, v, w = (
        np.modf(i**k * c)[0] for k, c in ((1, 0.6180339887498949), (1, 0.7548776662466927), (2, 0.5698402909980532))
    )
    x1, x2, e = np.round(4 * u - 2, 3), np.round(3 * v, 3), np.round(w, 3)
    y = np.floor(np.exp(0.4 + 0.3 * x1 - 0.2 * x2) * -np.log1p(-np.minimum(e, 0.999)) * 2.0)
    return np.column_stack((x1, x2)), y


def randhie():
    data = sm.datasets.randhie.load_pandas().data
    features = ["lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg"]
    return data[features].to_numpy(float), data["mdvis"].to_numpy(float)


def in_sites(X, y, shares=(0.6, 0.9)):
    cuts = [int(share * len(y)) for share in shares]
    return np.split(X, cuts), np.split(y, cuts)


@pytest.mark.parametrize("said", RECORDED["negbin"], ids=lambda said: said["data"])
def test_recorded_values_of_r_are_met(said):
    X, y = {"made": made, "randhie": randhie}[said["data"]]()
    model = session(*in_sites(X, y), Digits.MORE).run()[0].models[0]
    assert np.max(np.abs(model.coefficients - said["coef"]) / np.array(said["se"])) < SEVEN_DIGITS
    assert np.max(np.abs(model.standard_errors / np.array(said["se"]) - 1.0)) < DIGITS_MORE_BAR
    assert abs(model.theta / said["theta"] - 1.0) < SEVEN_DIGITS
    assert abs(model.theta_error / said["theta_se"] - 1.0) < 10.0 * DIGITS_ERRORS_BAR
    assert abs(model.log_likelihood / said["loglik"] - 1.0) < 1e-2 * SEVEN_DIGITS
    assert abs(model.deviance / said["deviance"] - 1.0) < SEVEN_DIGITS
    assert abs(model.null_deviance / said["null"] - 1.0) < SEVEN_DIGITS
    assert abs(model.aic - said["aic"]) < DIGITS_ERRORS_BAR


def test_quine_is_as_r_has_it():
    data = kit("quine")
    table, head = data.to_numpy(float), list(data.columns)
    features = [j for j, column in enumerate(head) if column not in ("y", "site")]
    sites = [table[table[:, head.index("site")] == s] for s in np.unique(table[:, head.index("site")])]
    labels = [own[:, head.index("y")] for own in sites]
    model = session([own[:, features] for own in sites], labels, Digits.MORE).run()[0].models[0]
    said = {kind: r_said("quine", kind) for kind in ("coef", "se", "loglik")}
    assert np.max(np.abs(model.coefficients - said["coef"][:7]) / said["se"][:7]) < SEVEN_DIGITS
    assert np.max(np.abs(model.standard_errors / said["se"][:7] - 1.0)) < DIGITS_MORE_BAR
    assert abs(model.theta / said["coef"][7] - 1.0) < SEVEN_DIGITS
    assert abs(model.log_likelihood / said["loglik"][0] - 1.0) < 1e-2 * SEVEN_DIGITS


MORE = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 67)]


@pytest.mark.parametrize("seed", [0, 1, 2, *MORE])
def test_bits_stay_within_what_is_expected_at_scipys_optimum(seed):
    rng = np.random.default_rng(seed)
    rows = tuple(rng.integers(80, 300, int(rng.integers(2, 5))))
    tables, labels = drawn(rows, int(rng.integers(1, 5)), float(rng.uniform(0.5, 4.0)), seed)
    federation = session(tables, labels)
    found = federation.run()[0]
    assert found.bits <= expected_bits(federation.plan)
    model, X, y = found.models[0], np.concatenate(tables), np.concatenate(labels)
    Z = np.column_stack((np.ones(len(y)), (X - X.mean(axis=0)) / X.std(axis=0)))

    def minus(b):
        theta, mu = np.exp(b[-1]), np.exp(Z @ b[:-1])
        return -float(stats.nbinom.logpmf(y, theta, theta / (theta + mu)).sum())

    w = model.coefficients
    at = np.concatenate(([w[0] + X.mean(axis=0) @ w[1:]], w[1:] * X.std(axis=0), [np.log(model.theta)]))
    best = optimize.minimize(minus, at, method="BFGS", options={"gtol": 1e-9})
    assert minus(at) <= best.fun + SEVEN_DIGITS
    assert abs(model.log_likelihood / -minus(at) - 1.0) < DIGITS_ERRORS_BAR


def test_score_and_curvature_are_differences_of_the_deviance():
    (X,), (y,) = drawn((60,), 2, 1.2, 3)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    own = CountRecords(X, y.astype(float), True)
    beta, centre, h = np.array([0.9, 0.3, -0.2, 0.4]), np.zeros(2), 1e-6

    def at(b, **keys):
        return own.part(Point(b, centre, information=True, **({"expected": False} | keys)))

    found = at(beta)
    score = [(at(beta - h * e).deviance - at(beta + h * e).deviance) / (4 * h) for e in np.eye(4)]
    assert np.abs(found.score - score).max() < 10.0 * PRINTED_BAR
    curved = [(at(beta - h * e).score - at(beta + h * e).score) / (2 * h) for e in np.eye(4)]
    assert np.abs(found.information - curved).max() < 10.0 * PRINTED_BAR
    assert (np.linalg.eigvalsh(at(beta, expected=True).information) > 0.0).all()


def test_an_offset_is_the_logarithm_of_an_exposure():
    tables, labels = drawn(seed=5)
    rng = np.random.default_rng(6)
    shifts = [rng.normal(0, 0.3, len(own)) for own in labels]
    beside = [np.column_stack((own, shift)) for own, shift in zip(labels, shifts, strict=True)]
    model = session(tables, beside, Digits.MORE, offset=True).run()[0].models[0]
    X, y, shift = np.concatenate(tables), np.concatenate(labels), np.concatenate(shifts)
    family = sm.families.NegativeBinomial(alpha=1.0 / model.theta)
    theirs = sm.GLM(y, sm.add_constant(X), family=family, offset=shift).fit(tol=1e-14)
    assert np.max(np.abs(model.coefficients - theirs.params) / theirs.bse) < PRINTED_BAR
    assert np.max(np.abs(model.standard_errors / theirs.bse - 1.0)) < PRINTED_BAR
    assert np.isnan(model.null_deviance)


def test_counts_that_vary_less_than_poissons_have_no_table():
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(n, 1)) for n in (120, 90, 80)]
    labels = [rng.binomial(4, 0.5, len(own)) for own in tables]
    with pytest.raises(NotConverged, match="vary no more than Poisson's"):
        session(tables, labels).run()


def test_counts_that_are_all_zero_are_constant():
    tables, labels = drawn()
    for _ in range(4):  # noise in a total of zero has either sign
        with pytest.raises(DataError, match="all outcomes of the joint data are equal"):
            session(tables, [np.zeros(len(own)) for own in labels]).run()


def test_a_ridge_is_refused():
    tables, labels = drawn()
    with pytest.raises(ConfigError, match="no ridge"):
        session(tables, labels, alpha=1.0).run()
