"""The factors of a joint table, whichever way it is split: what FederatedSVD and FederatedLSA share.

For a table D, samples in rows, ``D = U_ diag(singular_values_) components_``. The protocol works on X, which is D
when features are split and D^T when samples are, so the factor that all parties share is ``U_`` in the first case and
``components_`` in the second; the other one lies with the parties, piece by piece. The shared factor decides signs.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fedsvd.estimators.tables import Tables
from fedsvd.estimators.transformer import FederatedTransformer, padded
from fedsvd.protocol.tasks import Split, Task
from fedsvd.roles.user.svd import FactorsResult
from fedsvd.types import Float

_BLOCK_ROWS = 4096


@dataclass(frozen=True, repr=False)
class PartyFactors:
    """After SVD or LSA. Split by rows, ``components_`` is shared and ``U_`` its own rows; by columns, the reverse."""

    U_: Float
    singular_values_: Float
    components_: Float

    def __repr__(self) -> str:
        return f"PartyFactors(U_={self.U_.shape}, components_={self.components_.shape})"


class FederatedFactors(FederatedTransformer):
    """An estimator that keeps U_, singular_values_ and components_."""

    def _fit(self, X: Any, task: Task, **asked: Any) -> None:
        tables, _ = self._tables(X)
        wanted = self._wanted(tables)
        components = None if self.n_components is None else wanted
        study = self._study(task, tables, components=components, **asked)
        outcome = self._run(study, tables.parties(), tables.rehearsed)
        self.plan_, self.certificate_ = outcome.plan, outcome.certificate
        self._keep(outcome.parties, tables, wanted)

    def _keep(self, results: tuple[FactorsResult, ...], tables: Tables, wanted: int) -> None:
        shared, by_rows = results[0], tables.split is Split.HORIZONTAL
        joined = np.concatenate([result.Vt_i for result in results], axis=1)
        U, Vt = (joined.T, shared.U.T) if by_rows else (shared.U, joined)
        self.rank_ = shared.rank
        # With full_matrices there are more vectors than were promised, and nothing to pad.
        self.U_ = padded(U, max(wanted, U.shape[1]), axis=1)
        self.components_ = padded(Vt, max(wanted, Vt.shape[0]), axis=0)
        self.singular_values_ = padded(shared.sigma, wanted, axis=0)
        self._explain(wanted == min(tables.n_samples, tables.n_features))

    def _explain(self, complete: bool) -> None:
        """Variances along the components; their sum is the table's only when none is left out."""
        self.explained_variance_ = np.zeros(len(self.components_))
        r = len(self.singular_values_)
        self.explained_variance_[:r] = _variances(self.U_[:, :r]) * self.singular_values_**2
        self.__dict__.pop("explained_variance_ratio_", None)
        if complete or self.rank_ < len(self.singular_values_):
            self.explained_variance_ratio_ = self.explained_variance_ / (self.explained_variance_.sum() or 1.0)

    @property
    def parties_(self) -> tuple[PartyFactors, ...]:
        """What each party would hold: views of the joint factors, so that they are kept and saved once."""
        self._expect_fitted()
        held = len(self.U_) if self.plan_.split is Split.HORIZONTAL else self.components_.shape[1]
        # Loaded from one party's folder, there is that party's piece alone.
        counts = self.plan_.counts if held == self.plan_.n else (held,) * (held > 0)
        edges = pairwise((0, *(int(edge) for edge in np.cumsum(counts))))
        return tuple(self._held(slice(*ends)) for ends in edges)

    def _held(self, own: slice) -> PartyFactors:
        by_rows = self.plan_.split is Split.HORIZONTAL
        kept = slice(0, None if self.plan_.full_matrices else self.rank_)
        rows, columns = (own, slice(None)) if by_rows else (slice(None), own)
        return PartyFactors(self.U_[rows, kept], self.singular_values_[kept], self.components_[kept, columns])

    def _embedded(self) -> Float:
        """The coordinates of the samples of ``fit``, ``U_ diag(singular_values_)``: one column per component."""
        coordinates = np.zeros((len(self.U_), len(self.components_)))
        r = len(self.singular_values_)
        np.multiply(self.U_[:, :r], self.singular_values_, out=coordinates[:, :r])
        return coordinates


def _variances(U: Float) -> Float:
    """The variance of every column, block by block: U may be as long as the data, and is not copied."""
    mean = U.mean(axis=0)
    blocks = (U[start : start + _BLOCK_ROWS] - mean for start in range(0, len(U), _BLOCK_ROWS))
    total: Float = sum((np.einsum("ij,ij->j", B, B) for B in blocks), start=np.zeros(U.shape[1]))
    return total / len(U)
