"""Centring and scaling exactly (step 3): no user can centre across parties alone.

Each user compresses its data less its own mean. Once the joint mean is known, from a sum, one more column
``sqrt(n_i) (mean_i - mean)`` moves the factor to it, because

    (X_i - mean)(X_i - mean)^T = (X_i - mean_i)(X_i - mean_i)^T + n_i (mean_i - mean)(mean_i - mean)^T.

Unit variance is a scaling of the rows of A_i by norms that are another sum.
"""

import numpy as np

from fedsvd.compress.reduce import Reduced, columns_of, device_width
from fedsvd.data.source import MatrixSource
from fedsvd.linalg import backend
from fedsvd.linalg.backend import EPS
from fedsvd.linalg.device import Device
from fedsvd.types import Array, Float

SHIFT_COLUMNS = 4096  # columns that make a user's own shift


def own_shift(source: MatrixSource, device: Device | None = None) -> Float:
    """s_i: the mean of this user's first columns, taken off all of them; never sent.

    On a device of two for each row, where it holds them: with fewer, what is left of the mean is longer than a row's
    own spread, and hides that the data is well conditioned (``linalg.even_gram``).
    """
    m, n_i = source.shape
    if device is None:
        first = source.columns(0, min(SHIFT_COLUMNS, n_i))
        mean: Float = first.mean(axis=1)
        return mean
    count = min(max(SHIFT_COLUMNS, min(2 * m, device_width(m, device.memory))), n_i)
    there = columns_of(source, 0, count, device)
    return backend.to_numpy(backend.namespace(there).mean(there, axis=1))


def deviations(reduced: Reduced) -> Float:
    """The standard deviation of every row at this user alone, from the factor of its centred data."""
    scale: Float = np.sqrt(row_energy(reduced.L_i) / reduced.count)
    return scale


def at_offset(reduced: Reduced, offset: Float) -> Array:
    """A_i with ``A_i A_i^T = (X_i - mean)(X_i - mean)^T``: the local factor and ``sqrt(n_i) (mean_i - mean)``.

    ``offset`` is ``mean_i - mean``, formed exactly and rounded once (``statistics.py`` of the user's role).
    """
    xp = backend.namespace(reduced.L_i)
    column = np.sqrt(reduced.count) * offset
    # In front, where it leaves L_i triangular: a rotation from the right then has a third less to do.
    return xp.concat((backend.like(column[:, None], reduced.L_i), reduced.L_i), axis=1)


def row_energy(A_i: Array) -> Float:
    """The squared norm of every row: this user's part of the joint variances."""
    return np.square(row_norms(A_i))


def row_norms(A_i: Array) -> Float:
    """The norm of every row, also where its square would leave float64."""
    norms: Float = backend.to_numpy(backend.column_norms(backend.namespace(A_i).matrix_transpose(A_i)))
    return norms


def unit_scales(energy: Float, count: int, mean: Float) -> Float:
    """``scales_of`` rows of these squared norms."""
    return scales_of(np.sqrt(energy), count, mean)


def scales_of(norms: Float, count: int, mean: Float) -> Float:
    """The joint standard deviation of every row (divisor n, as scikit-learn's); zero where a row is constant.

    A row is constant when its deviation is within rounding of its mean, scikit-learn's rule for StandardScaler.
    """
    deviation = norms / np.sqrt(count)
    constant = deviation * np.sqrt(max(0.0, 1.0 - count * EPS)) <= count * EPS * np.abs(mean)
    scales: Float = np.where(constant, 0.0, deviation)
    return scales
