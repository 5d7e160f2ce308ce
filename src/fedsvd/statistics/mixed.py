"""Linear mixed models: a party's own clusters at some effects and variances, by which all parties add up.

    y = X b + Z u + e,  cov(u) = G,  cov(e) = s2 I,  V = s2 I + Z G Z^T for each cluster

A cluster, a person or a clinic, lies in one party, so the log-likelihood is a sum over clusters of all parties. All of
it follows from a few numbers of each cluster, with q random effects a cluster (Woodbury):

    M = (s2 I + G Z^T Z)^-1 G          V^-1 = (I - Z M Z^T) / s2
    log |V| = (n - q) log s2 + log |s2 I + R G R|,  R R = Z^T Z

so that an evaluation is one product with the rows and small matrices of all clusters at once: O(n p + c q^2 (p + q^2)).
``D_u`` is the derivative of V by a parameter: I for s2, else ``Z E_u Z^T`` with the derivative E_u of G
(``mixed_covariance.py``).

A restricted likelihood adds ``-log |A| / 2`` with ``A = sum X^T V^-1 X`` of all parties. Once A is public, with its
inverse C, the slope of that term is a sum over clusters too: ``tr(C X^T V^-1 D_u V^-1 X) / 2``.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.statistics.mixed_covariance import Variances
from fedsvd.statistics.records import largest_of
from fedsvd.types import Float

LOG_2_PI = math.log(2.0 * math.pi)
_FEW = 1e-10  # of the largest eigenvalue: directions that a cluster does not have


@dataclass(frozen=True, repr=False)
class MixedParts:
    """A party's own part at a point; parts of parties add up."""

    deviance: float  # -2 log likelihood
    score: Float  # (p + v,): of the effects, then of the variances
    information: Float | None  # (p + v, p + v)


@dataclass(frozen=True, repr=False)
class _At:
    """What all clusters have at some variances; c clusters, leading axis."""

    s2: float
    E: Float  # (v - 1, q, q)
    bends: Float | None
    M: Float  # (c, q, q)
    free: Float  # (c, q, q): I - M Z^T Z, so that V^-1 Z = Z free / s2
    log_det: float
    omega: Float  # (c, q, q): Z^T V^-1 Z
    XWZ: Float  # (c, p, q): X^T V^-1 Z


@dataclass(frozen=True, repr=False)
class _Restricted:
    """By the public inverse C of the joint ``X^T V^-1 X``, own traces."""

    two: float  # tr(C X^T V^-2 X)
    three: float  # tr(C X^T V^-3 X)
    inner: Float  # (c, q, q): Z^T V^-1 X C X^T V^-1 Z
    squared: Float  # (q, q): Z^T V^-2 X C X^T V^-1 Z over all clusters


class Clusters:
    """A party's own records in clusters: rows of X and Z, outcomes, and a code of the cluster for each row."""

    def __init__(self, X: Float, Z: Float, y: Float, codes: Float) -> None:
        order = np.argsort(codes, kind="stable")
        self.rows: NDArray[np.intp] = order
        self.X, self.Z, self.y = X[order], Z[order], y[order]
        sorted_codes = codes[order]
        new = np.concatenate(([True], sorted_codes[1:] != sorted_codes[:-1]))
        self.first = np.flatnonzero(new)
        self.counts = np.diff(np.concatenate((self.first, [len(y)])))
        self.n, self.p, self.q = len(y), X.shape[1], Z.shape[1]
        self.ZtZ = self._sums(self.Z[:, :, None] * self.Z[:, None, :])
        self.ZtX = self._sums(self.Z[:, :, None] * self.X[:, None, :])
        self.XtX: Float = self.X.T @ self.X
        values, vectors = np.linalg.eigh(self.ZtZ)
        self._root = np.einsum("cij,cj,ckj->cik", vectors, np.sqrt(np.maximum(values, 0.0)), vectors)

    def __len__(self) -> int:
        return len(self.first)

    def _sums(self, of_rows: Float) -> Float:
        """Of each cluster."""
        found: Float = np.add.reduceat(of_rows, self.first, axis=0)
        return found

    def at(self, point: Variances) -> _At | None:
        """All clusters at these variances; None where a V is not positive definite."""
        s2, G, q = point.s2, point.G, self.q
        if not (s2 > 0.0 and math.isfinite(s2) and np.isfinite(G).all()):
            return None
        values = s2 + np.linalg.eigvalsh(self._root @ G @ self._root) if q else np.zeros((len(self), 0))
        if not (values > 0.0).all():
            return None
        log_det = float((self.counts - q).sum()) * math.log(s2) + float(np.log(values).sum())
        M = np.linalg.solve(s2 * np.eye(q) + G @ self.ZtZ, np.broadcast_to(G, self.ZtZ.shape))
        M = (M + M.transpose(0, 2, 1)) / 2.0
        free = np.eye(q) - M @ self.ZtZ
        XWZ = self.ZtX.transpose(0, 2, 1) @ free / s2
        return _At(s2, point.E, point.bends, M, free, log_det, self.ZtZ @ free / s2, XWZ)

    # --- likelihood -----------------------------------------------------------------------------------------------

    def evaluate(
        self, effects: Float, point: Variances, information: bool, expected: bool, C: Float | None = None
    ) -> MixedParts | None:
        """Deviance, score and information, expected or the curvature itself; None where V is not positive definite.

        ``C``: of a restricted likelihood, whose own part is then in the score and in the curvature.
        """
        at = self.at(point)
        if at is None:
            return None
        e = self.y - self.X @ effects
        Me = np.einsum("cij,cj->ci", at.M, self._sums(self.Z * e[:, None]))
        We = (e - np.einsum("ij,ij->i", self.Z, np.repeat(Me, self.counts, axis=0))) / at.s2
        f = self._sums(self.Z * We[:, None])  # Z^T V^-1 e
        deviance = self.n * LOG_2_PI + at.log_det + float(e @ We)
        restricted = None if C is None else self._restricted(at, C)
        residual = float(We @ We) - (self.n - float(np.einsum("cij,cji->", at.M, self.ZtZ))) / at.s2
        slope = f.T @ f - at.omega.sum(axis=0)  # twice the slope by G
        if restricted is not None:
            residual += restricted.two
            slope = slope + restricted.inner.sum(axis=0)
        moved = np.einsum("uij,ij->u", at.E, slope)
        score = np.concatenate((self.X.T @ We, 0.5 * np.concatenate(([residual], moved))))
        if not information:
            return MixedParts(deviance, score, None)
        if expected:
            return MixedParts(deviance, score, self._expected(at))
        matrix = self._curvature(at, We, f)
        p = self.p
        if restricted is not None:
            matrix[p:, p:] += self._restricted_curvature(at, restricted)
        if at.bends is not None:
            matrix[p + 1 :, p + 1 :] -= 0.5 * np.einsum("uwij,ij->uw", at.bends, slope)
        return MixedParts(deviance, score, matrix)

    def _gram(self, at: _At) -> Float:
        """X^T V^-1 X."""
        within = np.einsum("cqi,cqr,crj->ij", self.ZtX, at.M, self.ZtX, optimize=True)
        found: Float = (self.XtX - within) / at.s2
        return (found + found.T) / 2.0

    def _squared(self, at: _At) -> Float:
        """X^T V^-2 X."""
        MN = at.M @ self.ZtX
        inside = np.einsum("cqi,cqr,crj->ij", MN, self.ZtZ, MN, optimize=True)
        within = np.einsum("cqi,cqj->ij", self.ZtX, MN, optimize=True)
        found: Float = (self.XtX - within - within.T + inside) / at.s2**2
        return (found + found.T) / 2.0

    def _expected(self, at: _At) -> Float:
        """Of the variances ``tr(V^-1 D_u V^-1 D_w) / 2``."""
        p, v = self.p, 1 + len(at.E)
        MA = at.M @ self.ZtZ
        own = self.n - 2.0 * float(np.trace(MA, axis1=1, axis2=2).sum()) + float(np.einsum("cij,cji->", MA, MA))
        psi = (at.free.transpose(0, 2, 1) @ self.ZtZ @ at.free).sum(axis=0) / at.s2**2  # Z^T V^-2 Z
        found = np.zeros((p + v, p + v))
        found[:p, :p] = self._gram(at)
        found[p, p] = 0.5 * own / at.s2**2
        found[p, p + 1 :] = found[p + 1 :, p] = 0.5 * np.einsum("uij,ij->u", at.E, psi)
        found[p + 1 :, p + 1 :] = 0.5 * _pairs(at, at.omega, at.omega)
        return found

    def _curvature(self, at: _At, We: Float, f: Float) -> Float:
        """Minus the second derivatives of the log-likelihood."""
        p, found = self.p, self._expected(at)
        Mf = np.einsum("cij,cj->ci", at.M, f)
        WWe = (We - np.einsum("ij,ij->i", self.Z, np.repeat(Mf, self.counts, axis=0))) / at.s2
        f2 = self._sums(self.Z * WWe[:, None])  # Z^T V^-2 e
        found[p:, p:] *= -1.0
        found[p, p] += float(We @ WWe)
        both = np.einsum("uij,ij->u", at.E, f2.T @ f)
        found[p, p + 1 :] += both
        found[p + 1 :, p] += both
        found[p + 1 :, p + 1 :] += _pairs(at, at.omega, f[:, :, None] * f[:, None, :])
        found[:p, p] = self.X.T @ WWe
        cross = at.XWZ.transpose(1, 2, 0).reshape(p * self.q, len(f)) @ f
        found[:p, p + 1 :] = np.einsum("pij,uij->pu", cross.reshape(p, self.q, self.q), at.E)
        found[p:, :p] = found[:p, p:].T
        return found

    # --- restricted likelihood ------------------------------------------------------------------------------------

    def _restricted(self, at: _At, C: Float) -> _Restricted:
        CXWZ = C @ at.XWZ
        inner = at.XWZ.transpose(0, 2, 1) @ CXWZ
        XWWZ = (at.XWZ - at.XWZ @ at.M @ self.ZtZ) / at.s2
        two = float((C * self._squared(at)).sum())
        # V^-3 = (V^-2 - V^-1 Z M Z^T V^-1) / s2
        three = (two - float(np.einsum("cij,cji->", at.M, inner))) / at.s2
        squared = np.einsum("cpi,cpj->ij", XWWZ, CXWZ, optimize=True)
        return _Restricted(two, three, inner, squared)

    def _restricted_curvature(self, at: _At, own: _Restricted) -> Float:
        """``tr(C X^T V^-1 D_u V^-1 D_w V^-1 X)``, (v, v): what is a sum of the curvature of the determinant."""
        v = 1 + len(at.E)
        found = np.zeros((v, v))
        found[0, 0] = own.three
        found[0, 1:] = found[1:, 0] = np.einsum("uij,ij->u", at.E, own.squared)
        found[1:, 1:] = _pairs(at, at.omega, own.inner)
        return found

    def slopes(self, point: Variances) -> Float | None:
        """X^T V^-1 X and X^T V^-1 D_u V^-1 X, (1 + v, p, p): by them a determinant moves with the variances."""
        at = self.at(point)
        if at is None:
            return None
        found = np.zeros((2 + len(at.E), self.p, self.p))
        found[0], found[1] = self._gram(at), self._squared(at)
        for u, E in enumerate(at.E, start=2):
            found[u] = np.einsum("cpi,cri->pr", at.XWZ @ E, at.XWZ, optimize=True)
        return (found + found.transpose(0, 2, 1)) / 2.0

    # --- at home --------------------------------------------------------------------------------------------------

    def residual(self) -> tuple[float, int]:
        """Squares of the outcomes that Z leaves in each cluster by itself, and their degrees of freedom."""
        Zty = self._sums(self.Z * self.y[:, None])
        inverse = np.linalg.pinv(self.ZtZ, rcond=_FEW, hermitian=True)
        ranks = np.linalg.matrix_rank(self.ZtZ, tol=None, hermitian=True)
        taken = float(np.einsum("ci,cij,cj->", Zty, inverse, Zty, optimize=True))
        return max(float(self.y @ self.y) - taken, 0.0), self.n - int(np.sum(ranks))

    def predicted(self, effects: Float, point: Variances) -> tuple[Float, Float, Float]:
        """Predictions of the random effects, (c, q), their covariances given the outcomes, (c, q, q), and fitted values
        of the rows with them, in the order given."""
        at = self.at(point)
        assert at is not None
        e = self.y - self.X @ effects
        u = np.einsum("cij,cj->ci", at.M, self._sums(self.Z * e[:, None]))
        inner = self.X @ effects + np.einsum("ij,ij->i", self.Z, np.repeat(u, self.counts, axis=0))
        fitted = np.empty(self.n)
        fitted[self.rows] = inner
        return u, at.s2 * at.M, fitted

    def leverage(self, point: Variances, root: Float) -> float:
        """The largest part of a cluster in the own X^T V^-1 X, whose inverse is ``root root^T``.

        The trace bounds the largest eigenvalue, and is enough where it is small.
        """
        at = self.at(point)
        if at is None:
            return math.inf
        turned, N = self.X @ root, self.ZtX @ root
        lengths = self._sums(np.einsum("ij,ij->i", turned, turned))
        traces = (lengths - np.einsum("cqi,cqr,cri->c", N, at.M, N, optimize=True)) / at.s2

        def part(c: int) -> Float:
            rows = turned[self.first[c] : self.first[c] + self.counts[c]]
            return np.asarray((rows.T @ rows - N[c].T @ at.M[c] @ N[c]) / at.s2)

        return largest_of(traces, part)


def _pairs(at: _At, left: Float, right: Float) -> Float:
    """The sum over clusters of tr(E_u left E_w right), symmetric, (v - 1, v - 1)."""
    c, q = len(left), left.shape[1]
    products = (left.reshape(c, q * q).T @ right.reshape(c, q * q)).reshape(q, q, q, q)
    found: Float = np.einsum("uij,wkl,jkli->uw", at.E, at.E, products, optimize=True)
    return (found + found.T) / 2.0
