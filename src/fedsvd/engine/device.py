"""What a role computes with: a device and the threads that make pads meanwhile, or a cluster.

All are local to this process: no plan names them, and no other party learns of them. On the CPU a role needs
neither device nor cluster; what it computes outside of BLAS (masks, encoding, pads) it shares out by ``each_over``.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fedsvd.engine.cluster import Cluster
from fedsvd.engine.cluster_store import ClusterStore
from fedsvd.errors import ConfigError, NoDevice
from fedsvd.linalg.device import CPU, Device, open_device
from fedsvd.linalg.device_panels import DevicePanels
from fedsvd.linalg.exact_gram import exact_products_hold
from fedsvd.linalg.pools import follow, one_thread
from fedsvd.randomness.keystream import Each
from fedsvd.roles.service_provider.collect import Storage
from fedsvd.storage.block_store import Access, BlockStore, DeviceStore, Layout, choose_store

ENGINES = ("numpy", "dask")
_OF_DEVICE = 0.75  # the share of a device that X' may take; the rest is for what is computed of it


@dataclass(frozen=True)
class Engine:
    """Where a role computes, and ``map`` over several threads; None for NumPy, and for one thread."""

    device: Device | None = None
    each: Each | None = None
    cluster: Cluster | None = None

    @classmethod
    def of(cls, device: str | Device | None = None, engine: str | Cluster | None = None) -> "Engine":
        """The engine of this device, opened if it is a name; raises ``NoDevice`` where it is missing.

        ``engine`` is "dask" for a cluster of this machine's cores, or the address of a Dask scheduler.
        """
        if isinstance(engine, str) and engine not in ENGINES and "://" not in engine:
            raise ConfigError(f"engine is {engine!r}", f"one of {', '.join(ENGINES)}, or a scheduler: tls://host:port")
        if engine is None or engine == "numpy":
            opened = device if isinstance(device, Device) else open_device(device)
            if opened is None:
                return ON_CPU
            if not exact_products_hold(opened.like):
                # Emulated float64 would make sums of Gram matrices wrong, not only less accurate.
                raise NoDevice(f"products of whole numbers on {opened.name} are not exact", "choose another device")
            return cls(opened, each_over(cores()))
        if device not in (None, CPU):
            raise ConfigError("a device and engine = 'dask' at once", "workers compute on their CPUs: leave one out")
        if isinstance(engine, Cluster):
            return cls(cluster=engine)
        return cls(cluster=Cluster.open(None if engine == "dask" else engine))

    def storage(self, scratch: Path | None) -> Storage:
        """Where the CSP stores X': in memory, in the scratch folder, or with the cluster where it is beyond memory."""
        cluster = self.cluster

        def store(shape: tuple[int, int], access: Access, budget: int) -> BlockStore:
            if self.device is not None and 8 * shape[0] * shape[1] <= _OF_DEVICE * self.device.memory:
                # By rows: what users send has lain there too, and is given back row by row as X' grows.
                return DeviceStore(shape, access, DevicePanels(shape, 0, self.device.like), self.device.put)
            if cluster is None or scratch is None or Layout(shape, access).nbytes <= budget:
                return choose_store(shape, access, budget, scratch)
            return ClusterStore(shape, access, scratch, cluster)

        return store

    def close(self) -> None:
        """Leave the cluster, if there is one."""
        if self.cluster is not None:
            self.cluster.close()


ON_CPU = Engine()


def cores() -> int:
    """How many cores this process may use: those of its affinity, not those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_over(count: int) -> Each | None:
    """``map`` over this number of threads, for ``Inputs.each``; None, which stands for ``map`` itself, for one.

    While it lasts the BLAS has one thread: pieces that each asked for all threads would wait for one another.
    The caller is one of the threads, and one that is free takes the next piece. A thread that has not begun when none
    is left is not waited for: a call of a millisecond costs no more with sixteen threads than with four.
    """
    if count <= 1:
        return None
    pool = _threads(count - 1)

    def each(work: Callable[..., Any], *pieces: Iterable[Any]) -> Iterator[Any]:
        given = list(zip(*pieces, strict=False))
        made, numbers = [None] * len(given), iter(range(len(given)))  # one iterator for all: each number comes once

        def some() -> None:
            follow()
            for number in numbers:
                made[number] = work(*given[number])

        with one_thread():
            others = [pool.submit(some) for _ in range(min(count, len(given)) - 1)]
            try:
                some()
            finally:
                begun = [other for other in others if not other.cancel()]
                wait(begun)
            for other in begun:
                other.result()
        return iter(made)

    return each


@cache
def _threads(count: int) -> Any:
    """One pool of this size for the process; its threads sleep while there is nothing to do."""
    return ThreadPoolExecutor(count, thread_name_prefix="fedsvd-each")
