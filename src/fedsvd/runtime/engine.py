"""What a role computes with: a device, and the threads that make pads beside it.

Both are this process's own affair: no plan names them, and nobody else hears of them. On the CPU a role needs neither;
a device is so much faster than one core makes pads that all cores are put to them.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

from fedsvd.linalg.device import Device, open_device
from fedsvd.randomness.keystream import Each


@dataclass(frozen=True)
class Engine:
    """Where a role computes, and ``map`` over several threads; None for NumPy, and for one thread."""

    device: Device | None = None
    each: Each | None = None

    @classmethod
    def of(cls, device: str | Device | None) -> "Engine":
        """The engine of this device, opened if it is a name; raises ``NoDevice`` where there is none."""
        opened = device if isinstance(device, Device) else open_device(device)
        return ON_CPU if opened is None else cls(opened, _threads().map)


ON_CPU = Engine()


@cache
def _threads() -> Any:
    """One pool for the process; its threads sleep while nobody pads."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="fedsvd-pads")
