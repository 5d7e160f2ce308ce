"""Steps 5 to 7 of the sum family: the joint Gram matrix is opened, factorised, and the answer checked.

In mode A the users open it: every user factorises it, user 1 sends U and S to all, and every other user accepts them by
its own factor. In mode B the CSP opens it under P and c, factorises it and answers; users check the answer by sums, of
which none contains more of the spectrum than is released (``checks.py``).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from fedsvd.errors import UnexpectedMessage
from fedsvd.linalg import backend
from fedsvd.linalg.answers import accepts, rank_shown
from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.dense_svd import dense_svd, even_left, rank
from fedsvd.linalg.exact_gram import row_panels
from fedsvd.linalg.signs import flip, signs_of
from fedsvd.linalg.wide_factor import WideFactor, factor
from fedsvd.protocol.messages import Factors
from fedsvd.protocol.sums import planned_sums
from fedsvd.protocol.tasks import Mode
from fedsvd.roles.user.checks import Checked, check_factors
from fedsvd.roles.user.requests import Common, Local, Script, Sum, Upload
from fedsvd.roles.user.share import Batches, Unit, batches_of, common_unit, share
from fedsvd.roles.user.statistics import Prepared, in_data_units
from fedsvd.roles.user.work import Dense, Work
from fedsvd.secagg.sums import PlannedSum
from fedsvd.types import Array, Float, Ring


@dataclass(frozen=True, repr=False)
class Opened:
    """U (m, rank) with its signs, S in the data's own units, and what was verified."""

    U: Float
    sigma: Float | None  # None where the plan does not release it
    rank: int
    residual: float
    orthogonality: float
    checked: Checked | None = None
    total_energy: float | None = None  # the squared joint norm, where S is released
    product: Float | None = None  # X_i^T U, where it was made on the way
    own: Float | None = None  # this user's own singular vectors, (n_i, rank), where they were found on the way

    def __repr__(self) -> str:
        return f"Opened(U={self.U.shape}, rank={self.rank})"


def open_factors(work: Work, prepared: Prepared) -> Script:
    """U and S of the joint matrix, from the sum of the users' Gram matrices."""
    if work.plan.mode is Mode.A:
        return (yield from _by_users(work, prepared))
    return (yield from _by_provider(work, prepared))


def joint_factor(work: Work, prepared: Prepared) -> Script:
    """Mode A, steps 5 and 6: the joint Gram matrix, opened by the users, and its factor R; with the unit of both."""
    unit, batches = yield from _shared(work, prepared)
    words: Ring = yield Sum("gram", batches)
    found: WideFactor = yield Local("factorise", lambda: work.once(words, lambda: factor(words, work.masks.each)))
    return found, unit


def upload_gram(work: Work, prepared: Prepared) -> Script:
    """Mode B, steps 5 and 6: the CSP's answer to the sum of the users' Gram matrices, and the unit to read it in."""
    unit, batches = yield from _shared(work, prepared)
    answer = yield Upload(batches, len(row_panels(work.plan.M)), None if work.device is None else batches.padded)
    return answer, unit


def _shared(work: Work, prepared: Prepared) -> Script:
    """Step 4: the share, cut into batches. In mode A no check asks for L_i again, and it is dropped."""
    L_i = prepared.A_i
    assert isinstance(L_i, Dense)

    def made() -> tuple[Unit, Batches]:
        unit = common_unit(work, prepared.F1)
        slices = share(work, L_i.A_i, prepared.F1, unit)
        if work.plan.mode is Mode.A:
            L_i.drop()
        return unit, batches_of(work, slices)

    return (yield Local("share", made))


def rest_in_zeros(work: Work, after: str, answer: int) -> Script:
    """The sums after this one, and user 1's answer of this length, all zero: there is nothing to open.

    In mode A all that the CSP learns is the plan. A session that ended here would show it that the data is constant. In
    mode B it opens the Gram matrix, and would see zeros in any case.
    """
    if work.plan.mode is not Mode.A:
        return
    planned = planned_sums(work.plan)
    names = [each.name for each in planned]
    last = "left out" if "left out" in names else "gram"
    for each in planned[names.index(after) + 1 :]:
        yield Sum(each.name, partial(_zeros, each))
        if each.name == last:
            yield Common("answer", lambda: bytes(answer))


def _zeros(planned: PlannedSum, batch: int) -> Ring:
    return np.zeros(planned.shape(batch), np.uint64)


# --- mode A -----------------------------------------------------------------------------------------------------------


def _by_users(work: Work, prepared: Prepared) -> Script:
    plan, r = work.plan, work.plan.planned_rank
    joint, unit = yield from joint_factor(work, prepared)
    content: bytes = yield Common("answer", lambda: answer_of(joint.R, r, plan.n))
    U, sigma = read_answer(content, plan.M, r)
    if not work.leads:
        cut = max(plan.m, plan.n) * 2.0**-52
        yield Local("acceptance", lambda: accepts(joint.R, backend.like(U, joint.R), backend.like(sigma, joint.R), cut))
    found = int(np.count_nonzero(sigma))
    U, sigma = U[:, :found], sigma[:found]
    scale = unit.F / unit.c
    energy = in_data_units((backend.norm(joint.R) * scale) ** 2, prepared.E)
    released = np.ldexp(sigma * scale, prepared.E)
    return Opened(U, released, found, joint.residual, orthogonality_of(U), None, energy)


def answer_of(R: Array, r: int, n: int) -> bytes:
    """What user 1 sends: U with its signs, then S; columns beyond the rank are zero."""
    M = R.shape[0]
    R_t = backend.namespace(R).matrix_transpose(R)
    left = even_left(R_t)
    if left is None:
        whole = dense_svd(R_t)
        left = to_numpy(whole.U), to_numpy(whole.sigma)
    kept = min(rank(left[1], M, n), r)
    U, sigma = np.zeros((M, r)), np.zeros(r)
    U[:, :kept] = left[0][:, :kept]
    U[:, :kept] *= signs_of(U[:, :kept])
    sigma[:kept] = left[1][:kept]
    return np.ascontiguousarray(U, "<f8").tobytes() + np.ascontiguousarray(sigma, "<f8").tobytes()


def read_answer(content: bytes, M: int, r: int) -> tuple[Float, Float]:
    numbers: Float = np.frombuffer(content, "<f8").astype(np.float64)
    return numbers[: M * r].reshape(M, r), numbers[M * r :]


def orthogonality_of(U: Float) -> float:
    return float(backend.norm(backend.gram(U.T) - np.eye(U.shape[1])))


# --- mode B -----------------------------------------------------------------------------------------------------------


def _by_provider(work: Work, prepared: Prepared) -> Script:
    U, sigma = yield from _unmasked(work, prepared)
    checked: Checked = yield from check_factors(work, prepared, U, sigma)
    flip(U, (yield from common_signs(work, U)))
    energy = None if checked.trace is None else in_data_units(checked.trace, prepared.E)
    released = None if sigma is None else np.ldexp(sigma, prepared.E)
    return Opened(U, released, U.shape[1], checked.residual, orthogonality_of(U), checked, energy)


def _unmasked(work: Work, prepared: Prepared) -> Script:
    """U, and S in units of 2^E; P and U', each as large as U, end here."""
    answer, unit = yield from upload_gram(work, prepared)
    factors: Factors = answer
    found = rank_shown(factors.U_masked)
    U: Float = yield Local("unmask", lambda: to_numpy(unit.left_t(work.put(factors.U_masked[:, :found]))))
    sigma = None if factors.sigma_scaled is None else factors.sigma_scaled[:found] * (unit.F / unit.c)
    return U, sigma


def common_signs(work: Work, U: Float) -> Script:
    """The signs of the columns of U, decided by user 1 for all."""
    content: bytes = yield Common("signs", lambda: _sign_bits(U))
    return _read_signs(content, U.shape[1])


def _sign_bits(U: Float) -> bytes:
    """User 1 decides the signs, so that ties in the last digit cannot split the users (ADR 0013)."""
    return np.packbits(np.asarray(signs_of(U)) < 0).tobytes()


def _read_signs(content: bytes, r: int) -> Float:
    if len(content) != -(-r // 8):
        raise UnexpectedMessage("the message of signs has another length than U has columns")
    negative = np.unpackbits(np.frombuffer(content, np.uint8), count=r)
    return 1.0 - 2.0 * negative.astype(np.float64)
