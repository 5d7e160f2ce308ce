"""The top-r SVD of a matrix too long on both sides to factorise whole: block Krylov, run until it has converged.

The matrix is used only through products with a block of columns, ``A @ B`` and ``A.T @ B``; each is one *pass* over
data that may lie on disk, so passes are what is counted and saved. The method is block Golub-Kahan bidiagonalisation
with full reorthogonalisation: orthonormal V and U grow block by block, with

    A V = U H,      A^T U = V H^T + V_next R E^T      (E: the last block of U)

and from the SVD ``H = X diag(sigma) Yt`` follow triplets ``(U x, sigma, V y)`` whose residual is exactly
``||R x_last||``: known without a pass. The loop ends when the residuals of all r are below ``tolerance * sigma_1``;
there is no fixed number of sweeps. When the basis is full it restarts thick, from the best triplets and V_next, which
costs no pass either. There is no randomness here: the start block is an argument.
"""

from typing import Any, NamedTuple

from fedsvd.errors import ConfigError, NotConverged, NotFinite, ShapeError
from fedsvd.linalg import backend
from fedsvd.linalg.backend import EPS, namespace
from fedsvd.linalg.dense_svd import dense_svd, fits, rank
from fedsvd.linalg.operators import Operator, Transposed, as_operator
from fedsvd.types import Array

_GOLDEN = 0.6180339887498949
_CROWDED = 1e-4


class TruncatedSVD(NamedTuple):
    """The top triplets of A: U (m, k), sigma (k,) descending, Vt (k, n); k = r, or the rank of A where that is less.

    ``residuals`` (k,) are ``||(A v - sigma u, A^T u - sigma v)|| / sigma_1`` as the recurrence has them, that is, but
    for rounding; ``verify_truncated`` measures them on the matrix.
    """

    U: Array
    sigma: Array
    Vt: Array
    residuals: Array
    passes: int

    def __repr__(self) -> str:
        m, k, n = self.U.shape[0], self.sigma.shape[0], self.Vt.shape[1]
        return f"TruncatedSVD(m={m}, n={n}, k={k}, passes={self.passes})"


def truncated_svd(
    A: Any,
    r: int,
    start: Array,
    *,
    tolerance: float = 1e-12,
    basis: int | None = None,
    passes: int = 300,
    block: int | None = None,
) -> TruncatedSVD:
    """The r largest singular triplets of A, each with a residual of at most ``tolerance * sigma_1``.

    ``start`` (m, b) or (n, b), b >= r, is a block in general position: columns of A taken from all over it, or
    normals; on a square matrix it is read as columns. A block narrower than r would miss copies of an equal singular
    value, and no residual would show it. A few columns more than r converge faster. ``basis`` bounds the memory, in
    columns of (m + n) numbers. ``block`` columns of the start are used first, where that is fewer: half as many
    products for twice as many passes, and all of the start after all when the result shows that copies of a value may
    have been missed (``crowded``). Singular values at the level of rounding are cut with their vectors (``rank``), so
    that fewer than r triplets come back from a matrix of lower rank, and none from a zero matrix.
    """
    operator, b = as_operator(A), start.shape[1]
    m, n = operator.shape
    basis = max(r + 8 * b, 256) if basis is None else basis
    _check_request(m, n, r, start, basis, min(block or b, b))
    if basis * (m + n) >= m * n and fits(m, n):
        found = _whole(operator, r, start)
    else:
        from_left = bool(start.shape[0] == m)
        by_rows: Operator = Transposed(operator) if from_left else operator
        found = _narrow_first(by_rows, r, start, tolerance, basis, passes, block or b)
        found = _transpose(found) if from_left else found
    k = rank(found.sigma, m, n)
    return TruncatedSVD(found.U[:, :k], found.sigma[:k], found.Vt[:k, :], found.residuals[:k], found.passes)


def _check_request(m: int, n: int, r: int, start: Array, basis: int, block: int) -> None:
    if not 1 <= r <= min(m, n):
        raise ConfigError(f"r = {r} triplets of a {m} x {n} matrix", f"choose r from 1 to {min(m, n)}")
    if len(start.shape) != 2 or start.shape[0] not in (m, n):
        raise ShapeError(f"start block has shape {tuple(start.shape)}, expected ({m}, b) or ({n}, b)")
    if start.shape[1] < r:
        raise ConfigError(f"a start block of {start.shape[1]} columns for r = {r}", f"give at least {r} columns")
    if basis < r + 4 * block:
        raise ConfigError(f"basis = {basis} columns", f"at least r + 4 b = {r + 4 * block}")


def _whole(A: Operator, r: int, like: Array) -> TruncatedSVD:
    """Through the dense SVD, in one pass: a basis as large as the matrix itself saves no memory."""
    xp = namespace(like)
    m, n = A.shape
    identity = xp.eye(min(m, n), dtype=like.dtype, device=like.device)
    dense = A.matmul(identity) if n <= m else xp.matrix_transpose(A.rmatmul(identity))
    U, sigma, Vt = dense_svd(dense)
    U, sigma, Vt = U[:, :r], sigma[:r], Vt[:r, :]
    scale = sigma[0] if float(sigma[0]) > 0 else 1.0
    right = (dense @ xp.matrix_transpose(Vt) - U * sigma) / scale
    left = (xp.matrix_transpose(dense) @ U - xp.matrix_transpose(Vt) * sigma) / scale
    residuals = xp.hypot(xp.linalg.vector_norm(right, axis=0), xp.linalg.vector_norm(left, axis=0))
    return TruncatedSVD(U, sigma, Vt, residuals, passes=1)


def _transpose(svd: TruncatedSVD) -> TruncatedSVD:
    xp = namespace(svd.U)
    return svd._replace(U=xp.matrix_transpose(svd.Vt), Vt=xp.matrix_transpose(svd.U))


def _narrow_first(
    A: Operator, r: int, start: Array, tolerance: float, basis: int, passes: int, block: int
) -> TruncatedSVD:
    """From the first ``block`` columns of the start, and from all of them where that may have missed something."""
    spent = 0
    if block < start.shape[1]:
        found = _krylov(A, r, start[:, :block], tolerance, basis, passes)
        if found.sigma.shape[0] == r and not crowded(found.sigma, block):
            return found
        spent = found.passes
    found = _krylov(A, r, start, tolerance, max(basis, r + 4 * start.shape[1]), passes)
    return found._replace(passes=spent + found.passes)


def crowded(sigma: Array, b: int) -> bool:
    """Whether b of these values lie within 1e-4 of the largest from each other, so that there may be more such.

    A start block of b columns in general position finds as many copies of an equal value as there are, up to b: fewer
    than b are all of them. Values that differ by so little count as equal, for they would not come apart in time.
    """
    if sigma.shape[0] < b:
        return False
    last = sigma.shape[0] - b + 1
    return bool(namespace(sigma).any(sigma[:last] - sigma[b - 1 :] <= _CROWDED * sigma[0]))


def _krylov(A: Operator, r: int, start: Array, tolerance: float, basis: int, passes: int) -> TruncatedSVD:
    """The top triplets from a start block of right vectors, (n, b)."""
    xp = namespace(start)
    space = _KrylovSpace(A, start, basis, level=max(tolerance / 100, 16 * EPS))
    reached = float("inf")
    while space.passes + 2 <= passes:
        X, sigma, Yt, residuals = space.extend()
        k = min(r, sigma.shape[0])
        reached = float(xp.max(residuals[:k])) if k else 0.0
        if space.exhausted or (k == r and reached <= tolerance):
            U = backend.matmul(space.left.columns, X[:, :k])
            Vt = backend.matmul(Yt[:k, :], xp.matrix_transpose(space.right.columns[:, : Yt.shape[1]]))
            return TruncatedSVD(U, sigma[:k], Vt, residuals[:k], space.passes)
        if space.full:
            # Half of the basis, with space for four blocks to build up in, and a block more than r: of 1500 x 2000
            # with singular values i^-0.01, keeping r alone takes more than 400 passes where this takes 60.
            b = start.shape[1]
            space.restart(X, sigma, Yt, keep=max(r + b, min(basis // 2, basis - 4 * b)))
    raise NotConverged(
        f"{space.passes} passes reached a residual of {reached:.1e} sigma_1, asked for {tolerance:.1e}",
        "allow more passes, a larger basis or a wider start block",
    )


class _KrylovSpace:
    """Orthonormal V and U with ``A V = U H``; of V, the last block, ``tail``, is still to be multiplied."""

    def __init__(self, A: Operator, start: Array, basis: int, level: float) -> None:
        (m, n), b = A.shape, start.shape[1]
        self._A, self._basis, self._sigma_1 = A, basis, 0.0
        self.passes = 0
        self.left = _Columns(start, m, min(m, basis), level)
        self.right = _Columns(start, n, min(n, basis), level)
        self.right.absorb(start, 0.0)
        self.right.absorb(_chirps(start, min(b, n) - self.right.count), 0.0)
        self.tail = self.right.columns
        self._H = self.tail[:0, :0]

    @property
    def exhausted(self) -> bool:
        """Whether V is invariant: nothing is left to multiply, and every triplet is exact."""
        return bool(self.tail.shape[1] == 0)

    @property
    def full(self) -> bool:
        return bool(self.right.count + self.tail.shape[1] > self._basis)

    def extend(self) -> tuple[Array, Array, Array, Array]:
        """Two passes, one more block on either side; then the SVD ``X, sigma, Yt`` of H and all residuals."""
        xp = namespace(self.tail)
        C, R = self.left.absorb(_finite(self._A.matmul(self.tail)), self._sigma_1)
        self._H = _bordered(self._H, C, R)
        new = self.left.columns[:, C.shape[0] :]
        known = self.right.count
        # An empty block, once U spans the range of A, is not worth a pass.
        Z = _finite(self._A.rmatmul(new)) if new.shape[1] else self.right.columns[:, :0]
        self.passes += 2 if new.shape[1] else 1
        _, R = self.right.absorb(Z, self._sigma_1)
        self.tail = self.right.columns[:, known:]
        X, sigma, Yt = dense_svd(self._H)
        self._sigma_1 = float(sigma[0]) if sigma.shape[0] else 0.0
        # Divided first: squares of entries near 1e-200 would vanish, and with them the residual.
        residuals = xp.linalg.vector_norm((R / (self._sigma_1 or 1.0)) @ X[C.shape[0] :, :], axis=0)
        return X, sigma, Yt, residuals

    def restart(self, X: Array, sigma: Array, Yt: Array, keep: int) -> None:
        """Keep the ``keep`` best triplets and the tail: V, U shrink, H is diagonal, nothing is recomputed."""
        xp = namespace(sigma)
        keep = min(keep, sigma.shape[0])
        tail = xp.asarray(self.tail, copy=True)
        self.left.rotate(X[:, :keep])
        self.right.rotate(xp.matrix_transpose(Yt[:keep, :]))
        self.right.append(tail)
        self.tail = self.right.columns[:, self.left.count :]
        self._H = sigma[:keep] * xp.eye(keep, dtype=sigma.dtype, device=sigma.device)


class _Columns:
    """Orthonormal columns in a store of fixed size, so that growing copies nothing."""

    def __init__(self, like: Array, rows: int, capacity: int, level: float) -> None:
        self._store = namespace(like).empty((rows, capacity), dtype=like.dtype, device=like.device)
        self._level = level
        self.count = 0

    @property
    def columns(self) -> Array:
        return self._store[:, : self.count]

    def append(self, Q: Array) -> None:
        self._store[:, self.count : self.count + Q.shape[1]] = Q
        self.count += Q.shape[1]

    def rotate(self, Y: Array) -> None:
        """The columns become ``columns @ Y``; those beyond the rows of Y are forgotten."""
        rotated = backend.matmul(self._store[:, : Y.shape[0]], Y)
        self.count = 0
        self.append(rotated)

    def absorb(self, W: Array, scale: float) -> tuple[Array, Array]:
        """``W = columns C + new R``, with the new columns appended; what is below the level of scale is dropped.

        The second projection comes after the new columns have been normalised: a short remainder is mostly rounding
        in the direction of the old columns, and only at full length can that be seen and removed.
        """
        xp = namespace(W)
        Q = self.columns
        Qt = xp.matrix_transpose(Q)
        C = backend.matmul(Qt, W)
        New, R = backend.qr(W - backend.matmul(Q, C))
        X, s, Yt = dense_svd(R)
        largest = max(scale, float(s[0])) if s.shape[0] else 0.0
        kept = min(int(xp.count_nonzero(s > self._level * largest)), Q.shape[0] - Q.shape[1])
        New, R = backend.matmul(New, X[:, :kept]), s[:kept, None] * Yt[:kept, :]
        D = backend.matmul(Qt, New)
        New, S = _renormalised(New - backend.matmul(Q, D))
        self.append(New)
        return C + D @ R, S @ R


def _renormalised(Q: Array) -> tuple[Array, Array]:
    """``Q = New S`` for columns that are orthonormal but for a correction: there, and only there, Cholesky is safe."""
    xp = namespace(Q)
    Qt = xp.matrix_transpose(Q)
    S = backend.cholesky(backend.gram(Qt)) if Q.shape[1] else None
    if S is None:
        return backend.qr(Q)
    return xp.matrix_transpose(backend.solve_triangular(S, Qt, transposed=True)), S


def _bordered(H: Array, C: Array, R: Array) -> Array:
    """``[[H, C], [0, R]]``."""
    xp = namespace(C)
    zero = xp.zeros((R.shape[0], H.shape[1]), dtype=H.dtype, device=H.device)
    return xp.concat((xp.concat((H, C), axis=1), xp.concat((zero, R), axis=1)), axis=0)


def _chirps(like: Array, count: int) -> Array:
    """``count`` fixed columns that look like noise; they stand in where the start block is rank deficient.

    Columns of a low-rank matrix, or empty ones, make such a block. Nothing here is secret, so this is not randomness.
    """
    xp = namespace(like)
    t = xp.arange(1, like.shape[0] + 1, dtype=like.dtype, device=like.device)
    rate = xp.arange(1, count + 1, dtype=like.dtype, device=like.device) * _GOLDEN
    return xp.cos((t * t)[:, None] * rate[None, :])


def _finite(W: Array) -> Array:
    if not bool(namespace(W).all(namespace(W).isfinite(W))):
        raise NotFinite("the matrix has NaN or infinite entries", "remove or fill them before factorising")
    return W
