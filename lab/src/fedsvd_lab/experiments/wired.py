"""A study behind a slow line (``lab.network``): the product's on the local rung, every role a process of its own over
mutual TLS; the paper's scheme with its CSP as a process behind the same line, over plain TCP.

One federation is started for each condition of the network. The link's own rate and round
trip are measured before the first job and stand in every row, with the method by which it was made.
"""

import tempfile
from collections.abc import Callable, Iterator
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
from fedsvd_lab.experiments.ours import PAPER, PUBLISHED
from fedsvd_lab.network.link import Link, Measured, measure, open_link
from fedsvd_lab.published.wired import play_over

_LABEL = "y"
_PROBE_SECONDS = 1.0


@dataclass(frozen=True)
class Condition:
    """A network: bit/s and seconds there and back."""

    rate: float
    round_trip: float


@dataclass(frozen=True)
class WiredRun:
    """Seconds from submitting a job, or from the first message, to the last result, and bytes of all messages."""

    seconds: float
    bytes_total: int
    scheme: str


class Wired:
    """A running federation behind a slow line, the same study in the paper's scheme, and what that line does."""

    def __init__(
        self, federation: LocalFederation, link: Link, measured: Measured, job: Job, published: Callable[[], WiredRun]
    ) -> None:
        self._federation, self._job, self._published = federation, job, published
        slower = min(measured.rate_up, measured.rate_down)
        self.network = (
            f"{link.method}, set to {link.rate / 1e6:g} Mb/s and {1e3 * link.round_trip:g} ms, "
            f"measured {slower / 1e6:.0f} Mb/s and {1e3 * measured.round_trip:.1f} ms"
        )

    def run(self, method: str) -> WiredRun:
        """One study to its end."""
        if method == PAPER:
            return self._published()
        done = self._federation.run(self._job)
        progress = done.record.progress.values()
        moved = sum(int(count) for each in progress for count in each.bytes_by_link.values())
        return WiredRun(done.seconds, moved, self._job.masks.scheme)


@contextmanager
def wired(
    condition: Condition, task: str, parts: list[Float], y: Float | None = None, scratch: Path | None = None
) -> Iterator[Wired]:
    """The federation of a study on these columns, behind a line in this condition."""
    with tempfile.TemporaryDirectory(prefix="fedsvd-wired-", dir=scratch) as folder:
        job, labels = _job(task, parts, y, Path(folder)), None if y is None else y.reshape(-1, 1)
        with open_link(condition.rate, condition.round_trip) as link:
            measured = measure(link, _PROBE_SECONDS)

            def published() -> WiredRun:
                done = play_over(link, parts, labels)
                return WiredRun(done.seconds, done.bytes_total, PUBLISHED)

            with local_federation(job, policy=_POLICY, scratch=scratch, wiring=link) as federation:
                yield Wired(federation, link, measured, job, published)


_POLICY = Policy.permissive()


def _job(task: str, parts: list[Float], y: Float | None, folder: Path) -> Job:
    names = [f"user-{i}" for i in range(1, len(parts) + 1)]
    files = [_stored(folder / name, X_i, y if i == len(parts) else None) for i, (name, X_i) in _numbered(names, parts)]
    parties = [{"name": name, "data": file.name} for name, file in zip(names, files, strict=True)]
    study: dict[str, Any] = {"task": task, "split": "vertical"}
    if y is not None:
        study |= {"label": _LABEL, "label_party": names[-1]}
    return job_from({"job": {"name": task, **study}, "party": parties}, folder)


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
