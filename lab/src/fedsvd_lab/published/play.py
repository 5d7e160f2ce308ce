"""A study in the paper's scheme with all roles in this process: what users hold, bytes, rounds, and what was seen."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter, process_time
from typing import Any

import numpy as np

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float
from fedsvd_lab.published.block_masks import PAPER_BLOCK, LeftBlocks, RightBlocks
from fedsvd_lab.published.provider import Storage, stored_in
from fedsvd_lab.published.roles import (
    CSP,
    TA,
    Arrays,
    Held,
    Own,
    Receive,
    Script,
    Send,
    masks_of,
    service_provider,
    trusted_authority,
    user,
    user_name,
)
from fedsvd_lab.published.setting import MEMORY, Setting


@dataclass(repr=False)
class Seen:
    """What the CSP knows after a study, where it was recorded: X', y', and what users sent it in the clear (eq. 6)."""

    setting: Setting
    panels: list[Float] = field(default_factory=list)
    blinded: dict[int, Arrays] = field(default_factory=dict)

    @cached_property
    def _joint(self) -> Float:
        return np.concatenate(self.panels, axis=0 if self.setting.solves else 1)

    @property
    def Y(self) -> Float:
        """``X' = P X Q``."""
        return self._joint[:, : self.setting.N]

    @property
    def y(self) -> Float:
        """``P y``, where y was sent."""
        return self._joint[:, self.setting.N :]


@dataclass(frozen=True, repr=False)
class Played:
    """A finished study."""

    setting: Setting
    users: tuple[Held, ...]
    residual: float  # that the CSP verified
    bytes_by_link: dict[tuple[str, str], int]
    rounds: int  # messages for which a user waits
    seconds: float
    processor: float  # seconds of it, all threads
    seen: Seen  # empty where nothing was recorded
    masks: tuple[LeftBlocks, RightBlocks]  # P and Q, which a referee knows

    @property
    def bytes_total(self) -> int:
        return sum(self.bytes_by_link.values())

    def sent_by(self, name: str) -> int:
        """Bytes that one role sent to all others."""
        return sum(count for (sender, _), count in self.bytes_by_link.items() if sender == name)


def setting_of(tables: Sequence[Any], y: Float | None = None, b: int = PAPER_BLOCK, **asked: Any) -> Setting:
    """The setting of a study on these columns; a regression where there is a y, with the paper's bias."""
    counts, rows = tuple(table.shape[1] for table in tables), {table.shape[0] for table in tables}
    if len(rows) > 1 or len(counts) < 2:
        raise ConfigError("the tables of two users or more have the same rows", "cut one table by columns")
    if y is not None:
        asked = {"targets": y.shape[1], "bias": True} | asked
    return Setting(rows.pop(), counts, b, **asked)


def play(
    tables: Sequence[Any],
    y: Float | None = None,
    *,
    label_user: int | None = None,
    seed: Seed | None = None,
    storage: Storage | None = None,
    record: bool = False,
    memory: int = MEMORY,
    **asked: Any,
) -> Played:
    """Factorise ``[X_1 ... X_k]``, or regress y on it; ``tables`` are arrays, or sources, of the users' columns.

    y is the last user's unless ``label_user`` says otherwise. ``asked`` are further fields of ``Setting``.
    """
    sources = [open_source(table) for table in tables]
    setting = setting_of(sources, y, memory=memory, **asked)
    root, holder = seed or Seed.fresh(), label_user or setting.k
    seen = Seen(setting)
    watch = (lambda panel, Y: seen.panels.append(Y.copy())) if record else (lambda panel, Y: None)
    started, worked = perf_counter(), process_time()
    scripts: dict[str, Script] = {TA: trusted_authority(setting, root.derive("ta"))}
    for i, source in enumerate(sources, start=1):
        own = Own(setting, i, source, y if i == holder else None)
        scripts[user_name(i)] = user(setting, own, root.derive("user", i))
    scripts[CSP] = service_provider(setting, storage or stored_in(None), watch)
    hub = _Hub(scripts, seen if record else None)
    hub.run()
    took = perf_counter() - started, process_time() - worked
    held = tuple(hub.results[user_name(i)] for i in range(1, setting.k + 1))
    masks = masks_of(setting, root.derive("ta"))
    return Played(setting, held, hub.results[CSP], hub.bytes_by_link, hub.received[user_name(1)], *took, seen, masks)


class _Hub:
    """Plays scripts side by side, each until it waits for a message that has not come."""

    def __init__(self, scripts: dict[str, Script], seen: Seen | None) -> None:
        self._scripts, self._seen = scripts, seen
        self._waiting: dict[str, Receive] = {}
        self._queues: dict[tuple[str, str, str], deque[Arrays]] = {}
        self.results: dict[str, Any] = {}
        self.bytes_by_link: dict[tuple[str, str], int] = {}
        self.received = dict.fromkeys(scripts, 0)

    def run(self) -> None:
        """All of them to their ends."""
        ready = deque(self._scripts)
        while ready:
            ready.extend(self._advance(ready.popleft()))

    def _advance(self, name: str) -> list[str]:
        """One script as far as it goes; who can go on by what it sent."""
        woken: list[str] = []
        asked, arrays = self._waiting.pop(name, None), None
        while True:
            if asked is not None:
                queue = self._queues.get((name, asked.sender, asked.kind))
                if not queue:
                    self._waiting[name] = asked
                    return woken
                arrays, asked = queue.popleft(), None
                self.received[name] += 1
            try:
                step = self._scripts[name].send(arrays)  # type: ignore[arg-type]
            except StopIteration as done:
                self.results[name] = done.value
                return woken
            arrays = None
            if isinstance(step, Receive):
                asked = step
            elif self._deliver(name, step):
                woken.append(step.to)

    def _deliver(self, sender: str, message: Send) -> bool:
        """Put a message in its queue; whether its receiver waits for it."""
        link, size = (sender, message.to), sum(array.nbytes for array in message.arrays)
        self.bytes_by_link[link] = self.bytes_by_link.get(link, 0) + size
        if self._seen is not None and message.kind == "blinded":
            self._seen.blinded[int(sender.removeprefix("user-"))] = message.arrays
        self._queues.setdefault((message.to, sender, message.kind), deque()).append(message.arrays)
        return self._waiting.get(message.to) == Receive(sender, message.kind)
