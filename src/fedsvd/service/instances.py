"""Which process speaks for a member, as the CSP sees it: one at a time.

A process that was restarted follows the one before, which never calls again. Of two that call in turn, one is a copy of
the other's kit: they would spend one approval twice, and neither is served until one of them is silent.
"""

import threading
from time import monotonic

from fedsvd.errors import KitRunsTwice

_SILENT = 10.0  # seconds without a call, after which a process is taken to have ended


class Instances:
    """The processes of all members that called of late."""

    def __init__(self, silent: float = _SILENT) -> None:
        self._silent = silent
        self._calls: dict[str, dict[str, tuple[float, float]]] = {}  # by caller and process: first and last call
        self._noted: set[str] = set()
        self._lock = threading.Lock()

    def expect_one(self, caller: str, instance: str) -> None:
        """Raise ``KitRunsTwice`` where another process with this kit has called since this one began to."""
        if not instance:  # a command that ends by itself
            return
        now = monotonic()
        with self._lock:
            calls = self._calls.setdefault(caller, {})
            for other in [name for name, (_, last) in calls.items() if now - last > self._silent]:
                del calls[other]
            first, _ = calls.get(instance, (now, now))
            calls[instance] = first, now
            twice = any(last > first for other, (_, last) in calls.items() if other != instance)
            if not twice:
                self._noted.discard(caller)
        if twice:
            raise KitRunsTwice(
                f"two processes run with the kit of {caller}",
                "stop one of them; if you started only one, the kit was copied: have it revoked",
            )

    def is_news(self, caller: str) -> bool:
        """Whether this is the first time since its kit ran once."""
        with self._lock:
            news = caller not in self._noted
            self._noted.add(caller)
        return news
