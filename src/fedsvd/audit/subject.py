"""Whose data is audited, and the federation that is simulated with it.

An owner has its own table and a job file, and no other party's data. So its table plays all parties: its rows (or
columns, where these are split) are dealt over as many parties as the job has, and the study runs among them as the job
says. A table too large for the time at hand is thinned, at random; records left out play strangers for membership
inference.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.audit.attacks.view import Recorded, record
from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import Split
from fedsvd.studies.job_file import Job, study_of
from fedsvd.studies.own_table import named_table
from fedsvd.studies.parties import PartyData
from fedsvd.studies.stages import prepared_for
from fedsvd.studies.study import Study
from fedsvd.studies.table_columns import labels_in
from fedsvd.types import Float

_CELLS_PER_SECOND = 3000.0  # of table, at which all attacks together stay within the budget on one slow core
_STRANGERS = 200
_LONGEST = 3000  # of either side: Gram matrices of it are made
_PANEL = 4096


@dataclass(frozen=True, repr=False)
class Audited:
    """A simulated federation: all parties' tables, samples in rows, and the study they run."""

    job: Job
    study: Study
    tables: tuple[Float, ...]
    labels: Float | None
    strangers: Float  # records that take no part
    shape: tuple[int, int]  # of the table as it was given
    whole: bool  # whether all entries are whole numbers, mostly zero, and how large the largest is
    most: int

    @property
    def vertical(self) -> bool:
        return self.study.split is Split.VERTICAL

    @property
    def used(self) -> tuple[int, int]:
        """Samples and features that take part."""
        rows = len(self.tables[0]) if self.vertical else sum(map(len, self.tables))
        columns = sum(table.shape[1] for table in self.tables) if self.vertical else self.tables[0].shape[1]
        return rows, columns

    @property
    def X(self) -> Float:
        """The joint matrix as the protocol has it, (m, n)."""
        return np.concatenate(self.tables, axis=1) if self.vertical else np.concatenate(self.tables).T

    def X_i(self, i: int) -> Float:
        """Party i's own, (m, n_i); i counts from 1."""
        return self.tables[i - 1] if self.vertical else self.tables[i - 1].T

    def run(self, seed: int, tables: Sequence[Float] | None = None, **other: object) -> Recorded:
        """The study, recorded, with masks that follow from a number; ``other`` changes the study."""
        study = replace(self.study, **other)  # type: ignore[arg-type]
        parties = [self._party(i, table) for i, table in enumerate(tables or self.tables)]
        return record(study, parties, seed)

    def _party(self, i: int, table: Float) -> PartyData:
        labels = None
        if self.labels is not None and self.vertical:
            labels = self.labels if i + 1 == self.study.label_user else None
        elif self.labels is not None:
            start = sum(len(before) for before in self.tables[:i])
            labels = self.labels[start : start + len(table)]
        return PartyData(open_source(np.ascontiguousarray(table)), labels=labels)


def audited(source: MatrixSource, job: Job, budget: float, seed: int = 0) -> Audited:
    """The federation that this table plays under this job, thinned to the budget in seconds."""
    k, vertical = len(job.parties), job.study.split is Split.VERTICAL
    rng = np.random.default_rng(seed)
    source = named_table(job, "this party", source).source
    present = [name for name in job.study.label if name in (source.names or ())]
    # One table stands for the joint one: its own numbers are the joint numbers.
    made = prepared_for(job.prepare, source, present, job.study.id_name, alone=True)
    source = made.table
    y = labels_in(source, present) if present else made.outcome
    table = source.without([name for name in (*present, *job.study.id_columns) if name in (source.names or ())])
    rows, columns = _taken((table.shape[0], table.shape[1]), budget, rng)
    D = _dense(table, rows, columns)
    y = None if y is None else y[rows]
    held_out = min(_STRANGERS, len(D) // 4) if not vertical and len(D) >= 8 * k else 0
    apart = np.isin(np.arange(len(D)), rng.permutation(len(D))[:held_out])
    strangers, D = D[apart], D[~apart]
    y = None if y is None else y[~apart]
    if (D.shape[1] if vertical else len(D)) < 2 * k:
        raise ConfigError(
            f"the table has too few {'columns' if vertical else 'rows'} to be dealt over {k} parties",
            f"audit a table of at least {2 * k}",
        )
    study = _study(job, D, y, vertical)
    if study.about.labelled and y is None:
        y = (rng.random((len(D), study.targets)) < 0.5).astype(np.float64)  # another party's; nothing is said of them
    tables = tuple(np.array_split(D, k, axis=1 if vertical else 0))
    whole = bool(np.all(np.rint(D) == D) and D.min() >= 0.0 and np.mean(D == 0.0) > 0.5)
    shape = (table.shape[0], table.shape[1])
    return Audited(job, study, tables, y, strangers, shape, whole, int(D.max(initial=0.0)) if whole else 0)


def _taken(shape: tuple[int, int], budget: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which rows and columns take part: as many cells as the budget allows, the longer side thinned first."""
    cells = max(2000.0, budget * _CELLS_PER_SECOND)
    rows, columns = (min(side, _LONGEST) for side in shape)
    if rows * columns > cells:
        rows = max(min(rows, int(cells / columns)), min(rows, int(np.sqrt(cells))))
        columns = min(columns, max(int(cells / rows), 2))
    picked = rng.permutation(shape[0])[:rows]
    # Order is part of what a block mask shows, so what is taken stays in it.
    return np.sort(picked), np.sort(rng.permutation(shape[1])[:columns])


def _dense(table: MatrixSource, rows: np.ndarray, columns: np.ndarray) -> Float:
    """The chosen part of a table, read panel by panel."""
    taken, at = [], 0
    for panel in table.panels(0, _PANEL):
        inside = rows[(rows >= at) & (rows < at + len(panel))] - at
        taken.append(panel[np.ix_(inside, columns)])
        at += len(panel)
    return np.ascontiguousarray(np.concatenate(taken), dtype=np.float64)


def _study(job: Job, D: Float, y: Float | None, vertical: bool) -> Study:
    """The job's study, with no more components than what is left of the data has."""
    study = study_of(job)
    names = [party.name for party in job.parties]
    holder = names.index(job.study.label_party) + 1 if job.study.label_party else 1
    most = min(D.shape)
    components = None if study.components is None else min(study.components, most)
    if study.about.labelled and vertical:
        return replace(study, components=components, label_user=holder, check_ids=False)
    if study.about.labelled and y is None:
        raise ConfigError(f"the table has no column {job.study.label[0]!r}", "every party of split rows has its labels")
    return replace(study, components=components, check_ids=False)
