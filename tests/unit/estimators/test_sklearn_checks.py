"""scikit-learn's own checks of an estimator: all of them, on all estimators, on both splits."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedsvd import (
    FederatedCCA,
    FederatedGLM,
    FederatedLinearRegression,
    FederatedLogisticRegression,
    FederatedLSA,
    FederatedPCA,
    FederatedPCR,
    FederatedRidgeCV,
    FederatedSVD,
)

# scikit-learn sets random_state to a number wherever there is one, and fits labels of 0 and 1; both warn.
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore::fedsvd.errors.DataWarning")

ESTIMATORS = [
    FederatedSVD(),
    FederatedSVD(split="vertical"),
    FederatedPCA(),
    FederatedPCA(n_components=1, unit_variance=True, n_parties=3),
    FederatedPCA(n_components=0.9),
    FederatedPCA(n_components=1, whiten=True),
    FederatedPCA(n_components="parallel", unit_variance=True),
    FederatedCCA(),
    FederatedPCR(unit_variance=True, n_parties=3),
    FederatedPCR(),
    FederatedLSA(n_components=1),
    FederatedLSA(n_components=1, split="vertical"),
    FederatedLinearRegression(),
    FederatedLinearRegression(inference=True, n_parties=3),
    FederatedLinearRegression(inference=True, cov_type="HC3"),
    FederatedRidgeCV(),
    FederatedRidgeCV([0.5, 2.0], choose_by="gcv", n_parties=3),
    FederatedLinearRegression(split="vertical"),
    FederatedLinearRegression(alpha=0.1, scheme="sum", trust="authority"),
    FederatedLinearRegression(alpha=0.1, scheme="paper"),
    FederatedGLM(),
    FederatedGLM("poisson", alpha=1.0, n_parties=3),
    FederatedLogisticRegression(alpha=1.0),
    FederatedLogisticRegression(alpha=1.0, multi_class="ovr", n_parties=3),
]


NO_WEIGHTS = "the paper's scheme has no weights"
LEFT_OUT = "to leave out one of two equal rows is another thing than to leave out one row of weight 2"
OF_WEIGHTS = (
    "check_sample_weights_shape",
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_not_overwritten",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def refused(estimator):
    """Checks of what an estimator refuses in words, with the reason."""
    if isinstance(estimator, FederatedRidgeCV):
        return dict.fromkeys(OF_WEIGHTS[-2:], LEFT_OUT)
    return dict.fromkeys(OF_WEIGHTS, NO_WEIGHTS) if getattr(estimator, "scheme", None) == "paper" else {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=refused)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)
