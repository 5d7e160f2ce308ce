"""Our own studies as the experiments run them: in one process, columns dealt evenly to the users."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from fedsvd.data.open import open_source
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import Outcome, run_study
from fedsvd.studies.study import Study
from fedsvd.types import Float

PAPER, DEFAULT = "FedSVD, paper scheme", "FedSVD, default"
SCHEMES = {PAPER: "paper", DEFAULT: "auto"}
"""The two columns of every table, and the scheme each asks for."""


@dataclass(frozen=True, repr=False)
class Ran:
    """A finished study, the seconds it took on the clock and of the processor."""

    outcome: Outcome
    seconds: float
    processor: float  # seconds of it, all threads

    @property
    def scheme(self) -> str:
        return str(self.outcome.plan.scheme)

    @property
    def bytes_total(self) -> int:
        return self.outcome.certificate.bytes_total


def dealt(X: Any, users: int = 2) -> list[Any]:
    """The columns of X dealt evenly, extra ones to the first users."""
    return np.array_split(X, users, axis=1)


def factorise(parts: Sequence[Any], method: str, components: int | None = None, **asked: Any) -> Ran:
    """SVD (LSA where only the top components are asked for) of ``[X_1 ... X_k]``."""
    task = Task.SVD if components is None else Task.LSA
    study = Study(task, Split.VERTICAL, scheme=SCHEMES[method], components=components, **asked)
    return run_on(study, [PartyData(open_source(X_i)) for X_i in parts])


def regress(parts: Sequence[Any], y: Float, method: str, **asked: Any) -> Ran:
    """Least squares of features dealt to the users; the last user has the labels."""
    k = len(parts)
    study = Study(Task.LR, Split.VERTICAL, scheme=SCHEMES[method], targets=1, label_user=k, **asked)
    labels = y.reshape(-1, 1)
    return run_on(study, [PartyData(open_source(X_i), labels if i == k else None) for i, X_i in enumerate(parts, 1)])


def joint_factors(ran: Ran) -> tuple[Float, Float, Float]:
    """U, S and V^T of the joint matrix, from what the users hold."""
    held = ran.outcome.parties
    return held[0].U, held[0].sigma, np.hstack([one.Vt_i for one in held])


def training_error(ran: Ran, parts: Sequence[Float], y: Float) -> float:
    """The mean squared error of the users' coefficients on the training data."""
    held = ran.outcome.parties
    fitted = sum(X_i @ one.coefficients[0] for X_i, one in zip(parts, held, strict=True)) + held[0].intercept[0]
    return float(np.mean((y - fitted) ** 2))


def run_on(study: Study, parties: Sequence[PartyData], scratch: Path | None = None) -> Ran:
    """Any study, timed."""
    # The data is public: the guard would warn of what every table here shows on purpose.
    started, worked = perf_counter(), process_time()
    outcome = run_study(study, parties, policy=Policy.permissive(), scratch=scratch)
    return Ran(outcome, perf_counter() - started, process_time() - worked)
