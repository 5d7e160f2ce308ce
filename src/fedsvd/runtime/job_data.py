"""From a job file to what a study runs on: every party's table, labels, row ids and column names.

Opened are the files the job names; label and id columns are taken out of the tables. Where columns are split, rows
belong together by position, so every party may first be sorted by its ids, locally; whether they then agree is for the
keyed-hash check of the session to say. Ids are compared and sorted as text: whole numbers read from one file as
integers and from another as text or as floats are the same ids.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.numbered import NumberedNames
from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource, Without
from fedsvd.errors import ConfigError, DataError, FedSVDError, NotNumeric
from fedsvd.protocol.tasks import Split, Task, Trust, Write
from fedsvd.runtime.job import Job, PartySection, released
from fedsvd.runtime.party_data import PartyData
from fedsvd.runtime.planning import DEFAULT_MEMORY, Study
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Prepared:
    """A study and what its parties bring, ready to be planned or run."""

    name: str
    study: Study
    names: tuple[str, ...]  # of the parties
    parties: tuple[PartyData, ...]
    features: tuple[Sequence[str], ...]  # every party's column names, in the order of its table
    targets: tuple[str, ...]
    id: str | None = None
    write: Write = Write.NPY

    @property
    def label_holder(self) -> str | None:
        """The party that alone holds the labels, where columns are split."""
        return self.names[self.study.label_user - 1] if self.study.label_user else None


def prepare(job: Job, scratch: Path | None = None) -> Prepared:
    """Open every party's data as the job says."""
    sources = [_opened(job, party, scratch) for party in job.parties]
    holder = _label_holder(job, sources) if job.study.task is Task.LR else None
    parties, features = [], []
    for i, (party, source) in enumerate(zip(job.parties, sources, strict=True)):
        with party_named(party.name):
            labels = job.study.label if holder is None or holder == i else ()
            data = party_data(source, labels, job.study.id, job.study.sort_by_id)
            parties.append(data)
            features.append(feature_names(data.table))
    if not vertical(job):
        _expect_same_columns([party.name for party in job.parties], features)
    study = study_of(job, 0 if holder is None else holder + 1)
    names = tuple(party.name for party in job.parties)
    return Prepared(
        job.study.name, study, names, tuple(parties), tuple(features), job.study.label, job.study.id, job.study.write
    )


def party_data(source: MatrixSource, labels: Sequence[str], id: str | None, sort: bool = False) -> PartyData:
    """One party's table without labels and ids, and these beside it; its rows in the order of their ids if asked."""
    ids = None if id is None else row_ids(source, id)
    table = source.without([*labels, *([] if id is None else [id])])
    y = labels_in(source, labels) if labels else None
    if ids is not None and sort:
        order = np.argsort(ids, kind="stable")
        table, ids = table.reordered(order), ids[order]
        y = None if y is None else y[order]
    return PartyData(table, y, ids)


def row_ids(source: MatrixSource, name: str) -> NDArray[np.str_]:
    """The ids as text, one to a row."""
    column = source.column(name)
    if column.dtype.kind == "f" and bool(np.all(column == np.floor(column))):
        column = column.astype(np.int64)
    return column.astype(np.str_)


def labels_in(source: MatrixSource, names: Sequence[str]) -> Float:
    """The label columns of these names, (rows, targets)."""
    return np.column_stack([_numbers(source, name) for name in names])


def feature_names(table: MatrixSource) -> Sequence[str]:
    """The names of the columns; x0, x1, ... where the data has none, as scikit-learn counts them."""
    return table.names if table.names is not None else NumberedNames(table.shape[1])


def with_features(source: MatrixSource, features: Sequence[str]) -> MatrixSource:
    """The columns of these names in this order, whatever else the data holds; by position where it has no names."""
    if source.names is None:
        if source.shape[1] != len(features):
            fault = f"the data has {source.shape[1]} columns without names, the result was made from {len(features)}"
            raise DataError(fault, "give the same columns in the same order, or a table with names")
        return source
    place = {name: j for j, name in enumerate(source.names)}
    missing = [name for name in features if name not in place]
    if missing:
        fault = f"{len(missing)} of {len(features)} columns are missing, the first is {missing[0]!r}"
        raise DataError(fault, "give a table with the columns that the result was made from")
    return source if source.names == tuple(features) else Without(source, [place[name] for name in features])


@contextmanager
def party_named(name: str) -> Iterator[None]:
    """Errors in this block say whose data it is about."""
    try:
        yield
    except FedSVDError as error:
        error.fault = f"party {name}: {error.fault}"
        raise


def vertical(job: Job) -> bool:
    return job.study.split is Split.VERTICAL


def _opened(job: Job, party: PartySection, scratch: Path | None) -> MatrixSource:
    with party_named(party.name):
        return open_source(job.data_of(party), scratch=scratch)


def _numbers(source: MatrixSource, name: str) -> Float:
    column = source.column(name)
    if column.dtype.kind not in "iuf":
        raise NotNumeric(f"the label column {name!r} holds text, not numbers", "encode it as numbers")
    return column.astype(np.float64)


def _label_holder(job: Job, sources: Sequence[MatrixSource]) -> int | None:
    """The place of the one party that has the labels; None where rows are split and every party has its own."""
    if not vertical(job):
        return None
    names, wanted = [party.name for party in job.parties], set(job.study.label)
    have = [i for i, source in enumerate(sources) if wanted & set(source.names or ())]
    asked = job.study.label_party
    holder = have[0] if asked is None and len(have) == 1 else None if asked is None else names.index(asked)
    if holder is None:
        who = ", ".join(names[i] for i in have) or "no party"
        raise ConfigError(f"the label column is found at {who}", 'say who holds it: label_party = "NAME"')
    missing = sorted(wanted - set(sources[holder].names or ()))
    if missing:
        raise ConfigError(f"party {names[holder]} has no column {missing[0]!r}", "name the party that holds the label")
    others = [names[i] for i in have if i != holder]
    if others:
        # Kept as a feature it would be the answer among the questions.
        fault = f"{', '.join(others)} has a column with the name of the label too"
        raise ConfigError(fault, "rename or remove it there")
    return holder


def _expect_same_columns(names: Sequence[str], features: Sequence[Sequence[str]]) -> None:
    for name, theirs in zip(names, features, strict=True):
        ours = features[0]
        if len(theirs) != len(ours):
            fault = f"party {name} has {len(theirs)} columns, party {names[0]} has {len(ours)}"
            raise DataError(fault, "give every party the same columns in the same order")
        if theirs == ours:
            continue
        places = [j for j, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
        if places:
            fault = f"{len(places)} of {len(ours)} columns of party {name} have other names than those of {names[0]}"
            fix = (
                f"give every party the same columns in the same order; the first that differs is {theirs[places[0]]!r}"
            )
            raise DataError(fault, fix)


def study_of(job: Job, label_user: int) -> Study:
    """The study a job file asks for; ``label_user`` is who holds the labels of split columns, 0 where nobody alone."""
    study = job.study
    return Study(
        task=study.task,
        split=study.split,
        components=study.components,
        scheme=job.masks.scheme,
        trust=Trust.PEERS if job.authority is None else Trust.AUTHORITY,
        release=released(study),
        centre=study.intercept if study.task is Task.LR else None,
        unit_variance=study.unit_variance,
        full_matrices=study.full_matrices,
        alpha=study.alpha,
        targets=len(study.label),
        label_user=label_user,
        block_size=job.masks.block_size or 0,
        memory=study.memory or DEFAULT_MEMORY,
        check_ids=study.id is not None and vertical(job),
        check=study.verify,
    )
