"""FederatedLinearRegression is scikit-learn's LinearRegression, or Ridge, on the joint table."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from tests.tolerances import RESULT_BAR, assert_close, digits_lost

from fedsvd import FederatedLinearRegression, Masks
from fedsvd.errors import ConfigError, NotFinite, ShapeError

from .joint import DIVISIONS, SCHEMES, TRUSTS, least_squares_bar, parts, table

# One table is divided here, so its rows are in one order.
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore::fedsvd.errors.RowsNotCompared")

SPLITS = ("horizontal", "vertical")


def labels(D, targets=None, seed=9):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((D.shape[1], targets or 1))
    y = D @ w + 0.1 * rng.standard_normal((len(D), targets or 1)) + 5.0
    return y if targets else y[:, 0]


def twin(D, y, alpha=0.0, fit_intercept=True):
    # scikit-learn 1.7 cuts ranks at its own tol = 1e-6; ours is that of LAPACK.
    if alpha == 0.0:
        return LinearRegression(tol=1e-14, fit_intercept=fit_intercept).fit(D, y)
    return Ridge(alpha, solver="svd", fit_intercept=fit_intercept).fit(D, y)


def assert_equal(regression, D, y, reference):
    centred = D - D.mean(axis=0) if regression.fit_intercept else D
    about = y - y.mean(axis=0) if regression.fit_intercept else y
    bar = least_squares_bar(centred, about, reference.coef_)
    assert regression.coef_.shape == reference.coef_.shape
    np.testing.assert_allclose(regression.coef_, reference.coef_, rtol=0, atol=bar)
    assert np.shape(regression.intercept_) == np.shape(reference.intercept_)
    np.testing.assert_allclose(regression.intercept_, reference.intercept_, rtol=0, atol=bar * 10 * np.abs(D).max())


REFUSED = {("sum", "vertical"), ("mask", "horizontal")}
"""What has a long common side is not summed, what has a short one not masked."""


@pytest.mark.parametrize(("scheme", "split"), sorted(REFUSED))
def test_a_family_that_does_not_fit_the_split_is_refused(scheme, split):
    D = table(120, 9, condition=1e2)
    with pytest.raises(ConfigError):
        FederatedLinearRegression(split=split, masks=Masks(scheme=scheme)).fit(parts(D, split), labels(D, targets=1))


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize(
    ("scheme", "split"),
    [(scheme, split) for scheme in SCHEMES for split in SPLITS if (scheme, split) not in REFUSED],
)
def test_every_scheme_trust_and_split_gives_the_twin(scheme, split, trust, alpha):
    D = table(120, 9, condition=1e2)
    y = labels(D, targets=2)
    regression = FederatedLinearRegression(alpha, split=split, masks=Masks(scheme=scheme, trust=trust))
    assert_equal(regression.fit(parts(D, split), y), D, y, twin(D, y, alpha))
    assert regression.rank_ == 9


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("targets", [None, 1, 3])
@pytest.mark.parametrize("split", SPLITS)
def test_shapes_follow_those_of_y(split, targets, fit_intercept):
    D = table(40, 6, condition=10.0)
    y = labels(D, targets)
    regression = FederatedLinearRegression(split=split, fit_intercept=fit_intercept).fit(parts(D, split), y)
    reference = twin(D, y, fit_intercept=fit_intercept)
    assert_equal(regression, D, y, reference)
    for X in (D, parts(D, split)):
        predicted = regression.predict(X)
        assert predicted.shape == y.shape
        assert_close(predicted, reference.predict(D), digits_lost(6))
        assert regression.score(X, y) == pytest.approx(reference.score(D, y), abs=RESULT_BAR)


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("split", SPLITS)
def test_it_does_not_matter_how_the_table_is_divided(split, division, alpha):
    D = table(50, 12, condition=1e3)
    y = labels(D)
    regression = FederatedLinearRegression(alpha, split=split).fit(parts(D, split, DIVISIONS[division]), y)
    assert_equal(regression, D, y, twin(D, y, alpha))


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("split", SPLITS)
def test_the_least_norm_where_rank_is_lost(split, fit_intercept, alpha):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((60, 5)) * [1e-2, 1.0, 1.0, 1e2, 1.0]
    D = np.hstack([D, D[:, :3] @ rng.standard_normal((3, 2)), np.full((60, 2), 3.0)])
    y = labels(D, targets=2)
    regression = FederatedLinearRegression(alpha, split=split, fit_intercept=fit_intercept).fit(parts(D, split), y)
    assert_equal(regression, D, y, twin(D, y, alpha, fit_intercept))
    if alpha == 0.0:
        assert regression.rank_ == np.linalg.matrix_rank(D - D.mean(axis=0) if fit_intercept else D)


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("split", SPLITS)
def test_a_constant_column_has_no_coefficient_and_spoils_no_other(split, alpha):
    D = table(60, 6, condition=10.0)
    D[:, 3] = 7.0
    y = labels(D)
    regression = FederatedLinearRegression(alpha, split=split).fit(parts(D, split), y)
    assert regression.coef_[3] == 0.0
    assert_equal(regression, D, y, twin(D, y, alpha))
    if split == "vertical":  # each party counts its own columns
        assert [party.constant_ for party in regression.parties_] == [(3,), (), ()]
    else:
        assert [party.constant_ for party in regression.parties_] == [(3,)] * 3


@pytest.mark.parametrize("split", SPLITS)
def test_more_features_than_samples(split):
    D = np.random.default_rng(1).standard_normal((15, 40))
    y = labels(D)
    regression = FederatedLinearRegression(split=split).fit(parts(D, split), y)
    assert_equal(regression, D, y, twin(D, y))
    assert regression.rank_ == 14


@pytest.mark.parametrize("split", SPLITS)
def test_a_small_column_beside_its_ridge_spoils_no_other(split):
    D = np.random.default_rng(4).standard_normal((60, 4)) * [1e-8, 1e-4, 1.0, 1.0]
    y = labels(D)
    regression = FederatedLinearRegression(0.5, split=split).fit(parts(D, split, (0.5, 0.5)), y)
    expected = twin(D, y, 0.5).coef_[2:]
    np.testing.assert_allclose(regression.coef_[2:], expected, rtol=RESULT_BAR)


def test_each_party_holds_its_own_coefficients_when_features_are_split():
    D = table(50, 7, condition=10.0)
    y, held = labels(D), parts(D, "vertical")
    regression = FederatedLinearRegression(split="vertical").fit(held, y)
    assert [party.coef_.shape for party in regression.parties_] == [(D_i.shape[1],) for D_i in held]
    np.testing.assert_array_equal(np.concatenate([party.coef_ for party in regression.parties_]), regression.coef_)
    assert {float(party.intercept_) for party in regression.parties_} == {float(regression.intercept_)}


@pytest.mark.parametrize("holder", [0, 1, 2])
def test_any_party_may_hold_the_labels(holder):
    D = table(50, 7, condition=10.0)
    y, held = labels(D), parts(D, "vertical")
    regression = FederatedLinearRegression(split="vertical", label_party=holder).fit(held, y)
    assert regression.plan_.label_user == holder + 1
    assert_equal(regression, D, y, twin(D, y))
    assert_close(regression.predict(held), twin(D, y).predict(D), digits_lost(5))


def test_the_last_party_holds_the_labels_unless_another_is_named():
    D = table(50, 7)
    assert FederatedLinearRegression(split="vertical").fit(parts(D, "vertical"), labels(D)).plan_.label_user == 3
    with pytest.raises(ConfigError, match="label_party is 3"):
        FederatedLinearRegression(split="vertical", label_party=3).fit(parts(D, "vertical"), labels(D))


@pytest.mark.parametrize("targets", [None, 2])
def test_labels_may_come_one_array_per_party_when_samples_are_split(targets):
    D = table(50, 4, condition=10.0)
    y, held = labels(D, targets), parts(D, "horizontal")
    edges = np.cumsum([len(D_i) for D_i in held])[:-1]
    regression = FederatedLinearRegression().fit(held, np.split(y, edges))
    assert_equal(regression, D, y, twin(D, y))
    assert regression.score(held, np.split(y, edges)) == pytest.approx(twin(D, y).score(D, y), abs=RESULT_BAR)


def test_a_federated_prediction_runs_a_session_of_its_own(monkeypatch):
    from fedsvd.estimators import base

    D = table(50, 7, condition=10.0)
    y, held = labels(D), parts(D, "vertical")
    regression = FederatedLinearRegression(split="vertical").fit(held, y)
    tasks = []
    run = base.run_stages
    monkeypatch.setattr(
        base, "run_stages", lambda study, *args, **kw: tasks.append(study.task) or run(study, *args, **kw)
    )
    regression.predict(D)
    assert tasks == []
    regression.predict(held)
    assert tasks == ["predict"]


def test_wrong_labels_are_refused():
    D = table(20, 4)
    y, held = labels(D), parts(D, "horizontal")
    fit = FederatedLinearRegression().fit
    with pytest.raises(ShapeError, match="19 labels for 20 samples"):
        fit(held, y[:-1])
    with pytest.raises(ShapeError, match="labels for"):
        fit(held, [y[:1], y[1:3], y[3:]])
    with pytest.raises(ShapeError, match="different numbers of targets"):
        fit(held, [y[:12], y[12:14], y[14:, None]])
    with pytest.raises(ValueError, match="dim 3"):
        fit(held, y[:, None, None])
    with pytest.raises(ValueError, match="requires y to be passed"):
        fit(held, None)
    with pytest.raises(ValueError, match="y contains NaN"):
        fit(held, np.where(np.arange(20) == 3, np.nan, y))


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, "much"])
def test_a_wrong_alpha_is_refused(alpha):
    with pytest.raises(ConfigError, match="alpha is"):
        FederatedLinearRegression(alpha).fit([np.eye(3), np.eye(3)], np.arange(6.0))


def test_missing_entries_are_refused_with_their_place():
    D = table(20, 4)
    D[3, 2] = np.nan
    with pytest.raises(NotFinite, match=r"party 2.*row 1, column 2"):
        FederatedLinearRegression().fit([D[:2], D[2:]], labels(np.nan_to_num(D)))
