"""Links that misbehave as far as a network may, and no further: order is preserved on each link, and free between
links.

A ``Pick`` chooses which link delivers next. Here are picks for tests: shuffled by a seed, drawn by hypothesis, and
every order there is. ``MeddledHub`` lets a test alter, drop, repeat or invent messages in flight, as a broken or
dishonest CSP could.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import CSP, Party
from fedsvd.transport.loopback import Hub, Link, Pick, first_sent

T = TypeVar("T")
M = TypeVar("M", bound=Message)
Meddle = Callable[[Party, Party, Message], Iterable[Message]]  # from, to, message: what is delivered instead


def shuffled(seed: int) -> Pick:
    """Any waiting link, at random."""
    rng = np.random.default_rng(seed)
    return lambda links: int(rng.integers(len(links)))


def drawn(data: st.DataObject) -> Pick:
    """Any waiting link, as hypothesis likes; it shrinks towards the order in which messages were sent."""
    return lambda links: int(data.draw(st.integers(0, len(links) - 1), label="link"))


def newest_first(links: Sequence[Link]) -> int:
    """The link whose oldest message is youngest."""
    return len(links) - 1


def starving(party: Party) -> Pick:
    """Whatever comes from or goes to ``party`` waits until nothing else can be delivered."""
    return lambda links: next((place for place, link in enumerate(links) if party not in link), 0)


def every_order(run: Callable[[Pick], T], most: int | None = None) -> Iterator[T]:
    """``run`` under every order of deliveries that a role could distinguish from the others.

    With ``most``, under those that differ from the order of sending in at most so many choices: a session waits for all
    users at every sum, so that all orders together multiply with each of them, and one choice covers each on its own.

    All links end at the CSP, so a user or the TA has one incoming link and one sequence to receive: what goes to
    them may be delivered at once. Deliveries to different parties commute. What remains is the order in which the CSP
    reads its links, and all such orders are played, depth first.
    """
    choices: list[int] = []
    while True:
        options: list[int] = []

        def pick(links: Sequence[Link], options: list[int] = options) -> int:
            for place, (_, to) in enumerate(links):
                if to != CSP:
                    return place
            if len(links) == 1:
                return 0
            depth = len(options)
            options.append(len(links))
            if depth == len(choices):
                choices.append(0)
            return choices[depth]

        yield run(pick)
        while choices and (choices[-1] + 1 == options[len(choices) - 1] or _used_up(choices, most)):
            choices.pop()
        if not choices:
            return
        choices[-1] += 1


def _used_up(choices: list[int], most: int | None) -> bool:
    """Whether another choice at the last place would differ in more places than are allowed."""
    return most is not None and choices[-1] == 0 and sum(map(bool, choices)) >= most


class MeddledHub(Hub):
    """A hub that remembers what was sent and lets ``meddle`` decide what is delivered."""

    def __init__(self, pick: Pick = first_sent, meddle: Meddle | None = None) -> None:
        super().__init__(pick)
        self._meddle = meddle
        self.sent: list[tuple[Party, Party, Message]] = []

    def push(self, origin: Party, to: Party, message: Message) -> None:
        self.sent.append((origin, to, message))
        for altered in (message,) if self._meddle is None else self._meddle(origin, to, message):
            super().push(origin, to, altered)


def altering(
    kind: type[M], change: Callable[[M], Iterable[Message]], origin: Party | None = None, to: Party | None = None
) -> Meddle:
    """Every message of a kind on a link (or on all) becomes what ``change`` makes of it; the others pass."""

    def meddle(sender: Party, receiver: Party, message: Message) -> Iterable[Message]:
        if not isinstance(message, kind) or origin not in (None, sender) or to not in (None, receiver):
            return (message,)
        return change(message)

    return meddle
