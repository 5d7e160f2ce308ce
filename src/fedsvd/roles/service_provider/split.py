"""Step 8 of a regression on split columns: the CSP's part of a shared sum (``protocol/shared.py``).

What it found goes to no user as it is. It is added, as whole numbers, to the users' masks, which are uniform in the
ring: no user can read the total, and the CSP draws nothing. Vectors of the users' reach it under a mask of their own;
it multiplies them in the ring, and the mask comes off at the users, who have the matrix in parts.

    inverse    S = (X'^T X')^-1, bordered by ``S v`` and ``v^T S v`` of the masked vector v
    vectors    ``[V'^T, V'^T v, s]`` with the singular values s
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import LocalProtocolError
from fedsvd.linalg.backend import norm, qr_r, to_numpy
from fedsvd.linalg.dense_svd import dense_svd
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import SHARED_BITS, about_words, shares_inverse, vector_words
from fedsvd.roles.service_provider.factorise import Solved
from fedsvd.secagg.words128 import add_into, from_integers, to_integers
from fedsvd.types import Float, Ring

Whole = NDArray[np.object_]


def with_own_part(plan: SessionPlan, solved: Solved, words: Ring) -> Ring:
    """The total of a shared sum: numbers for all, and the matrix under the users' masks; no word of a vector."""
    if solved.R is None:
        raise LocalProtocolError("no factor is there to split")
    vectors, about = vector_words(plan), about_words(plan)
    first, t = vectors + about, plan.targets
    v = np.array(to_integers(words[:vectors]), object).reshape(-1, plan.N)
    R = _padded(to_numpy(qr_r(solved.R)))
    _, s, Vt = dense_svd(R[: plan.N, : plan.N])
    full = solved.rank == plan.N
    make = _inverse if shares_inverse(plan) else _vectors
    own, exponent = make(s, Vt, v) if full or not shares_inverse(plan) else ([0] * (len(words) - first), 0)
    condition = float(s[0] / s[-1]) if full and s[-1] > 0 else math.inf
    lost = np.zeros(t) if full else _unreached(R, plan.N, solved.rank)
    squares = [norm(R[plan.N :, plan.N + k]) ** 2 + float(lost[k]) for k in range(t)]
    total = words.copy()
    total[:first] = 0
    numbers = np.array([*squares, float(exponent), condition])
    total[vectors:first, 0] = numbers.view(np.uint64)
    add_into(total[first:], from_integers(own, words.shape[1]))
    return total


def _padded(R: Float) -> Float:
    """R with zero rows where there were fewer records than columns."""
    rows, side = R.shape
    return R if rows >= side else np.concatenate((R, np.zeros((side - rows, side))))


def _unreached(R: Float, features: int, rank: int) -> Float:
    """What of the labels, squared, lies along the directions that the rank leaves out."""
    U, _, _ = np.linalg.svd(R[:features, :features])
    lost: Float = np.square(U[:, rank:].T @ R[:features, features:]).sum(axis=0)
    return lost


def _inverse(s: Float, Vt: Float, v: Whole) -> tuple[list[int], int]:
    """The upper triangle of S, bordered where there is a v, and the exponent of its unit."""
    root = Vt.T / s
    S, exponent = _whole(root @ root.T)
    N = len(s)
    bordered = np.zeros((N + len(v), N + len(v)), object)
    bordered[:N, :N] = S
    if len(v):
        along = S @ v[0]
        bordered[:N, N] = along
        bordered[N, N] = int(v[0] @ along)
    return list(bordered[np.triu_indices(N + len(v))]), exponent


def _vectors(s: Float, Vt: Float, v: Whole) -> tuple[list[int], int]:
    """``[V^T, V^T v, s]`` row by row, V in units of 1 and s in units of a power of two, whose exponent it is."""
    directions = np.array(np.rint(np.ldexp(Vt, SHARED_BITS)).astype(np.int64), object)
    values, exponent = _whole(s[:, None])
    joined = np.concatenate((directions, directions @ v.T, values), axis=1)
    return list(joined.ravel()), exponent


def _whole(A: Float) -> tuple[Whole, int]:
    """A in whole steps of 2^-60 of the power of two above its largest number, and that power's exponent."""
    exponent = math.frexp(float(np.abs(A).max(initial=0.0)))[1]
    return np.array(np.rint(np.ldexp(A, SHARED_BITS - exponent)).astype(np.int64), object), exponent
