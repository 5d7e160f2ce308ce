"""Parallel analysis at a user: its own columns permuted, each by itself, and one more sum of Gram matrices.

In a table whose columns are permuted nothing is left of what they have in common, so that its spectrum is that of
noise with the same columns. A user permutes at home, among its own records, by a stream of its own; users add up
``PERMUTED_TABLES`` Gram matrices of such tables, about the joint mean and scaled as the study scales, and open the
totals in mode A. Differences between the users' means survive, which a permutation of the joint table would not leave:
a component that only separates sites is not counted as one (ADR 0034).

A permuted Gram matrix is a reference, not a result: it is added up as float64 in the unit of the norm, with noise.
"""

import numpy as np

from fedsvd.linalg import backend
from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.widen import unit
from fedsvd.protocol.tasks import PERMUTED_TABLES
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.sums import NORM_WIDTH, from_upper_triangle, total_sum, upper_triangle
from fedsvd.roles.user.work import Streamed, Work
from fedsvd.types import Float


def permuted_spectra(work: Work, centred: Streamed, F1: float, E: int) -> Script:
    """The singular values of each joint permuted table, (tables, m), in the data's own units; ``centred`` is A_i."""
    m, F = work.plan.m, unit(F1)
    own = yield Local("permuted", lambda: _own_grams(work, centred, F))
    total: Float = yield from total_sum(work.plan, "permuted", own, work.own, NORM_WIDTH)
    return (yield Local("permuted", lambda: np.stack([_values(packed, m, F, E) for packed in total])))


def _own_grams(work: Work, centred: Streamed, F: float) -> Float:
    """The upper triangles of this user's Gram matrices, (tables, m (m + 1) / 2), in units of F^2."""
    m, n_i = work.plan.m, work.n_i
    X = np.array(to_numpy(centred.columns(0, n_i))) / F
    stream = Keystream.of(work.own, "permuted columns")
    packed = np.empty((PERMUTED_TABLES, m * (m + 1) // 2))
    for table in range(PERMUTED_TABLES):
        permuted = np.stack([row[stream.permutation(n_i)] for row in X])
        packed[table] = upper_triangle(to_numpy(backend.gram(work.put(permuted))), m)
    return packed


def _values(packed: Float, m: int, F: float, E: int) -> Float:
    eigenvalues = np.linalg.eigvalsh(from_upper_triangle(packed, m))[::-1]
    values: Float = np.ldexp(np.sqrt(np.maximum(eigenvalues, 0.0)) * F, E)
    return values
