"""The hunt: every estimator against NumPy, scikit-learn and statsmodels, over shapes, units, ranks and tiny tables.

A draw is a function of its seed. The quick set has fixed seeds; ``make test-all`` adds seeds by the date. A failure
names its seed, so that the draw can be made again: ``check_svd(20261117003)``.
"""

import datetime
from dataclasses import dataclass

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
from tests.tolerances import GLM_BAR, RESULT_BAR, SEVEN_DIGITS, VALUES_BAR, assert_close

import fedsvd
from fedsvd.errors import ConstantData, NotConverged, Separated

pytestmark = pytest.mark.filterwarnings("ignore")
TODAY = int(datetime.datetime.now(tz=datetime.UTC).strftime("%Y%m%d"))
FIXED = range(10)
BY_DATE = range(TODAY * 1000, TODAY * 1000 + 150)


@dataclass(frozen=True)
class Draw:
    """A joint table in units of its own, the same in usual units, a target, and where parties' rows begin."""

    X: np.ndarray
    plain: np.ndarray
    unit: np.ndarray  # X = plain * unit
    y: np.ndarray
    cuts: tuple[int, ...]
    rng: np.random.Generator

    def rows(self, values):
        return np.split(values, self.cuts)


def draw(seed: int, least: int = 2, one_unit: bool = False, wide: bool = True) -> Draw:
    """Tiny or small; columns drawn, tied, repeated, constant, in units up to 1e144 apart; two to four parties."""
    rng = np.random.default_rng([25, seed])
    n = int(rng.integers(least, max(9, least + 1)) if rng.random() < 0.6 else rng.integers(12, 40))
    p = int(rng.integers(1, 7)) if wide else int(rng.integers(1, min(4, n)))
    plain = rng.normal(size=(n, p))
    for j in range(p):
        kind = rng.random()
        if kind < 0.15:
            plain[:, j] = np.round(plain[:, j])
        elif kind < 0.25 and j:
            plain[:, j] = plain[:, j - 1]
        elif kind < 0.3:
            plain[:, j] = 2.0
    unit = np.full(p, 2.0 ** int(rng.integers(-490, 490)))
    if not one_unit:
        unit = 2.0 ** rng.integers(-240, 241, size=p) if rng.random() < 0.5 else 2.0 ** rng.integers(-10, 11, size=p)
    parties = int(rng.integers(2, min(4, n) + 1))
    cuts = tuple(int(cut) for cut in np.sort(rng.choice(np.arange(1, n), size=parties - 1, replace=False)))
    return Draw(plain * unit, plain, unit, rng.normal(size=n) + plain[:, 0], cuts, rng)


def check_svd(seed):
    made = draw(seed, one_unit=True)
    size = float(np.linalg.norm(made.plain))
    expected = np.linalg.svd(made.plain, compute_uv=False)
    for split in ("horizontal", "vertical"):
        tables = made.rows(made.X) if split == "horizontal" else [made.X, made.X[:, :1]]
        joint = made.plain if split == "horizontal" else np.column_stack((made.plain, made.plain[:, :1]))
        found = fedsvd.FederatedSVD(split=split, ids="trust").fit(tables)
        scaled = found.singular_values_ / made.unit[0]
        expected = np.linalg.svd(joint, compute_uv=False)[: len(scaled)]
        assert_close(scaled, expected, VALUES_BAR, scale=size)
        assert_close((found.U_ * scaled) @ found.components_, joint, RESULT_BAR, scale=size)


def check_pca(seed):
    made = draw(seed, one_unit=True)
    centred = made.plain - made.plain.mean(axis=0)
    r = min(made.X.shape)
    if not np.ptp(made.plain, axis=0).any():
        with pytest.raises(ConstantData):
            fedsvd.FederatedPCA(n_components=r).fit(made.rows(made.X))
        return
    found = fedsvd.FederatedPCA(n_components=r).fit(made.rows(made.X))
    expected = np.linalg.svd(centred, compute_uv=False)[:r]
    assert_close(found.singular_values_ / made.unit[0], expected, VALUES_BAR, scale=float(np.linalg.norm(made.plain)))


def check_unit_variance(seed):
    made = draw(seed)
    deviation = made.plain.std(axis=0)
    varies = np.ptp(made.plain, axis=0) > 0
    if not varies.any():
        return
    scaled = (made.plain - made.plain.mean(axis=0))[:, varies] / deviation[varies]
    r = min(made.X.shape)
    found = fedsvd.FederatedPCA(n_components=r, unit_variance=True).fit(made.rows(made.X))
    expected = np.zeros(r)
    values = np.linalg.svd(scaled, compute_uv=False)[:r]
    expected[: len(values)] = values
    assert_close(found.singular_values_, expected, SEVEN_DIGITS, scale=float(np.linalg.norm(scaled)))


def check_lsa(seed):
    made = draw(seed, one_unit=True)
    r = min(made.X.shape)
    found = fedsvd.FederatedLSA(n_components=r).fit(made.rows(made.X))
    expected = np.linalg.svd(made.plain, compute_uv=False)[:r]
    assert_close(found.singular_values_ / made.unit[0], expected, VALUES_BAR, scale=float(np.linalg.norm(made.plain)))


def check_regression(seed):
    made = draw(seed)
    label = 2.0 ** int(made.rng.integers(-240, 241))
    expected = LinearRegression().fit(made.plain, made.y).predict(made.plain)
    for split in ("horizontal", "vertical"):
        X = made.X if split == "horizontal" else made.plain  # a column is there twice: in one unit
        tables = made.rows(X) if split == "horizontal" else [X, X[:, :1]]
        found = fedsvd.FederatedLinearRegression(split=split, ids="trust").fit(tables, made.y * label)
        joint = X if split == "horizontal" else np.column_stack((X, X[:, :1]))
        assert_close(found.predict(joint) / label, expected, SEVEN_DIGITS, scale=float(np.abs(made.y).max()))


def independent(columns):
    """Which columns do not depend on those before them, by ranks, and these columns."""
    others = [0]
    for j in range(1, columns.shape[1]):
        if np.linalg.matrix_rank(columns[:, [*others, j]]) == len(others) + 1:
            others.append(j)
    return others, columns[:, others]


def check_table(seed):
    made = draw(seed, least=6, wide=False)
    columns = np.column_stack((np.ones(len(made.y)), made.plain))
    others, design = independent(columns)
    found = fedsvd.FederatedLinearRegression(inference=True).fit(made.rows(made.X), made.rows(made.y)).inference_[0]
    expected = sm.OLS(made.y, design).fit()
    unit = np.concatenate(([1.0], made.unit))
    assert found.aliased == tuple(j for j in range(columns.shape[1]) if j not in others)
    assert_close((found.coefficients * unit)[others], expected.params, SEVEN_DIGITS)
    assert_close((found.standard_errors * unit)[others], expected.bse, SEVEN_DIGITS)
    assert_close(found.p[others], expected.pvalues, SEVEN_DIGITS, scale=1.0)


def check_ridge_cv(seed):
    made = draw(seed, least=4, one_unit=True)
    alphas = (0.1, 1.0, 10.0)
    found = fedsvd.FederatedRidgeCV(alphas=alphas).fit(made.rows(made.plain), made.rows(made.y))
    scores = {alpha: RidgeCV(alphas=[alpha]).fit(made.plain, made.y).best_score_ for alpha in alphas}
    assert scores[found.alpha_] >= max(scores.values()) - SEVEN_DIGITS  # rounding decides where two are as good
    expected = Ridge(found.alpha_, solver="svd").fit(made.plain, made.y)
    assert_close(found.coef_, expected.coef_, SEVEN_DIGITS, scale=1.0)


def penalised(plain, unit, y, alpha):
    """A ridge on columns in these units, by least squares with rows of the penalty, every column at unit length."""
    rows = np.vstack((plain - plain.mean(axis=0), np.diag(np.sqrt(alpha) / unit)))
    length = np.linalg.norm(rows, axis=0)
    return np.linalg.lstsq(rows / length, np.concatenate((y - y.mean(), np.zeros(len(unit)))))[0] / length


def check_ridge_cv_in_units(seed):
    made = draw(seed, least=4)
    columns = np.column_stack((np.ones(len(made.y)), made.plain))
    if len(independent(columns)[0]) < columns.shape[1]:
        return  # a penalty far below the rounding of dependent columns does not decide between them
    found = fedsvd.FederatedRidgeCV(alphas=(0.1, 1.0, 10.0)).fit(made.rows(made.X), made.rows(made.y))
    expected = penalised(made.plain, made.unit, made.y, found.alpha_)
    assert_close(found.coef_ * made.unit, expected, SEVEN_DIGITS, scale=1.0)


def check_ridge_cv_on_columns(seed):
    made = draw(seed, least=5)
    unit = 2.0 ** made.rng.integers(-10, 11, size=made.plain.shape[1] + 1)
    plain = np.column_stack((made.plain, made.rng.normal(size=len(made.y))))
    asked = {"split": "vertical", "ids": "trust", "choose_by": "gcv"}
    X = plain * unit
    found = fedsvd.FederatedRidgeCV(alphas=(0.1, 1.0, 10.0), **asked).fit([X[:, :1], X[:, 1:]], made.y)
    expected = Ridge(found.alpha_, solver="svd").fit(X, made.y).predict(X)
    assert_close(found.predict(X), expected, SEVEN_DIGITS, scale=float(np.abs(made.y).max()))


def check_table_on_columns(seed):
    made = draw(seed, least=8, wide=False)
    plain = np.column_stack((made.plain, made.rng.normal(size=len(made.y))))
    columns = np.column_stack((np.ones(len(made.y)), plain))
    if len(independent(columns)[0]) < columns.shape[1]:
        return
    X = plain * 2.0 ** made.rng.integers(-60, 61, size=plain.shape[1])
    asked = {"split": "vertical", "ids": "trust", "inference": True}
    found = fedsvd.FederatedLinearRegression(**asked).fit([X[:, :1], X[:, 1:]], made.y).inference_[0]
    assert_close(found.p, sm.OLS(made.y, columns).fit().pvalues, SEVEN_DIGITS, scale=1.0)


def check_robust_table(seed):
    made = draw(seed, least=8, wide=False)
    columns = np.column_stack((np.ones(len(made.y)), made.plain))
    weights, kind = made.rng.uniform(0.3, 2.0, len(made.y)), ("HC0", "HC1", "HC2", "HC3")[seed % 4]
    root = np.sqrt(weights)[:, None] * columns
    leverage = np.sum(np.linalg.svd(root, full_matrices=False)[0] ** 2, axis=1)
    if len(independent(columns)[0]) < columns.shape[1] or leverage.max() > 1.0 - SEVEN_DIGITS:
        return
    asked = fedsvd.FederatedLinearRegression(inference=True, cov_type=kind)
    found = asked.fit(made.rows(made.X), made.rows(made.y), sample_weight=made.rows(weights)).inference_[0]
    expected = sm.WLS(made.y, columns, weights=weights).fit(cov_type=kind)
    ratio = found.standard_errors * np.concatenate(([1.0], made.unit)) / expected.bse
    assert_close(ratio, np.ones(len(ratio)), SEVEN_DIGITS)


FAMILIES = {
    ("gaussian", None): sm.families.Gaussian(),
    ("binomial", None): sm.families.Binomial(),
    ("binomial", "probit"): sm.families.Binomial(sm.families.links.Probit()),
    ("poisson", None): sm.families.Poisson(),
    ("gamma", None): sm.families.Gamma(sm.families.links.Log()),
}


def fitted_by_statsmodels(y, design, family):
    """By its own iteration; where expected weights make that jump over the end, by Newton's method."""
    found = sm.GLM(y, design, family=family).fit(tol=1e-13, maxiter=200)
    if found.converged:
        return found
    start = np.zeros(design.shape[1])
    start[0] = family.link(y.mean())
    return sm.GLM(y, design, family=family).fit(start_params=start, method="newton", tol=1e-13, maxiter=200, disp=0)


def check_models(seed):
    made = draw(seed, least=8, wide=False)
    design = independent(np.column_stack((np.ones(len(made.y)), made.plain)))[1]
    eta = 0.3 + 0.4 * made.plain[:, 0]
    n = len(eta)
    targets = {
        "gaussian": eta + made.rng.normal(size=n),
        "binomial": np.clip(1.0 / (1.0 + np.exp(-eta + made.rng.normal(size=n))), 0.02, 0.98),
        "poisson": made.rng.poisson(np.exp(eta + 10.0 * made.rng.random())).astype(float),
        "gamma": made.rng.gamma(2.0, np.exp(eta)),
    }
    for (family, link), theirs in FAMILIES.items():
        y = targets[family]
        expected = fitted_by_statsmodels(y, design, theirs)
        try:
            model = fedsvd.FederatedGLM(family, link=link, max_iterations=100).fit(made.rows(made.X), made.rows(y))
        except (Separated, NotConverged):
            assert family == "poisson"
            assert not y[made.plain[:, 0] < np.median(made.plain[:, 0])].any() or y.sum() < n
            continue
        assert_close(model.inference_[0].deviance, expected.deviance, SEVEN_DIGITS, scale=expected.null_deviance)
        assert_close(model.predict(made.X), expected.fittedvalues, SEVEN_DIGITS)


def check_logistic(seed):
    made = draw(seed, least=6, wide=False)
    y = np.where(np.arange(len(made.y)) % 2 == 0, "a", "b")
    found = fedsvd.FederatedLogisticRegression(alpha=1.0).fit(made.rows(made.plain), made.rows(y))
    expected = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12, max_iter=500).fit(made.plain, y)
    assert_close(found.coef_, expected.coef_, GLM_BAR, scale=1.0)


def check_cca(seed):
    made = draw(seed, least=6, wide=False)
    other = made.rng.normal(size=(len(made.y), 2))
    own = made.plain[:, np.ptp(made.plain, axis=0) > 0][:, :1]
    if not own.size:
        return
    bases = [np.linalg.qr(part - part.mean(axis=0))[0] for part in (own, other)]
    expected = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[:1]
    constant = np.full((len(made.y), 1), 0.1)
    tables = [np.hstack((own * made.unit[0], constant)), np.hstack((other, constant))]
    found = fedsvd.FederatedCCA(n_components=1, ids="trust").fit(tables)
    assert_close(found.correlations_[:1], expected, SEVEN_DIGITS, scale=1.0)


def check_pcr(seed):
    made = draw(seed, least=6, one_unit=True, wide=False)
    if not np.ptp(made.plain, axis=0).any():
        with pytest.raises(ConstantData):
            fedsvd.FederatedPCR(n_components=1).fit(made.rows(made.plain), made.rows(made.y))
        return
    found = fedsvd.FederatedPCR(n_components=1).fit(made.rows(made.plain), made.rows(made.y))
    scores = PCA(1, svd_solver="full").fit_transform(made.plain)
    expected = LinearRegression().fit(scores, made.y).predict(scores)
    values = np.linalg.svd(made.plain - made.plain.mean(axis=0), compute_uv=False)
    if len(values) > 1 and values[1] > 0.9 * values[0]:
        return  # the first component is hardly determined
    assert_close(found.predict(made.plain), expected, SEVEN_DIGITS, scale=float(np.abs(made.y).max()))


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}


@pytest.mark.parametrize("seed", FIXED)
@pytest.mark.parametrize("estimator", CHECKS)
def test_an_estimator_is_its_twin_on_any_table(estimator, seed):
    CHECKS[estimator](seed)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", CHECKS)
def test_an_estimator_is_its_twin_on_tables_drawn_by_the_date(estimator):
    for seed in BY_DATE:
        try:
            CHECKS[estimator](seed)
        except BaseException as fault:
            fault.add_note(f"again: check_{estimator}({seed})")
            raise


def test_a_table_of_lost_rank_in_units_far_apart_is_fitted():
    """Found by date on 2026-11-17: five rows, a column twice, units from 2^-224 to 2^115."""
    check_regression(20261117065)


def test_a_column_of_zeros_beside_a_tiny_one_has_no_variance():
    """Found by date on 2026-11-18: noise of 2^-1074 in the mean of the zeros was scaled to a second component."""
    check_unit_variance(20261118035)


def test_a_gamma_model_whose_whole_steps_jump_over_the_end_is_fitted():
    """Eight rows whose expected weights are less than half of the curvature: it ended in FSVD-304."""
    check_models(61005)
