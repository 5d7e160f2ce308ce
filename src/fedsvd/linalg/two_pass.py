"""The thin SVD of a matrix with one long side that does not fit in memory: two passes over its panels.

B (long x short) has been read once, into its triangular factor R (``streaming_factor``). From R follow sigma and the
vectors V of the short side. Those of the long side, ``L = B V S^-1``, are made panel by panel and take the place of
the panels they are made of: no second matrix of that size, on disk or in memory. As it is, L loses orthogonality like
eps S_1 / S_r (4e-5 at condition 1e12), so where that matters a second pass puts it right, ``L C^-T`` with
``L^T L = C C^T``: it divides what the first pass wrote, for a product made anew would have rounding of its own.

Nothing is compared with what the solver says: along with the passes run a few probes, ``B omega`` against
``L S V^T omega`` and ``L^T L psi`` against psi, and the result is refused beyond the bounds of ``verify``.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from fedsvd.linalg import backend
from fedsvd.linalg.dense_svd import corrected, correction, dense_svd, needs_correction, rank
from fedsvd.linalg.verify import Quality, bounds, probes, verify_orthonormal, within
from fedsvd.types import Float


class Rows(Protocol):
    """The long side in panels of rows: read as B, written over as L, whose rows may be shorter."""

    def read(self, place: slice) -> Float: ...

    def write(self, place: slice, L: Float) -> None: ...


class TwoPass(NamedTuple):
    """sigma (r,) and V (short, r); L lies where B was, in the first r columns."""

    sigma: Float
    V: Float
    quality: Quality

    def __repr__(self) -> str:
        return f"TwoPass(short={self.V.shape[0]}, r={self.sigma.shape[0]})"


def two_pass_svd(R: Float, rows: Rows, places: Sequence[slice], shape: tuple[int, int], most: int) -> TwoPass:
    """At most ``most`` triplets of the B whose factor is R, as many as its rank in a matrix of ``shape``."""
    _, sigma, Vt = dense_svd(R)
    found = rank(sigma, *shape)
    kept = min(found, most)
    return long_side(sigma[:kept], Vt[:kept].T, backend.norm(R), rows, places, cut=kept < found)


def long_side(sigma: Float, V: Float, size: float, rows: Rows, places: Sequence[slice], *, cut: bool = True) -> TwoPass:
    """The vectors of the long side for these of the short one; ``size`` is B's norm, ``cut`` whether there are more."""
    long = places[-1].stop
    check = Probed(sigma, V, long, cut=cut)
    G = _over(rows, places, check.applied(V / sigma))
    if needs_correction(sigma):
        C_t = correction(G)
        check.again()
        _over(rows, places, check.corrects(C_t), gram=False)
    residual = check.error / math.sqrt(check.count) / size if size > 0 else check.error
    orthogonality = max(check.orthogonality(), verify_orthonormal(V) if len(sigma) else 0.0)
    return TwoPass(sigma, V, within(Quality(residual, orthogonality), bounds(long, V.shape[0], len(sigma))))


def _over(rows: Rows, places: Sequence[slice], step: Callable[[slice, Float], Float], *, gram: bool = True) -> Float:
    """One pass that writes ``step`` of every panel in its place; the Gram matrix of what was written, if asked for.

    Of the Gram matrix only the upper triangle is promised.
    """
    G: Float | None = None
    for place in places:
        L = step(place, rows.read(place))
        rows.write(place, L)
        if gram:
            G = backend.add_gram(G, L.T, spent=True)
    return np.empty((0, 0)) if G is None else G


class Probed:
    """Products of B and of L with a few fixed vectors, as the panels pass."""

    def __init__(self, sigma: Float, V: Float, long: int, cut: bool) -> None:
        self._omega, self._psi = probes(V, V.shape[0]), probes(V, V.shape[1])
        if cut:  # of the top triplets B V = L S is what can be asked
            self._omega = V @ (V.T @ self._omega)
        self.count = self._omega.shape[1]
        self._expected = sigma[:, None] * (V.T @ self._omega)
        self._B_omega = np.empty((long, self.count))  # eight numbers a row, of B's hundreds
        self._kept = V.shape[1]
        self.again()

    def again(self) -> None:
        """Forget what was measured of an L that is about to be put right."""
        self.error = 0.0
        self._turned = np.zeros((self._kept, self.count))

    def applied(self, W: Float) -> Callable[[slice, Float], Float]:
        """The first pass: ``L = B W``."""

        def step(place: slice, B: Float) -> Float:
            backend.matmul(B, self._omega, self._B_omega[place])
            return self.measured(place, backend.matmul(B, W))

        return step

    def corrects(self, C_t: Float) -> Callable[[slice, Float], Float]:
        """The second: ``L C^-T``."""

        def step(place: slice, written: Float) -> Float:
            L = written[:, : self._kept]
            return self.measured(place, corrected(C_t, L.T).T)

        return step

    def measured(self, place: slice, L: Float) -> Float:
        self.error = math.hypot(self.error, backend.norm(self._B_omega[place] - backend.matmul(L, self._expected)))
        self._turned += backend.matmul(L.T, backend.matmul(L, self._psi))
        return L

    def orthogonality(self) -> float:
        """``||L^T L psi - psi||`` for one probe, on average: ``||L^T L - I||_F`` for entries of unit variance."""
        return backend.norm(self._turned - self._psi) / math.sqrt(self.count)
