"""From a job file to what a study runs on: every party's table, labels, row ids and column names.

Opened are the files the job names; label and id columns are taken out of the tables. Where columns are split, rows
belong together by position, so every party may first be sorted by its ids, locally; whether they then agree is for the
keyed-hash check of the session to say. Ids are compared and sorted as text: whole numbers read from one file as
integers and from another as text or as floats are the same ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.data.suspects import shared_id
from fedsvd.data.views import NumberedNames, Without
from fedsvd.errors import ConfigError, DataError, FedSVDError, NotNumeric
from fedsvd.prepare.at_home import (
    HomeReport,
    HomeRule,
    as_remembered,
    by_text,
    prepared_at_home,
    renamed,
    under_own_names,
)
from fedsvd.prepare.derived import names_of
from fedsvd.protocol.tasks import Ids, Split, Task, Write
from fedsvd.studies.job_faults import near
from fedsvd.studies.job_file import Job, StudySection, study_of
from fedsvd.studies.parties import Extent, PartyData, Problems, label_user, misfits
from fedsvd.studies.party_rows import in_order, without_zero_weights
from fedsvd.studies.study import Study
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
    prepare: tuple[str, ...] = ()  # what every party does to its table first
    about: Mapping[str, Any] = field(default_factory=dict)  # what a result says of its model

    @property
    def label_holder(self) -> str | None:
        """The party that alone holds the labels, where columns are split."""
        return self.names[self.study.label_user - 1] if self.study.label_user else None


def prepare(job: Job, scratch: Path | None = None) -> Prepared:
    """Open every party's data as the job says."""
    problems = Problems()
    sources = _opened(job, scratch, problems)
    _note_unknown_names(job, sources, problems)
    if vertical(job) and job.study.id is None and job.study.ids is Ids.COMPARE and not problems:
        # By itself: that ids are no numbers would only distract from it.
        expect_named_ids([source.without(_not_taken(job, source)) for source in sources.values()])
    holder = _label_user(job, sources, problems)
    parties: dict[str, PartyData] = {}
    for i, party in enumerate(job.parties, start=1):
        if party.name in sources:
            with problems.of(party.name, str(party.data)):
                labels = job.study.label_columns if not vertical(job) or holder == i else ()
                data = job_party_data(job, sources[party.name], labels)
                parties[party.name] = replace(data, file=str(party.data))
    features = {name: feature_names(data.table) for name, data in parties.items()}
    if not vertical(job):
        extents = {name: Extent(*data.table.shape, features[name]) for name, data in parties.items()}
        for misfit in misfits(Split.HORIZONTAL, extents):
            problems.note(misfit)
    study = study_of(job, holder)
    names = tuple(party.name for party in job.parties)
    if problems:  # the files are to be repaired in any case: say what else is wrong with them
        problems.read((name, data.file, data.table) for name, data in parties.items())
    problems.expect_none()
    return Prepared(
        job.study.name,
        study,
        names,
        tuple(parties.values()),
        tuple(features.values()),
        job.study.label,
        job.study.id,
        job.study.write,
        tuple(job.prepare.description()),
        about=job.study.about,
    )


def expect_named_ids(sources: Sequence[MatrixSource]) -> None:
    """Refuse tables that share a column of row ids which the study does not name: as a feature it would do harm."""
    name = shared_id(sources)
    if name is None:
        return
    how = (
        f'--id {name} (id = "{name}" in a job file or in Python) compares the ids and leaves the column out of the data'
    )
    if not name:  # what pandas writes above an index
        how = 'name it (to_csv(index_label="row")), and --id row compares it; or write the table without: index=False'
    raise ConfigError(
        f"every party has a column {name!r} with another value in each row, as row ids are, and no id is named",
        f'{how}; ids = "trust" (--ids trust), if it is data and the rows are known to be in the same order',
    )


def party_data(
    source: MatrixSource,
    labels: Sequence[str],
    id: str | None,
    sort: bool = False,
    classes: Sequence[str] = (),
    *,
    cluster: str | None = None,
    weights: str | None = None,
    offset: str | None = None,
) -> PartyData:
    """One party's table without labels and ids, and these separately; its rows in the order of their ids if asked.

    Where the first label is one of these classes, it becomes the number of its class. Labels are less their offset.
    """
    aside = (*labels, *(name for name in (id, cluster, weights, offset) if name is not None))
    table = source.without([name for name in aside if name in (source.names or ())])
    y = labels_in(source, labels, classes) if labels else None
    if y is not None and offset is not None:
        y = y - labels_in(source, (offset,))
    ids = None if id is None else row_ids(source, id)
    groups = None if cluster is None else row_ids(source, cluster)
    prior = None if weights is None else labels_in(source, (weights,))[:, 0]
    found = PartyData(table, y, ids, row_weights=prior, clusters=groups)
    return in_order(found, np.argsort(ids, kind="stable")) if ids is not None and sort else found


def job_party_data(
    job: Job, source: MatrixSource, labels: Sequence[str], own_names: Sequence[str] | None = None
) -> PartyData:
    """One party's table, under its names in the study, as ``[prepare]`` and ``[job]`` want it.

    ``own_names`` are those of the same columns at the site, where it remembers its studies.
    """
    study, words = job.study, job.prepare
    beside: dict[str, Any] = {}
    if study.task is Task.LR:
        _expect_columns(source, [name for name in (study.cluster, study.weights) if name is not None])
        labels = tuple(name for name in labels if name in study.label)
        beside = {"cluster": study.cluster, "weights": study.weights, "offset": study.offset if labels else None}
    table, report = prepared_for(job, source, labels)
    classes = tuple(map(str, range(len(study.classes)))) if _coded(job, source, labels) else study.classes
    data = replace(party_data(table, labels, study.id, study.sort_by_id, classes, **beside), prepared=report)
    data = without_zero_weights(data)
    if own_names is None or not (words.rename or words.ordinal or words.constant):
        return data
    own = dict(zip(names_of(source), own_names, strict=True))
    rule, needed = as_remembered(_with_classes(job, source, labels)), _needed(study, source, labels)
    table = prepared_at_home(source, rule, needed, _texts(study), vertical(job), by_text).table
    memory = without_zero_weights(party_data(table, labels, study.id, study.sort_by_id, **beside))
    return replace(data, remembered=replace(memory, table=under_own_names(memory.table, own)))


def prepared_for(job: Job, source: MatrixSource, labels: Sequence[str]) -> tuple[MatrixSource, HomeReport | None]:
    """A table as ``[prepare]`` wants it, and what was done to it; labels and ids are still read by their names."""
    if job.prepare.asks_nothing:
        return source, None
    rule, needed = _with_classes(job, source, labels), _needed(job.study, source, labels)
    home = prepared_at_home(source, rule, needed, _texts(job.study), vertical(job))
    return home.table, home.report


def _expect_columns(source: MatrixSource, names: Sequence[str]) -> None:
    lacking = [name for name in names if name not in (source.names or ())]
    if lacking:
        fix = "every party needs it; rename what is called otherwise ([prepare] rename)"
        raise ConfigError(f"there is no column {lacking[0]!r} here", fix)


def _needed(study: StudySection, source: MatrixSource, labels: Sequence[str]) -> tuple[str, ...]:
    """Columns of numbers that are no features: labels, and where this table has them an offset and weights."""
    held = set(names_of(source))
    return (*labels, *(name for name in study.at_side if name not in labels and name in held))


def _texts(study: StudySection) -> tuple[str, ...]:
    """Columns that may hold text and are no features: ids and clusters."""
    return tuple(name for name in (study.id, study.cluster) if name is not None)


def _coded(job: Job, source: MatrixSource, labels: Sequence[str]) -> bool:
    """Whether preparation turns a label of text into the numbers of its classes."""
    if not (job.study.classes and labels) or job.prepare.asks_nothing:
        return False
    return labels[0] in names_of(source) and source.column(labels[0]).dtype.kind not in "iuf"


def _with_classes(job: Job, source: MatrixSource, labels: Sequence[str]) -> HomeRule:
    """What ``[prepare]`` asks for; a label of text has its classes as an ordinal map."""
    rule = job.prepare.rule
    if not _coded(job, source, labels):
        return rule
    return replace(rule, ordinal=(*rule.ordinal, (labels[0], job.study.classes)))


def row_ids(source: MatrixSource, name: str) -> NDArray[np.str_]:
    """The ids as text, one to a row."""
    column = source.column(name)
    if column.dtype.kind == "f" and bool(np.all(column == np.floor(column))):
        column = column.astype(np.int64)
    return column.astype(np.str_)


def labels_in(source: MatrixSource, names: Sequence[str], classes: Sequence[str] = ()) -> Float:
    """The label columns of these names, (rows, targets); the first as numbers of its classes where there are some."""
    first = [_codes(source, names[0], classes)] if classes else []
    return np.column_stack(first + [_numbers(source, name) for name in names[len(first) :]])


def _codes(source: MatrixSource, name: str, classes: Sequence[str]) -> Float:
    """The class of every row as a number from 0, in the order of the study's classes."""
    text = row_ids(source, name)
    place = {spelt: code for code, spelt in enumerate(classes)}
    unknown = int(sum(value not in place for value in text.tolist()))
    if unknown:
        fault = f"the label column {name!r} has other values than the study's classes in {unknown} rows"
        raise DataError(fault, "name all classes in the study, or leave these rows out")
    return np.array([place[value] for value in text.tolist()], dtype=np.float64)


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


def _opened(job: Job, scratch: Path | None, problems: Problems) -> dict[str, MatrixSource]:
    """Every party's table that can be opened, by the party's name."""
    sources = {}
    for party in job.parties:
        with problems.of(party.name, "" if party.data is None else str(party.data)):
            sources[party.name] = renamed(open_source(job.data_of(party), scratch=scratch), job.prepare.rename)
    return sources


def _not_taken(job: Job, source: MatrixSource) -> list[str]:
    """Columns of a table that ``[prepare]`` leaves out, as long as it leaves some in."""
    taken, dropped = set(job.prepare.columns), set(job.prepare.drop)
    names = source.names or ()
    found = [name for name in names if name in dropped or (taken and name not in taken)]
    return found if len(found) < len(names) else []


def _note_unknown_names(job: Job, sources: Mapping[str, MatrixSource], problems: Problems) -> None:
    """A name in ``[prepare]`` that may be one party's alone, and is no party's: a misspelling."""
    if problems or job.prepare.asks_nothing:
        return
    every = {name for source in sources.values() for name in names_of(source)}
    asked = [("rename", new) for new in job.prepare.rename.values()]
    asked += job.prepare.rule.names if vertical(job) else ()
    for word, name in asked:
        if name not in every:
            fault = f"[prepare] {word}: no party has a column {name!r}"
            problems.note(ConfigError(fault, f"check the spelling{near(name, every)}"))


def _numbers(source: MatrixSource, name: str) -> Float:
    column = source.column(name)
    if column.dtype.kind not in "iuf":
        raise NotNumeric(f"the label column {name!r} holds text, not numbers", "encode it as numbers")
    return column.astype(np.float64)


def _label_user(job: Job, sources: Mapping[str, MatrixSource], problems: Problems) -> int:
    """The user who alone holds the labels, of a regression on split columns; 0 elsewhere.

    A party whose table could not be opened may be the holder: then it is not known, and that is not a problem too.
    """
    names = [party.name for party in job.parties]
    if len(sources) < len(names):
        return 0
    wanted = set(job.study.label)
    holding = [bool(wanted & set(sources[name].names or ())) for name in names]
    with problems.of(""):
        holder = label_user(job.study.task, job.study.split, names, holding, job.study.label_party)
        missing = sorted(wanted - set(sources[names[holder - 1]].names or ())) if holder else ()
        if missing:
            fix = "name the party that holds the label"
            raise ConfigError(f"party {names[holder - 1]} has no column {missing[0]!r}", fix)
        return holder
    return 0
