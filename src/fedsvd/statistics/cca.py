"""Canonical correlations of split columns: each party orthonormalises locally, and the SVD runs on the stacked bases.

    X_i = Q_i R_i (centred),    [Q_1 ... Q_k] = U diag(s) [V_1 ... V_k]

For two parties ``s^2 = 1 + rho``: the canonical correlations are the leading s^2 - 1. For more, ``s^2`` is the sum over
parties of squared correlations of X_i with the common variable U (generalised CCA, MAXVAR), between 0 and k. A party
turns its own rows of V into weights of its own features; no party sees another's.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from fedsvd.errors import ConfigError, NumericalError, ShapeError
from fedsvd.statistics.distributions import chi2_tail, f_tail
from fedsvd.statistics.undefined import NO_FREEDOM, Number
from fedsvd.types import Float

_EPS = float(np.finfo(np.float64).eps)
_MOST_POWER = 1000  # of two: the inverse is in the range of float64, and so are sums of such numbers


@dataclass(frozen=True, repr=False)
class Basis:
    """A party's orthonormal basis Q, (rows, rank), of its centred columns, and what undoes it: ``Q = (X - mean) W``."""

    Q: Float
    W: Float  # (features, rank)
    mean: Float

    def __repr__(self) -> str:
        return f"Basis(rows={self.Q.shape[0]}, rank={self.Q.shape[1]}, features={self.W.shape[0]})"

    @property
    def rank(self) -> int:
        """How many columns are linearly independent."""
        return int(self.Q.shape[1])


@dataclass(frozen=True, repr=False)
class OwnWeights:
    """A party's weights, (features, count), and the scores they give its rows, (rows, count)."""

    weights: Float
    scores: Float


@dataclass(frozen=True)
class WilksTest:
    """Whether this correlation and all smaller ones are 0: Wilks' lambda, Rao's F and Bartlett's chi-squared."""

    first: int
    wilks: float
    f: Number
    df1: float
    df2: float
    f_p: Number
    chi2: Number
    chi2_p: Number


def basis(X: Float) -> Basis:
    """The basis of own columns, made locally; a column whose deviation is rounding of its mean is a constant one."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = X.mean(axis=0)
        centred, unit = _in_common_unit(X - mean)
    norms = np.linalg.norm(centred, axis=0)
    constant = norms <= len(X) ** 1.5 * _EPS * (np.abs(mean) / unit)
    norms, centred = np.where(constant, 0.0, norms), np.where(constant, 0.0, centred)
    Q, R = np.linalg.qr(centred / np.where(norms > 0.0, norms, 1.0))
    scale = np.where(norms > 0.0, norms, 1.0) * unit
    U, s, Vt = np.linalg.svd(R)
    rank = int(np.sum(s > max(X.shape) * _EPS * s[0])) if s.size and s[0] > 0.0 else 0
    if rank == X.shape[1]:
        return Basis(Q, solve_triangular(R, np.eye(rank)) / scale[:, None], mean)
    return Basis(Q @ U[:, :rank], Vt[:rank].T / s[:rank] / scale[:, None], mean)


def correlations(values: Float, ranks: tuple[int, int]) -> Float:
    """The canonical correlations of two parties, from the singular values of the stacked bases."""
    count = min(ranks)
    if values.shape[0] < count:
        raise ShapeError(f"{count} correlations need as many singular values, got {values.shape[0]}")
    rho: Float = np.clip(np.square(values[:count]) - 1.0, 0.0, 1.0)
    return rho


def pair_weights(own: Basis, Vt_i: Float, count: int) -> OwnWeights:
    """Own weights of two parties' canonical variables, whose scores have unit norm; Vt_i, (at least count, rank)."""
    inside = math.sqrt(2.0) * Vt_i[:count].T
    return OwnWeights(own.W @ inside, own.Q @ inside)


def common_weights(own: Basis, Vt_i: Float, values: Float, count: int) -> OwnWeights:
    """Own weights of generalised CCA: the least-squares prediction of the common variables from own columns."""
    inside = Vt_i[:count].T * values[:count]
    return OwnWeights(own.W @ inside, own.Q @ inside)


def _in_common_unit(centred: Float) -> tuple[Float, Float]:
    """Columns divided by powers of two, so that no square leaves the range of float64; and these powers."""
    largest = np.abs(centred).max(axis=0)
    _, powers = np.frexp(largest)
    if not np.isfinite(largest).all() or np.any(np.abs(powers) > _MOST_POWER):
        raise NumericalError("a column is at the end of the range of float64", "scale it")
    return np.ldexp(centred, -powers), np.ldexp(1.0, powers)


def canonical_loadings(centred: Float, scores: Float) -> Float:
    """Correlations of own features with own scores, (features, count); 0 where one does not vary."""
    centred, _ = _in_common_unit(centred)
    across = np.outer(np.linalg.norm(centred, axis=0), np.linalg.norm(scores, axis=0))
    found: Float = np.divide(centred.T @ scores, across, out=np.zeros_like(across), where=across > 0.0)
    return found


def wilks(rho: Float, n: int, first: int, second: int) -> tuple[WilksTest, ...]:
    """The test of each correlation with all smaller ones, for n rows and tables of these ranks."""
    if n < 1 or rho.shape[0] > min(first, second):
        raise ConfigError(
            f"{rho.shape[0]} correlations of tables of ranks {first} and {second} do not exist",
            f"ask for at most {min(first, second)} (components)",
        )
    # Products from the smallest correlation on, as sums of logarithms; (1 - rho)(1 + rho) does not cancel twice.
    with np.errstate(divide="ignore"):
        logs = np.cumsum((np.log1p(-rho) + np.log1p(rho))[::-1])[::-1]
    return tuple(_test(float(logs[i]), i, n, first - i, second - i, first + second) for i in range(rho.shape[0]))


def _test(log: float, i: int, n: int, p: int, q: int, widths: int) -> WilksTest:
    factor = n - 1 - (widths + 1) / 2.0
    squares = p * p + q * q - 5
    t = math.sqrt((p * p * q * q - 4) / squares) if squares > 0 else 1.0
    df1, df2 = float(p * q), factor * t - (p * q - 2) / 2.0
    if df2 <= 0.0 or factor <= 0.0:
        return WilksTest(i, math.exp(log), NO_FREEDOM, df1, df2, NO_FREEDOM, NO_FREEDOM, NO_FREEDOM)
    f = math.expm1(-log / t) * df2 / df1 if math.isfinite(log) else math.inf
    chi2 = -factor * log
    return WilksTest(i, math.exp(log), f, df1, df2, f_tail(f, df1, df2), chi2, chi2_tail(chi2, df1))
