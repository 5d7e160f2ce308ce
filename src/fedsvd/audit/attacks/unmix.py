"""Blind source separation, written for masks: whitening, symmetric FastICA, polar factors, and sides cut into blocks.

A mask is a mixing matrix the attacker does not know: the rows of ``Y = P X Q`` are mixtures of the rows of ``X Q``, one
block of P at a time, and the columns are the samples. What makes rows of real data stand out among their mixtures is
that they are further from Gaussian than any mixture is. The paper's own attack skips the whitening (``rica.py``), which
is why it finds so little (C11).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsvd.linalg.windows import block_sizes
from fedsvd.types import Float

ITERATIONS = 200
_SETTLED = 1e-4
_LOST = 1e-9


@dataclass(frozen=True)
class Cuts:
    """Where the attacker believes the blocks of P and Q to lie."""

    rows: tuple[slice, ...]
    columns: tuple[slice, ...]

    @classmethod
    def of_width(cls, shape: tuple[int, int], b: int) -> "Cuts":
        """Near-equal blocks of about b on both sides, as Algorithm 2 with C2 cuts them."""
        return cls(*(_slices(block_sizes(side, b)) for side in shape))

    @property
    def transposed(self) -> "Cuts":
        return Cuts(self.columns, self.rows)


def _slices(sizes: Sequence[int]) -> tuple[slice, ...]:
    ends = np.cumsum(sizes).tolist()
    return tuple(slice(end - size, end) for end, size in zip(ends, sizes, strict=True))


def whitening(B: Float) -> Float:
    """K, (r, c), so that the rows of K (B - mean) are uncorrelated with unit variance; r is the rank of B - mean."""
    centred = B - B.mean(axis=1, keepdims=True)
    strengths, directions = np.linalg.eigh(centred @ centred.T / B.shape[1])
    strong = strengths > max(_LOST**2, 1e-14) * max(strengths[-1], 0.0)
    if strengths[-1] <= 0.0:
        return np.zeros((0, len(B)))
    K: Float = (directions[:, strong] / np.sqrt(strengths[strong])).T
    return K


def fast_ica(Z: Float, rng: np.random.Generator, iterations: int = ITERATIONS) -> Float:
    """The rotation W that makes the rows of W Z least Gaussian: symmetric FastICA, log-cosh, from a random start."""
    r, samples = Z.shape
    W = polar(rng.standard_normal((r, r)))
    for _ in range(iterations):
        G = np.tanh(W @ Z)
        slope = 1.0 - np.einsum("ij,ij->i", G, G) / samples
        before, W = W, _decorrelated(G @ Z.T / samples - slope[:, None] * W)
        if np.abs(np.abs(np.einsum("ij,ij->i", W, before)) - 1.0).max(initial=0.0) < _SETTLED:
            break
    return W


def _decorrelated(W: Float) -> Float:
    """``(W W^T)^(-1/2) W``: the polar factor of a W that is far from singular, at a fraction of an SVD."""
    strengths, directions = np.linalg.eigh(W @ W.T)
    if strengths[0] <= 1e-12 * strengths[-1]:
        return polar(W)
    found: Float = (directions / np.sqrt(strengths)) @ (directions.T @ W)
    return found


def unmixing(B: Float, rng: np.random.Generator, iterations: int = ITERATIONS) -> Float:
    """W, (c, c), whose rows un-mix the rows of one block: whitened, then FastICA; zero rows where rank was lost."""
    K = whitening(B)
    W = np.zeros((len(B), len(B)))
    if len(K):
        Z = K @ (B - B.mean(axis=1, keepdims=True))
        W[: len(K)] = fast_ica(Z, rng, iterations) @ K
    return W


def unmixed_rows(
    Y: Float, blocks: Sequence[slice], rng: np.random.Generator, iterations: int = ITERATIONS
) -> tuple[Float, list[Float]]:
    """The sources and the blocks of W: every row block un-mixed by itself. Columns are samples, in whatever order.

    Sources are centred, ``W (Y - mean)``: an attack that goes on with them would otherwise meet the means again, mixed.
    """
    parts = [unmixing(Y[rows], rng, iterations) for rows in blocks]
    return apart(parts, Y - Y.mean(axis=1, keepdims=True), blocks), parts


def apart(parts: Sequence[Float], Y: Float, blocks: Sequence[slice]) -> Float:
    """diag(parts) Y."""
    return np.concatenate([W @ Y[rows] for W, rows in zip(parts, blocks, strict=True)], axis=0)


def polar(A: Float) -> Float:
    """The orthogonal matrix nearest to A."""
    U, _, Vt = np.linalg.svd(A)
    nearest: Float = U @ Vt
    return nearest


def unit_rows(W: Float) -> Float:
    """Rows of unit length; zero rows stay zero."""
    norms = np.linalg.norm(W, axis=1, keepdims=True)
    found: Float = np.divide(W, norms, out=np.zeros_like(W), where=norms > 0.0)
    return found
