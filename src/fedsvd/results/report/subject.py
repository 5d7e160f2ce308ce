"""What a report is about: one study as one reader may see it, and nothing beyond.

``results.stored.Stored`` is such a subject; this room stands beside ``runtime`` and knows only its shape. The reader
is ``everybody`` (what all parties share), ``party`` (one of them), ``csp`` or ``authority``; what a reader may not see
is not in the subject, so that no drawing can show it by mistake.
"""

import re
from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task

TASKS = {
    Task.SVD: "Singular value decomposition",
    Task.PCA: "Principal component analysis",
    Task.LSA: "Latent semantic analysis",
    Task.LR: "Linear regression",
    Task.PREDICT: "Prediction",
}


class Subject(Protocol):
    """One study as one reader may see it."""

    @property
    def job(self) -> str: ...
    @property
    def created(self) -> str: ...
    @property
    def reader(self) -> str: ...
    @property
    def party(self) -> str | None: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def label_holder(self) -> str | None: ...
    @property
    def features(self) -> tuple[str, ...] | None: ...
    @property
    def targets(self) -> tuple[str, ...]: ...
    @property
    def id(self) -> str | None: ...
    @property
    def rank(self) -> int: ...
    @property
    def why(self) -> str: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...
    @property
    def plan(self) -> SessionPlan: ...
    @property
    def certificate(self) -> Certificate: ...
    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]: ...


def role_name(role: str, names: tuple[str, ...]) -> str:
    """``user-2`` as the second party's name; ``csp`` and ``ta`` as a reader knows them."""
    found = re.fullmatch(r"user-(\d+)", role)
    if found is not None and int(found[1]) <= len(names):
        return names[int(found[1]) - 1]
    return {"csp": "CSP", "ta": "authority"}.get(role, role)


def in_names(text: str, names: tuple[str, ...]) -> str:
    """A sentence about ``party 2`` as one about the party of that name."""

    def name(found: re.Match[str]) -> str:
        index = int(found[2])
        return f"{found[1]} {names[index - 1]}" if 1 <= index <= len(names) else found[0]

    return re.sub(r"\b([Pp]arty) (\d+)\b", name, text)


def reader_name(subject: Subject) -> str:
    """For whom this report is, in words."""
    return {
        "party": f"party {subject.party}",
        "csp": "the computing server (CSP)",
        "authority": "the trusted authority",
    }.get(subject.reader, "everybody in the study")


def feature_names(subject: Subject, count: int) -> list[str]:
    """Names of this many features; numbers where the reader has no names."""
    if subject.features is not None and len(subject.features) == count:
        return list(subject.features)
    return [f"x{j}" for j in range(count)]


def split_words(plan: SessionPlan) -> str:
    """How the table was divided, in words."""
    return (
        "different rows of the same columns" if plan.split is Split.HORIZONTAL else "different columns of the same rows"
    )
