"""Joint tables, ways to divide them, and what "equal to the twin" means: bars from eps, size and conditioning."""

import numpy as np
from tests.tolerances import EPS, spectrum

SCHEMES = ("auto", "sum", "mask")
TRUSTS = ("peers", "authority")
# How much of the joint side each party has: wildly different, and a party of one.
DIVISIONS = {
    "two equal": (0.5, 0.5),
    "two, one of one": (0.0, 1.0),
    "three": (0.6, 0.1, 0.3),
    "four": (0.0, 0.9, 0.05, 0.05),
    "five": (0.2, 0.0, 0.5, 0.0, 0.3),
}


def table(n_samples, n_features, seed=0, condition=1e3, mean=2.0):
    """A table of known, well separated singular values (before its mean is added)."""
    rng = np.random.default_rng(seed)
    r = min(n_samples, n_features)
    U = np.linalg.qr(rng.standard_normal((n_samples, r)))[0]
    V = np.linalg.qr(rng.standard_normal((n_features, r)))[0]
    D = U * np.geomspace(1.0, 1.0 / condition, r) @ V.T * np.sqrt(n_samples)
    return D + mean * rng.standard_normal(n_features)


def cut(D, shares, axis):
    """D divided by these shares, every party getting at least one row (or column)."""
    length = D.shape[axis]
    sizes = np.array([max(1, int(share * length)) for share in shares])
    sizes[int(np.argmax(sizes))] += length - sizes.sum()
    return np.split(D, np.cumsum(sizes)[:-1], axis=axis)


def parts(D, split, shares=DIVISIONS["three"]):
    return cut(D, shares, 0 if split == "horizontal" else 1)


def values_bar(D):
    """Relative to the largest singular value: two backward stable routes to the others."""
    return 4 * spectrum(*D.shape)


def vectors_bar(sigma, shape):
    """Entry by entry: perturbation theory's eps S_1 / gap, where the gap is the smallest to a neighbour or to zero."""
    gaps = np.abs(np.diff(np.append(sigma, 0.0)))
    nearest = np.minimum(gaps, np.append(np.inf, gaps[:-1]))
    return 4 * spectrum(*shape) * sigma[0] / nearest


def least_squares_bar(D, y, coefficients):
    """Absolute, for coefficients: eps times the condition number and, of the residual, its square (Wedin)."""
    sigma = np.linalg.svd(D, compute_uv=False)
    sigma = sigma[sigma > max(D.shape) * EPS * sigma[0]]
    condition = sigma[0] / sigma[-1]
    size = np.abs(coefficients).max()
    rest = np.linalg.norm(y - D @ coefficients.T) / sigma[0]
    return 100 * EPS * np.sqrt(max(D.shape)) * (condition * size + condition**2 * rest)
