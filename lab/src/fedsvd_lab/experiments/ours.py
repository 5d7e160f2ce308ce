"""Our studies as the experiments run them: in one process, columns dealt evenly to the users.

Two methods stand beside each other in every table: the paper's scheme as published, which is the lab's own
(``fedsvd_lab.published``), and the product's default.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from fedsvd.data.open import open_source
from fedsvd.policy.rules import Policy
from fedsvd.protocol.parties import Role
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import Outcome, run_study
from fedsvd.studies.study import Study
from fedsvd.types import Float
from fedsvd_lab.published.play import Played, play
from fedsvd_lab.published.provider import stored_in

PAPER, DEFAULT = "FedSVD, paper scheme", "FedSVD, default"
METHODS = (PAPER, DEFAULT)
"""The two columns of every table."""

PUBLISHED = "paper"
"""How a row names the scheme of the paper's column."""


@dataclass(frozen=True, repr=False)
class Ran:
    """A finished study: by which scheme, what users hold, bytes, seconds on the clock and of the processor."""

    scheme: str
    parties: Sequence[Any]  # with U, sigma and Vt_i, or with ``coefficients`` (t, n_i) and ``intercept`` (t,)
    bytes_total: int
    sent: dict[str, int]  # by each user
    seconds: float
    processor: float  # seconds of it, all threads


@dataclass(frozen=True, repr=False)
class Fitted:
    """One user's coefficients, and the intercept of all."""

    coefficients: Float
    intercept: Float


def dealt(X: Any, users: int = 2) -> list[Any]:
    """The columns of X dealt evenly, extra ones to the first users."""
    return np.array_split(X, users, axis=1)


def factorise(parts: Sequence[Any], method: str, components: int | None = None) -> Ran:
    """SVD (LSA where only the top components are asked for) of ``[X_1 ... X_k]``."""
    if method == PAPER:
        return as_published(parts, components=components)
    task = Task.SVD if components is None else Task.LSA
    study = Study(task, Split.VERTICAL, components=components)
    return run_on(study, [PartyData(open_source(X_i)) for X_i in parts])


def regress(parts: Sequence[Any], y: Float, method: str) -> Ran:
    """Least squares of features dealt to the users; the last user has the labels."""
    k, labels = len(parts), y.reshape(-1, 1)
    if method == PAPER:
        return as_published(parts, labels)
    study = Study(Task.LR, Split.VERTICAL, targets=1, label_user=k)
    return run_on(study, [PartyData(open_source(X_i), labels if i == k else None) for i, X_i in enumerate(parts, 1)])


def joint_factors(ran: Ran) -> tuple[Float, Float, Float]:
    """U, S and V^T of the joint matrix, from what the users hold."""
    held = ran.parties
    return held[0].U, held[0].sigma, np.hstack([one.Vt_i for one in held])


def training_error(ran: Ran, parts: Sequence[Float], y: Float) -> float:
    """The mean squared error of the users' coefficients on the training data."""
    held = ran.parties
    fitted = sum(X_i @ one.coefficients[0] for X_i, one in zip(parts, held, strict=True)) + held[0].intercept[0]
    return float(np.mean((y - fitted) ** 2))


def as_published(parts: Sequence[Any], y: Float | None = None, scratch: Path | None = None, **asked: Any) -> Ran:
    """A study in the paper's scheme; ``asked`` are fields of its setting."""
    return _published(play(parts, y, storage=stored_in(scratch), **asked))


def _published(played: Played) -> Ran:
    parties: Sequence[Any] = played.users
    if played.setting.solves:
        weights = [one.coefficients for one in played.users]  # the last one's ends with the bias
        counts = played.setting.counts
        parties = [Fitted(w[:count].T, weights[-1][-1]) for w, count in zip(weights, counts, strict=True)]
    sent = {f"user-{i}": played.sent_by(f"user-{i}") for i in range(1, played.setting.k + 1)}
    return Ran(PUBLISHED, parties, played.bytes_total, sent, played.seconds, played.processor)


def run_on(study: Study, parties: Sequence[PartyData], scratch: Path | None = None) -> Ran:
    """Any study of the product, timed."""
    # The data is public: the guard would warn of what every table here shows on purpose.
    started, worked = perf_counter(), process_time()
    outcome = run_study(study, parties, policy=Policy.permissive(), scratch=scratch)
    return _ours(outcome, perf_counter() - started, process_time() - worked)


def _ours(outcome: Outcome, seconds: float, processor: float) -> Ran:
    certificate, sent = outcome.certificate, dict[str, int]()
    for (sender, _), count in certificate.bytes_by_link.items():
        if sender.role is Role.USER:
            sent[sender.name] = sent.get(sender.name, 0) + count
    return Ran(str(outcome.plan.scheme), outcome.parties, certificate.bytes_total, sent, seconds, processor)
