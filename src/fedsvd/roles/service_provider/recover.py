"""What users come back for after the answer: panels of a long U', products that check a solution, parts of a matrix.

U' goes piece by piece, so that it need not be in memory where it is too long for it.

Products of step 7 on split columns are made here, too, of all columns with each other, for the label holder. Users send
them padded, panel by panel of rows: the residual of every target, and last the vector that these are multiplied with.
The CSP adds up what it is sent and multiplies. It cannot tell which part of a product is the secret ``<e, z>``.

In step 8 on split columns the CSP adds its part to a shared sum (``protocol/shared.py``). What it found goes to no user
as it is. It is added, as whole numbers, to the users' masks, which are uniform in the ring: no user can read the total,
and the CSP draws nothing. Vectors of the users' reach it under a mask of their own; it multiplies them in the ring, and
the mask comes off at the users, who have the matrix in parts.

    inverse    S = (X'^T X')^-1, ``S v`` of every masked vector v, and two forms of the mean
    vectors    ``[V'^T, V'^T v, s]`` with the singular values s

S is made of the inverse of the triangular factor, put right by two steps in about 100 bits: a float64 S would have the
digits of its largest numbers, and a column that is far from all others the least of them.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import LocalProtocolError, RepeatedShare, UnexpectedMessage
from fedsvd.linalg.backend import norm, qr_r, to_numpy
from fedsvd.linalg.dense_svd import dense_svd
from fedsvd.linalg.extended import Pair, inverse_gram
from fedsvd.protocol.machine import Effect, Send
from fedsvd.protocol.messages import (
    BatchRequest,
    Challenge,
    FactorRows,
    Product,
    RowsRequest,
)
from fedsvd.protocol.parties import Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import (
    INVERSE_BITS,
    SHARED_BITS,
    about_words,
    challenge_columns,
    matrix_words,
    shares_inverse,
    vector_words,
)
from fedsvd.roles.service_provider.collect import decoded
from fedsvd.roles.service_provider.factorise import Factorised, Solved
from fedsvd.secagg.aggregate import RunningSum
from fedsvd.secagg.words128 import add_into, from_integers, to_integers
from fedsvd.types import Array, Float, Ring


def planned_size(plan: SessionPlan, found: Factorised) -> tuple[Float, Float]:
    """U' and S' with zero columns beyond the rank, as long as the plan says; of a long U' no rows."""
    U_masked, sigma = np.zeros((0 if plan.tall else plan.M, plan.planned_rank)), np.zeros(plan.planned_rank)
    if not plan.tall:
        U_masked[:, : found.U_masked.shape[1]] = found.U_masked
    sigma[: len(found.sigma_scaled)] = found.sigma_scaled
    return U_masked, sigma


def factor_rows(plan: SessionPlan, sender: Party, found: Factorised | None, message: RowsRequest) -> FactorRows:
    """The rows of U' in one panel, with zero columns beyond the rank."""
    panels = plan.row_panels
    if found is None or not plan.tall or not 0 <= message.panel < len(panels):
        raise UnexpectedMessage(f"{sender} asks for rows of U' that are not sent by themselves")
    place, r = panels[message.panel], len(found.sigma_scaled)
    rows = found.U_masked[place] if found.store is None else to_numpy(found.store.read(place, slice(0, r)))
    if r == plan.planned_rank:
        return FactorRows(plan.digest, message.panel, rows)
    padded = np.zeros((len(rows), plan.planned_rank))
    padded[:, :r] = rows
    return FactorRows(plan.digest, message.panel, padded)


class Multiplied:
    """The products so far, and the panel that is being added up."""

    def __init__(self, plan: SessionPlan) -> None:
        self._plan = plan
        self._panel = 0
        self._sum: RunningSum | None = None
        self._columns = challenge_columns(plan)
        self._products = np.zeros((self._columns, self._columns))

    def add(self, sender: Party, message: Challenge) -> Array | None:
        """One user's share of a panel; the sum of all shares when it is complete."""
        plan = self._plan
        if not plan.challenges:
            raise UnexpectedMessage(f"{sender} sends a challenge that the plan does not have")
        if message.batch != self._panel or self._panel == len(plan.row_panels):
            raise RepeatedShare(f"{sender} sent panel {message.batch} of a challenge, {self._panel} is being added up")
        if self._sum is None:
            rows = plan.row_panels[self._panel]
            self._sum = RunningSum((rows.stop - rows.start, self._columns), plan.k)
        self._sum.add(sender.index, message.payload)
        if not self._sum.complete:
            return None
        total, self._sum = self._sum.total(), None
        self._panel += 1
        return total

    def multiply(self, total: Array) -> tuple[Effect, ...]:
        """Add a complete panel's part of the products; ask for the next panel, or send the products."""
        plan = self._plan
        self._products += self.product(decoded(total))
        if self._panel < len(plan.row_panels):
            return tuple(Send(party, BatchRequest(plan.digest, self._panel)) for party in plan.users)
        return (Send(user(plan.label_user), Product(plan.digest, self._products.ravel())),)

    def product(self, rows: Float) -> Float:
        """This panel's part of the products."""
        found: Float = rows.T @ rows
        return found


Whole = NDArray[np.object_]


def with_own_part(plan: SessionPlan, solved: Solved, words: Ring) -> Ring:
    """The total of a shared sum: numbers for all, and the matrix under the users' masks; no word of a vector."""
    if solved.R is None:
        raise LocalProtocolError("no factor is there to split")
    vectors, about = vector_words(plan), about_words(plan)
    first = vectors + about
    v = np.array(to_integers(words[:vectors]), object).reshape(-1, plan.N)
    R = _padded(to_numpy(qr_r(solved.R)))
    make = _inverse if shares_inverse(plan) else _vectors
    own, numbers = make(plan, R, v, solved.rank)
    total = words.copy()
    total[:first] = 0
    total[vectors:first, 0] = np.array(numbers).view(np.uint64)
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


def _inverse(plan: SessionPlan, R: Float, v: Whole, rank: int) -> tuple[list[int], list[float]]:
    """The upper triangle of S, its products with all v, the two forms; the exponent of its unit, the condition."""
    N, count = plan.N, plan.k
    if rank < N:
        return [0] * matrix_words(plan), [0.0, math.inf]
    s = np.linalg.svd(R[:N, :N], compute_uv=False)
    S, exponent = _whole_pair(inverse_gram(R[:N, :N]))
    along = S @ v.T
    forms = [int(v[count] @ along[:, count]), int(v[count] @ along[:, count + 1])] if plan.centre else []
    condition = float(s[0] / s[-1]) if s[-1] > 0 else math.inf
    return [*S[np.triu_indices(N)], *along.T.ravel(), *forms], [float(exponent), condition]


def _vectors(plan: SessionPlan, R: Float, v: Whole, rank: int) -> tuple[list[int], list[float]]:
    """``[V^T, V^T v, s]`` row by row; the exponent of the unit of s, and the residual squares of each target."""
    N = plan.N
    _, s, Vt = dense_svd(R[:N, :N])
    directions = np.array(np.rint(np.ldexp(Vt, SHARED_BITS)).astype(np.int64), object)
    exponent = math.frexp(float(s.max(initial=0.0)))[1]
    values = np.array(np.rint(np.ldexp(s, SHARED_BITS - exponent)).astype(np.int64), object)[:, None]
    joined = np.concatenate((directions, directions @ v.T, values), axis=1)
    lost = np.zeros(plan.targets) if rank == N else _unreached(R, N, rank)
    squares = [norm(R[N:, N + k]) ** 2 + float(lost[k]) for k in range(plan.targets)]
    return list(joined.ravel()), [float(exponent), *squares]


def _whole_pair(S: Pair) -> tuple[Whole, int]:
    """S in whole steps of 2^-110 of the power of two above its Frobenius norm, and that power's exponent."""
    exponent = math.frexp(norm(S.high))[1]
    parts = (np.rint(np.ldexp(part, INVERSE_BITS - exponent)).ravel().tolist() for part in (S.high, S.low))
    whole = np.array([int(high) + int(low) for high, low in zip(*parts, strict=True)], object).reshape(S.high.shape)
    # Users have the upper triangle: with another number below it, by a single step, every product would be random.
    upper = np.triu_indices(len(whole))
    whole.T[upper] = whole[upper]
    return whole, exponent
