"""ICA as the paper ran it (section 4.4): reconstruction ICA without whitening, columns first and then rows.

Table 3 of the paper is made with this: for each column block a square W with unit columns that minimises the mean of
``0.5 log cosh(2 w_j^T x)``, no decorrelation (lambda = 0), no whitening, no centring; then the same for the row blocks
of the result. Many columns of W go to one direction, and the second step mixes again what the first one found. It is
implemented as published so that the table can be reproduced; ``alternating.py`` is the attack to fear.

The paper's text describes another one: maximum likelihood with a sigmoid for the distribution of the sources, that is
infomax. It is here too, whitened as it must be.
"""

from collections.abc import Sequence

import numpy as np
import scipy.optimize
import scipy.special

from fedsvd.audit.attacks.unmix import Cuts, polar, whitening
from fedsvd.types import Float

ITERATIONS = 1000
FITTED_AT_ONCE = 1 << 20


def rica_weights(B: Float, rng: np.random.Generator, iterations: int = ITERATIONS) -> Float:
    """W, (c, c), of one block of columns B, (samples, c), as MATLAB's ``rica`` with Lambda = 0 would fit it.

    Without the term that lambda weighs, no column of W knows of another: they are fitted a few at a time, because
    L-BFGS remembers twenty copies of what it fits.
    """
    c = B.shape[1]
    few = max(1, FITTED_AT_ONCE // c)
    return np.concatenate([_fitted(B, min(few, c - at), rng, iterations) for at in range(0, c, few)], axis=1)


def _fitted(B: Float, count: int, rng: np.random.Generator, iterations: int) -> Float:
    c = B.shape[1]

    def loss(flat: Float) -> tuple[float, Float]:
        W = flat.reshape(c, count)
        norms = np.linalg.norm(W, axis=0)
        unit = W / norms
        U = B @ unit
        value = float(np.mean(np.sum(_log_cosh(2.0 * U), axis=1))) / 2.0
        slope = B.T @ np.tanh(2.0 * U) / len(B)
        slope = (slope - unit * np.sum(slope * unit, axis=0)) / norms
        return value, slope.ravel()

    start = rng.standard_normal((c, count)).ravel()
    options = {"maxiter": iterations, "gtol": 1e-6, "ftol": 1e-12, "maxfun": 4 * iterations}
    W = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x.reshape(c, count)
    weights: Float = W / np.linalg.norm(W, axis=0)
    return weights


def rica(Y: Float, cuts: Cuts, seed: int = 0, iterations: int = ITERATIONS) -> Float:
    """The paper's attack on both sides: every column block un-mixed, then every row block of the result.

    One block over everything is the paper's "ICA", the true cuts are its "ICA(b)".
    """
    rng = np.random.default_rng(seed)
    half = _one_side(Y, cuts.columns, rng, iterations)
    return _one_side(half.T, cuts.rows, rng, iterations).T


def _one_side(Y: Float, blocks: Sequence[slice], rng: np.random.Generator, iterations: int) -> Float:
    parts = [Y[:, columns] @ rica_weights(Y[:, columns], rng, iterations) for columns in blocks]
    return np.concatenate(parts, axis=1)


def _log_cosh(u: Float) -> Float:
    """log cosh u without overflow."""
    size = np.abs(u)
    value: Float = size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)
    return value


def infomax(B: Float, rng: np.random.Generator, iterations: int = 300, rate: float = 0.5) -> Float:
    """W, (r, c), that un-mixes the rows of B by maximum likelihood with sigmoid sources, as the paper's text has it.

    Natural gradient ``W <- W + a (I + (1 - 2 sigmoid(y)) y^T) W`` on whitened rows; the rate falls off over the
    iterations. The paper gives no rate.
    """
    K = whitening(B)
    Z = K @ (B - B.mean(axis=1, keepdims=True))
    r, samples = Z.shape
    W = polar(rng.standard_normal((r, r)))
    for step in range(iterations):
        S = W @ Z
        move = np.eye(r) + (1.0 - 2.0 * scipy.special.expit(S)) @ S.T / samples
        W = W + rate / (1.0 + 4.0 * step / iterations) * move @ W
    return W @ K


def infomax_rows(Y: Float, blocks: Sequence[slice], seed: int = 0, iterations: int = 300) -> Float:
    """Every row block of Y un-mixed by ``infomax``; zero rows where rank was lost."""
    rng = np.random.default_rng(seed)
    found = np.zeros_like(Y)
    for rows in blocks:
        W = infomax(Y[rows], rng, iterations)
        found[rows][: len(W)] = W @ Y[rows]
    return found
