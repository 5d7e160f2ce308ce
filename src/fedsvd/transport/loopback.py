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
        self._sent = 0
        self._closed: set[Party] = set()

    def end(self, party: Party) -> "Loopback":
        """One party's end."""
        return Loopback(self, party)

    def push(self, origin: Party, to: Party, message: Message) -> None:
        if origin in self._closed or to in self._closed:
            raise PeerLost(f"the link from {origin} to {to} is closed")
        self._queues.setdefault((origin, to), deque()).append((self._sent, message))
        self._sent += 1

    def closed(self, party: Party) -> bool:
        return party in self._closed

    def waiting(self, to: Party | None = None) -> list[Link]:
        """Links with something to deliver, the longest waiting first."""
        links = [link for link, queue in self._queues.items() if queue and to in (None, link[1])]
        return sorted(links, key=lambda link: self._queues[link][0][0])

    def pop(self, to: Party | None = None) -> tuple[Party, Party, Message] | None:
        """The next delivery: from, to, message."""
        links = self.waiting(to)
        if not links:
            return None
        link = links[self._pick(links)]
        _, message = self._queues[link].popleft()
        return (*link, message)

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
