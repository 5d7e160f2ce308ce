"""Columns of zeros and ones in the span of U: found without any party's data, whichever party holds them.

A binary column of X lies in the span of U, and almost no other vector there is binary. Of few components every choice
of zeros and ones in as many well-placed rows is tried, which decides the other rows. Of many, ICA proposes directions:
a vector of two values is about as far from Gaussian as a direction can be. Rounding what is proposed and projecting it
back on the span, a few times over, closes the gap.
"""

import itertools

import numpy as np

from fedsvd.audit.attacks.unmix import fast_ica, whitening
from fedsvd.types import Float

_TRIED = 14  # components of which all 2^r choices are tried
_STARTS = 10
_ROUNDINGS = 30
_BINARY = 1e-6


def binary_columns(U: Float, seed: int = 0) -> Float:
    """The vectors of zeros and ones that were found in the span of U, (found, m), but for the one of zeros alone."""
    proposals = _every_choice(U) if U.shape[1] <= _TRIED else _by_ica(U, seed)
    near = np.rint(np.clip(proposals, 0.0, 1.0))
    for _ in range(_ROUNDINGS):
        near = np.rint(np.clip((near @ U) @ U.T, 0.0, 1.0))
    spanned = near - (near @ U) @ U.T
    size = np.linalg.norm(near, axis=1)
    found = near[(size > 0.0) & (np.linalg.norm(spanned, axis=1) <= _BINARY * np.maximum(size, 1.0))]
    return np.unique(found, axis=0)


def _every_choice(U: Float) -> Float:
    r = U.shape[1]
    lift = U @ np.linalg.inv(U[np.sort(_pivots(U))])
    guesses = np.array(list(itertools.product((0.0, 1.0), repeat=r)))[1:]
    spanned = guesses @ lift.T
    binary: Float = spanned[np.abs(spanned - np.rint(np.clip(spanned, 0.0, 1.0))).max(axis=1) < 1e-3]
    return binary


def _pivots(U: Float) -> np.ndarray:
    """As many rows of U as it has columns, far from dependent."""
    left, picked = U.copy(), []
    for _ in range(U.shape[1]):
        row = int(np.argmax(np.einsum("ij,ij->i", left, left)))
        direction = left[row] / np.linalg.norm(left[row])
        left = left - np.outer(left @ direction, direction)
        picked.append(row)
    return np.array(picked)


def _by_ica(U: Float, seed: int) -> Float:
    """Directions in the span of U as far from Gaussian as can be, each scaled so that its two values are 0 and 1."""
    rng = np.random.default_rng(seed)
    K = whitening(U.T)
    Z = K @ (U.T - U.T.mean(axis=1, keepdims=True))
    found = []
    for _ in range(_STARTS):
        for source in fast_ica(Z, rng) @ Z:
            middle = (source.max() + source.min()) / 2.0
            high, low = source[source > middle].mean(), source[source <= middle].mean()
            scaled = (source - low) / (high - low)
            found += [scaled, 1.0 - scaled]
    return np.array(found)
