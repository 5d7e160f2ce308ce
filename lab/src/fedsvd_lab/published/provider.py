"""What the CSP does with the sum of all shares: keep X' and factorise it, or fold ``[X' y']`` and solve (step 3).

X' that fits the memory four times is factorised whole. Of a longer one all vectors come from its triangular factor and
a second pass over the store, in which V'^T takes the place of X'; the top r come by block Krylov. The store is laid out
for this reading: the third of the paper's optimisations, advanced offloading, which ``storage`` may take away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsvd.errors import StorageError
from fedsvd.linalg.dense_svd import dense_svd, known_part, least_squares, rank
from fedsvd.linalg.operators import PanelOperator
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.linalg.truncated_svd import truncated_svd
from fedsvd.linalg.two_pass import two_pass_svd
from fedsvd.linalg.verify import verify_svd, verify_truncated
from fedsvd.storage.block_store import Access, BlockStore, choose_store
from fedsvd.types import Float
from fedsvd_lab.published.setting import Setting

Storage = Callable[[tuple[int, int], Access, int], BlockStore]  # shape, access, budget in bytes
_TOLERANCE = 1e-12


def stored_in(scratch: Path | None) -> Storage:
    """A store in memory where the budget holds it, else laid out for its reading in this folder."""
    return lambda shape, access, budget: choose_store(shape, access, budget, scratch)


@dataclass(frozen=True, repr=False)
class Factors:
    """U' (m, r), S' (r,), and V'^T where it lies: in memory, or in the first r rows of the store."""

    U: Float
    sigma: Float
    residual: float
    Vt: Float | None = None
    store: BlockStore | None = None

    def rows(self, columns: slice) -> Float:
        """These columns of V'^T."""
        if self.Vt is not None:
            return self.Vt[:, columns]
        assert self.store is not None
        return np.asarray(self.store.read(slice(0, len(self.sigma)), columns))


@dataclass(frozen=True, repr=False)
class Solution:
    """w' (N, targets), its rank and its residual."""

    w: Float
    rank: int
    residual: float


class Kept:
    """X' in a store; and its factor, where X' is too long to be factorised whole and all of it is asked for."""

    def __init__(self, setting: Setting, storage: Storage) -> None:
        m, N, memory = setting.m, setting.N, setting.memory
        self._setting = setting
        self._fits = 8 * 4 * m * N <= memory
        self._folded = None if self._fits or setting.components is not None else StreamingFactor(m)
        if self._folded is not None and (m > N or 8 * 6 * m * m > memory):
            raise StorageError(
                f"a full SVD of {m} x {N} does not fit a memory budget of {memory} bytes",
                "ask for a number of components, or allow more memory",
            )
        self.store = storage((m, N), Access.BY_COLUMNS, memory // 2)

    def take(self, panel: int, Y: Float) -> None:
        """A panel of columns into its place."""
        columns = slice(0, self._setting.N) if self._setting.whole else self._setting.right[panel].outputs
        if self._folded is not None:
            self._folded.update_columns(Y)
        self.store.write(slice(0, self._setting.m), columns, Y)

    def factorise(self) -> Factors:
        """The SVD of X', verified."""
        if self._fits:
            return self._whole()
        return self._two_passes() if self._folded is not None else self._top()

    def _whole(self) -> Factors:
        m, N = self.store.shape
        A = np.array(self.store.read(slice(0, m), slice(0, N)))
        U, sigma, Vt = known_part(dense_svd(A), m, N)
        residual = verify_svd(A, U, sigma, Vt).residual
        r = min(rank(sigma, m, N), self._setting.components or m)
        self.store.close()
        return Factors(U[:, :r], sigma[:r], residual, Vt[:r])

    def _two_passes(self) -> Factors:
        assert self._folded is not None
        m, N = self.store.shape
        places = [window.outputs for window in self._setting.right]
        found = two_pass_svd(self._folded.factor(), _Columns(self.store), places, (m, N), m)
        return Factors(found.V, found.sigma, found.quality.residual, store=self.store)

    def _top(self) -> Factors:
        (m, N), r = self.store.shape, self._setting.components or 1
        width = max(1, self._setting.memory // (8 * 8 * m))
        operator = PanelOperator((m, N), lambda: self.store.panels(1, width))
        # Columns from all over X': from one block of Q alone the iteration could miss what is elsewhere.
        start = np.linspace(0, N - 1, min(max(r + 8, 32), m, N)).round().astype(int).tolist()
        columns = np.concatenate([self.store.read(slice(0, m), slice(at, at + 1)) for at in start], axis=1)
        found = truncated_svd(operator, r, columns, tolerance=_TOLERANCE)
        residual = verify_truncated(operator, found.U, found.sigma, found.Vt, _TOLERANCE).residual
        self.store.close()
        return Factors(found.U, found.sigma, residual, found.Vt)


class _Columns:
    """The columns of a store as the rows of the long side."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store

    def read(self, place: slice) -> Float:
        return np.asarray(self._store.read(slice(None), place)).T

    def write(self, place: slice, L: Float) -> None:
        self._store.write(slice(0, L.shape[1]), place, L.T)


class Folded:
    """``[X' y']`` of a regression, rows of which are folded into a triangular factor and dropped."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._factor = StreamingFactor(setting.N + setting.targets)

    def take(self, panel: int, Y: Float) -> None:
        """A panel of rows."""
        self._factor.update(Y)

    def solve(self) -> Solution:
        """w' of least norm, verified."""
        R, N = self._factor.factor(), self._setting.N
        found = least_squares(R[:, :N], R[:, N:], self._setting.m, N)
        return Solution(found.w, found.rank, found.residual)
