"""A user's end of a matrix that the CSP splits among the users (``protocol/shared.py``): masks, parts, exchange.

``opened`` asks for the shared sum; what it returns is one user's part of it: the total that all hold, and this user's
own mask. ``exchanged`` sends every other user its part of a product, and adds up what the others send this one. Parts
carry noise that covers the last digits of the whole numbers they are made of: exact, they could be solved for the
matrix behind them where one user has most columns.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import VerificationFailed
from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.extended import Pair
from fedsvd.linalg.ring_forms import BITS, HALVES, on_grid
from fedsvd.masks.apply import unmask_right
from fedsvd.protocol.shared import VECTOR_BITS, about_words, shared_words, vector_words
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.requests import ASK_ITS_OWNER, Common, Give, Script, Sum, Take
from fedsvd.roles.user.work import Work
from fedsvd.secagg import noise
from fedsvd.secagg.words128 import add_into, from_integers, negate, to_integers
from fedsvd.types import Float, Ring

Whole = NDArray[np.object_]
_CLOSE = 1e-11  # between one user's Q and another's: they are drawn by other libraries, and are the same mask


@dataclass(frozen=True)
class Units:
    """What the CSP's columns and labels are in, and what the targets were scaled by."""

    columns: float
    labels: float
    targets: Float


@dataclass(frozen=True, repr=False)
class Parts:
    """One user's part of a matrix: the total that all hold, this user's mask, the users' mask of their vectors."""

    total: Ring  # of the matrix, (words, 5)
    mask: Ring  # likewise
    border: Whole  # (vectors, N): what is on the users' vectors
    exponent: int  # of the unit of the matrix
    numbers: Float  # what else the CSP wrote for all: a condition, or residual squares of each target

    @property
    def ours(self) -> Ring:
        """What user 1 multiplies: the total with its own mask."""
        return add_into(self.total.copy(), self.mask)


def opened(work: Work, name: str, vectors: Float, times: int = 1) -> Script:
    """This user's part of the matrix of the sum ``name``; its own vectors, (vectors, N), are within +-1.

    The last of them goes up times a whole number, exactly.
    """
    plan = work.plan
    count, about = vector_words(plan), about_words(plan)
    first = count + about
    mask = Keystream.of(work.own, "split", name).words(HALVES * (shared_words(plan) - first)).reshape(-1, HALVES)
    border = Keystream.of(work.checks, "split", name).words(HALVES * count).reshape(-1, HALVES)

    def share(batch: int) -> Ring:
        steps = np.rint(np.ldexp(vectors.ravel(), VECTOR_BITS))
        whole = [int(step) for step in steps.tolist()]
        own = from_integers((*whole[: -plan.N], *(times * step for step in whole[-plan.N :])), HALVES)
        if work.leads:
            add_into(own, border)
        return np.concatenate((own, np.zeros((about, HALVES), np.uint64), negate(mask)))

    words: Ring = yield Sum(name, share)
    numbers = words[count:first, 0].view(np.float64)
    # A condition may be infinite; no other number is, and none is negative but the exponent.
    if not (np.isfinite(numbers[0]) and bool(np.all(numbers[1:] >= 0.0))):
        raise VerificationFailed("the CSP wrote numbers that no regression has")
    whole = np.array(to_integers(border), object).reshape(-1, plan.N)
    return Parts(words[first:], mask, whole, int(np.clip(numbers[0], -2000, 2000)), numbers[1:])


def common_right_mask(work: Work) -> Script:
    """Q as user 1 has it, in whole steps of 2^-57, (N, N): last digits differ between machines, and here all count."""
    plan = work.plan
    eye = work.put(np.eye(plan.N))
    Q = np.concatenate([to_numpy(unmask_right(eye, work.masks.Q, i)) for i in range(plan.k)])
    content: bytes = yield Common("right mask", lambda: on_grid(Q).astype("<i8").tobytes())
    if len(content) != 8 * plan.N**2:
        raise VerificationFailed("user 1 sent a mask of another size than the plan says", ASK_ITS_OWNER)
    whole = np.frombuffer(content, "<i8").astype(np.int64).reshape(plan.N, plan.N)
    if not float(np.abs(whole * 2.0**-57 - Q).max()) <= _CLOSE:
        raise VerificationFailed("the mask that user 1 sent is not the one it dealt", ASK_ITS_OWNER)
    return whole


def masked_row(work: Work, w: Float) -> Float:
    """``Q_i^T T_i^T w``: a vector over this user's columns as the CSP's problem has it, (n_i,) to (N,)."""
    row: Float = to_numpy(work.masks.under_right(work.put(w[None, :])))[0] / work.masks.c
    return row


def own_rows(work: Work, i: int) -> slice:
    """Rows of Q that are user i's, i from 0."""
    start = sum(work.plan.widths[:i])
    return slice(start, start + work.plan.widths[i])


def exchanged(work: Work, part: Callable[[int], bytes], size: Callable[[int], int]) -> Script:
    """The parts that all other users sent this one; ``part`` is what this user sends user i, ``size`` its bytes."""
    others = [i for i in range(work.plan.k) if i != work.i]
    for i in others:
        yield Give(i, part(i))
    received = []
    for i in others:
        content: bytes = yield Take(i, size(work.i))
        received.append(content)
    return received


def noisy(integers: list[int], bits: int, work: Work, *label: str | int) -> list[int]:
    """Whole numbers with noise, uniform within 2^bits, from this user's own stream."""
    drawn = noise.uniform_integers([bits] * len(integers), Keystream.of(work.own, "noise", *label))
    return [value + added for value, added in zip(integers, drawn, strict=True)]


def as_pair(integers: list[int], power: int, shape: tuple[int, ...], bits: int = BITS) -> Pair:
    """These integers modulo 2^bits, signed, times 2^power, each to about 106 bits."""
    values = [signed(value, bits) for value in integers]
    high = [float(value) for value in values]
    low = [float(value - int(number)) for value, number in zip(values, high, strict=True)]
    return Pair(*(np.ldexp(np.array(each).reshape(shape), power) for each in (high, low)))


def signed(value: int, bits: int = BITS) -> int:
    """The integer of least magnitude that is this one modulo 2^bits."""
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def as_bytes(integers: list[int], halves: int = HALVES) -> bytes:
    """Integers of the ring as they travel."""
    return from_integers(integers, halves).astype("<u8").tobytes()


def as_integers(content: bytes, halves: int = HALVES) -> list[int]:
    """The signed integers of bytes that came."""
    return to_integers(np.frombuffer(content, "<u8").astype(np.uint64).reshape(-1, halves))
