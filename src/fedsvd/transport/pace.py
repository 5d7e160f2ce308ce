"""How many bytes one call should carry, so that a thin line is not taken for a dead one.

A line of 3 kB/s carries a frame of 1 MiB in six minutes, and pings and all other calls wait behind it. So the first
calls are small, those that were quick are followed by larger ones, and those that took long by what takes about two
seconds. A call that a thin line carries is answered long before anyone's patience ends: bytes that get through are
signs of life.
"""

import threading

FIRST = 8 << 10  # bytes
LEAST = 4 << 10
_QUICK = 1.0  # seconds of a call that may be followed by one four times as large
_SLOW = 4.0  # seconds of a call that is followed by a smaller one
_AIM = 2.0  # seconds that this one should take
_WIDE = 128 << 10  # bytes of a call from which on several may be on their way, and a frame costs little


class Pace:
    """The bytes of a call in one direction; ``most`` at most."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._bytes = min(FIRST, most)
        self._quick = True  # all calls so far

    @property
    def bytes(self) -> int:
        """What the next call should carry."""
        return self._bytes

    @property
    def thin(self) -> bool:
        """Whether calls should go one at a time: the line is thin, or not known yet."""
        return self._bytes < min(_WIDE, self._most)

    @property
    def unknown(self) -> bool:
        """Whether the line may be a wide one, and was not tried yet."""
        return self._quick and self.thin

    def took(self, carried: int, seconds: float) -> None:
        """A call of this number of bytes has got through."""
        with self._lock:
            self._quick = self._quick and seconds < _QUICK
            if seconds < _QUICK and carried >= self._bytes // 2:
                self._bytes = min(4 * self._bytes, self._most)
            elif seconds > _SLOW:
                self._shrink(int(carried * _AIM / seconds))

    def failed(self) -> None:
        """A call did not get through in its time."""
        with self._lock:
            self._quick = False
            self._shrink(LEAST)

    def _shrink(self, to: int) -> None:
        self._bytes = max(min(to, self._bytes), min(LEAST, self._most))
