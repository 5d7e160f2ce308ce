"""Haar-random orthogonal matrices as Householder reflectors: draw, apply, apply transposed.

Algorithm 1 of the paper orthogonalises a Gaussian matrix. Here the reflectors of that factorisation are drawn
directly (Stewart 1980): column k of the Gaussian matrix, after the earlier reflectors, is again Gaussian of
length n - k, so n (n + 1) / 2 normals and no factorisation give

    Q = H_0 H_1 ... H_{n-1} D,    H_k = I - tau_k v_k v_k^T,    D = diag(+-1),

with D the signs that make the diagonal of R positive. Without D the law is not Haar. Products run blocked, at
the cost of one GEMM with the explicit matrix, which is formed only on request.

Products with Householder reflectors: LAPACK's on NumPy, compact WY by the array standard elsewhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy

from fedsvd.errors import ConfigError
from fedsvd.linalg.backend import check_info, gram, like, matmul, namespace, solve_triangular
from fedsvd.linalg.foreign import aligned, subtract_product
from fedsvd.linalg.pools import available, small_work
from fedsvd.types import Array, Each, Float, expect_shape

_WY = 256  # reflectors per compact-WY product off NumPy
LONGEST_CALL = 1e10  # multiplications in one call of ormqr, about half a second: between calls Ctrl-C is heard
NARROWEST = 256  # columns in one call of ormqr
_ORMQR_BLOCK = 64  # reflectors that LAPACK applies by one product, at most


def reflect(V: Array, tau: Array, X: Array, *, side: str, transposed: bool) -> Array:
    """X times ``H = H_1 ... H_k`` (or its transpose), ``H_j = I - tau_j v_j v_j^T``, from the given side.

    Column j of V holds v_j in LAPACK's form: zeros above row j, one at row j, neither stored. X is not changed.
    """
    xp = namespace(V, X)
    if xp is np:
        return _ormqr(V, tau, X, side, transposed)
    if side == "R":
        flipped = reflect(V, tau, xp.matrix_transpose(X), side="L", transposed=not transposed)
        return xp.matrix_transpose(flipped)
    X = xp.asarray(X, copy=True)
    reflect_over(V, X, transposed=transposed)
    return X


def reflect_over(V: Array, X: Array, *, transposed: bool) -> None:
    """``H X``, or ``H^T X``, over X, which is not NumPy's; tau follows from V."""
    xp, k = namespace(V, X), V.shape[1]
    starts = list(range(0, k, _WY))
    for start in starts if transposed else reversed(starts):
        _compact_wy(xp, V[:, start : min(start + _WY, k)], start, X, transposed)


def _compact_wy(xp: Any, V: Array, start: int, X: Array, transposed: bool) -> None:
    """One product with ``I - W T W^T``; T^-1 is the upper triangle of ``W^T W`` with its diagonal halved."""
    rows, k = V.shape[0] - start, V.shape[1]
    W = xp.tril(V[start:, :], k=-1) + xp.eye(rows, k, dtype=V.dtype, device=V.device)
    G = xp.matrix_transpose(W) @ W
    T_inverse = xp.triu(G) - 0.5 * (G * xp.eye(k, dtype=G.dtype, device=G.device))
    Z = solve_triangular(T_inverse, xp.matrix_transpose(W) @ X[start:, :], transposed=transposed)
    subtract_product(X[start:, :], W, Z)


def _ormqr(V: Float, tau: Float, X: Float, side: str, transposed: bool) -> Float:
    if X.size == 0 or V.shape[1] == 0:
        return X.copy()
    if not X.flags.f_contiguous:
        return _ormqr(V, tau, np.ascontiguousarray(X).T, "R" if side == "L" else "L", not transposed).T
    other = X.shape[1] if side == "L" else X.shape[0]
    width = max(NARROWEST, int(LONGEST_CALL / (4.0 * V.size)) // 64 * 64)
    if other <= width:
        return ormqr_at_once(V, tau, X, side, transposed)
    # The same numbers in pieces, so that an interruption does not wait for all of them.
    reflected = np.empty_like(X)
    for start in range(0, other, width):
        piece = np.s_[:, start : start + width] if side == "L" else np.s_[start : start + width, :]
        reflected[piece] = ormqr_at_once(V, tau, X[piece], side, transposed)
    return reflected


def ormqr_at_once(V: Float, tau: Float, X: Float, side: str, transposed: bool) -> Float:
    other = X.shape[1] if side == "L" else X.shape[0]
    lwork = max(1, other) * _ORMQR_BLOCK + 65 * 64
    # Each product inside has a block of reflectors only: threads that are woken for those of a small X spin in between.
    with small_work(2.0 * _ORMQR_BLOCK * X.size):
        reflected, _, info = scipy.linalg.lapack.dormqr(side, "T" if transposed else "N", V, tau, X, lwork)
    check_info("ormqr", info)
    return np.asarray(reflected)


Normals = Callable[[int], Array]  # a count to that many standard normals, in memory or on a device
_IN_THREADS = 128  # reflectors per product of one thread
_LEAST_PIECE = 48  # columns of one thread
WORTH_THREADS = 2.0**26  # multiplications
REFLECTORS = 1024  # reflectors kept together; half of the square below the last block is never stored


class FromTheLeft(ABC):
    """An orthogonal matrix that is applied from the left, and through transposes from the right."""

    @abstractmethod
    def left(self, X: Array) -> Array:
        """``Q X``."""

    @abstractmethod
    def left_t(self, X: Array) -> Array:
        """``Q^T X``."""

    def right(self, X: Array) -> Array:
        """``X Q``."""
        xp = namespace(X)
        return xp.matrix_transpose(self.left_t(xp.matrix_transpose(X)))

    def right_t(self, X: Array) -> Array:
        """``X Q^T``."""
        xp = namespace(X)
        return xp.matrix_transpose(self.left(xp.matrix_transpose(X)))


@dataclass(frozen=True, repr=False)
class Reflectors(FromTheLeft):
    """An orthogonal n x n matrix ``Q = (H_0 ... H_{n-1}) D``, never stored as such.

    Where only the first columns of Q matter, the reflectors after them are left out.
    """

    n: int
    blocks: tuple[tuple[Array, Array], ...]  # (V, tau), rows from the block's first reflector on
    signs: Array

    def __repr__(self) -> str:
        return f"Reflectors(n={self.n})"

    def left(self, X: Array, each: Each | None = None) -> Array:
        """``Q X``; ``each`` brings threads to NumPy's."""
        expect_shape("X", X, self.n, X.shape[1])
        return self._from_left(self.signs[:, None] * X, transposed=False, each=each)

    def right_t(self, X: Array, each: Each | None = None) -> Array:
        """``X Q^T``, likewise."""
        xp = namespace(X)
        return xp.matrix_transpose(self.left(xp.matrix_transpose(X), each))

    def left_t(self, X: Array) -> Array:
        """``Q^T X``."""
        expect_shape("X", X, self.n, X.shape[1])
        return self.signs[:, None] * self._from_left(X, transposed=True)

    def explicit(self) -> Array:
        """The matrix itself, (n, n)."""
        xp = namespace(self.signs)
        return self.left(xp.eye(self.n, dtype=self.signs.dtype, device=self.signs.device))

    def _from_left(self, X: Array, transposed: bool, each: Each | None = None) -> Array:
        order = [(k * REFLECTORS, block) for k, block in enumerate(self.blocks)]
        xp = namespace(X)
        if xp is not np:
            return self._there(X, transposed)
        if float(self.n) * self.n * X.shape[1] >= WORTH_THREADS:
            pieces = min(available(), X.shape[1] // _LEAST_PIECE) if each is not None else 1
            return self._by_products(X, transposed, each or map, max(1, pieces))
        for start, (V, tau) in order if transposed else reversed(order):
            if start == 0:
                X = reflect(V, tau, X, side="L", transposed=transposed)
            else:
                below = reflect(V, tau, X[start:, :], side="L", transposed=transposed)
                X = xp.concat((X[:start, :], below), axis=0)
        return X

    def _by_products(self, X: Float, transposed: bool, each: Each, pieces: int) -> Float:
        """The same, some columns to each thread, by products with ``I - W T W^T`` of some reflectors at a time.

        LAPACK forms T by vectors, which takes one thread as long as its part of the product. Columns that are zero in
        all rows of a block are left out: of ``Q R``, R upper triangular, these are a third of all operations.
        """
        blocks = [
            (k * REFLECTORS + first, V[first:, first : first + _IN_THREADS])
            for k, (V, _) in enumerate(self.blocks)
            for first in range(0, V.shape[1], _IN_THREADS)
        ]
        begins = _first_columns(X, [start for start, _ in blocks]) if not transposed else [0] * len(blocks)
        order: list[Any] = [None] * len(blocks)

        def inverted(number: int) -> None:
            order[number] = *blocks[number], begins[number], _inverse_of_t(blocks[number][1])

        for _ in each(inverted, range(len(blocks))):
            pass
        lying: Literal["C", "F"] = "F" if X.flags.f_contiguous else "C"
        rows = [self.n - start for start, _ in blocks]
        ends = _shares(list(zip(rows, begins, strict=True)), X.shape[1], pieces)
        reflected = np.empty(X.shape, order=lying)

        def piece(number: int) -> None:
            first, last = ends[number], ends[number + 1]
            Y = np.array(X[:, first:last], order=lying)
            for start, W, begin, T_inverse in order if transposed else reversed(order):
                if begin >= last:
                    continue
                part = Y[start:, max(begin - first, 0) :]
                Z = solve_triangular(T_inverse, matmul(W.T, part), transposed=transposed)
                matmul(W, np.negative(Z, out=Z), part, add=True)
            reflected[:, first:last] = Y

        for _ in each(piece, range(pieces)):
            pass
        return reflected

    def _there(self, X: Array, transposed: bool) -> Array:
        """The same on a device, over one copy of X: it may be as large as a third of the memory there."""
        order = [(k * REFLECTORS, V) for k, (V, _) in enumerate(self.blocks)]
        copied = aligned(namespace(X), X)
        for start, V in order if transposed else reversed(order):
            reflect_over(V, copied[start:, :], transposed=transposed)
        return copied[:, : X.shape[1]]


def _first_columns(X: Float, starts: list[int]) -> list[int]:
    """For each of these rows the first column that is not zero there or below."""
    nonzero = X != 0.0
    leading = np.where(nonzero.any(axis=1), nonzero.argmax(axis=1), X.shape[1])
    found: list[int] = np.minimum.accumulate(leading[::-1])[::-1][starts].tolist()
    return found


def _shares(blocks: list[tuple[int, int]], columns: int, pieces: int) -> list[int]:
    """Where the columns of each thread end, for as much work each; a block is its rows and its first column."""
    work = np.zeros(columns)
    for rows, begin in blocks:
        work[begin:] += rows
    done = np.cumsum(work) / max(float(work.sum()), 1.0)
    inner = np.searchsorted(done, np.arange(1, pieces) / pieces)
    return [0, *inner.tolist(), columns]


def _inverse_of_t(W: Float) -> Float:
    """``T^-1`` of ``I - W T W^T``: the upper triangle of ``W^T W`` with its diagonal halved."""
    inverse: Float = np.triu(gram(W.T))
    inverse[np.diag_indices_from(inverse)] *= 0.5
    return inverse


def draw(n: int, normals: Normals, on: Array | None = None, *, columns: int | None = None) -> Reflectors:
    """A Haar-random orthogonal matrix from n (n + 1) / 2 normals; in the library and on the device of ``on``.

    Normals that come in memory are moved there as reflectors.

    With ``columns`` given, only that many first columns have the law of a Haar matrix's, and cost normals.
    """
    k = n if columns is None else columns
    if not 1 <= k <= n:
        raise ConfigError(f"an orthogonal matrix needs n >= 1 and 1 to n columns, got n={n} and {k} columns")
    drawn = [_draw_block(n - start, min(REFLECTORS, k - start), normals) for start in range(0, k, REFLECTORS)]
    blocks = tuple((V, tau) for V, tau, _ in drawn)
    signs = [block_signs for _, _, block_signs in drawn]
    xp = namespace(signs[0])
    joined = xp.concat((*signs, xp.ones((n - k,), dtype=signs[0].dtype, device=signs[0].device)))
    if on is not None and xp is np:
        return Reflectors(n, tuple((like(V, on), like(tau, on)) for V, tau in blocks), like(joined, on))
    return Reflectors(n, blocks, joined)


def _draw_block(rows: int, k: int, normals: Normals) -> tuple[Array, Array, Array]:
    """k reflectors of lengths rows, rows - 1, ..., with the sign fix of each; where the normals lie."""
    drawn = normals(k * rows - k * (k - 1) // 2)
    if not isinstance(drawn, np.ndarray):
        return _block_there(rows, k, drawn)
    Vt = np.zeros((k, rows))  # row j becomes column j of V: the transpose is LAPACK's Fortran order
    Vt[np.arange(rows) >= np.arange(k)[:, None]] = drawn
    length = np.sqrt(np.einsum("ij,ij->i", Vt, Vt))
    head = Vt[np.arange(k), np.arange(k)]
    # v = x + sign(x_0) |x| e_0 never cancels; H x = -sign(x_0) |x| e_0, so D carries the minus.
    sign = np.where(head < 0, -1.0, 1.0)
    pivot = head + sign * length
    Vt /= pivot[:, None]
    Vt[np.arange(k), np.arange(k)] = 1.0  # which LAPACK does not read
    return Vt.T, pivot * sign / length, -sign


def _block_there(rows: int, k: int, drawn: Array) -> tuple[Array, Array, Array]:
    """The same on a device: normals are picked by their places, row j of V^T from its j-th entry on."""
    xp, on = namespace(drawn), drawn.device
    row, column = xp.arange(k, device=on)[:, None], xp.arange(rows, device=on)[None, :]
    # Row j begins after j rows of rows, rows - 1, ... normals; places left of the diagonal are set to zero below.
    place = row * rows - (row * (row + 1)) // 2 + column
    place = xp.where(place < 0, xp.zeros_like(place), place)
    picked = xp.reshape(xp.take(drawn, xp.reshape(place, (-1,)), axis=0), (k, rows))
    Vt = xp.where(column >= row, picked, xp.zeros_like(picked))
    length, head = xp.linalg.vector_norm(Vt, axis=1), xp.linalg.diagonal(Vt)
    sign = xp.where(head < 0, -xp.ones_like(head), xp.ones_like(head))
    pivot = head + sign * length
    return xp.matrix_transpose(Vt / pivot[:, None]), pivot * sign / length, -sign
