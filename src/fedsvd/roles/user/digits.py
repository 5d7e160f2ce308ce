"""Sums of few digits as a user plays them, and a generalised linear model by them (specification, section 3).

``statistics.newton`` asks for sums in public units; here a user rounds its own numbers to them at home, adds a whole
number within four units of its own stream, and opens the total. No mask and no Gram matrix in all digits: the CSP sees
padded words, and how many evaluations there are. Every user counts the bits that were opened and ends the session
before they pass what the plan grants; a home test that fails at any user ends it at all of them, and no one learns at
which: its words are random, and so is the total.
"""

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from fedsvd.protocol.model import HOME_TESTS, START_SIZES
from fedsvd.protocol.openings import SIZE_BITS, granted_bits
from fedsvd.protocol.steps import SIZE_CLASSES
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.home import Home, OwnParts
from fedsvd.roles.user.models import Model, expect_counts
from fedsvd.roles.user.requests import Local, Script, Sum
from fedsvd.roles.user.sums import any_of, batches_of_numbers
from fedsvd.roles.user.work import Work
from fedsvd.secagg import words128
from fedsvd.statistics.irls import not_converged
from fedsvd.statistics.newton import NOISE, Fitting, powers, refused
from fedsvd.statistics.newton_requests import Asked, Point, Sizes, Totals
from fedsvd.types import Float, Ring

_MOST = 2.0**100  # words of a number at home; far below what a sum of 500 holds
_HIDING = np.uint64(2**52 - 1)  # of a high half: a random word hides any number, and 500 of them do not wrap


def name_of(asked: Sizes | Asked) -> str:
    """The step of a plan that a request asks for, without the number of its round."""
    if isinstance(asked, Sizes):
        return asked.of if asked.of in ("columns", "start") else f"{asked.of} sizes"
    return f"{asked.of} {asked.piece + 1}" if asked.of in ("information", "table", "squares") else asked.of


class DigitSums:
    """Sums of few digits of one session; ``bits`` were opened so far."""

    def __init__(self, work: Work, after: "DigitSums | None" = None) -> None:
        self._work = work
        self._granted: float = min(float(granted_bits(work.plan)), work.granted) if after is None else after._granted
        self.bits: float = 0.0 if after is None else after.bits
        self.users = work.plan.k
        self.opened_means = work.opened_means

    def sizes(self, name: str, own: Float) -> Script:
        """For each number the exponent of the least class that no user reaches; one above all where there is none."""
        _, exponents = np.frexp(np.where(np.isfinite(own), own, np.inf))
        exponents = np.where(own == 0.0, SIZE_CLASSES.start, np.where(np.isfinite(own), exponents, SIZE_CLASSES.stop))
        reached = np.add.outer(exponents, -np.asarray(SIZE_CLASSES)) > 0
        self._count(SIZE_BITS * len(own))
        found = yield from any_of(name, reached.ravel(), self._work.own)
        return SIZE_CLASSES.start + found.reshape(reached.shape).sum(axis=1)

    def sized(
        self,
        name: str,
        own: Float,
        bits: int,
        share: float = 1.0,
        runs: Sequence[int] = (),
        fails: Callable[[], Exception] | None = None,
    ) -> Script:
        """The total of numbers whose size is not known, in ``bits`` bits of ``share`` times it, and the units of these.

        Numbers of one of the ``runs`` have one unit. Where a number of any user is above all classes of sizes, or is
        not finite, the study ``fails`` at all of them, if it is to (declared by ``protocol.steps.sized``).
        """
        largest = np.abs(own)
        if runs:
            largest = np.array([part.max() for part in np.split(largest, np.cumsum(runs)[:-1])])
        exponents = yield from self.sizes(f"{name} sizes", largest)
        if fails is not None and (exponents == SIZE_CLASSES.stop).any():
            raise fails()
        units = np.ldexp(np.float64(share), exponents - bits)  # of an integer it would be a half float
        total, _ = yield from self.total(name, own, np.repeat(units, runs) if runs else units)
        return total, units

    def total(self, name: str, values: Float, units: Float) -> Script:
        """The total of what every user rounded at home, and this user's part of it as it was sent."""
        whole, noise = self._rounded(name, values, units)
        words = words128.to_words(whole, 0, noise=noise, terms=self._work.plan.k)
        found: Float = yield from self._opened(name, words, units)
        return found, (whole + noise) * units

    def _rounded(self, name: str, values: Float, units: Float) -> tuple[Float, NDArray[np.int64]]:
        """Own numbers in units, and noise of this user's own stream; neither where nothing is asked for."""
        asked = units > 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.rint(np.where(asked, values, 0.0) / np.where(asked, units, 1.0))
        whole = np.clip(np.nan_to_num(whole, nan=_MOST, posinf=_MOST, neginf=-_MOST), -_MOST, _MOST)
        drawn = Keystream.of(self._work.own, "noise", name).words(len(values))
        noise = (drawn % np.uint64(2 * NOISE + 1)).astype(np.int64) - NOISE
        return whole, np.where(asked, noise, 0)

    def _opened(self, name: str, words: Ring, units: Float) -> Script:
        """The total in natural units; its bits are counted, and none are opened beyond what is granted."""
        cuts = batches_of_numbers(len(units))
        total: Ring = yield Sum(name, lambda batch: words[cuts[batch]])
        whole = words128.to_numbers(total, 0)
        self._count(float(np.log2(2.0 * np.abs(whole[units > 0.0]) + 2.0).sum()))
        found: Float = whole * np.where(units > 0.0, units, 1.0)
        return found

    def _count(self, bits: float) -> None:
        self.bits += bits
        if self.bits > self._granted:
            raise refused()


class DigitsSession(DigitSums):
    """The sums of all models of one session, numbered by evaluations.

    A second model of another kind has names of its own, after a ``prefix``, and goes on to count bits ``after`` the
    first.
    """

    def __init__(self, work: Work, prefix: str = "", after: DigitSums | None = None) -> None:
        super().__init__(work, after)
        self._prefix = prefix
        assert work.plan.glm is not None
        self._about = work.plan.glm
        self.digits = self._about.digits
        self._coefficients = work.plan.M - 1
        self._evaluations, self._number = count(1), 1
        next(self._evaluations)
        self._scored = False
        self.residual = 0.0
        self.means: Float | None = None  # of the features, at all users together
        self.scales = np.ones(work.plan.m)  # powers of two above their spread about these
        self.counted: dict[str, float] = {}  # of the outcome

    def play(self, model: Model) -> Script:
        """The fit of one model."""
        return (yield from self.fit(Home(self._work, model), model.by_digits()))

    def fit(self, home: OwnParts, steps: Fitting) -> Script:
        """What an iteration comes to, from own parts that ``home`` makes."""
        asked = next(steps)
        while True:
            if isinstance(asked, Sizes):
                answer: NDArray[np.int64] | Totals = yield from self._sizes(home, asked)
            else:
                answer = yield from self._totals(home, asked)
            try:
                asked = steps.send(answer)
            except StopIteration as end:
                table, self.residual = end.value
                return table

    def _sizes(self, home: OwnParts, asked: Sizes) -> Script:
        """For each number the exponent of the least class that no user reaches."""
        if asked.of in ("columns", "start", "tilt"):
            self._next_evaluation()
        own: Float = yield Local("evaluate", lambda: home.sizes(asked))
        exponents = yield from self.sizes(self._named(name_of(asked)), own)
        if (exponents == SIZE_CLASSES.stop).any():
            raise refused()
        if asked.of == "start" and asked.at is not None and not asked.at.constant_only:
            self.scales = powers(exponents[START_SIZES:])
        return exponents

    def _named(self, name: str) -> str:
        """The name of a sum in this evaluation."""
        return f"{self._prefix}{name} {self._number}"

    def _totals(self, home: OwnParts, asked: Asked) -> Script:
        """The total of what every user rounded at home."""
        if asked.of == "score":
            return (yield from self._score(home, asked))
        if asked.of == "tilt":
            self._next_evaluation()
        values: Float = yield Local("evaluate", lambda: home.values(asked))
        units = self._padded(asked.units, asked)
        total, sent = yield from self.total(self._named(name_of(asked)), self._padded(values, asked), units)
        home.sent(asked, sent[: len(values)])
        found = total[: len(values)]
        if asked.of == "moments":
            self.counted = self._counts(found)
            expect_counts(self._work.plan, self.counted)
            columns = slice(self._about.moments, None)
            if self._work.plan.centre or self._about.facts.centred:
                self.means = found[columns] / self._work.plan.n
                self.opened_means(self.means)
        return Totals(found)

    def _score(self, home: OwnParts, asked: Asked) -> Script:
        """Home tests, then deviance and score; random words where a test failed."""
        assert asked.at is not None
        if self._scored:
            self._next_evaluation()
        self._scored = True
        at: Point = asked.at

        def tested() -> tuple[bool, bool, Float]:
            far = home.beyond(at, asked.scale)  # a step that went too far is halved
            return not far and home.stands_out(at), far, home.values(asked)

        stands_out, beyond, values = yield Local("evaluate", tested)
        units = self._padded(np.concatenate((np.zeros(HOME_TESTS), asked.units)), asked)
        numbers = self._padded(np.concatenate((np.zeros(HOME_TESTS), values)), asked)
        words = self._tested(stands_out, beyond, numbers, units)
        total = yield from self._opened(self._named("score"), words, units)
        failed = total[:HOME_TESTS] != 0.0
        if failed[0]:
            return Totals(None)
        return Totals(None if failed[1] else total[HOME_TESTS : len(asked.units) + HOME_TESTS], beyond=bool(failed[1]))

    def _tested(self, stands_out: bool, beyond: bool, numbers: Float, units: Float) -> Ring:
        """Words of a score; none of them says anything where a test failed, but for the two that say so."""
        if not (stands_out or beyond):
            whole, noise = self._rounded(self._named("score"), numbers, units)
            return words128.to_words(whole, 0, noise=noise, terms=self._work.plan.k)
        stream = Keystream.of(self._work.own, "noise", "refused", self._named("score"))
        words = stream.words(2 * len(numbers)).reshape(-1, 2).astype(np.uint64)
        words[:, 1] &= _HIDING
        words[:HOME_TESTS][~np.array([stands_out, beyond])] = 0
        return words

    def _next_evaluation(self) -> None:
        if not self._scored:
            return
        self._number, self._scored = next(self._evaluations), False
        if self._number > self._about.evaluations:
            raise not_converged(self._about.max_iterations)

    def _padded(self, values: Float, asked: Asked) -> Float:
        """As long as the plan says: a null model has fewer coefficients, and its sums are as long."""
        P = self._coefficients
        lengths = {"score": HOME_TESTS + 2 + P, "information": P * (P + 1) // 2, "table": P * (P + 1) // 2}
        length = lengths.get(asked.of, len(values))
        return np.concatenate((values, np.zeros(length - len(values))))

    def _counts(self, moments: Float) -> dict[str, float]:
        """The outcome's part of the moments by name."""
        outcome = moments[2 : self._about.moments]
        if self._about.counted:  # noise is a part of 1
            outcome = np.rint(outcome)
        outcome = outcome.tolist()
        weight = float(moments[0]) if self._about.sums_weights else float(self._work.plan.n)
        if not self._about.facts.class_counts:  # the first is of all of it
            return {"weight": weight, "target": outcome[0]}
        return {"weight": weight, **{f"class {k}": value for k, value in enumerate(outcome)}}
