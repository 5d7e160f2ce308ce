"""What the device records share: facts of the machine, clocks that know the device is asynchronous, the JSON file.

    python -m benchmarks.device.svd --device cuda --out benchmarks/results/h200-svd.json

Times of parts that run inside a stage (making the data, say) are taken with the device's own events and read at the
end, so that measuring does not make the host wait. Stages are printed as they begin, and with ``--stacks SECONDS`` all
threads' stacks every so often: of a run that does not end both say where it is.
"""

import argparse
import faulthandler
import json
import os
import platform
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd import __version__
from fedsvd.data.source import Index, MatrixSource
from fedsvd.engine.memory import main_memory
from fedsvd.linalg.device import Device, open_device
from fedsvd.policy.rules import Policy
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import DEFAULT_MEMORY
from fedsvd.studies.run import Outcome, run_study
from fedsvd.studies.study import Study


def options(*sizes: tuple[str, int], words: tuple[str, ...] = ()) -> argparse.Namespace:
    """The command line of a record: the device, the file, its sizes, and words of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    for name in words:
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--stacks", type=int, default=0)
    for name, default in sizes:
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    if asked.stacks:
        faulthandler.dump_traceback_later(asked.stacks, repeat=True)
    # Panels are given back and taken again in other sizes: pages, not blocks, are then what the device runs out of.
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    return asked


def budget(gib: int) -> int:
    """The memory budget of a role, in bytes: as asked for, or a third of the machine's main memory where it is 0."""
    return gib << 30 if gib else (main_memory() or DEFAULT_MEMORY) // 3


def opened(name: str) -> Device:
    """The device, warmed up: libraries load their kernels at the first call of each."""
    device = open_device(name)
    assert device is not None, "a record needs a device"
    A = device.put(np.eye(256))
    device.xp.linalg.qr(A @ A)
    device.synchronise()
    return device


class Clock:
    """Seconds by label; on CUDA between events, elsewhere on the host's clock."""

    def __init__(self, device: Device) -> None:
        self._cuda = device.name.startswith("cuda")
        self._events: list[tuple[str, Any, Any]] = []
        self._seconds: dict[str, float] = defaultdict(float)
        self._device = device

    @contextmanager
    def part(self, label: str) -> Iterator[None]:
        """Everything asked of the device in this block counts under ``label``."""
        if not self._cuda:
            started = time.perf_counter()
            yield
            self._seconds[label] += time.perf_counter() - started
            return
        import torch

        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        yield
        last.record()
        self._events.append((label, first, last))

    def seconds(self) -> dict[str, float]:
        """What was measured so far."""
        self._device.synchronise()
        for label, first, last in self._events:
            self._seconds[label] += first.elapsed_time(last) / 1e3
        self._events = []
        return dict(self._seconds)


class TimedSource(MatrixSource):
    """A source whose making of panels on a device is timed."""

    def __init__(self, base: MatrixSource, clock: Clock) -> None:
        super().__init__(base.shape, base.dtype)
        self._base, self._clock = base, clock

    def inspect(self) -> None:
        self._base.inspect()

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Any:
        with self._clock.part("generate"):
            return self._base.columns_on(xp, device, start, stop)

    def rows_on(self, xp: Any, device: Any, start: int, stop: int) -> Any:
        with self._clock.part("generate"):
            return self._base.rows_on(xp, device, start, stop)

    def _cells(self, rows: Index, columns: Index) -> Any:
        return self._base._cells(rows, columns)


def gemm_rate(device: Device, n: int = 8192, rounds: int = 5) -> float:
    """FLOP/s of a plain double-precision product of two n x n matrices, the best of a few rounds."""
    xp = device.xp
    A = xp.reshape(xp.arange(n * n, dtype=xp.float64, device=device.like.device), (n, n)) % 1.37 - 0.6
    B = A.T % 0.91
    best = float("inf")
    for _ in range(rounds):
        device.synchronise()
        started = time.perf_counter()
        A @ B
        device.synchronise()
        best = min(best, time.perf_counter() - started)
    return 2.0 * n**3 / best


def timed(device: Device, work: Any, rounds: int = 3) -> float:
    """The shortest of a few rounds, in seconds, after one that is not counted."""
    work()
    best = float("inf")
    for _ in range(rounds):
        device.synchronise()
        started = time.perf_counter()
        work()
        device.synchronise()
        best = min(best, time.perf_counter() - started)
    return best


def timed_study(device: Device, study: Study, parties: list[PartyData]) -> tuple[Outcome, float]:
    """What came of a study on this device, and the seconds it took."""
    device.synchronise()
    started, stages = time.perf_counter(), set()

    def begun(party: str, stage: str, done: int, total: int) -> None:
        kind = stage.rstrip("0123456789 ")
        if "residual" in stage or (party, kind) not in stages:
            stages.add((party, kind))
            print(f"{time.perf_counter() - started:8.2f} s  {party}: {stage}", file=sys.stderr, flush=True)

    outcome = run_study(study, parties, policy=Policy.permissive(), device=device, progress=begun)
    device.synchronise()
    return outcome, time.perf_counter() - started


def seconds_of(outcome: Outcome) -> dict[str, float]:
    """Seconds by role and stage, numbered stages added up; stages of two roles may have run at the same time."""
    spent: dict[str, float] = defaultdict(float)
    for name, seconds in outcome.certificate.record()["seconds_by_stage"].items():
        spent[name.rstrip("0123456789 ")] += seconds
    return {name: seconds for name, seconds in spent.items() if seconds > 0.01}


def uploads(outcome: Outcome) -> dict[str, int]:
    """Bytes that each party sent to the CSP."""
    links = outcome.certificate.record()["bytes_by_link"]
    return {name.partition(" -> ")[0]: sent for name, sent in links.items() if name.endswith("-> csp")}


def line(outcome: Outcome) -> dict[str, Any]:
    """What a record says of an answer: how it was found, and how right it is."""
    certificate, order = outcome.certificate, getattr(outcome.parties[0].checked, "order", None)
    return {
        **({} if not hasattr(order, "record") else order.record()),
        "residual_over_S_1": certificate.residual,
        "orthogonality": certificate.orthogonality,
        "rank": certificate.rank,
        "bytes_between_roles": certificate.bytes_total,
    }


def machine(device: Device) -> dict[str, Any]:
    """Where this ran."""
    facts: dict[str, Any] = {
        "device": device.description,
        "device_memory_for_panels": device.memory,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "fedsvd": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }
    if "torch" in sys.modules:
        facts["torch"] = sys.modules["torch"].__version__
    return facts


def memory(device: Device) -> dict[str, int]:
    """The most that was taken of the device and of the host, in bytes."""
    taken = {"host_peak_rss": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    if device.name.startswith("cuda"):
        import torch

        taken["device_peak"] = int(torch.cuda.max_memory_allocated())
    return taken


def write(path: Path | None, record: Mapping[str, Any]) -> None:
    """Print a record in one line, and write it where one was asked for."""
    print(json.dumps(record, default=float), flush=True)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1, default=float) + "\n")
