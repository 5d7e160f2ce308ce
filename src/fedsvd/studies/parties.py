"""What a party brings to a study, and what it must pass before anything is sent (01-product, behaviour under trouble).

Every check here is local: each fault gets one error with a code and a fix, and no key, hash or share has left the site
by then. What can only be known together (whether the parties' ids agree) is found inside the session.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.beside import Beside
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, FedSVDError, NotFinite, RepeatedIds, ShapeError, together
from fedsvd.prepare.at_home import HomeReport
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.planning import Study
from fedsvd.studies.problems import Problems
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class PartyData:
    """What one party brings: its table D_i, samples in rows, and what goes with it."""

    table: MatrixSource
    labels: Float | None = None  # (samples, targets)
    ids: NDArray[Any] | None = None
    weights: tuple[Float, Float] | None = None  # to predict with: (features, targets), (targets,)
    file: str = ""  # where the table was read from, for texts about it
    prepared: HomeReport | None = None  # what was done to it at home; never sent

    def __repr__(self) -> str:
        return f"PartyData(table={self.table.shape}, labels={self.labels is not None})"


def oriented(study: Study | SessionPlan, party: PartyData) -> MatrixSource:
    """X_i, (m, n_i): the table as it is when columns are split, transposed when rows are."""
    if study.split is Split.VERTICAL:
        return party.table
    if study.task is Task.LR:
        if party.labels is None:
            raise ConfigError("every party of a horizontal regression needs its labels", "name the label column")
        return Beside(party.table, party.labels).T
    return party.table.T


def expect_shapes(study: Study, parties: Sequence[PartyData]) -> None:
    """Refuse parties that do not fit together, as far as shapes tell; all that is wrong is one error."""
    if len(parties) < 2:
        raise ConfigError(f"a federation needs at least two parties, got {len(parties)}", "add another party")
    found = [*_shape_faults(study, parties)]
    if found:
        raise together(found)


def _shape_faults(study: Study, parties: Sequence[PartyData]) -> Iterator[FedSVDError]:
    axis = 0 if study.split is Split.VERTICAL else 1
    sides = [party.table.shape[axis] for party in parties]
    if len(set(sides)) > 1:
        what = ("rows", "columns")[axis]
        yield ShapeError(f"parties have different numbers of {what}: {sides}", f"give all parties the same {what}")
    if study.task in (Task.LR, Task.PREDICT) and study.split is Split.VERTICAL:
        _expect_label_user(study, len(parties))
    for index, party in enumerate(parties, start=1):
        try:
            if study.task is Task.LR:
                _expect_labels(study, index, party)
            if study.task is Task.PREDICT:
                _expect_weights(index, party)
            if study.check_ids:
                _expect_ids(index, party)
        except FedSVDError as error:
            yield error


def expect_readable(parties: Sequence[PartyData]) -> None:
    """Read every table once: what would stop a pass in the middle of a session is refused before it, all at once."""
    problems = Problems()
    problems.read((str(index), party.file, party.table) for index, party in enumerate(parties, start=1))
    problems.expect_none()


def _expect_label_user(study: Study, k: int) -> None:
    if not 1 <= study.label_user <= k:
        raise ConfigError(f"label_user = {study.label_user}", f"the party with the labels, 1 to {k}")


def _expect_labels(study: Study, index: int, party: PartyData) -> None:
    holder = study.split is Split.HORIZONTAL or index == study.label_user
    if party.labels is None:
        if holder:
            raise ConfigError(f"party {index} has no labels", "name the label column and the party that holds it")
        return
    if not holder:
        raise ConfigError(f"party {index} has labels, and party {study.label_user} holds them", "give them once")
    expected = party.table.shape[0], study.targets
    if party.labels.shape != expected:
        raise ShapeError(
            f"party {index} has labels of shape {party.labels.shape}, expected {expected}",
            "give one label for each row and target",
        )
    missing = int(np.count_nonzero(~np.isfinite(party.labels)))
    if missing:
        raise NotFinite(
            f"{missing} of party {index}'s {party.labels.size} labels are missing, NaN or infinite",
            "fill in or remove these rows before the study; every party must treat them alike",
        )


def _expect_weights(index: int, party: PartyData) -> None:
    if party.weights is None:
        raise ConfigError(f"party {index} has no coefficients to predict with", "load them from a result first")
    w_i, intercept = party.weights
    expected = party.table.shape[1], len(intercept)
    if w_i.shape != expected:
        raise ShapeError(
            f"party {index} has coefficients of shape {w_i.shape}, expected {expected}",
            "predict on the columns the model was fitted on",
        )


def _expect_ids(index: int, party: PartyData) -> None:
    if party.ids is None:
        raise ConfigError(f"party {index} has no row ids to compare", "name the id column")
    rows = party.table.shape[0]
    if party.ids.shape != (rows,):
        raise ShapeError(
            f"party {index} has ids of shape {party.ids.shape} for {rows} rows", "give one id for each row"
        )
    expect_distinct(party.ids, f"party {index}'s {rows}")


def expect_distinct(ids: NDArray[Any], whose: str) -> None:
    """Raise ``RepeatedIds`` where two rows have one id; the CSP could not see it."""
    repeated = len(ids) - len(np.unique(ids.astype(np.str_)))
    if repeated:
        raise RepeatedIds(f"{repeated} of {whose} row ids occur more than once", "keep one row for each id")
