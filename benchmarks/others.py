"""What benchmarks against other programs share: the seconds that R takes, and rounds in which each goes in turn.

Times are processor times with one BLAS thread, each program's least of its rounds, so that a busy machine changes the
ratio little; reading tables is in neither. R is looked for as ``Rscript``; without it its column is left out.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fedsvd.types import Float

TURNS = 3

_R = """
{packages}
d <- as.data.frame(matrix(readBin("{path}", "double", {count}), ncol = {width}, byrow = TRUE))
{prepare}
once <- function(i) {{ begin <- proc.time(); {fit}; sum((proc.time() - begin)[1:2]) }}
cat("SECONDS", min(sapply(1:{times}, once)), "\\n")
"""


def by_r(table: Float, packages: str, fit: str, prepare: str = "", times: int = 3) -> Callable[[], float] | None:
    """Seconds of the least of ``times`` fits in one process, of a table with columns V1, V2, ...; None without R."""
    if shutil.which("Rscript") is None:
        return None

    def seconds() -> float:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.bin"
            table.astype("<f8").tofile(path)
            loaded = f"suppressMessages({{{'; '.join(f'library({name})' for name in packages.split())}}})"
            words = {"packages": loaded, "path": path, "count": table.size, "width": table.shape[1]}
            text = _R.format(**words, prepare=prepare, fit=fit, times=times)
            said = subprocess.run(["Rscript", "-e", text], capture_output=True, text=True, check=True).stdout
        return float(said.rpartition("SECONDS")[2])

    return seconds


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """The processor time of a call in this process."""

    def seconds() -> float:
        begin = time.process_time()
        work()
        return time.process_time() - begin

    return seconds


def compared(title: str, ours: Callable[[], float], others: Mapping[str, Callable[[], float] | None]) -> None:
    """Print every program's rounds, in turn, and how many times the fastest other one's least time ours is."""
    programs = {"fedsvd": ours, **{name: each for name, each in others.items() if each is not None}}
    rounds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(TURNS):
        for name, seconds in programs.items():
            rounds[name].append(seconds())
    print(title)
    for name, found in rounds.items():
        print(f"  {name:<12}", *(f"{each:8.2f}" for each in found))
    least = {name: min(found) for name, found in rounds.items()}
    fastest = min((name for name in least if name != "fedsvd"), key=least.__getitem__, default=None)
    if fastest is not None:
        print(f"  {least['fedsvd'] / least[fastest]:.2f} times the time of {fastest}", flush=True)
