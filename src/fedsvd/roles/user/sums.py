"""A user's end of the sums of a session, and how a script asks for one (specification, section 2).

``SumsOfUser`` pads, tags, opens; ``SumInHand`` is a sum between its first share and its last total. The functions below
them are what scripts call: they encode this user's numbers as the sum's kind says, add the noise its row of the
specification names, from this user's own stream, and decode the total.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import accumulate, pairwise
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import FINE_STEP, SHORT_STEP
from fedsvd.randomness.keystream import Each, Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.requests import Script, Sum
from fedsvd.roles.user.shared import Memo, once_for
from fedsvd.secagg import bound, fixed_point, noise, wide, words128
from fedsvd.secagg.dither import encode_long
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import Pads, PadsOnce, claimed, pad, threads_for
from fedsvd.secagg.sums import PlannedSum, SumKind, even_batches
from fedsvd.secagg.tagged import SumSeeds, open_total, share
from fedsvd.statistics.fives import fives
from fedsvd.types import Float, Ring

NORM_WIDTH = 50
"""Noise of ``norm``, C and their like: uniform within 2^50 steps (specification, section 2)."""

SPECTRUM_WIDTH = 46
"""Noise of ``diag`` and ``trace``: uniform within 2^46 steps."""

_FILLED = 5  # last bits of a short word
_FOLD = 12  # a total is opened modulo 2^12 times, or half of that, what an honest one stays below
_MOST = 2.0**16  # of 500 users still below what a total holds

Draw = Callable[[int, Keystream], NDArray[np.int64]]


class SumsOfUser:
    """One user's end of all sums of a session."""

    def __init__(
        self, keys: PadKeys, seeds: Mapping[str, Seed], own: Seed, once: PadsOnce, each: Each | None = None
    ) -> None:
        self._keys = keys
        self._all = SumSeeds.of_users(seeds["users"].derive("sums"))
        self._receiving = SumSeeds.of_receiver(own)
        self._sending = SumSeeds.of_sender(seeds["tags"]) if "tags" in seeds else None
        self._once = once
        self._each = each
        # Of what opens them, as a label: users of one process that were dealt other seeds do not share totals.
        self.opened_as = f"total {self._all.alpha.derive('memo').reveal().hex()}"

    def __repr__(self) -> str:
        return f"SumsOfUser(user={self._keys.user})"

    def share(self, planned: PlannedSum, batch: int, payload: Ring) -> tuple[Ring, Ring]:
        """Our padded share of a batch and its padded tag."""
        each = threads_for(payload.size, self._each)
        return share(planned, batch, payload, self._keys, self._seeds(planned), self._once, each)

    def open(self, planned: PlannedSum, batch: int, payload: Ring, tag: Ring) -> Ring:
        """The total of a batch, or ``SumAltered``."""
        return open_total(planned, batch, payload, tag, self._seeds(planned), threads_for(payload.size, self._each))

    def padded(self, payload: Ring, stream: str, batch: int) -> Ring:
        """A batch of an upload under our pads: words of 128 bits, or rows of 64-bit ones."""
        halves = 2 if stream == "gram" else 1
        each = threads_for(payload.size, self._each)
        return pad(payload, self._keys, stream, batch, self._once, each, halves=halves)

    def pads(self, stream: str, batch: int) -> Pads:
        """Our pads for a batch, of words as in ``padded``, for a caller that adds them; spent."""
        return claimed(self._keys, stream, batch, self._once, halves=2 if stream == "gram" else 1)

    def _seeds(self, planned: PlannedSum) -> SumSeeds:
        if planned.receiver is None:
            return self._all
        if planned.receiver == self._keys.user or self._sending is None:
            return self._receiving
        return self._sending


class SumInHand:
    """The sum that a script asked for, batch by batch, at a user."""

    def __init__(self, sums: SumsOfUser, planned: PlannedSum, me: int, encoded: Callable[[int], Ring]) -> None:
        self._sums, self._encoded = sums, encoded
        self._totals: list[Ring] = []
        self.planned = planned
        self.batch = 0
        self.is_read = planned.receiver in (None, me)  # the total is ours to read

    def share(self) -> tuple[Ring, Ring]:
        """Our padded share of the batch in hand, and its padded tag."""
        return self._sums.share(self.planned, self.batch, self._encoded(self.batch))

    def open(self, payload: Ring, tag: Ring) -> Ring:
        """The total of the batch in hand: its last pad comes off and its tag is compared before any other use."""
        return self._sums.open(self.planned, self.batch, payload, tag)

    def take(self, total: Ring) -> None:
        """Keep the total of the batch in hand, opened by us or by another user of this process."""
        self._totals.append(total)

    @property
    def is_last(self) -> bool:
        """Whether no batch follows the one in hand."""
        return self.batch + 1 == len(self.planned.batches)

    def next(self) -> bool:
        """Take the next batch in hand; False where there is no other."""
        if self.is_last:
            return False
        self.batch += 1
        return True

    def totals(self) -> list[Ring]:
        """The totals of all batches, once every one is open; they are then let go."""
        totals, self._totals = self._totals, []
        return totals

    def joined(self) -> Ring:
        """The total of all batches."""
        return _joined(self.totals())

    def read(self, made: Callable[[Ring], Any] | None, memo: Memo | None, users: int) -> Any:
        """The total, or what is made of it: once for users of one process that hold the very same batches."""
        totals = self.totals()
        if made is None:
            return _joined(totals)
        same = " ".join(str(id(total)) for total in totals)  # all are held until the last user has read them

        def once() -> Any:
            found = made(_joined(totals))
            if isinstance(found, np.ndarray):
                found.flags.writeable = False  # others have it
            return found

        return once_for(memo, totals[-1], f"read {self._sums.opened_as} {same}", users, once)


def _joined(totals: list[Ring]) -> Ring:
    return totals[0] if len(totals) == 1 else np.concatenate(totals)


def wide_sum(name: str, integers: list[int], widths: list[int], own: Seed) -> Script:
    """The exact total of these integers, in units of 2^-1074, each with noise within 2^w of them."""
    return (yield from exact_wide_sum(name, _noisy(name, integers, widths, own)))


def _noisy(name: str, integers: list[int], widths: list[int], own: Seed) -> list[int]:
    return list(map(add, integers, noise.uniform_integers(widths, Keystream.of(own, "noise", name))))


def exact_wide_sum(name: str, integers: list[int]) -> Script:
    """The exact total of these integers, in units of 2^-1074, with the noise that is already in them."""
    return (yield from _wide(name, integers, wide.decode_integers))


def _wide(name: str, integers: list[int], read: Callable[[Ring], Any]) -> Script:
    cuts = _cuts(SumKind.WIDE, len(integers))
    return (yield Sum(name, lambda batch: wide.encode_integers(integers[cuts[batch]]), read))


def whole_sum(plan: SessionPlan, name: str, values: Float) -> Script:
    """The exact total of whole numbers, which is all that users are to learn; without noise."""
    cuts = _cuts(SumKind.TOTAL, values.size)

    def encoded(batch: int) -> Ring:
        return words128.to_words(values[cuts[batch]], 0, terms=plan.k)

    return (yield Sum(name, encoded, lambda total: words128.to_numbers(total, 0)))


def sum_of_fives(plan: SessionPlan, name: str, counts: Float, least: int) -> Script:
    """The total of own counts that are rounded here, before a share is made: multiples of ``least``, which may be 1."""
    total = yield from whole_sum(plan, name, fives(counts, least) / least)
    return total * least


def wide_sum_of_floats(name: str, values: Float, own: Seed) -> Script:
    """The total of these numbers, each with noise in its own last digit, rounded once."""
    flat = np.ravel(values)
    widths = [noise.value_width(value) for value in flat.tolist()]
    return (yield from _wide(name, _noisy(name, wide.integers(flat), widths, own), wide.decode))


def total_sum(plan: SessionPlan, name: str, values: Float, own: Seed, width: int, step: int = FINE_STEP) -> Script:
    """The total of these numbers, of about unit size, in steps of 2^-step with uniform noise within 2^width steps."""
    return (yield from _total(plan, name, values, step, lambda count, stream: noise.uniform(width, count, stream), own))


def short_sum(
    name: str, values: Float, power: int, own: Seed, step: int = SHORT_STEP, each: Each | None = None
) -> Script:
    """The total of these numbers, which is below 2^power, in words of 64 bits; last places are filled at random.

    A last digit counts 2^-step of that bound. Shares may wrap on the way: the total alone must not (specification,
    section 2).
    """
    flat, f = np.ravel(values), step - power
    cuts = _cuts(SumKind.SHORT, flat.size)

    def encoded(batch: int) -> Ring:
        numbers = flat[cuts[batch]]
        return encode_long(numbers, f, _FILLED, own.derive("noise", name, batch), threads_for(numbers.size, each))

    return (yield Sum(name, encoded, lambda total: fixed_point.decode(total, f).reshape(np.shape(values))))


def folded_sum(name: str, values: Float, own: Seed, deviation: float, limit: float) -> Script:
    """The total of these numbers, each with normal noise of this deviation, modulo a power of two above 2^11 ``limit``.

    A check passes below ``limit``, which an honest answer stays far within. Of any other only the last digits are
    opened: a residual of a made-up answer is an equation in the joint Gram matrix, and enough of them would give it.
    Low halves of words wrap under their tag, high halves are random.
    """
    step = 64 - _FOLD - math.frexp(limit)[1]
    stream = Keystream.of(own, "noise", name)
    added = noise.rounded_normals(math.ldexp(deviation, step), values.size, stream)
    steps = [round(Fraction(value) * Fraction(2) ** step) for value in values.tolist()]
    low = words128.from_integers(map(add, steps, added.tolist()))[:, 0]
    words = np.column_stack((low, stream.words(values.size)))

    def read(total: Ring) -> Float:
        found: Float = np.ldexp(np.ascontiguousarray(total[:, 0]).view(np.int64).astype(np.float64), -step)
        return found

    return (yield Sum(name, lambda batch: words, read))


def rounded_sum(plan: SessionPlan, name: str, values: Float, exponent: int, own: Seed) -> Script:
    """The total of these numbers in units of 2^exponent, each user's rounded up or down at random, to its mean."""
    flat = np.ravel(values)
    with np.errstate(under="ignore"):
        scaled = np.ldexp(flat, -exponent)
    added = Keystream.of(own, "noise", name).words(flat.size) * 2.0**-64
    cuts = _cuts(SumKind.TOTAL, flat.size)

    def encoded(batch: int) -> Ring:
        return words128.to_words(np.floor(scaled + added)[cuts[batch]], 0, terms=plan.k)

    def read(total: Ring) -> Float:
        return np.ldexp(words128.to_numbers(total, 0), exponent).reshape(np.shape(values))

    return (yield Sum(name, encoded, read))


def _total(plan: SessionPlan, name: str, values: Float, step: int, draw: Draw, own: Seed) -> Script:
    flat = np.ravel(values)
    cuts = _cuts(SumKind.TOTAL, flat.size)

    def encoded(batch: int) -> Ring:
        part = flat[cuts[batch]]
        added = draw(part.size, Keystream.of(own, "noise", name, batch))
        return words128.to_words(part, step, noise=added, terms=plan.k)

    return (yield Sum(name, encoded, lambda total: words128.to_numbers(total, step).reshape(np.shape(values))))


def within_bounds(values: Float) -> Float:
    """These numbers, which an honest answer makes about 1, cut at 2^16.

    A CSP that answers with a singular value that is too small makes them as large as it likes. Were they not cut, a
    user whose own part exceeds what a sum holds would stop alone, and the CSP would learn whose part that is. Cut, they
    spoil the total in the same way for all.
    """
    cut: Float = np.clip(np.nan_to_num(values, nan=_MOST, posinf=_MOST, neginf=-_MOST), -_MOST, _MOST)
    return cut


def upper_triangle(A: Float, r: int) -> Float:
    """The upper triangle, row after row, of A with zero rows and columns up to r."""
    packed, start = np.zeros(r * (r + 1) // 2), 0
    for row, line in enumerate(A):
        packed[start : start + len(A) - row] = line[row:]
        start += r - row
    return packed


def from_upper_triangle(packed: Float, r: int) -> Float:
    """The symmetric r x r matrix with this upper triangle."""
    A, start = np.empty((r, r)), 0
    for row in range(r):
        A[row, row:] = A[row:, row] = packed[start : start + r - row]
        start += r - row
    return A


def bound_sum(name: str, exponent: int | None, own: Seed) -> Script:
    """E of a power of two above every user's number, given this user's ``frexp`` exponent; None when all are zero."""
    total = yield Sum(name, lambda batch: bound.encode(exponent, Keystream.of(own, "noise", name)))
    return bound.decode(total)


def any_of(name: str, flags: NDArray[np.bool_], own: Seed) -> Script:
    """For each flag whether any user sets it, and nothing of how many do or which.

    A user that sets a flag sends a uniform low half, else zero: the low half of a total is zero when no user sets it,
    else uniform. A check that one user alone can make of its own part is judged so: a user that stopped by itself would
    show the CSP whose part does not fit its answer. A flag is missed with probability 2^-64.
    """

    def encoded(batch: int) -> Ring:
        words = Keystream.of(own, "noise", name).words(2 * flags.size).reshape(-1, 2)
        words[~flags, 0] = 0
        return words

    total = yield Sum(name, encoded)
    return total[:, 0] != 0


def any_user(name: str, violated: bool, own: Seed) -> Script:
    """Whether any user finds the check violated that this sum is named after."""
    found = yield from any_of(name, np.array([violated]), own)
    return bool(found[0])


def batches_of_numbers(count: int) -> list[slice]:
    """The numbers of each batch of a total."""
    return _cuts(SumKind.TOTAL, count)


def _cuts(kind: SumKind, count: int) -> list[slice]:
    return [slice(start, stop) for start, stop in pairwise(accumulate(even_batches(kind, count), initial=0))]
