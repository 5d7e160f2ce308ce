"""scikit-learn's own checks of an estimator: all of them, on all estimators, on both splits."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedsvd import FederatedCCA, FederatedLinearRegression, FederatedLSA, FederatedPCA, FederatedPCR, FederatedSVD

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
    FederatedLinearRegression(split="vertical"),
    FederatedLinearRegression(alpha=0.1, scheme="sum", trust="authority"),
    FederatedLinearRegression(alpha=0.1, scheme="paper"),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)
