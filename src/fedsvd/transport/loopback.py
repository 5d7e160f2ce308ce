"""Links inside one process: no socket, no thread, no loss. Order is preserved on each link, and free between links.

``pick`` chooses which link delivers next, so a test can play every interleaving a real network could produce.
"""

from collections import deque
from collections.abc import Callable, Sequence

from fedsvd.errors import PeerLost
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party

Link = tuple[Party, Party]  # from, to
Pick = Callable[[Sequence[Link]], int]  # the links that have something waiting, to a position among them


def first_sent(links: Sequence[Link]) -> int:
    """The link whose oldest message is oldest: links are offered in that order."""
    return 0


class Hub:
    """All links of one session."""

    def __init__(self, pick: Pick = first_sent) -> None:
        self._pick = pick
        self._queues: dict[Link, deque[tuple[int, Message]]] = {}
        self._into: dict[Party, list[Link]] = {}  # links by receiver
        self._order: deque[tuple[int, Link]] = deque()  # as sent; what was delivered or lost since is passed over
        self._sent = 0
        self._closed: set[Party] = set()

    def end(self, party: Party) -> "Loopback":
        """One party's end."""
        return Loopback(self, party)

    def push(self, origin: Party, to: Party, message: Message) -> None:
        if origin in self._closed or to in self._closed:
            raise PeerLost(f"the link from {origin} to {to} is closed")
        link = origin, to
        if link not in self._queues:
            self._queues[link] = deque()
            self._into.setdefault(to, []).append(link)
        self._queues[link].append((self._sent, message))
        self._order.append((self._sent, link))
        self._sent += 1

    def closed(self, party: Party) -> bool:
        return party in self._closed

    def waiting(self, to: Party | None = None) -> list[Link]:
        """Links with something to deliver, the longest waiting first."""
        candidates = self._queues if to is None else self._into.get(to, ())
        links = [link for link in candidates if self._queues[link]]
        return sorted(links, key=lambda link: self._queues[link][0][0])

    def pop(self, to: Party | None = None) -> tuple[Party, Party, Message] | None:
        """The next delivery: from, to, message."""
        if to is None and self._pick is first_sent:
            link = self._oldest()
        else:
            links = self.waiting(to)
            link = links[self._pick(links)] if links else None
        if link is None:
            return None
        _, message = self._queues[link].popleft()
        return (*link, message)

    def _oldest(self) -> Link | None:
        """The link of the oldest message, without a look at all others: k users send each other k^2 messages."""
        while self._order:
            number, link = self._order.popleft()
            queue = self._queues[link]
            if queue and queue[0][0] == number:
                return link
        return None

    def close(self, party: Party) -> None:
        """A party disconnects: what is on its way to it is lost, what it has sent still arrives."""
        self._closed.add(party)
        for link in self._queues:
            if party == link[1]:
                self._queues[link].clear()


class Loopback:
    """One party's end of the hub."""

    def __init__(self, hub: Hub, me: Party) -> None:
        self._hub = hub
        self._me = me

    def send(self, to: Party, message: Message) -> None:
        self._hub.push(self._me, to, message)

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        if self._hub.closed(self._me):
            raise PeerLost(f"{self._me} has disconnected")
        delivery = self._hub.pop(self._me)
        return None if delivery is None else (delivery[0], delivery[2])

    def close(self) -> None:
        self._hub.close(self._me)
