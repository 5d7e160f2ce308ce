"""How cost grows with the data: studies on made matrices, one process per role, and the same without parties.

A step is one size: the federated study on the ``local`` rung (time, bytes, peak memory of every role's process), the
best centralised streaming route on the same numbers, and the time that making the numbers takes by itself, which both
contain. The centralised SVD is the same streaming factor, a small SVD, and a pass that makes and verifies V; the
regression the same factor of [X y] and a small least squares: rivals that stream as well as we do.
"""

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from fedsvd.compress.reduce import panel_width
from fedsvd.cost.estimate import predict
from fedsvd.cost.rates import Rates
from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.linalg import backend
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.policy.rules import Policy
from fedsvd.protocol.certificate import Stage
from fedsvd.protocol.parties import Party, Role
from fedsvd.protocol.tasks import Task
from fedsvd.results.write import party_folders, read_result
from fedsvd.service.local import LocalRun, Seen, local_federation
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import Job, job_from
from fedsvd.studies.jobs import plan_job

_GROWING = ("compress", "right vectors", "orthogonality", "scale", "labels", "uploading", "aggregating")
"""Stages whose work grows with the data; what the others take is the same for every size."""


@dataclass(frozen=True)
class Case:
    """What is run at one size: an SVD of ``short`` rows and ``long`` columns, or a regression the other way round."""

    task: Task
    short: int
    long: int
    alpha: float = 0.0
    seed: int = 7
    memory: int = 1 << 30

    @property
    def addresses(self) -> tuple[str, str]:
        """The two parties' parts of one matrix."""
        if self.task is Task.LR:
            base, half = f"synthetic://{self.long}x{self.short}?seed={self.seed}", self.short // 2
            return f"{base}&columns=0:{half}", f"{base}&columns={half}:&label=y"
        base, half = f"synthetic://{self.short}x{self.long}?alpha={self.alpha}&seed={self.seed}", self.long // 2
        return f"{base}&columns=0:{half}", f"{base}&columns={half}:"

    @property
    def whole(self) -> str:
        """The joint matrix, with its labels."""
        if self.task is Task.LR:
            return f"synthetic://{self.long}x{self.short}?seed={self.seed}&label=y"
        return f"synthetic://{self.short}x{self.long}?alpha={self.alpha}&seed={self.seed}"

    def job(self) -> Job:
        """The study of two parties; nothing as large as the data is written, and all of it is verified."""
        asked: dict[str, Any] = {"name": "scale", "task": str(self.task), "split": "vertical", "memory": self.memory}
        if self.task is Task.LR:
            asked |= {"label": "y", "label_party": "b"}
        else:
            asked |= {"write": "none", "verify": "all"}
        parties = [{"name": name, "data": data} for name, data in zip("ab", self.addresses, strict=True)]
        return job_from({"job": asked, "party": parties}, Path())


@dataclass(frozen=True)
class Step:
    """What one size came to; seconds are on the clock, ``cpu`` those of all processors together.

    ``busy`` is what the roles' stages took, users side by side; the rest of ``seconds`` is starting, waiting, writing.
    """

    long: int
    predicted: float
    seconds: float
    cpu: float
    busy: float
    growing: float
    generation: float
    bytes_total: int
    peak_memory: dict[str, int]
    quality: dict[str, Any]
    alone: dict[str, float] | None = None

    def record(self) -> dict[str, Any]:
        return asdict(self)


def measured(case: Case, predicted: float, *, alone: bool = False, seen: Seen = lambda record: None) -> Step:
    """One size: the study, the generator by itself and, where it is asked for, the centralised route."""
    made = generation(case)
    cpu = _children()
    with tempfile.TemporaryDirectory() as scratch:
        with local_federation(case.job(), policy=Policy.permissive()) as federation:
            run = federation.run(case.job(), seen)
            run.write(Path(scratch) / "result")
        step = _step(case, run, Path(scratch) / "result")
    step = replace(step, predicted=predicted, generation=made, cpu=_children() - cpu)
    return replace(step, alone=centralised(case)) if alone else step


def _step(case: Case, run: LocalRun, folder: Path) -> Step:
    certificate = read_result(folder).certificate
    stages = certificate.seconds_by_stage
    growing = {(party, stage): seconds for (party, stage), seconds in stages.items() if stage in _GROWING}
    quality = {own.name: read_result(own).facts.get("verified") for own in party_folders(folder)}
    quality["csp"] = {"residual": certificate.residual, "orthogonality": certificate.orthogonality}
    peaks = {party.name: taken for party, taken in certificate.peak_memory.items()}
    about = certificate.bytes_total, peaks, quality
    return Step(case.long, math.nan, run.seconds, 0.0, _side_by_side(stages), _side_by_side(growing), 0.0, *about)


def _side_by_side(seconds_by_stage: Mapping[Stage, float]) -> float:
    """Seconds that stages take where users work at the same time, and wait for the CSP as it does for them."""
    by_party: dict[Party, float] = {}
    for (party, _), seconds in seconds_by_stage.items():
        by_party[party] = by_party.get(party, 0.0) + seconds
    users = [seconds for party, seconds in by_party.items() if party.role is Role.USER]
    others = [seconds for party, seconds in by_party.items() if party.role is not Role.USER]
    return max(users, default=0.0) + sum(others)


def _children() -> float:
    """Processor seconds of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


# --- alone --------------------------------------------------------------------------------------------------------


def _panels(source: MatrixSource, case: Case) -> tuple[int, int]:
    axis = 0 if case.task is Task.LR else 1
    return axis, panel_width(source.shape[1 - axis], case.memory)


def generation(case: Case) -> float:
    """Seconds that making the numbers takes on one core, from a sample of at most 40 panels."""
    source = open_source(case.whole.replace("&label=y", ""))
    axis, width = _panels(source, case)
    count, started = 0, perf_counter()
    for panel in source.panels(axis, width):
        count += 1
        if count == 40 or panel is None:
            break
    return (perf_counter() - started) * math.ceil(case.long / width) / count


def centralised(case: Case) -> dict[str, float]:
    """The same result by one who holds everything: seconds on the clock and of the processor, and how exact it is."""
    started, cpu = perf_counter(), process_time()
    source = open_source(case.whole)
    quality = _solved(source, case) if case.task is Task.LR else _factored(source, case)
    return {"seconds": perf_counter() - started, "cpu": process_time() - cpu, **quality}


def _factored(source: MatrixSource, case: Case) -> dict[str, float]:
    axis, width = _panels(source, case)
    factor = StreamingFactor(case.short)
    for X in source.panels(axis, width):
        factor.update_columns(X)
    U, sigma, _ = np.linalg.svd(backend.to_numpy(factor.factor()).T)
    W, US, gram = (U / sigma).T, U * sigma, np.zeros((len(sigma),) * 2)
    error = size = 0.0
    for X in source.panels(axis, width):
        Vt = W @ X
        gram += backend.gram(Vt)
        error, size = math.hypot(error, backend.norm(US @ Vt - X)), math.hypot(size, backend.norm(X))
    return {"residual": error / size, "orthogonality": backend.norm(gram - np.eye(len(sigma)))}


def _solved(source: MatrixSource, case: Case) -> dict[str, float]:
    """Least squares with an intercept, from the triangular factor of [1 X y]."""
    axis, width = _panels(source, case)
    factor = StreamingFactor(case.short + 2)
    for rows in source.panels(axis, width):
        factor.update(np.hstack((np.ones((len(rows), 1)), rows)))
    R = backend.to_numpy(factor.factor())
    w, *_ = np.linalg.lstsq(R[:, :-1], R[:, -1], rcond=None)
    return {"norm_of_weights": float(np.linalg.norm(w))}


# --- growth -------------------------------------------------------------------------------------------------------


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log(seconds) over log(size), by least squares."""
    if len(sizes) < 2:
        raise ConfigError(f"{len(sizes)} sizes", "two sizes or more, to see how time grows")
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


def modelled(case: Case, machine: Rates) -> float:
    """Seconds by the cost model with all roles on this machine; making the data is not in it."""
    plan = plan_job(prepare(case.job())).plan
    return predict(plan, machine, well_conditioned=True, in_memory=False).seconds_on_one_machine
