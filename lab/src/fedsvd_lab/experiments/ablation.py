"""The paper's three optimisations, taken away again one by one (its section on their effectiveness).

    Opt1  block masks: without them P is m x m and Q is n x n, dense, and both are delivered as matrices
    Opt2  mini-batch secure aggregation: without it a user's whole share is one message
    Opt3  advanced offloading: without it everything is in memory, or in a file that is read against its layout

All in the paper's scheme, an SVD with V through eq. 6, two users, on data with the authors' power law. Every variant
runs in a process of its own, so that its peak is its own; all roles are in that process, as in the paper's figure,
which counts the system. What the paper offloads to "swap scheduled by the OS" is imitated by a file map laid out by
rows and read by columns; so that the file is really on the disk, in this as in the adaptive layout, its pages are
dropped from the system's cache whenever the resident part is full.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from fedsvd.data.open import open_source
from fedsvd.errors import FedSVDError
from fedsvd.storage.block_store import Access, BlockStore, MappedStore
from fedsvd_lab.published.play import play
from fedsvd_lab.published.provider import Storage, stored_in

_UNBOUNDED = 1 << 42


class Offload(StrEnum):
    """Where the CSP stores X'."""

    NONE = "none"
    SWAP = "swap"
    ADVANCED = "advanced"


@dataclass(frozen=True)
class Variant:
    """Which of the optimisations are on."""

    name: str
    block_masks: bool
    mini_batches: bool
    offload: Offload


VARIANTS = {
    "none": Variant("none", False, False, Offload.NONE),
    "1": Variant("1", True, False, Offload.NONE),
    "1+2": Variant("1+2", True, True, Offload.NONE),
    "1+2+3": Variant("1+2+3", True, True, Offload.ADVANCED),
    "swap": Variant("swap", True, True, Offload.SWAP),
    "advanced": Variant("advanced", True, True, Offload.ADVANCED),
}
STEPS = ("none", "1", "1+2", "1+2+3")


@dataclass(frozen=True)
class Measured:
    """What one variant took: bytes on all links, seconds by the clock and of the processor, memory above the start."""

    variant: str
    m: int
    n: int
    bytes: int
    seconds: float
    cpu_seconds: float
    memory: int
    residual: float

    def saved(self, than: "Measured") -> dict[str, float]:
        """The share of each that is saved against another variant."""
        pairs = {"bytes": "bytes", "seconds": "seconds", "cpu_seconds": "cpu_seconds", "memory": "memory"}
        return {name: 1 - getattr(self, field) / getattr(than, field) for name, field in pairs.items()}


def ablation(m: int, n: int, memory: int, block: int = 1000, report: Callable[[str], None] = print) -> list[Measured]:
    """No optimisation, then one more at a time; ``memory`` is the budget once there is one."""
    return [_alone(name, m, n, memory, block, report) for name in STEPS]


def offloading(m: int, n: int, memory: int, block: int = 1000, report: Callable[[str], None] = print) -> list[Measured]:
    """The same study with X' in a file read against its layout, and in one laid out for its reading."""
    return [_alone(name, m, n, memory, block, report) for name in ("swap", "advanced")]


def _alone(name: str, m: int, n: int, memory: int, block: int, report: Callable[[str], None]) -> Measured:
    """One variant in a process of its own."""
    words = [name, *map(str, (m, n, memory, block))]
    done = subprocess.run([sys.executable, "-m", __name__, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FedSVDError(f"the ablation {name} of {m} x {n} ended with {done.returncode}: {done.stderr[-400:]}")
    measured = Measured(**json.loads(done.stdout.splitlines()[-1]))
    report(
        f"{name}: {measured.seconds:.1f} s, {measured.bytes / 1e6:.0f} MB moved, {measured.memory / 1e6:.0f} MB memory"
    )
    return measured


def measure(variant: Variant, m: int, n: int, memory: int, block: int) -> Measured:
    """One variant in this process: its peak is this process's."""
    halves = ((0, n // 2), (n // 2, n))
    address = f"synthetic://{m}x{n}?alpha=1&seed=7&columns="
    tables = [open_source(f"{address}{start}:{stop}") for start, stop in halves]
    with tempfile.TemporaryDirectory(prefix="fedsvd-ablation-") as scratch:
        before = _resident("VmRSS")
        played = play(
            tables,
            b=min(block, m, n),
            dense=not variant.block_masks,
            whole=not variant.mini_batches,
            memory=_UNBOUNDED if variant.offload is Offload.NONE else memory,
            storage=_laid_out(variant.offload, Path(scratch)),
        )
    peak = _resident("VmHWM") - before
    amounts = played.bytes_total, played.seconds, played.processor, peak
    return Measured(variant.name, m, n, *amounts, played.residual)


def _laid_out(offload: Offload, scratch: Path) -> Storage:
    """Where the CSP lays X' out as a variant says."""
    if offload is Offload.NONE:
        return stored_in(None)
    swapped = offload is Offload.SWAP

    def store(shape: tuple[int, int], access: Access, budget: int) -> BlockStore:
        return Starved(shape, Access.BY_ROWS if swapped else access, scratch, budget // 2)

    return store


class Starved(MappedStore):
    """A mapped store on a machine whose memory is no larger than its resident part: what was read is not cached."""

    def _release_pages(self, size: int) -> None:
        full = self._touched + size > self._resident
        super()._release_pages(size)
        if full and hasattr(os, "posix_fadvise"):
            descriptor = self._file.file.fileno()
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise FedSVDError(f"this system does not report {field}", "run the ablation on Linux")


def main(words: list[str]) -> int:
    """Measure one variant and print it; what ``ablation`` starts."""
    measured = measure(VARIANTS[words[0]], *map(int, words[1:]))
    sys.stdout.write(json.dumps(asdict(measured)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
