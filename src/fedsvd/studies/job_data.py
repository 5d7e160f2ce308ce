"""From a job file to what a study runs on: every party's table, labels, row ids and column names.

Opened are the files the job names; label and id columns are taken out of the tables. Where columns are split, rows
belong together by position, so every party may first be sorted by its ids, locally; whether they then agree is for the
keyed-hash check of the session to say. Ids are compared and sorted as text: whole numbers read from one file as
integers and from another as text or as floats are the same ids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataWarning, FedSVDError, warn_caller
from fedsvd.policy.rules import Policy
from fedsvd.prepare.columns import arranged
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.mapped import not_there
from fedsvd.prepare.recipe import Recipe
from fedsvd.protocol.tasks import MODEL_TASKS, Ids, Split, Task, Write
from fedsvd.studies.aside import coded, expect_columns, needed_numbers, text_columns, with_classes
from fedsvd.studies.counted_columns import counted_data
from fedsvd.studies.job_file import Job, study_of
from fedsvd.studies.matching import with_record_ids
from fedsvd.studies.own_table import own_table
from fedsvd.studies.parties import Extent, PartyData, label_user, misfits, one_order
from fedsvd.studies.party_rows import some_rows, without_zero_label_weights, without_zero_weights
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.problems import Problems, parties_named
from fedsvd.studies.run import Outcome
from fedsvd.studies.stages import (
    agree,
    expect_study_allowed,
    home_data,
    preparation_of,
    prepared_for,
    recipes_of,
)
from fedsvd.studies.study import Study
from fedsvd.studies.submitted import asked_of, written_file
from fedsvd.studies.table_columns import (
    as_text,
    class_codes,
    expect_named_ids,
    feature_names,
    labels_in,
    row_ids,
)
from fedsvd.types import Float, near

BY_NAME = "columns are put in the order of their names: the parties' tables have them in different orders"
_AS_THEY_ARE = PrepareSection()


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
    about: Mapping[str, Any] = field(default_factory=dict)  # what a result says of its model
    words: PrepareSection = _AS_THEY_ARE  # what is done to every table first
    agreed: "Outcome | None" = None  # the session in which tables were prepared together
    match: tuple[str, ...] = ()  # how records are matched, in sentences
    by_name: bool = False  # columns were put in the order of their names
    asked: str = ""  # the job file's digest
    file: Mapping[str, Any] = field(default_factory=dict)  # the job file with every option, without data

    @property
    def prepare(self) -> list[str]:
        """What is done to every table first, in sentences."""
        return [*self.match, *self.words.description(), *((BY_NAME,) if self.by_name else ())]

    @property
    def label_holder(self) -> str | None:
        """The party that alone holds the labels, where columns are split."""
        return self.names[self.study.label_user - 1] if self.study.label_user else None


def prepare(job: Job, scratch: Path | None = None, policy: Policy | None = None) -> Prepared:
    """Open every party's data as the job says; where it takes sums, in a session of all parties in this process."""
    problems = Problems()
    sources = _opened(job, scratch, problems)
    _note_unknown_names(job, sources, problems)
    if vertical(job) and job.study.id is None and job.study.ids is Ids.COMPARE and not problems:
        # By itself: that ids are no numbers would only distract from it.
        expect_named_ids([source.without(_not_taken(job, source)) for source in sources.values()])
    holder = _label_user(job, sources, problems)
    agreed, recipes = _agreed(job, sources, problems, scratch, policy)
    parties: dict[str, PartyData] = {}
    for i, party in enumerate(job.parties, start=1):
        if party.name in sources:
            with problems.of(party.name, str(party.data)):
                labels = job.study.label_columns if not vertical(job) or holder == i else ()
                if agreed is None and preparation_of(job) is not None:
                    continue  # what is wrong with the tables was noted
                recipe, link = recipes.get(party.name), job.link_of(party)
                linkage = None if link is None else open_source(link, scratch=scratch)
                data = job_party_data(job, sources[party.name], labels, recipe=recipe, link=linkage)
                parties[party.name] = replace(data, file=str(party.data), mapped=job.map_of(party))
    features = {name: feature_names(data.table) for name, data in parties.items()}
    order = None
    if not vertical(job):
        extents = {name: Extent(*data.table.shape, features[name]) for name, data in parties.items()}
        for misfit in misfits(Split.HORIZONTAL, extents):
            problems.note(misfit)
        order = None if problems or not parties else one_order(features)
        if order is not None:
            parties = {name: in_order(data, order) for name, data in parties.items()}
            features = dict.fromkeys(features, order)
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
        job.targets,
        job.study.id_name,
        job.study.write,
        job.study.about,
        job.prepare,
        agreed,
        tuple(job.match.description(job.study.id_columns)),
        order is not None,
        asked_of(job).digest,
        written_file(job, every=True),
    )


def _agreed(
    job: Job, sources: Mapping[str, MatrixSource], problems: Problems, scratch: Path | None, policy: Policy | None
) -> tuple["Outcome | None", dict[str, Recipe]]:
    """The session that prepares the tables together, and every party's recipe; nothing where none is needed."""
    study, names = preparation_of(job), [party.name for party in job.parties]
    if study is None:
        return None, {}
    homes: dict[str, PartyData] = {}
    for party in job.parties:
        if party.name in sources:
            with problems.of(party.name, str(party.data)):
                homes[party.name] = home_data(job, sources[party.name])
    extents = {name: Extent(*home.table.shape, feature_names(home.table)) for name, home in homes.items()}
    for misfit in misfits(Split.HORIZONTAL, extents):
        problems.note(misfit)
    if problems or len(homes) < len(names):
        return None, {}
    order = one_order({name: extent.features for name, extent in extents.items()})
    if order is not None:
        homes = {name: in_order(home, order) for name, home in homes.items()}
    with parties_named(tuple(names)):
        expect_study_allowed(study_of(job), _alone(job, sources, homes), policy or Policy())
        outcome = agree(study, list(homes.values()), scratch=scratch, policy=policy, asked=asked_of(job).digest)
    return outcome, dict(zip(names, recipes_of(outcome), strict=True))


def _alone(job: Job, sources: Mapping[str, MatrixSource], homes: Mapping[str, PartyData]) -> list[tuple[int, int]]:
    """Records and columns of every party as the study would have them if its own numbers were the joint ones."""
    found = []
    for name, home in homes.items():
        try:
            found.append(job_party_data(job, sources[name], job.study.label_columns, alone=True).table.shape)
        except FedSVDError:  # a column may be empty at one party, and not at all of them
            found.append(home.table.shape)
    return found


def party_data(
    source: MatrixSource,
    labels: Sequence[str],
    id: str | None,
    sort: bool = False,
    classes: Sequence[str] = (),
    *,
    outcome: Float | None = None,
    cluster: str | None = None,
    weights: str | None = None,
    offset: str | None = None,
    stays: Sequence[str] = (),
) -> PartyData:
    """One party's table without labels and ids, and these separately; its rows in the order of their ids if asked.

    Where the first label is one of these classes, it becomes the number of its class. The ``outcome`` of a formula is
    the first label. Labels are less their offset. ``stays`` are labels that are features too.
    """
    aside = (*labels, *(name for name in (id, cluster, weights, offset) if name is not None))
    table = source.without([name for name in aside if name in (source.names or ()) and name not in stays])
    named = labels_in(source, labels, classes if outcome is None else ()) if labels else None
    if outcome is not None and classes:
        outcome = class_codes("", as_text(outcome[:, 0]), classes)[:, None]
    found = [part for part in (outcome, named) if part is not None]
    y = None if not found else found[0] if len(found) == 1 else np.hstack(found)
    if y is not None and offset is not None:
        y = y - labels_in(source, (offset,), outcome=False)
    ids = None if id is None else row_ids(source, id)
    groups = None if cluster is None else row_ids(source, cluster)
    prior = None if weights is None else labels_in(source, (weights,), outcome=False)[:, 0]
    data = PartyData(table, y, ids, row_weights=prior, clusters=groups)
    return some_rows(data, np.argsort(ids, kind="stable")) if ids is not None and sort else data


def job_party_data(
    job: Job,
    source: MatrixSource,
    labels: Sequence[str],
    recipe: Recipe | None = None,
    alone: bool = False,
    link: MatrixSource | None = None,
) -> PartyData:
    """One party's table, under its names in the study, as ``[prepare]`` and ``[job]`` want it.

    ``recipe`` is what the parties came to together (``stages.py``), where tables are prepared so; ``alone`` where its
    own numbers will do. ``link`` is the party's linkage map.
    """
    study, id, beside = job.study, job.study.id_name, _beside(job, source, labels)
    expect_columns(source, () if job.foreign is None else job.foreign.columns)
    if study.task in (Task.LR, *MODEL_TASKS):
        expect_columns(source, [name for name in (study.cluster, study.weights) if name is not None])
    if study.task is Task.LR:
        labels = tuple(name for name in labels if name in study.label)
    found = with_record_ids(job, source, link)
    words, needed = with_classes(job, source, labels), needed_numbers(study, source, labels)
    split = vertical(job)
    ids = text_columns(study)
    made = prepared_for(words, found.table, needed, ids, alone or split, recipe, split, stays=study.slope)
    numbered = coded(job, source, labels) is not None
    classes = tuple(map(str, range(len(study.classes)))) if numbered else study.classes
    data = party_data(made.table, labels, id, study.sort_by_id, classes, outcome=made.outcome, **beside)
    data = counted_data(study, data)
    return _with_weight(job, replace(data, prepared=made.report, without_link=found.without_link))


def _with_weight(job: Job, party: PartyData) -> PartyData:
    """A party without its rows of weight 0."""
    if job.study.task in MODEL_TASKS and job.study.weights is not None:
        return without_zero_label_weights(party)
    return without_zero_weights(party)


def _beside(job: Job, source: MatrixSource, labels: Sequence[str]) -> dict[str, Any]:
    """The columns next to the labels: clusters; of a linear regression also weights, an offset."""
    study = job.study
    if study.task is not Task.LR:
        return {"stays": study.slope, "cluster": study.cluster}
    fitted = bool(labels or job.targets)
    return {"cluster": study.cluster, "weights": study.weights, "offset": study.offset if fitted else None}


def in_order(data: PartyData, names: Sequence[str]) -> PartyData:
    """A party's data with the columns of its table in this order."""
    return data if feature_names(data.table) == tuple(names) else replace(data, table=arranged(data.table, names))


def vertical(job: Job) -> bool:
    return job.study.split is Split.VERTICAL


def _opened(job: Job, scratch: Path | None, problems: Problems) -> dict[str, MatrixSource]:
    """Every party's table that can be opened, by the party's name."""
    sources = {}
    for party in job.parties:
        with problems.of(party.name, "" if party.data is None else str(party.data)):
            own = own_table(job, party.name, job.data_of(party), job.map_of(party), scratch)
            sources[party.name] = own.source
            for text in not_there(own.file, job.map_of(party)):
                warn_caller(f"party {party.name}: {text}", DataWarning)
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
    if vertical(job):
        asked += [*job.prepare.rule.names, *(("categories", name) for name in job.prepare.categories)]
    for word, name in asked:
        if name not in every:
            fault = f"[prepare] {word}: no party has a column {name!r}"
            problems.note(ConfigError(fault, f"check the spelling{near(name, every)}"))


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
