"""Linear mixed models: a party's own clusters at some effects and variances, by which all parties add up.

    y = X b + Z u + e,  cov(u) = G,  cov(e) = s2 I,  V = s2 I + Z G Z^T for each cluster

A cluster, a person or a clinic, lies in one party, so the log-likelihood is a sum over clusters of all parties.
Variances are taken as they are, not their logarithms or ratios, so that zero is an inner point of every formula: V may
be positive definite where G is not. All of it follows from a few numbers of each cluster, with q random effects a
cluster (Woodbury):

    M = (s2 I + G Z^T Z)^-1 G          V^-1 = (I - Z M Z^T) / s2
    log |V| = (n - q) log s2 + log |s2 I + R G R|,  R R = Z^T Z

so that an evaluation is one product with the rows and small matrices of all clusters at once: O(n p + c q^2 (p + q^2)).
``D_u`` is the derivative of V by a variance: I for s2, else ``Z E Z^T`` with E of one entry of G.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

LOG_2_PI = math.log(2.0 * math.pi)


def entries_of(q: int, correlated: bool) -> tuple[tuple[int, int], ...]:
    """Row and column of each entry of G that is a parameter: of its lower triangle, or of its diagonal."""
    rows, columns = np.tril_indices(q)
    return tuple((i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if correlated or i == j)


def covariance_of(variances: Float, q: int, correlated: bool = True) -> Float:
    """G, (q, q), from its entries after the residual variance."""
    G = np.zeros((q, q))
    for value, (i, j) in zip(variances[1:], entries_of(q, correlated), strict=True):
        G[i, j] = G[j, i] = value
    return G


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
    M: Float  # (c, q, q)
    free: Float  # (c, q, q): I - M Z^T Z, so that V^-1 Z = Z free / s2
    log_det: float
    omega: Float  # (c, q, q): Z^T V^-1 Z


class Clusters:
    """A party's own records in clusters: rows of X and Z, outcomes, and a code of the cluster for each row."""

    def __init__(self, X: Float, Z: Float, y: Float, codes: Float, correlated: bool = True) -> None:
        order = np.argsort(codes, kind="stable")
        self.rows: NDArray[np.intp] = order
        self.X, self.Z, self.y = X[order], Z[order], y[order]
        sorted_codes = codes[order]
        new = np.concatenate(([True], sorted_codes[1:] != sorted_codes[:-1]))
        self.first = np.flatnonzero(new)
        self.counts = np.diff(np.concatenate((self.first, [len(y)])))
        self.n, self.p, self.q = len(y), X.shape[1], Z.shape[1]
        self.correlated, self.entries = correlated, entries_of(self.q, correlated)
        self.v = 1 + len(self.entries)
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

    def at(self, variances: Float) -> _At | None:
        """All clusters at these variances; None where a V is not positive definite."""
        s2, G, q = float(variances[0]), covariance_of(variances, self.q, self.correlated), self.q
        if not (s2 > 0.0 and np.isfinite(variances).all()):
            return None
        turned = self._root @ G @ self._root
        values = s2 + np.linalg.eigvalsh(turned) if q else np.zeros((len(self), 0))
        if not (values > 0.0).all():
            return None
        log_det = float((self.counts - q).sum()) * math.log(s2) + float(np.log(values).sum())
        M = np.linalg.solve(s2 * np.eye(q) + G @ self.ZtZ, np.broadcast_to(G, self.ZtZ.shape))
        M = (M + M.transpose(0, 2, 1)) / 2.0
        free = np.eye(q) - M @ self.ZtZ
        return _At(s2, M, free, log_det, self.ZtZ @ free / s2)

    # --- likelihood -----------------------------------------------------------------------------------------------

    def evaluate(self, effects: Float, variances: Float, information: bool, expected: bool) -> MixedParts | None:
        """Deviance, score and information, expected or the curvature itself; None where V is not positive definite."""
        at = self.at(variances)
        if at is None:
            return None
        e = self.y - self.X @ effects
        Zte = self._sums(self.Z * e[:, None])
        Me = np.einsum("cij,cj->ci", at.M, Zte)
        We = (e - np.einsum("ij,ij->i", self.Z, np.repeat(Me, self.counts, axis=0))) / at.s2
        f = self._sums(self.Z * We[:, None])  # Z^T V^-1 e
        deviance = self.n * LOG_2_PI + at.log_det + float(e @ We)
        score = np.concatenate((self.X.T @ We, self._variance_score(at, We, f)))
        matrix = None
        if information:
            matrix = self._expected(at) if expected else self._curvature(at, We, f)
        return MixedParts(deviance, score, matrix)

    def _variance_score(self, at: _At, We: Float, f: Float) -> Float:
        trace = (self.n - float(np.einsum("cij,cji->", at.M, self.ZtZ))) / at.s2
        slope = f.T @ f - at.omega.sum(axis=0)
        return 0.5 * np.array([float(We @ We) - trace, *(slope[i, j] * (1 + (i != j)) for i, j in self.entries)])

    def _gram(self, at: _At) -> Float:
        """X^T V^-1 X."""
        within = np.einsum("cqi,cqr,crj->ij", self.ZtX, at.M, self.ZtX, optimize=True)
        found: Float = (self.XtX - within) / at.s2
        return (found + found.T) / 2.0

    def _traces(self, at: _At) -> Float:
        """tr(V^-1 D_u V^-1 D_v) / 2 over all clusters, (v, v)."""
        MA = at.M @ self.ZtZ
        squared = float(np.einsum("cij,cji->", MA, MA))
        found = np.zeros((self.v, self.v))
        found[0, 0] = (self.n - 2.0 * float(np.trace(MA, axis1=1, axis2=2).sum()) + squared) / at.s2**2
        psi = (at.free.transpose(0, 2, 1) @ self.ZtZ @ at.free).sum(axis=0) / at.s2**2  # Z^T V^-2 Z
        pairs = np.einsum("cij,ckl->ijkl", at.omega, at.omega)
        for u, (i, j) in enumerate(self.entries, start=1):
            found[0, u] = found[u, 0] = psi[i, j] * (1 + (i != j))
            for w, (k, m) in enumerate(self.entries, start=1):
                found[u, w] = _two(pairs, i, j, k, m)
        return found / 2.0

    def _expected(self, at: _At) -> Float:
        found = np.zeros((self.p + self.v, self.p + self.v))
        found[: self.p, : self.p] = self._gram(at)
        found[self.p :, self.p :] = self._traces(at)
        return found

    def _curvature(self, at: _At, We: Float, f: Float) -> Float:
        """Minus the second derivatives of the log-likelihood."""
        p, found = self.p, self._expected(at)
        Mf = np.einsum("cij,cj->ci", at.M, f)
        WWe = (We - np.einsum("ij,ij->i", self.Z, np.repeat(Mf, self.counts, axis=0))) / at.s2
        f2 = self._sums(self.Z * WWe[:, None])  # Z^T V^-2 e
        XWZ = self.ZtX.transpose(0, 2, 1) @ at.free / at.s2  # (c, p, q)
        cross = np.einsum("cpi,cj->pij", XWZ, f)
        squares, mixed = f2.T @ f, np.einsum("ci,cjk,cl->ijkl", f, at.omega, f, optimize=True)
        D = np.zeros((self.v, self.v))
        D[0, 0] = float(We @ WWe)
        found[:p, p] = found[p, :p] = self.X.T @ WWe
        for u, (i, j) in enumerate(self.entries, start=1):
            both = (i != j) * 1.0
            found[:p, p + u] = found[p + u, :p] = cross[:, i, j] + both * cross[:, j, i]
            D[0, u] = D[u, 0] = squares[i, j] + both * squares[j, i]
            for w, (k, m) in enumerate(self.entries, start=1):
                D[u, w] = _ends(mixed, i, j, k, m)
        found[p:, p:] = D - found[p:, p:]
        return found

    # --- restricted likelihood ------------------------------------------------------------------------------------

    def slopes(self, variances: Float) -> Float | None:
        """X^T V^-1 X and X^T V^-1 D_u V^-1 X, (1 + v, p, p): by them REML's determinant moves with the variances."""
        at = self.at(variances)
        if at is None:
            return None
        found = np.zeros((1 + self.v, self.p, self.p))
        MN = at.M @ self.ZtX
        inside = np.einsum("cqi,cqr,crj->ij", MN, self.ZtZ, MN, optimize=True)
        within = np.einsum("cqi,cqj->ij", self.ZtX, MN)
        found[0] = self._gram(at)
        found[1] = (self.XtX - within - within.T + inside) / at.s2**2
        XWZ = self.ZtX.transpose(0, 2, 1) @ at.free / at.s2
        for u, (i, j) in enumerate(self.entries, start=2):
            product = XWZ[:, :, i].T @ XWZ[:, :, j]
            found[u] = product if i == j else product + product.T
        return (found + found.transpose(0, 2, 1)) / 2.0

    def second_slopes(self, variances: Float) -> Float | None:
        """X^T V^-1 D_u V^-1 D_w V^-1 X for u <= w, symmetric parts, (v (v + 1) / 2, p, p): Satterthwaite's."""
        at = self.at(variances)
        if at is None:
            return None
        XWZ = self.ZtX.transpose(0, 2, 1) @ at.free / at.s2
        XWWZ = (XWZ - XWZ @ at.M @ self.ZtZ) / at.s2
        turned = self._three(at, XWZ)
        found = []
        ends = [(-1, -1), *self.entries]
        for u in range(self.v):
            for w in range(u, self.v):
                found.append(_second(turned, XWZ, XWWZ, at.omega, ends[u], ends[w]))
        return np.array([(each + each.T) / 2.0 for each in found])

    def _three(self, at: _At, XWZ: Float) -> Float:
        """X^T V^-3 X, by ``V^-3 = (V^-2 - V^-1 Z M Z^T V^-1) / s2``."""
        MN = at.M @ self.ZtX
        inside = np.einsum("cqi,cqr,crj->ij", MN, self.ZtZ, MN, optimize=True)
        within = np.einsum("cqi,cqj->ij", self.ZtX, MN)
        two = (self.XtX - within - within.T + inside) / at.s2**2
        found: Float = (two - np.einsum("cpi,cij,crj->pr", XWZ, at.M, XWZ, optimize=True)) / at.s2
        return found

    # --- at home --------------------------------------------------------------------------------------------------

    def predicted(self, effects: Float, variances: Float) -> tuple[Float, Float]:
        """Predictions of the random effects, (c, q), and fitted values of the rows with them, in the order given."""
        at = self.at(variances)
        assert at is not None
        e = self.y - self.X @ effects
        u = np.einsum("cij,cj->ci", at.M, self._sums(self.Z * e[:, None]))
        inner = self.X @ effects + np.einsum("ij,ij->i", self.Z, np.repeat(u, self.counts, axis=0))
        fitted = np.empty(self.n)
        fitted[self.rows] = inner
        return u, fitted

    def leverage(self, variances: Float, root: Float) -> float:
        """The largest part of a cluster in the own X^T V^-1 X, whose inverse is ``root root^T``.

        The trace bounds the largest eigenvalue, and is enough where it is small.
        """
        at = self.at(variances)
        if at is None:
            return math.inf
        turned, N = self.X @ root, self.ZtX @ root
        lengths = self._sums(np.einsum("ij,ij->i", turned, turned))
        traces = (lengths - np.einsum("cqi,cqr,cri->c", N, at.M, N, optimize=True)) / at.s2
        if not np.isfinite(traces).all():
            return math.inf
        largest = float(traces[traces <= _BY_TRACE].max(initial=0.0))
        for c in np.flatnonzero(traces > _BY_TRACE):
            rows = turned[self.first[c] : self.first[c] + self.counts[c]]
            part = (rows.T @ rows - N[c].T @ at.M[c] @ N[c]) / at.s2
            largest = max(largest, float(np.linalg.eigvalsh(part)[-1]))
        return largest


_BY_TRACE = 0.5  # a cluster whose trace is above is measured by its largest eigenvalue


def _two(pairs: Float, i: int, j: int, k: int, m: int) -> float:
    """tr(E omega E' omega) summed over clusters, for E of entry (i, j) and E' of entry (k, m)."""
    total = 0.0
    for a, b in {(i, j), (j, i)}:
        for c, d in {(k, m), (m, k)}:
            total += float(pairs[b, c, d, a])
    return total


def _ends(mixed: Float, i: int, j: int, k: int, m: int) -> float:
    """f^T E omega E' f summed over clusters."""
    total = 0.0
    for a, b in {(i, j), (j, i)}:
        for c, d in {(k, m), (m, k)}:
            total += float(mixed[a, b, c, d])
    return total


def _second(
    three: Float, XWZ: Float, XWWZ: Float, omega: Float, first: tuple[int, int], second: tuple[int, int]
) -> Float:
    """X^T V^-1 D V^-1 D' V^-1 X; the entry (-1, -1) stands for the residual variance."""
    if first[0] < 0 and second[0] < 0:
        return three
    p = XWZ.shape[1]
    found = np.zeros((p, p))
    if first[0] < 0:
        for a, b in {second, second[::-1]}:
            found += XWWZ[:, :, a].T @ XWZ[:, :, b]
        return found
    for a, b in {first, first[::-1]}:
        for c, d in {second, second[::-1]}:
            found += (XWZ[:, :, a] * omega[:, b, c][:, None]).T @ XWZ[:, :, d]
    return found
