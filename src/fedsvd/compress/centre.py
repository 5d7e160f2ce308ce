"""Centring and scaling exactly (02-protocol, section 4, step 3): nobody can centre across parties alone.

Each user compresses its data less its own mean. Once the joint mean is known, from a users-only sum, one more column
``sqrt(n_i) (mean_i - mean)`` moves the factor to it, because

    (X_i - mean)(X_i - mean)^T = (X_i - mean_i)(X_i - mean_i)^T + n_i (mean_i - mean)(mean_i - mean)^T.

Unit variance is a scaling of the rows of A_i by norms that are another users-only sum.
"""

import numpy as np

from fedsvd.compress.reduce import Reduced
from fedsvd.data.source import MatrixSource
from fedsvd.errors import LocalProtocolError
from fedsvd.linalg import backend
from fedsvd.linalg.backend import EPS
from fedsvd.types import Array, Float

_FIRST = 4096  # columns that make the provisional mean


def first_mean(source: MatrixSource) -> tuple[int, Float]:
    """How many columns the first chunk has, and about their mean: this user's part of the provisional shift.

    All users learn the sum of these. Exact, it would fall short of the sum behind the joint mean by the columns after
    the chunk and nothing else: with 4097 columns, by one record. A shift need only be near, so it is rounded.
    """
    count = min(_FIRST, source.shape[1])
    first = source.columns(0, count)
    mean: Float = first.mean(axis=1)
    return count, mean if count == source.shape[1] else _rounded(mean, first.std(axis=1))


def _rounded(mean: Float, deviation: Float) -> Float:
    """The mean to a multiple of a power of two near the deviation; of the least deviation where a row has none."""
    least = deviation[deviation > 0].min(initial=np.inf)
    step = np.where(deviation > 0, deviation, least if np.isfinite(least) else np.abs(mean) * 2.0**-20)
    _, power = np.frexp(step)
    rounded: Float = np.ldexp(np.rint(np.ldexp(mean, -power)), power)
    return np.where(step > 0, rounded, mean)


def to_joint_mean(reduced: Reduced, mean: Float) -> Array:
    """A_i with ``A_i A_i^T = (X_i - mean)(X_i - mean)^T``: the local factor and one column more."""
    if reduced.offset_i is None or reduced.shift is None:
        raise LocalProtocolError("this factor was compressed without its mean")
    xp = backend.namespace(reduced.L_i)
    # Both means are counted from the shift: mean_i - mean would cancel to eps |mean|, which a large mean feels. What
    # rounding took from the joint mean is the same for all users, so it enters the Gram matrix only squared.
    offset = np.sqrt(reduced.count) * (reduced.offset_i - (mean - reduced.shift))
    return xp.concat((reduced.L_i, backend.like(offset[:, None], reduced.L_i)), axis=1)


def row_energy(A_i: Array) -> Float:
    """The squared norm of every row: this user's part of the joint variances."""
    norms = backend.to_numpy(backend.column_norms(backend.namespace(A_i).matrix_transpose(A_i)))
    squared: Float = norms * norms
    return squared


def unit_scales(energy: Float, count: int, mean: Float) -> Float:
    """The joint standard deviation of every row (divisor n, as scikit-learn's); zero where a row is constant.

    A row is constant when its deviation is within rounding of its mean, scikit-learn's rule for StandardScaler.
    """
    variance = energy / count
    constant = variance <= count * EPS * variance + (count * EPS * mean) ** 2
    scales: Float = np.where(constant, 0.0, np.sqrt(variance))
    return scales


def to_unit_variance(A_i: Array, scales: Float) -> Array:
    """A_i with rows divided by their scales; rows without variance become exactly zero."""
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
    return backend.like(inverse[:, None], A_i) * A_i
