"""A fitted estimator from declared outputs: those of a session that ended here, or those of a results folder.

``fit`` and ``fedsvd.load`` both end in ``store``, and no other code sets a fitted attribute that a folder holds. An
output that names its attribute is stored as declared: the parties' own parts joined, zeros up to the components that
were asked for, one target without its axis. What follows from several outputs is each estimator's ``_store``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.prepare.matching import MatchReport
from fedsvd.protocol.outputs import CLASS, COMPONENT, TARGET, Output, To
from fedsvd.protocol.plan import SessionPlan
from fedsvd.results.outputs import declared
from fedsvd.results.result import PartyResult
from fedsvd.results.tables import session_result
from fedsvd.results.write import party_folders, read_result
from fedsvd.studies.run import Outcome
from fedsvd.tasks.declared import outputs_of
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Found:
    """What an estimator is made of: the result of one reader, and the parties' own results that are here."""

    here: PartyResult
    parts: tuple[PartyResult, ...]
    flat: bool = False  # one target, without an axis of its own
    targets: tuple[str, ...] = ()  # as they were given; files of a fit may have other names for them
    known: Mapping[str, Any] = field(default_factory=dict)  # what ``fit`` was given, where a folder has less of it

    @property
    def plan(self) -> SessionPlan:
        return self.here.plan

    @property
    def complete(self) -> bool:
        """Whether the parts of all parties are here."""
        return len(self.parts) == self.plan.k

    @property
    def wanted(self) -> int:
        """How many components were asked for, or taken by a rule."""
        return int(self.fact("choice")["count"]) if self.plan.components_by else self.plan.planned_rank

    @property
    def most(self) -> int:
        """How many components the joint table can have."""
        return min(self.plan.m, self.plan.n)

    def has(self, name: str) -> bool:
        """Whether an array is here, of all parties' parts or of those whose folders are."""
        return any(name in result.arrays for result in (self.here, *self.parts))

    def array(self, name: str) -> Float:
        """An array; of the parties' own parts those that are here, joined."""
        output = declared(self.here, name)
        own = [part.arrays[name] for part in self.parts if name in part.arrays]
        if output.receiver(self.plan.split) is To.ALL:
            return self.here.arrays[name]
        axis = output.split_axis(self.plan.split)
        joined: Float = own[0] if axis is None else np.concatenate(own, axis=axis)
        return joined

    def fact(self, name: str) -> Any:
        """A fact that all share, or the first party's."""
        return next((result.facts[name] for result in (self.here, *self.parts) if name in result.facts), None)


def of_outcome(outcome: Outcome, targets: Sequence[str] = (), row_ids: NDArray[Any] | None = None) -> Found:
    """What a study that ran here gives; ``row_ids`` are those of matched records, as their owner spells them."""
    plan = outcome.plan
    about = PartyResult(
        job="fit",
        names=tuple(str(i + 1) for i in range(plan.k)),
        plan=plan,
        certificate=outcome.certificate,
        targets=tuple(targets),
        outputs=outputs_of(plan.task),
    )
    parts = [session_result(about, me, own) for me, own in zip(plan.users, outcome.parties, strict=True)]
    for place, own in enumerate(() if outcome.matched is None else outcome.matched.parties):
        if own.matched is not None:
            parts[place] = parts[place].adding(facts={"matching": own.matched.record()})
    if row_ids is not None:
        parts[0] = parts[0].adding({"row_ids": row_ids})
    return Found(parts[0], tuple(parts))


def results_in(folder: Path) -> tuple[PartyResult, tuple[PartyResult, ...]]:
    """The result of a folder's reader, and the parties' own results that are there."""
    here = read_result(folder)
    return here, (here,) if here.index is not None else tuple(read_result(path) for path in party_folders(folder))


def of_results(here: PartyResult, parts: tuple[PartyResult, ...]) -> Found:
    """What results give that were read: of a job those of all parties, or what all share.

    A folder does not say that one target was given as a column.
    """
    used = parts if here.index is not None or len(parts) == here.plan.k else ()
    flat = here.plan.targets == 1 if here.plan.glm is None else not here.plan.glm.classes
    return Found(here, used, flat, here.targets)


def store(estimator: Any, found: Found) -> None:
    """Every fitted attribute of an estimator, but for the names and number of its features."""
    estimator.plan_, estimator.certificate_, estimator._found = found.plan, found.here.certificate, found
    for output in found.here.outputs:
        if output.attribute:
            estimator.__dict__.pop(output.attribute, None)
            value = _attribute(output, found)
            if value is not None:
                setattr(estimator, output.attribute, value)
    for name in ("row_ids_", "matching_"):
        estimator.__dict__.pop(name, None)
    if found.plan.align is not None and found.parts:
        estimator.row_ids_ = found.parts[0].arrays["row_ids"]
        estimator.matching_ = tuple(MatchReport.of_record(part.facts["matching"]) for part in found.parts)
    estimator._store(found)


def _attribute(output: Output, found: Found) -> Any:
    """An output as its attribute has it; None where it is not here."""
    if not found.has(output.name):
        if not output.padded or not found.parts or output.receiver(found.plan.split) is To.ALL:
            return None
        # Of factors whose own part is not here there is nothing, in the shape of nothing.
        length = len(found.array("singular_values"))
        value: Any = np.zeros(tuple(length if axis == COMPONENT else 0 for axis in output.axes))
    else:
        value = found.array(output.name)
    for place, axis in enumerate(output.axes):
        if axis == COMPONENT and output.padded:
            value = padded(value, found.wanted, place)
    targets = [place for place, axis in enumerate(output.axes) if axis in (TARGET, CLASS)]
    if targets and found.flat:
        value = value[(*(slice(None),) * targets[0], 0)]
    return float(value) if np.ndim(value) == 0 else value


def padded(A: Float, length: int, axis: int) -> Float:
    """A with zeros up to ``length`` along one axis: the shape scikit-learn promises where rank was lost."""
    missing = length - A.shape[axis]
    if missing <= 0:
        return A
    return np.pad(A, [(0, missing if side == axis else 0) for side in range(A.ndim)])
