"""A joint preparation of tables: the sums that ``prepare/script.py`` asks for, and what a user holds at the end.

Every sum is opened by the users alone and stands in the plan by name and length; what is shorter than its sum has zeros
after it. Numbers of any size are *wide* sums: exact, with noise in the sender's last digit (specification, section 2).
Rounds of low-rank imputation open a few digits (``digits.py``). Whole numbers (counts, sketches of levels, texts) have
no noise: their total is what all users are to learn, and a share is a uniform word to all others, so that no digit of
it can be read off. Nothing of this is released beyond the users, and the CSP reads none of it.
"""

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, LocalProtocolError
from fedsvd.prepare.script import AskSum, PreparedTable, prepare
from fedsvd.protocol.steps import PlannedStep, StepKind
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.digits import DigitSums
from fedsvd.roles.user.requests import Local, Request
from fedsvd.roles.user.sums import any_of, exact_wide_sum, whole_sum
from fedsvd.roles.user.work import Work
from fedsvd.secagg import noise, wide
from fedsvd.types import Float


def script(work: Work) -> Generator[Request, Any, PreparedTable]:
    """Play the preparation of this user's table; the answer to each sum is its total."""
    if work.rule is None or work.key is None:
        raise ConfigError("a preparation needs its rule", "give the rule of the job")
    sums = DigitSums(work)
    sizes = [float(rows) for i, rows in enumerate(work.plan.counts) if i != work.i]
    playing = prepare(work.source.T, work.rule, work.key, sizes)
    answer: Float | None = None
    for step in work.plan.steps:
        asked = yield Local(step.name, lambda: _next(playing, answer))  # noqa: B023
        if not isinstance(asked, AskSum) or asked.what != step.name or asked.vector.size > step.size:
            raise LocalProtocolError(f"the sum {step.name!r} of the plan is not what this preparation asks for")
        answer = yield from _summed(work, sums, step, asked)
    ended = yield Local("preparing", lambda: _next(playing, answer))
    if not isinstance(ended, PreparedTable):
        raise LocalProtocolError("a preparation asks for more sums than the plan has")
    return ended


def _next(playing: Generator[AskSum, Float, PreparedTable], answer: Float | None) -> AskSum | PreparedTable:
    try:
        return next(playing) if answer is None else playing.send(answer)
    except StopIteration as end:
        found: PreparedTable = end.value
        return found


def _summed(work: Work, sums: DigitSums, step: PlannedStep, asked: AskSum) -> Generator[Request, Any, Float]:
    """The total of what is asked for, in a sum of the plan's length."""
    length = asked.vector.size
    padded = np.concatenate((asked.vector, np.zeros(step.size - length)))
    if step.kind is StepKind.DIGITS:
        units = np.where(np.arange(step.size) < length, asked.unit, 0.0)  # nothing is asked for beyond the vector
        both: Float = np.stack((yield from sums.total(step.name, padded, units)))
        return both[:, :length]
    if step.kind is StepKind.BOUND:
        found: NDArray[np.bool_] = yield from any_of(step.name, padded > 0.0, work.own)
        return found[:length].astype(np.float64)
    if step.kind is StepKind.WHOLE:
        total: Float = yield from whole_sum(work.plan, step.name, padded)
        return total[:length]
    noisy = with_noise(padded, asked.whole, work.own.derive("noise", step.name))
    total = wide.rounded((yield from exact_wide_sum(step.name, noisy)))
    return total[:length]


def with_noise(values: Float, whole: int, seed: Seed) -> list[int]:
    """These numbers in units of 2^-1074, each with noise in its last digit, but for whole ones from ``whole`` on."""
    widths = [noise.value_width(value) for value in values[:whole].tolist()]
    added = noise.uniform_integers(widths, Keystream(seed))
    exact = wide.integers(values)
    return [*(value + extra for value, extra in zip(exact[:whole], added, strict=True)), *exact[whole:]]
