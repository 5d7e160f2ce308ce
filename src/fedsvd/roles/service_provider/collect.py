"""Where the sum of the users' batches goes: kept whole, folded into a factor, or kept on disk (step 3).

A *keeper* takes panels of X' as they are completed. Short problems are kept whole. A matrix with one long side is
folded into a triangular factor and forgotten: O(M^2) memory, whatever the length. A matrix long on both sides goes to
a block store, laid out for the passes that truncated SVD makes over it.
"""

from typing import Protocol

import numpy as np

from fedsvd.errors import ConfigError, VerificationFailed
from fedsvd.linalg import backend
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.offload.block_store import BlockStore
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.upload import fits_folded, fits_whole, folds
from fedsvd.types import Float


class Keeper(Protocol):
    """Takes X' panel by panel."""

    def take(self, panel: int, X_masked: Float) -> None: ...


class Whole:
    """X' itself, (M, N), in a store that knows how it will be read."""

    def __init__(self, plan: SessionPlan, store: BlockStore) -> None:
        self._plan = plan
        self.store = store

    def take(self, panel: int, X_masked: Float) -> None:
        """A panel of columns into its place."""
        rows = slice(0, X_masked.shape[0])
        self.store.write(rows, self._plan.right_windows[panel].outputs, X_masked)


class Folded:
    """The triangular factor of X'^T, or of ``[X' y']`` where panels come by rows; the panels are forgotten.

    Beside the factor runs a probe, ``G omega`` for the Gram matrix G of everything taken in and a few fixed vectors
    omega. It costs nothing and finds a factor that has gone wrong without the data being there any more.
    """

    _PROBES = 2

    def __init__(self, width: int, by_rows: bool) -> None:
        self._factor = StreamingFactor(width)
        self._by_rows = by_rows
        angle = np.outer(np.arange(1, width + 1), np.arange(1, self._PROBES + 1)) ** 1.5
        self._omega = np.cos(angle)
        self._probe = np.zeros((width, self._PROBES))

    def take(self, panel: int, X_masked: Float) -> None:
        """Fold a panel in."""
        columns = X_masked.T if self._by_rows else X_masked
        self._factor.update_columns(columns)
        self._probe += columns @ (columns.T @ self._omega)

    def factor(self) -> Float:
        """R, once it agrees with the probe."""
        R = np.asarray(self._factor.factor())
        expected = R.T @ (R @ self._omega)
        scale = backend.norm(R) ** 2 * backend.norm(self._omega)
        error = backend.norm(expected - self._probe) / scale if scale > 0 else backend.norm(self._probe)
        if not error <= 1e-12:
            raise VerificationFailed(
                f"the folded factor disagrees with its probe by {error:.1e}", "nothing was released; run again"
            )
        return R


def expect_route(plan: SessionPlan) -> None:
    """Raise ``ConfigError`` where the CSP could not factorise within its budget."""
    folded = folds(plan) and (plan.by_rows or fits_folded(plan))
    if folded or fits_whole(plan) or plan.components is not None:
        return
    raise ConfigError(
        f"a full SVD of {plan.M} x {plan.N} does not fit a memory budget of {plan.memory} bytes",
        "ask for a number of components, or allow more memory",
    )
