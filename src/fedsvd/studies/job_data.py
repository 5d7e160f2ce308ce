"""From a job file to what a study runs on: every party's table, labels, row ids and column names.

Opened are the files the job names; label and id columns are taken out of the tables. Where columns are split, rows
belong together by position, so every party may first be sorted by its ids, locally; whether they then agree is for the
keyed-hash check of the session to say. Ids are compared and sorted as text: whole numbers read from one file as
integers and from another as text or as floats are the same ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.numbered import NumberedNames
from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.data.suspects import shared_id
from fedsvd.data.views import Without
from fedsvd.errors import ConfigError, DataError, FedSVDError, NotNumeric
from fedsvd.prepare.at_home import HomeReport, prepared_at_home, renamed
from fedsvd.prepare.derived import names_of
from fedsvd.protocol.tasks import Ids, Split, Task, Trust, Write
from fedsvd.studies.job_faults import near
from fedsvd.studies.job_file import Job, released
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import Study
from fedsvd.studies.problems import Problems
from fedsvd.types import Float

_NAMES_COMPARED = 10_000  # of tables with more columns the missing ones are not looked for


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
    holder = _label_holder(job, sources, problems)
    parties: dict[str, PartyData] = {}
    for i, party in enumerate(job.parties):
        if party.name in sources:
            with problems.of(party.name, str(party.data)):
                labels = job.study.label if not vertical(job) or holder == i else ()
                data = job_party_data(job, sources[party.name], labels)
                parties[party.name] = replace(data, file=str(party.data))
    features = {name: feature_names(data.table) for name, data in parties.items()}
    if not vertical(job):
        _note_other_columns(features, problems)
    study = study_of(job, 0 if holder is None else holder + 1)
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


def party_data(source: MatrixSource, labels: Sequence[str], id: str | None, sort: bool = False) -> PartyData:
    """One party's table without labels and ids, and these beside it; its rows in the order of their ids if asked."""
    ids = None if id is None else row_ids(source, id)
    aside = (*labels, *(() if id is None else (id,)))
    table = source.without([name for name in aside if name in (source.names or ())])
    y = labels_in(source, labels) if labels else None
    if ids is not None and sort:
        order = np.argsort(ids, kind="stable")
        table, ids = table.reordered(order), ids[order]
        y = None if y is None else y[order]
    return PartyData(table, y, ids)


def job_party_data(job: Job, source: MatrixSource, labels: Sequence[str]) -> PartyData:
    """One party's table, under its names in the study, as ``[prepare]`` and ``[job]`` want it."""
    source, report = prepared_for(job, source, labels)
    return replace(party_data(source, labels, job.study.id, job.study.sort_by_id), prepared=report)


def prepared_for(job: Job, source: MatrixSource, labels: Sequence[str]) -> tuple[MatrixSource, HomeReport | None]:
    """A table as ``[prepare]`` wants it, and what was done to it; labels and ids are still read by their names."""
    if job.prepare.asks_nothing:
        return source, None
    home = prepared_at_home(source, job.prepare.rule, labels, job.study.id, vertical(job))
    return home.table, home.report


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


def _label_holder(job: Job, sources: Mapping[str, MatrixSource], problems: Problems) -> int | None:
    """The place of the one party that has the labels of a regression on split columns; None elsewhere.

    A party whose table could not be opened may be the holder: then it is not known, and that is not a problem too.
    """
    names = [party.name for party in job.parties]
    if job.study.task is not Task.LR or not vertical(job) or len(sources) < len(names):
        return None
    with problems.of(""):
        return _holder(job, names, [sources[name] for name in names])
    return None


def _holder(job: Job, names: Sequence[str], sources: Sequence[MatrixSource]) -> int:
    wanted = set(job.study.label)
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


def _note_other_columns(features: Mapping[str, Sequence[str]], problems: Problems) -> None:
    """Every party's columns are those of the first, by number, name and order."""
    if not features:
        return
    first, ours = next(iter(features.items()))
    for name, theirs in features.items():
        if len(theirs) != len(ours):
            fault = f"party {name} has {len(theirs)} columns, party {first} has {len(ours)}"
            problems.note(DataError(fault, f"give every party the same columns{_only(ours, theirs)}"))
            continue
        if theirs == ours:
            continue
        places = [j for j, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
        if places:
            fault = f"{len(places)} of {len(ours)} columns of party {name} have other names than those of {first}"
            fix = (
                "give every party the same columns in the same order; "
                f"the first that differs is {theirs[places[0]]!r}. "
                "columns = [...] under [prepare], or --columns, puts them in one order"
            )
            problems.note(DataError(fault, fix))


def _only(ours: Sequence[str], theirs: Sequence[str]) -> str:
    """The first names that one side has and the other has not, for the end of a sentence."""
    fewer, more = sorted((ours, theirs), key=len)
    extra = [name for name in more if name not in set(fewer)][:3] if len(more) <= _NAMES_COMPARED else []
    return f"; only one of the two has {', '.join(map(repr, extra))}" if extra else ""


def study_of(job: Job, label_user: int) -> Study:
    """The study a job file asks for; ``label_user`` is who holds the labels of split columns, 0 where nobody alone."""
    study = job.study
    return Study(
        task=study.task,
        split=study.split,
        components=study.components,
        scheme=job.masks.scheme,
        mode=job.masks.mode,
        trust=Trust.PEERS if job.authority is None else Trust.AUTHORITY,
        release=released(study),
        centre=study.intercept if study.task is Task.LR else None,
        unit_variance=study.unit_variance,
        full_matrices=study.full_matrices,
        alpha=study.alpha,
        targets=len(study.label),
        label_user=label_user,
        block_size=job.masks.block_size or 0,
        memory=study.memory,
        check_ids=study.id is not None and vertical(job) and study.ids is Ids.COMPARE,
        trust_rows=study.ids is Ids.TRUST,
        check=study.verify,
    )
