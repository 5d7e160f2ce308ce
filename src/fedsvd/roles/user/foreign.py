"""A foreign task at a user: the sums that its script asks for, each of them declared, and the outputs at the end.

The script is a generator that knows no party: it yields ``(step, vector)`` and gets the total back. Here each request
is held to the declaration: a step that is not declared, or a vector of another length, ends the session before
anything of it is sent; that the steps come in their order, and all of them, is the automaton's (``played.py``). What a
script puts into a declared number is for its owner to read in the source (ADR 0065).
"""

import math
from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from fedsvd.errors import ConfigError, LocalProtocolError, printable
from fedsvd.protocol.foreign import ForeignPlan
from fedsvd.protocol.outputs import Named
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, StepKind, in_round
from fedsvd.roles.user.requests import Local, Request
from fedsvd.roles.user.sums import bound_sum, rounded_sum, whole_sum, wide_sum_of_floats
from fedsvd.roles.user.work import Playing, Work
from fedsvd.types import Float

_MOST_WHOLE = 2.0**53


def script(work: Work) -> Generator[Request, Any, Named]:
    """Play the task on this user's columns; the answer to each request is the joint total."""
    about = work.plan.foreign
    if about is None or work.statistic is None:
        raise ConfigError("a foreign task needs its module", "install it, and name its hash in policy.toml")
    X_i: Float = yield Local("reading", lambda: _read(work))
    playing, sums = work.statistic(X_i), _Declared(work.plan, about)
    answer: Float | None = None
    try:
        while True:
            asked = yield Local("script", lambda: _next(playing, answer))  # noqa: B023
            if isinstance(asked, Mapping):
                return Named(_outputs(about, asked))
            step, vector = sums.next(*asked)
            answer = yield from _summed(work, step, vector, sums)
    finally:
        playing.close()


def _read(work: Work) -> Float:
    """X_i in memory: a script gets each of its columns whole."""
    X_i = np.empty(work.source.shape)
    for place, panel in work.panels("reading"):
        X_i[:, place] = panel
    return X_i


def _next(playing: Playing, answer: Float | None) -> tuple[str, Float] | Mapping[str, Float]:
    try:
        return next(playing) if answer is None else playing.send(answer)
    except StopIteration as end:
        found: Mapping[str, Float] = end.value
        return found


class _Declared:
    """The declared sums by name, the round that each is in, and the units that bounds have found."""

    def __init__(self, plan: SessionPlan, about: ForeignPlan) -> None:
        self._task = about.name
        self._steps = {inner.name: (inner, bool(step.body)) for step in plan.steps for inner in (step.body or (step,))}
        self._units = dict(about.units)
        self._played: Counter[str] = Counter()
        self._found: dict[str, int] = {}  # exponents of the units, by the name of the bound

    def next(self, name: str, vector: Float) -> tuple[PlannedStep, Float]:
        """The declared step that a script asks for, under its name in this round, and the numbers it brings."""
        if name not in self._steps:
            fault = f"the script of {self._task} asks for {printable(name, 40)!r}, which it does not declare"
            raise LocalProtocolError(fault, "nothing of it was sent; ask its author")
        step, repeats = self._steps[name]
        self._played[name] += 1
        numbers = np.asarray(vector, dtype=np.float64)
        length = 1 if step.kind is StepKind.BOUND else step.size
        if numbers.shape != (length,):
            fault = f"the script of {self._task} brings {numbers.size} numbers to {name!r}, which declares {length}"
            raise LocalProtocolError(fault, "nothing of it was sent; ask its author")
        whole = step.kind is not StepKind.WHOLE or bool(np.all(np.abs(numbers) < _MOST_WHOLE))
        if not np.isfinite(numbers).all() or not whole or (step.kind is StepKind.WHOLE and np.any(numbers % 1)):
            what = "whole numbers below 2^53" if step.kind is StepKind.WHOLE else "finite numbers"
            fault = f"what the script of {self._task} brings to {name!r} is not all {what}"
            raise LocalProtocolError(fault, "nothing of it was sent; ask its author")
        return in_round(step, f" {self._played[name]}") if repeats else step, numbers

    def found(self, step: PlannedStep, exponent: int | None) -> Float:
        """Remember the unit that a bound has found; the script gets the power of two, or 0 where all are zero."""
        self._found[step.name.rstrip(" 0123456789")] = 0 if exponent is None else exponent
        return np.array([0.0 if exponent is None else math.ldexp(1.0, min(exponent, 1023))])

    def exponent(self, step: PlannedStep, numbers: Float) -> int:
        """The exponent of a total's last digit; raises where its numbers are beyond its unit."""
        bound = self._units.get(step.name.rstrip(" 0123456789"))
        unit = 0 if bound is None else self._found[bound]
        with np.errstate(under="ignore"):
            within = np.all(np.abs(np.ldexp(numbers, -unit)) <= 1.0)
        if not within:
            fault = f"the script of {self._task} brings a number above its unit to {step.name!r}"
            raise LocalProtocolError(fault, "nothing of it was sent; ask its author")
        return unit - step.step


def _summed(work: Work, step: PlannedStep, vector: Float, sums: _Declared) -> Generator[Request, Any, Float]:
    """The joint total of what a step brings, encoded as its kind says."""
    match step.kind:
        case StepKind.WHOLE:
            total: Float = yield from whole_sum(work.plan, step.name, vector)
        case StepKind.WIDE:
            total = yield from wide_sum_of_floats(step.name, vector, work.own)
        case StepKind.BOUND:
            exponent = math.frexp(vector[0])[1] if vector[0] else None
            total = sums.found(step, (yield from bound_sum(step.name, exponent, work.own)))
        case _:
            total = yield from rounded_sum(work.plan, step.name, vector, sums.exponent(step, vector), work.own)
    return total


def _outputs(about: ForeignPlan, returned: Mapping[str, Float]) -> dict[str, Float]:
    """The declared outputs; raises where a script returns others, or of another shape."""
    found = {}
    for output in about.outputs:
        array = np.asarray(returned.get(output.name, ()), dtype=np.float64)
        if array.shape != output.shape:
            fault = f"the script of {about.name} returns {output.name!r} of shape {array.shape}, not {output.shape}"
            raise LocalProtocolError(fault, "ask its author")
        found[output.name] = array
    more = [name for name in returned if name not in found]
    if more:
        fault = f"the script of {about.name} returns {printable(more[0], 40)!r}, which it does not declare"
        raise LocalProtocolError(fault, "ask its author")
    return found
