"""How attacks are scored: never by a number alone, always against what the same number is under chance (C11)."""

import numpy as np
import scipy.optimize
import scipy.stats

from fedsvd.types import Float


def correlations(found: Float, true: Float) -> Float:
    """|Pearson| of every row of ``found`` with every row of ``true``; constant rows correlate with nothing."""
    return np.abs(_unit(found) @ _unit(true).T)


def matched(found: Float, true: Float) -> float:
    """The mean |correlation| under the best one-to-one matching of rows (Hungarian)."""
    table = correlations(found, true)
    rows, places = scipy.optimize.linear_sum_assignment(-table)
    return float(table[rows, places].mean())


def above_chance(found: Float, true: Float, draws: int = 99, seed: int = 0) -> tuple[float, float]:
    """The matched score and its p-value under a permutation null: the entries of every true row in another order.

    The smallest reachable p is 1 / (draws + 1).
    """
    rng = np.random.default_rng(seed)
    score = matched(found, true)
    null = [matched(found, true[:, rng.permutation(true.shape[1])]) for _ in range(draws)]
    return score, (1 + sum(chance >= score for chance in null)) / (draws + 1)


def beyond_rotation(found: Float, true: Float, draws: int = 99, seed: int = 0) -> tuple[float, float]:
    """The matched score and its p-value when the Gram matrix is known: the null is the true rows, rotated at random."""
    rng = np.random.default_rng(seed)
    score = matched(found, true)
    null = [matched(np.linalg.qr(rng.standard_normal((len(true), len(true))))[0] @ true, true) for _ in range(draws)]
    return score, (1 + sum(chance >= score for chance in null)) / (draws + 1)


def as_published(found: Float, true: Float) -> float:
    """The paper's score: the largest signed correlation over all pairs of rows, and nothing to compare it with."""
    return float((_unit(found) @ _unit(true).T).max())


def same_law(first: Float, second: Float) -> float:
    """The p-value of the two-sample Kolmogorov-Smirnov test."""
    return float(scipy.stats.ks_2samp(np.ravel(first), np.ravel(second), method="asymp").pvalue)


def uniform_bytes(words: np.ndarray) -> float:
    """The p-value of the chi-square test that the bytes of these words are uniform."""
    counts = np.bincount(np.frombuffer(words.astype("<u8").tobytes(), np.uint8), minlength=256)
    return float(scipy.stats.chisquare(counts).pvalue)


def gap(found: Float, true: Float) -> float:
    """How far two matrices are apart, relative to the true one."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def up_to_signs(found: Float, true: Float) -> float:
    """The same for matrices whose columns may each come with the other sign."""
    signs = np.where(np.einsum("ij,ij->j", found, true) < 0, -1.0, 1.0)
    return gap(found * signs, true)


def _unit(rows: Float) -> Float:
    centred = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 1e-12 * np.abs(rows).max(initial=1e-300))
