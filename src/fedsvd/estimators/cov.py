"""The covariance matrix of samples that several parties hold."""

from dataclasses import dataclass
from typing import Any, Self

from fedsvd.errors import ConfigError
from fedsvd.estimators.base import Federated
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.stored import Found
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedCovariance(Federated):
    """The covariance matrix over samples that stay with their parties, divided by n - 1.

    Parameters
    ----------
    split : {"horizontal"}, default="horizontal"
        Parties hold different samples of the same features.
    {parameters}

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
    location_ : ndarray of shape (n_features,)
    {attributes}
    """

    split: str = "horizontal"

    def fit(self, X: Any, y: None = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, each of shape (n_i, n_features), or one table
        y : None
            Ignored.

        Returns
        -------
        self
        """
        if self._between(Task.COV, X):
            return self
        tables, _ = self._tables(X)
        if tables.split is not Split.HORIZONTAL:
            raise ConfigError("a covariance matrix needs samples split over the parties", 'set split = "horizontal"')
        outcome = self._run(self._study(Task.COV, tables), tables.parties(), tables.rehearsed)
        self._store_run(outcome, tables)
        return self

    def _store(self, found: Found) -> None:
        pass


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedCovariance, FederatedCovariance
