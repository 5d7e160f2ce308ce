"""FederatedPCR against scikit-learn's pipeline of PCA and linear regression, and statsmodels on the joint scores."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.tolerances import FITTED_BAR, RESULT_BAR, STATISTIC_BAR, assert_close, assert_each_close

from fedsvd import FederatedPCR, Masks
from fedsvd.errors import ConfigError, ConstantData

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def joint(rows=240, seed=1, targets=1):
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 7)) + 0.3 * rng.normal(size=(rows, 7)) + np.arange(7.0)
    Y = D @ rng.normal(size=(7, targets)) + rng.normal(size=(rows, targets)) + 50.0
    return D, Y[:, 0] if targets == 1 else Y


def parted(D):
    return np.split(D, [len(D) // 4, len(D) // 3])


def twin(n_components, unit_variance=False):
    first = [StandardScaler()] if unit_variance else []
    return make_pipeline(*first, PCA(n_components, svd_solver="full"), LinearRegression())


@pytest.mark.parametrize("n_components", [1, 3, 7, 0.9, "mle"])
@pytest.mark.parametrize("unit_variance", [False, True])
def test_predictions_and_coefficients_are_those_of_the_pipeline(n_components, unit_variance):
    D, y = joint()
    found = FederatedPCR(n_components, unit_variance=unit_variance).fit(parted(D), parted(y))
    expected = twin(n_components, unit_variance).fit(D, y)
    pca, lr = expected[-2], expected[-1]
    assert found.n_components_ == pca.n_components_
    assert_close(found.predict(D), expected.predict(D), FITTED_BAR)
    scale = D.std(axis=0) if unit_variance else 1.0
    assert_close(found.coef_, lr.coef_ @ pca.components_ / scale, RESULT_BAR)
    assert_close(found.components_, pca.components_, RESULT_BAR)
    assert_each_close(found.score(parted(D), parted(y)), expected.score(D, y), STATISTIC_BAR)


def test_the_table_of_the_components_is_that_of_statsmodels_on_the_joint_scores():
    D, y = joint()
    found = FederatedPCR(3).fit(parted(D), parted(y))
    (model,) = found.inference_
    theirs = sm.OLS(y, sm.add_constant(PCA(3, svd_solver="full").fit_transform(D))).fit()
    assert_each_close(model.coefficients, theirs.params, STATISTIC_BAR)
    assert_each_close(model.standard_errors, theirs.bse, STATISTIC_BAR)
    assert_each_close(model.p, theirs.pvalues, STATISTIC_BAR)
    assert_each_close([model.r2, model.f, model.aic], [theirs.rsquared, theirs.fvalue, theirs.aic], STATISTIC_BAR)
    assert "component 3" in str(found.summary())


def test_several_targets_on_very_different_scales_are_those_of_the_pipeline():
    D, Y = joint(targets=3)
    Y = Y * [1e-6, 1.0, 1e9]
    found = FederatedPCR(2).fit(parted(D), parted(Y))
    expected = twin(2).fit(D, Y)
    for k in range(3):
        assert_close(found.predict(D)[:, k], expected.predict(D)[:, k], FITTED_BAR)
    assert found.coef_.shape == (3, 7)


def test_constant_features_and_lost_rank_leave_fewer_components():
    D, y = joint()
    D[:, 2] = 4.0
    D[:, 3] = D[:, 1]
    found = FederatedPCR(7, unit_variance=True).fit(parted(D), parted(y))
    assert found.n_components_ == 5
    assert found.coef_[2] == 0.0
    assert_close(found.predict(D), LinearRegression().fit(D, y).predict(D), FITTED_BAR)
    with pytest.raises(ConstantData):
        FederatedPCR(1).fit([np.ones((20, 2)), np.ones((20, 2))], [y[:20], y[20:40]])


def test_a_grid_search_finds_what_it_finds_for_the_pipeline():
    D, y = joint()
    ours = GridSearchCV(FederatedPCR(), {"n_components": [1, 2, 3]}, cv=3).fit(D, y)
    theirs = GridSearchCV(twin(1), {"pca__n_components": [1, 2, 3]}, cv=3).fit(D, y)
    assert ours.best_params_["n_components"] == theirs.best_params_["pca__n_components"]
    assert_each_close(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], STATISTIC_BAR)
    assert_close(clone(ours.best_estimator_).fit(D, y).predict(D), ours.predict(D), RESULT_BAR)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_components": "parallel"}, "n_components is"),
        ({"n_components": 8}, "between 1 and 7"),
        ({"masks": Masks(mode="B")}, "which the parties open"),
        ({"masks": Masks(scheme="mask")}, "which the parties open"),
        ({"split": "vertical"}, "samples split over the parties"),
    ],
)
def test_what_cannot_be_computed_is_refused(options, words):
    D, y = joint()
    with pytest.raises(ConfigError, match=words):
        FederatedPCR(**options).fit(D, y)
