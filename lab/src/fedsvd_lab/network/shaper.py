"""One direction of a line, as arithmetic: when what enters now comes out at the other end.

A line carries one packet after the other at its rate, and everything takes its delay. What waits to be carried is
bounded, as in a router. No clock is here: the time is an argument, so that a test needs no patience.
"""

from fedsvd.errors import ConfigError

_LEAST_QUEUE = 64 << 10
_LEAST_QUEUED = 0.02  # seconds of waiting that fit into the shortest queue


class Shaper:
    """A rate in bit/s, a delay in seconds, and a queue of as much as is on its way at any time."""

    def __init__(self, rate: float, delay: float, queue: int | None = None) -> None:
        if not rate > 0 or not delay >= 0:
            raise ConfigError(f"a line of {rate:g} bit/s and {delay:g} s", "a rate above 0 and a delay of at least 0")
        self.rate = rate
        self.delay = delay
        # A round trip's worth, which is what keeps a single TCP connection busy after it has lost something.
        self.queue = queue or max(_LEAST_QUEUE, round(rate / 8 * max(2 * delay, _LEAST_QUEUED)))
        self._free = float("-inf")  # when everything that was let in will have been carried

    def waiting(self, now: float) -> float:
        """Bytes that have not been carried yet."""
        return max(self._free - now, 0.0) * self.rate / 8

    def admit(self, size: int, now: float) -> float:
        """When the last of ``size`` bytes that enter now comes out."""
        self._free = max(self._free, now) + 8 * size / self.rate
        return self._free + self.delay

    def offer(self, size: int, now: float) -> float | None:
        """The same, or None where the queue has no space left for it: the packet is lost."""
        return self.admit(size, now) if self.waiting(now) + size <= self.queue else None

    def wait_for_space(self, now: float) -> float:
        """Seconds until the queue has space again."""
        return max(self.waiting(now) - self.queue, 0.0) * 8 / self.rate
