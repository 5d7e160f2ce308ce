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
    Masks,
    Simulation,
)

# scikit-learn fits labels of 0 and 1, and small tables; both warn.
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore::fedsvd.errors.DataWarning")

# One of each class and split for `make test`; what differs by an option alone runs in `make test-all`.
ESTIMATORS = [
    FederatedSVD(),
    FederatedSVD(split="vertical"),
    FederatedPCA(),
    FederatedCCA(),
    FederatedPCR(),
    FederatedLSA(n_components=1),
    FederatedLinearRegression(inference=True, federation=Simulation(parties=3)),
    FederatedLinearRegression(split="vertical"),
    FederatedRidgeCV(),
    FederatedGLM(),
    FederatedLogisticRegression(alpha=1.0),
]
WITH_OPTIONS = [
    FederatedPCA(n_components=1, unit_variance=True, federation=Simulation(parties=3)),
    FederatedPCA(n_components=0.9),
    FederatedPCA(n_components=1, whiten=True),
    # Its columns are permuted at random, and a second fit may choose another number, unless they are permuted alike.
    FederatedPCA(n_components="parallel", unit_variance=True, federation=Simulation(random_state=0)),
    FederatedPCR(unit_variance=True, federation=Simulation(parties=3)),
    FederatedLSA(n_components=1, split="vertical"),
    FederatedLinearRegression(),
    FederatedLinearRegression(inference=True, cov_type="HC3"),
    FederatedRidgeCV([0.5, 2.0], choose_by="gcv", federation=Simulation(parties=3)),
    FederatedLinearRegression(alpha=0.1, masks=Masks(scheme="sum", trust="authority")),
    FederatedGLM("poisson", alpha=1.0, federation=Simulation(parties=3)),
    FederatedLogisticRegression(alpha=1.0, multi_class="ovr", federation=Simulation(parties=3)),
]


LEFT_OUT = "to leave out one of two equal rows is another thing than to leave out one row of weight 2"
OF_WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def refused(estimator):
    """Checks of what an estimator refuses in words, with the reason."""
    if isinstance(estimator, FederatedRidgeCV):
        return dict.fromkeys(OF_WEIGHTS, LEFT_OUT)
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=refused)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(WITH_OPTIONS, expected_failed_checks=refused)
def test_scikit_learn_accepts_it_with_options(estimator, check):
    check(estimator)
