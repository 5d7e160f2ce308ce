"""Models by sums of few digits: statsmodels' coefficients and errors, the bits that were opened, and how a fit ends."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer, load_wine
from tests.tolerances import DIGITS_ERRORS_BAR, DIGITS_MORE_BAR, DIGITS_STEP_BAR, STATSMODELS_BAR
from tests.unit.roles.test_glm import federation, model_of, reference

from fedsvd.errors import DataError, NotConverged, Separated
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.model import Digits
from fedsvd.protocol.openings import expected_bits, granted_bits
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.steps import SIZE_CLASSES
from fedsvd.roles.user import seeding
from fedsvd.roles.user.digits import DigitSums
from fedsvd.statistics import glm_digits
from fedsvd.statistics.newton import refused
from fedsvd.statistics.newton_requests import Asked

pytestmark = pytest.mark.filterwarnings("ignore")
LINK = {"binomial": "logit", "poisson": "log", "gamma": "log", "gaussian": "identity"}


def played(X, labels, family, digits=Digits.TABLE, cuts=None, link=None, alpha=0.0, **keys):
    """A session, its one model, and the bits that were opened in it."""
    session = federation(X, labels, model_of(family, link, digits=digits, **keys), cuts, alpha=alpha)
    result = session.run()[0]
    return session, result.models[0], result.bits


def apart(model, expected, params=None):
    """How far coefficients are away in standard errors, and standard errors as a share of themselves."""
    coefficients = np.abs(model.coefficients - (expected.params if params is None else params)) / expected.bse
    return float(coefficients.max()), float(np.abs(model.standard_errors / expected.bse - 1.0).max())


def last_digits(family, X, y, expected):
    """statsmodels' coefficients after Newton steps in long double.

    statsmodels solves in the columns as they are: where their scales are 1e-5 to 1e5, or two are nearly one, its own
    rounding is up to 5e-9 standard errors. The steps are in centred columns of about unit size.
    """
    X, y = X.astype(np.longdouble), y.astype(np.longdouble)
    centre = X.mean(axis=0)
    scale = np.sqrt(np.square(X - centre).mean(axis=0))
    Z = np.column_stack((np.ones(len(X)), (X - centre) / scale))
    beta = np.concatenate(([expected.params[0] + centre @ expected.params[1:]], expected.params[1:] * scale))
    for _ in range(4):
        eta = Z @ beta
        match family:
            case "binomial":
                mu = 1.0 / (1.0 + np.exp(-eta))
                score, weights = y - mu, mu * (1.0 - mu)
            case "poisson":
                score, weights = y - np.exp(eta), np.exp(eta)
            case "gamma":
                score, weights = y * np.exp(-eta) - 1.0, y * np.exp(-eta)
            case _:
                score, weights = y - eta, np.ones_like(eta)
        information = ((Z.T * weights) @ Z).astype(float)
        beta = beta + np.linalg.solve(information, (Z.T @ score).astype(float))
    slopes = beta[1:] / scale
    found = np.concatenate(([beta[0] - centre @ slopes], slopes)).astype(float)
    assert np.abs((found - expected.params) / expected.bse).max() < STATSMODELS_BAR
    return found


def drawn(family, kind, seed):
    """A random problem: columns of many scales, off centre, nearly dependent, 0/1 or with long tails."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(300, 1500)), int(rng.integers(2, 7))
    X = rng.standard_normal((n, p))
    spread = X.copy()
    match kind:
        case "binary":
            X = (X > 0.5).astype(float)
        case "scaled":
            X *= 10.0 ** rng.integers(-5, 6, p)
        case "uncentred":
            X += rng.uniform(20, 400, p)
        case "collinear":
            X[:, -1] = X[:, 0] + 1e-3 * X[:, -1]
    eta = spread @ rng.normal(0, 0.5, p)
    match family:
        case "binomial":
            y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta - 0.3))).astype(float)
        case "poisson":
            y = rng.poisson(np.exp(eta + 1.0)).astype(float)
        case "gamma":
            y = rng.gamma(2.0, np.exp(eta + 8.0) / 2.0)
        case _:
            y = 1e4 * (eta + rng.standard_normal(n))
    return X, y


KINDS = ("plain", "binary", "scaled", "uncentred")
QUICK = [(family, kind, 7) for family, kind in zip(LINK, KINDS, strict=True)]
RANDOM = [(family, kind, seed) for family in LINK for kind in (*KINDS, "collinear") for seed in (1, 2, 3)]
SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in RANDOM]


@pytest.mark.parametrize(("family", "kind", "seed"), [*QUICK, *SLOW])
def test_a_model_by_few_digits_is_statsmodels(family, kind, seed):
    X, y = drawn(family, kind, seed)
    session, model, bits = played(X, [y], family)
    expected = reference(family, LINK[family], X, y)
    step, errors = apart(model, expected, last_digits(family, X, y, expected))
    assert step < DIGITS_STEP_BAR
    assert errors < DIGITS_ERRORS_BAR
    assert bits < granted_bits(session.plan)
    if kind != "collinear":
        assert bits < 2 * expected_bits(session.plan)


def test_more_digits_give_more_of_the_errors():
    X, y = drawn("binomial", "plain", 3)
    _, model, _ = played(X, [y], "binomial", Digits.MORE)
    step, errors = apart(model, reference("binomial", "logit", X, y))
    assert step < DIGITS_STEP_BAR
    assert errors < DIGITS_MORE_BAR


def test_deviance_and_likelihood_of_breast_cancer_are_statsmodels_in_the_digits_that_are_printed():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X[:, :5] - X[:, :5].mean(axis=0)) / X[:, :5].std(axis=0)
    _, model, _ = played(X, [y.astype(float)], "binomial")
    expected = reference("binomial", "logit", X, y.astype(float))
    for found, wanted in (
        (model.deviance, expected.deviance),
        (model.null_deviance, expected.null_deviance),
        (model.log_likelihood, expected.llf),
        (model.aic, expected.aic),
        (model.pearson, expected.pearson_chi2),
    ):
        assert math.isclose(found, wanted, rel_tol=DIGITS_ERRORS_BAR)


def test_probit_steps_by_its_own_curvature_and_reports_the_expected_one():
    X, y = drawn("binomial", "plain", 5)
    _, model, _ = played(X, [y], "binomial", link="probit")
    assert max(apart(model, reference("binomial", "probit", X, y))) < DIGITS_ERRORS_BAR


def test_an_offset_has_a_null_model_of_its_own():
    X, y = drawn("poisson", "plain", 4)
    offset = np.random.default_rng(0).normal(1.0, 0.3, len(y))
    _, model, _ = played(X, [y, offset], "poisson", offset=True)
    expected = reference("poisson", "log", X, y, offset=offset)
    step, errors = apart(model, expected)
    assert step < DIGITS_STEP_BAR
    assert errors < DIGITS_ERRORS_BAR
    assert math.isclose(model.null_deviance, expected.null_deviance, rel_tol=DIGITS_ERRORS_BAR)


def test_three_classes_are_statsmodels_multinomial():
    X, y = load_wine(return_X_y=True)
    X = X[:, [0, 2]]
    _, model, _ = played(X, [y.astype(float)], "multinomial", classes=3, cuts=[60, 110])
    expected = sm.MNLogit(y, sm.add_constant(X)).fit(disp=0, method="newton", maxiter=100, tol=1e-14)
    errors = np.asarray(expected.bse).T
    assert np.abs((model.coefficients - np.asarray(expected.params).T) / errors).max() < GIVEN_STEPS
    assert np.abs(model.standard_errors / errors - 1.0).max() < DIGITS_ERRORS_BAR
    assert model.counts.tolist() == np.bincount(y).tolist()


GIVEN_STEPS = DIGITS_ERRORS_BAR
"""statsmodels' own multinomial fit ends at the precision of its last step."""


def test_a_ridge_is_the_ridge_of_all_digits():
    X, y = drawn("binomial", "plain", 6)
    _, few, _ = played(X, [y], "binomial", alpha=3.0)
    _, exact, _ = played(X, [y], "binomial", Digits.ALL, alpha=3.0)
    assert np.abs(few.coefficients - exact.coefficients).max() < GIVEN_STEPS * 1e-4


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["a wide gap", "a column of 0 and 1", "one value of a column"])
def test_separated_data_end_as_separated(kind):
    rng = np.random.default_rng(0)
    y = np.tile([0.0, 1.0], 150)
    X = rng.normal(size=(300, 2))
    match kind:
        case "a wide gap":
            X[:, 0] += 20.0 * y
        case "a column of 0 and 1":
            X[:, 0] = y
        case _:
            X[:, 0] = (y == 1.0) & (rng.random(300) < 0.5)
    with pytest.raises(Separated):
        played(X, [y], "binomial")


def test_separated_data_whose_gap_a_few_records_show_end_at_home():
    """The last coefficients that separate them would show these records."""
    X = np.random.default_rng(5).normal(size=(300, 3))
    with pytest.raises(NotConverged, match="predicts the outcome without error"):
        played(X, [(X[:, 0] > 0.0).astype(float)], "binomial")


def test_a_column_that_is_another_one_is_named():
    X, y = drawn("binomial", "plain", 8)
    with pytest.raises(DataError, match="column 3 is a combination"):
        played(np.column_stack((X[:, :2], X[:, 0] - 2.0 * X[:, 1])), [y], "binomial")


def test_a_trial_of_one_to_one_whose_first_gradient_is_zero_goes_on_to_the_last_digit():
    rng = np.random.default_rng(1)
    X = np.tile([0.0, 1.0], 200)[:, None]
    y = np.repeat(rng.random(200) < 0.4, 2).astype(float)
    y[:2] = 0.0, 1.0
    _, model, _ = played(X, [y], "binomial")
    assert apart(model, reference("binomial", "logit", X, y))[0] < DIGITS_STEP_BAR


def test_counts_of_1e8_keep_their_digits():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 2))
    y = rng.poisson(np.exp(18.4 + X @ [0.1, -0.05])).astype(float)
    _, model, _ = played(X, [y], "poisson")
    assert max(apart(model, reference("poisson", "log", X, y))) < DIGITS_ERRORS_BAR


def test_one_class_at_one_party_and_a_party_of_eight_rows():
    X, y = drawn("binomial", "plain", 9)
    order = np.concatenate((np.flatnonzero(y == 1)[:60], np.flatnonzero(y == 0), np.flatnonzero(y == 1)[60:]))
    X, y = X[order], y[order]
    _, model, _ = played(X, [y], "binomial", cuts=[60, 68])
    assert max(apart(model, reference("binomial", "logit", X, y))) < DIGITS_ERRORS_BAR


# --- what was opened --------------------------------------------------------------------------------------------------


def test_the_bits_that_were_opened_are_those_of_a_recount():
    X, y = drawn("binomial", "binary", 2)
    record, original = [], glm_digits.fit_by_digits
    glm_digits.fit_by_digits = recording(original, record)
    try:
        session, _, bits = played(X, [y], "binomial")
    finally:
        glm_digits.fit_by_digits = original
    words = 0.0
    for asked, answer in record[0]:
        if isinstance(asked, Asked):
            numbers = answer.values[asked.units > 0.0] / asked.units[asked.units > 0.0]
            assert np.array_equal(numbers, np.rint(numbers))
            words += float(np.log2(2.0 * np.abs(numbers) + 2.0).sum())
        else:
            words += 7.0 * len(answer)
    assert math.isclose(words, bits)
    assert words < granted_bits(session.plan)


def test_a_user_ends_a_session_at_the_bits_that_it_lets_be_opened(monkeypatch):
    X, y = drawn("binomial", "binary", 2)
    _, _, bits = played(X, [y], "binomial")
    makes = seeding.Inputs.__init__

    def first_user(self, **given):
        makes(self, **given, granted=bits / 2)

    monkeypatch.setattr(seeding.Inputs, "__init__", first_user)
    with pytest.raises(NotConverged, match="needs more digits than were approved"):
        played(X, [y], "binomial")


def recording(original, record):
    """The same fit, which writes down what it asked for and what was opened."""

    def fit(*positional, **named):
        steps, seen = original(*positional, **named), []
        record.append(seen)
        asked = next(steps)
        while True:
            answer = yield asked
            seen.append((asked, answer))
            try:
                asked = steps.send(answer)
            except StopIteration as end:
                return end.value

    return fit


def test_the_csp_adds_up_no_gram_matrix():
    X, y = drawn("binomial", "plain", 1)
    session, _, _ = played(X, [y], "binomial")
    names = {message.name.rstrip(" 0123456789") for _, message in session.views.of(CSP, SumShare)}
    assert {"score", "information", "table", "moments"} <= names
    assert not any(name.startswith("gram") for name in names)


class Alone(DigitSums):
    """Sums of one user, who is all of them: what was asked for is recorded, and the total is its own."""

    def __init__(self):
        self.asked = []

    def sizes(self, name, own):
        self.asked.append((name, own.tolist()))
        return np.where(np.isfinite(own), np.frexp(own)[1], SIZE_CLASSES.stop)
        yield

    def total(self, name, values, units):
        self.asked.append((name, units.tolist()))
        return values, values
        yield


def ended(script):
    with pytest.raises(StopIteration) as end:
        next(script)
    return end.value.value


@pytest.mark.parametrize("share", [3, 3.0, np.int8(3)])
def test_a_total_by_size_has_the_units_that_its_sizes_say(share):
    own, each = np.array([5.0, -0.75, 100.0, 3.0]), Alone()
    total, units = ended(each.sized("end", own, 40, share))
    assert units.tolist() == [3 * 2.0 ** (size - 40) for size in (3, 0, 7, 2)]
    assert units.dtype == np.float64
    assert each.asked == [("end sizes", [5.0, 0.75, 100.0, 3.0]), ("end", units.tolist())]
    runs = Alone()
    _, units = ended(runs.sized("end", own, 40, share, [1, 3]))
    assert units.tolist() == [3 * 2.0 ** (3 - 40), 3 * 2.0 ** (7 - 40)]
    assert runs.asked[1] == ("end", [units[0], *[units[1]] * 3])
    assert total.tolist() == own.tolist()


def test_a_number_above_all_sizes_ends_a_study_that_is_to_end():
    own = np.array([1.0, math.inf])
    with pytest.raises(NotConverged):
        next(Alone().sized("end", own, 40, fails=refused))
    ended(Alone().sized("end", own, 40))
