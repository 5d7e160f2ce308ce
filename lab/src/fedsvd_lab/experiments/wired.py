"""Our studies on the local rung, every role a process of its own, the CSP's line slowed down by ``lab.network``.

One federation is started for each condition of the network and runs every job of a case. The link's own rate and round
trip are measured before the first job and stand in every row, with the method by which it was made.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.errors import MissingExtra
from fedsvd.policy.rules import Policy
from fedsvd.service.local import LocalFederation, local_federation
from fedsvd.studies.job_file import Job, job_from
from fedsvd.types import Float
from fedsvd_lab.experiments.ours import SCHEMES
from fedsvd_lab.network.link import Link, Measured, measure, open_link

_LABEL = "y"
_PROBE_SECONDS = 1.0


@dataclass(frozen=True)
class Condition:
    """A network: bit/s and seconds there and back."""

    rate: float
    round_trip: float


@dataclass(frozen=True)
class WiredRun:
    """Seconds from submitting a job to its last result, and bytes of all messages."""

    seconds: float
    bytes_total: int
    scheme: str


class Wired:
    """A running federation behind a slow line, and what that line does."""

    def __init__(self, federation: LocalFederation, link: Link, measured: Measured, jobs: Mapping[str, Job]) -> None:
        self._federation, self._jobs = federation, jobs
        slower = min(measured.rate_up, measured.rate_down)
        self.network = (
            f"{link.method}, set to {link.rate / 1e6:g} Mb/s and {1e3 * link.round_trip:g} ms, "
            f"measured {slower / 1e6:.0f} Mb/s and {1e3 * measured.round_trip:.1f} ms"
        )

    def run(self, method: str) -> WiredRun:
        """One job to its end."""
        done = self._federation.run(self._jobs[method])
        progress = done.record.progress.values()
        moved = sum(int(count) for each in progress for count in each.bytes_by_link.values())
        return WiredRun(done.seconds, moved, self._jobs[method].masks.scheme)


@contextmanager
def wired(
    condition: Condition, task: str, parts: list[Float], y: Float | None = None, scratch: Path | None = None
) -> Iterator[Wired]:
    """The federation of a study on these columns, behind a line in this condition."""
    with tempfile.TemporaryDirectory(prefix="fedsvd-wired-", dir=scratch) as folder:
        jobs = _jobs(task, parts, y, Path(folder))
        with open_link(condition.rate, condition.round_trip) as link:
            measured = measure(link, _PROBE_SECONDS)
            # The paper's scheme needs a Trusted Authority, so its job says who takes part.
            paper = next(iter(SCHEMES))
            with local_federation(jobs[paper], policy=_POLICY, scratch=scratch, wiring=link) as federation:
                yield Wired(federation, link, measured, jobs)


_POLICY = Policy.permissive()


def _jobs(task: str, parts: list[Float], y: Float | None, folder: Path) -> dict[str, Job]:
    names = [f"user-{i}" for i in range(1, len(parts) + 1)]
    files = [_stored(folder / name, X_i, y if i == len(parts) else None) for i, (name, X_i) in _numbered(names, parts)]
    parties = [{"name": name, "data": file.name} for name, file in zip(names, files, strict=True)]
    study: dict[str, Any] = {"task": task, "split": "vertical"}
    if y is not None:
        study |= {"label": _LABEL, "label_party": names[-1]}
    jobs = {}
    for place, (method, scheme) in enumerate(SCHEMES.items()):
        record = {"job": {"name": f"{task}-{place}", **study}, "masks": {"scheme": scheme}, "party": parties}
        if scheme == "paper":
            record["authority"] = {"name": "ta"}
        jobs[method] = job_from(record, folder)
    return jobs


def _numbered(names: list[str], parts: list[Float]) -> Iterator[tuple[int, tuple[str, Float]]]:
    yield from enumerate(zip(names, parts, strict=True), start=1)


def _stored(stem: Path, X_i: Float, y: Float | None) -> Path:
    """A party's file: NumPy's, or Parquet where a label needs a name."""
    if y is None:
        np.save(stem.with_suffix(".npy"), X_i)
        return stem.with_suffix(".npy")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("labelled data goes through Parquet files", "pip install ./lab") from None
    columns = {f"x{j}": X_i[:, j] for j in range(X_i.shape[1])} | {_LABEL: y}
    parquet.write_table(pyarrow.table(columns), stem.with_suffix(".parquet"))
    return stem.with_suffix(".parquet")
