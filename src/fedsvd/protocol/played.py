"""What may come next in a session: an automaton over the steps of its plan.

A place is a stack of (body, next step in it, round): where a reader of the list would have a finger. ``maybe`` and
``repeat`` leave several fingers on the page until the next request takes all but one of them away. ``advance`` moves on
by one request and raises where the plan has no such step next. In an exchange each direction has its own order: what a
user gives, and what it takes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from fedsvd.errors import LocalProtocolError
from fedsvd.protocol.steps import PlannedStep, StepKind, in_round

_Frame = tuple[tuple[PlannedStep, ...], int, int]  # a body, the next step in it, the round (0: no repetition)
_ANY = -1  # a round of a repetition that may begin with any: the next name says which


@dataclass(frozen=True)
class _Place:
    stack: tuple[_Frame, ...]
    given: int = 0  # of the exchange at this place
    taken: int = 0

    def __hash__(self) -> int:
        # Without the bodies, which are long and mostly the same: equal places have equal numbers.
        return hash((*(number for _, *at in self.stack for number in at), self.given, self.taken))


_Places = frozenset[_Place]


@dataclass(frozen=True)
class Pair:
    """A sealed message of an exchange at one user: to or from which user, counted from 0, and its bytes."""

    other: int
    size: int
    gives: bool


Exchanges = dict[str, tuple[tuple[Pair, ...], tuple[Pair, ...]]]  # by name: what a user gives, what it takes


class Played:
    """The steps of a plan as far as they were played by one user."""

    def __init__(self, steps: tuple[PlannedStep, ...], exchanges: Exchanges, unseen: tuple[StepKind, ...] = ()) -> None:
        self._exchanges, self._unseen = exchanges, unseen
        self._places = frozenset(self._heads(_Place(((steps, 0, 0),))))
        self.steps: list[PlannedStep] = []  # as they were played, but for exchanges

    def advance(
        self, kinds: tuple[StepKind, ...], name: str | None, fits: Callable[[PlannedStep], bool] | None = None
    ) -> PlannedStep:
        """Play the next step: of one of these kinds, with this name where one is given, and one that ``fits``."""
        if fits is None and not self._unseen and not any(map(any, self._exchanges.values())):
            found, played = _advanced(self._places, kinds, name)
        else:
            found, played = self._behind_next(self._places, kinds, name, fits)
        if played is None:
            raise LocalProtocolError(
                f"{name or kinds[0].value!r} is not the next step of the plan",
                "nothing of it was sent; it is a defect of fedsvd: report it",
            )
        self._places = found
        self.steps.append(played)
        return played

    def _behind_next(
        self,
        places: _Places,
        kinds: tuple[StepKind, ...],
        name: str | None,
        fits: Callable[[PlannedStep], bool] | None = None,
    ) -> tuple[_Places, PlannedStep | None]:
        """Where a request leads from these places, and the step that it is, if it is one."""
        found: set[_Place] = set()
        played = None
        for place in [_begun(each, name) for each in places]:
            step = self._step(place)
            if step is None or step.kind not in kinds or (name is not None and step.name != name):
                continue
            if fits is not None and not fits(step):
                continue
            played = step
            found.update(self._heads(_after(place)))
        return frozenset(found), played

    def exchange(self, pair: Pair) -> None:
        """Give or take the next message of an exchange."""
        found: set[_Place] = set()
        for place in self._places:
            step = self._step(place)
            if step is None or step.kind is not StepKind.EXCHANGE:
                continue
            gives, takes = self._exchanges[step.name]
            moved = _Place(place.stack, place.given + pair.gives, place.taken + (not pair.gives))
            order, turn = (gives, place.given) if pair.gives else (takes, place.taken)
            if turn < len(order) and order[turn] == pair:
                found.update(self._heads(moved))
        if not found:
            raise LocalProtocolError(
                "a sealed message that is not the next one of the plan",
                "it was not sent; it is a defect of fedsvd: report it",
            )
        self._places = frozenset(found)

    def expect_end(self) -> None:
        """Raise where steps that cannot be left out were not played."""
        if not any(self._step(place) is None for place in self._places):
            missing = sorted({step.name for place in self._places if (step := self._step(place)) is not None})
            raise LocalProtocolError(f"the plan goes on with {', '.join(missing)}")

    def _step(self, place: _Place) -> PlannedStep | None:
        """The step at a place, under its name in this round; None at the end."""
        if not place.stack:
            return None
        body, at, round = _begun(place, None).stack[-1]
        return in_round(body[at], f" {round}" if round else "")

    def _heads(self, place: _Place) -> Iterator[_Place]:
        """The places that can be reached from here without a request."""
        if not place.stack:
            yield place
            return
        *outer, (body, at, round) = place.stack
        if at == len(body):
            yield from self._behind(tuple(outer), round)
            return
        step = body[at]
        if step.kind in (StepKind.MAYBE, StepKind.REPEAT):
            repeats = step.kind is StepKind.REPEAT
            yield from self._heads(_Place((*place.stack, (step.body, 0, 1 if repeats else round))))
            if repeats and step.resumes and step.times > 1:
                yield _Place((*place.stack, (step.body, 0, _ANY)))
            yield from self._heads(_after(place))
        elif step.kind in self._unseen or (step.kind is StepKind.EXCHANGE and self._through(step, place)):
            yield from self._heads(_after(place))
        else:
            yield place

    def _behind(self, stack: tuple[_Frame, ...], round: int) -> Iterator[_Place]:
        """The places behind a body that was played to its end: its next round, and what follows it."""
        if not stack:
            yield _Place(())
            return
        step = stack[-1][0][stack[-1][1]]
        if step.kind is StepKind.REPEAT and round < step.times:
            yield from self._heads(_Place((*stack, (step.body, 0, round + 1))))
        yield from self._heads(_after(_Place(stack)))

    def _through(self, step: PlannedStep, place: _Place) -> bool:
        gives, takes = self._exchanges.get(step.name, ((), ()))
        return place.given == len(gives) and place.taken == len(takes)


@lru_cache(maxsize=1 << 8)
def _advanced(places: _Places, kinds: tuple[StepKind, ...], name: str | None) -> tuple[_Places, PlannedStep | None]:
    """The same for a user without exchanges: it follows from the plan, and all users of a process go the same way."""
    return Played((), {})._behind_next(places, kinds, name)


def _begun(place: _Place, name: str | None) -> _Place:
    """A place before any round of a repetition, in the round that this name has."""
    if not place.stack or place.stack[-1][2] != _ANY:
        return place
    *outer, (body, at, _) = place.stack
    times = outer[-1][0][outer[-1][1]].times
    number = (name or "").rpartition(" ")[2]
    round = int(number) if number.isdecimal() and 1 < int(number) <= times else 1
    return _Place((*outer, (body, at, round)))


def _after(place: _Place) -> _Place:
    *outer, (body, at, round) = place.stack
    return _Place((*outer, (body, at + 1, round)))
