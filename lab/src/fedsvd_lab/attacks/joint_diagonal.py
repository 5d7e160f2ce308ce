"""The second route to P under block masks: joint diagonalisation of the Gram matrices of one row block.

``Y_J Y_J^T = P_a (X_J X_J^T) P_a^T`` for every column block J, because Q cancels. Where rows of the data rarely meet in
a block, as in sparse tables, all of these are close to diagonal in one basis, which is P_a's. Jacobi rotations look for
that basis (Cardoso and Souloumiac's angles), started from the eigenvectors of the mean, pairs that share no row turned
at once.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

_SWEEPS = 40
_SETTLED = 1e-6


def left_mask_of(Y_a: Float, columns: Sequence[slice], sweeps: int = _SWEEPS) -> Float:
    """``P_a^T`` up to the order and signs of its rows, from one row block of Y and where the column blocks lie."""
    grams = np.array([Y_a[:, block] @ Y_a[:, block].T for block in columns])
    norms = np.array([np.linalg.norm(gram) for gram in grams])
    grams = grams[norms > 0.0] / norms[norms > 0.0, None, None]  # blocks with more data say no more than others
    return jointly_diagonal(grams, sweeps)


def jointly_diagonal(grams: Float, sweeps: int = _SWEEPS) -> Float:
    """The orthogonal W for which ``W G W^T`` of a stack of symmetric matrices, (K, c, c), are nearest to diagonal."""
    c = grams.shape[1]
    W = np.linalg.eigh(grams.mean(axis=0))[1].T
    C = W @ grams @ W.T
    for _ in range(sweeps):
        turned = 0.0
        for p, q in _rounds(c):
            cosine, sine = _angles(C, p, q)
            turned = max(turned, float(np.abs(sine).max(initial=0.0)))
            _turn(C.transpose(1, 0, 2), p, q, cosine, sine)
            _turn(C.transpose(2, 0, 1), p, q, cosine, sine)
            _turn(W[:, None, :], p, q, cosine, sine)
        if turned < _SETTLED:
            break
    return W


def _angles(C: Float, p: NDArray[np.intp], q: NDArray[np.intp]) -> tuple[Float, Float]:
    """The rotation of each pair (p, q) that makes its entries off the diagonal smallest over all matrices."""
    apart, across = C[:, p, p] - C[:, q, q], C[:, p, q] + C[:, q, p]
    on = np.sum(apart * apart, axis=0) - np.sum(across * across, axis=0)
    off = 2.0 * np.sum(apart * across, axis=0)
    theta = 0.5 * np.arctan2(off, on + np.hypot(on, off))
    return np.cos(theta), np.sin(theta)


def _turn(lines: Float, p: NDArray[np.intp], q: NDArray[np.intp], cosine: Float, sine: Float) -> None:
    """Rotate lines p and q of the first axis, in place."""
    first, second = lines[p], lines[q]
    cosine, sine = cosine[:, None, None], sine[:, None, None]
    lines[p] = cosine * first + sine * second
    lines[q] = cosine * second - sine * first


def _rounds(c: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Every pair of c lines once, in rounds of pairs that share no line (a round-robin tournament)."""
    seats = list(range(c)) + ([-1] if c % 2 else [])
    half = len(seats) // 2
    for _ in range(len(seats) - 1):
        pairs = [(one, other) for one, other in zip(seats[:half], reversed(seats[half:]), strict=True)]
        drawn = np.array([pair for pair in pairs if -1 not in pair], dtype=np.intp).reshape(-1, 2)
        yield drawn[:, 0], drawn[:, 1]
        seats = [seats[0], seats[-1], *seats[1:-1]]
