"""Tests of laws that this folder needs. How attacks are scored is in the lab: ``fedsvd.audit.attacks.score``."""

import numpy as np
import scipy.stats

from fedsvd.types import Float


def same_law(first: Float, second: Float) -> float:
    """The p-value of the two-sample Kolmogorov-Smirnov test."""
    return float(scipy.stats.ks_2samp(np.ravel(first), np.ravel(second), method="asymp").pvalue)


def same_spread(first: Float, second: Float) -> float:
    """The p-value of the Brown-Forsythe test that two samples spread equally about their medians."""
    return float(scipy.stats.levene(np.ravel(first), np.ravel(second), center="median").pvalue)


def uniform_bytes(words: np.ndarray) -> float:
    """The p-value of the chi-square test that the bytes of these words are uniform."""
    counts = np.bincount(np.frombuffer(words.astype("<u8").tobytes(), np.uint8), minlength=256)
    return float(scipy.stats.chisquare(counts).pvalue)
