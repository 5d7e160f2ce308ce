"""The estimators of task lr as results are loaded: with a ridge that was chosen or not, whole or one party's part."""

from typing import Any

from fedsvd.estimators.base import Federated, only_a_part
from fedsvd.estimators.linear_regression import FederatedLinearRegression
from fedsvd.estimators.ridge_cv import FederatedRidgeCV
from fedsvd.protocol.plan import SessionPlan
from fedsvd.types import Float


class PartOfLinearRegression(FederatedLinearRegression):
    """One party's coefficients of a regression on split columns: not to be applied alone."""

    def predict(self, X: Any) -> Float:
        """Refused: a prediction is the sum over all parties."""
        raise only_a_part("coefficients")


class PartOfRidgeCV(FederatedRidgeCV):
    """The same of a ridge that was chosen."""

    def predict(self, X: Any) -> Float:
        """Refused: a prediction is the sum over all parties."""
        raise only_a_part("coefficients")


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    if plan.alphas:
        return FederatedRidgeCV, PartOfRidgeCV
    return FederatedLinearRegression, PartOfLinearRegression
