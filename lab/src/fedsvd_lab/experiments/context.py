"""What every experiment is given: data sets, a seed, a place for large files, and where its progress is shown."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedsvd_lab.datasets.library import Library


@dataclass(frozen=True)
class Context:
    """The surroundings of a run."""

    library: Library
    scratch: Path | None = None
    seed: int = 100
    processes: int = 1
    say: Callable[[str], None] = lambda text: None
