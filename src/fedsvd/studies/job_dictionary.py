"""``[dictionary]`` of a job file: the consortium's codebook, which travels in the job, and what it settles.

A job that names a dictionary names its columns and groups, and nothing else: what stands in another table of the file
is looked up here, before any data is opened. Levels come from the dictionary, so that no session is needed to agree on
them; rows are left out by one of its views, so that two studies of it have the same rows or those of two views. The
dictionary is part of the job as it is signed; a party compares it with its own copy (``expect_own``).
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Finding
from fedsvd.prepare.dictionary import Column, Dictionary, dictionary_of, read_dictionary
from fedsvd.prepare.formula_table import HAS_NO_KNOTS
from fedsvd.prepare.formula_terms import SITE
from fedsvd.prepare.joint_counts import CountRule
from fedsvd.prepare.missing import Missing
from fedsvd.protocol.held import NUMBER_COLUMN
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.described_table import table_words
from fedsvd.studies.foreign import ForeignSection
from fedsvd.studies.match_section import MatchSection
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.sections import Section, with_keys
from fedsvd.studies.study_section import StudySection
from fedsvd.types import near

WHERE = "[dictionary] of the job"


@with_keys("dictionary")
class DictionarySection(Section):
    """``[dictionary]``: the file, or what it says."""

    @property
    def content(self) -> Dictionary:
        """The dictionary; a job that was submitted brings it, and names no file of this machine."""
        if not self.says:
            raise ConfigError(f"{WHERE} is not there", '[dictionary] file = "dictionary.toml", read from a job file')
        return dictionary_of(self.says, WHERE)


def with_dictionary(record: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A parsed job file, with what the dictionary that it names says."""
    section = record.get("dictionary")
    if not isinstance(section, Mapping) or not isinstance(section.get("file"), str) or "says" in section:
        return record
    found = read_dictionary(folder / section["file"])
    rest = {key: value for key, value in section.items() if key != "file"}
    return {**record, "dictionary": {**rest, "says": found.record()}}


def by_dictionary(
    dictionary: Dictionary | None,
    study: StudySection,
    prepare: PrepareSection,
    match: MatchSection,
    foreign: ForeignSection | None,
    parties: int = 0,
) -> PrepareSection:
    """``[prepare]`` with what the dictionary settles; refused where the job names what is not in it."""
    if dictionary is None:
        if prepare.view is not None:
            raise ConfigError("view names a view of a dictionary, and the job has none", "[dictionary] file = ...")
        _expect_knots({}, prepare)
        return prepare
    counts = _counts(dictionary, study, prepare, foreign, parties)
    if dictionary.takes_any:
        _expect_knots({}, prepare)
        return prepare.counted_by(counts)
    _expect_knots(dictionary.described, prepare)
    if prepare.rename:
        fix = "each site maps its own names to the dictionary: [table.map] in its site.toml"
        raise ConfigError("a job with a dictionary renames no columns", fix)
    for where, names in _named(study, prepare, match, foreign):
        dictionary.expect_names(where, names)
    aside = _aside(study, foreign)
    viewed = _view(dictionary, study, prepare)
    by_formula = prepare.joint.parsed if prepare.formula and prepare.joint is not None else None
    columns = [name for name in viewed or dictionary.features if name not in aside and name not in prepare.drop]
    if study.task is Task.DESCRIBE:
        return table_words(dictionary, study.by, prepare, columns, viewed)
    taken = prepare.columns or columns if by_formula is None else by_formula.variables
    _expect_features(dictionary, [name for name in taken if name != SITE])
    outcome = () if by_formula is None else by_formula.outcome
    settled = {*aside, *outcome, *prepare.orders, SITE, *prepare.drop}
    texts = [name for name in taken if name not in settled and dictionary.levels_of(name)]
    levels = {name: dictionary.levels_of(name) for name in texts}
    return prepare.described_by(dictionary, levels, viewed, columns).counted_by(counts)


def record_bits(dictionary: Dictionary | None, prepare: PrepareSection) -> float | None:
    """Bits of one record of a study's columns as a dictionary describes them; None where it does not."""
    if dictionary is None or dictionary.takes_any:
        return None
    by_formula = prepare.joint.parsed if prepare.formula and prepare.joint is not None else None
    outcome = () if by_formula is None else by_formula.outcome
    names = prepare.columns if by_formula is None else [name for name in by_formula.variables if name not in outcome]
    groups = dictionary.groups
    # A group of a column is a function of it: of both, the column is counted.
    counted = [name for name in names if name != SITE and (name not in groups or groups[name].of not in names)]
    return sum(_bits(dictionary, name) for name in counted)


def _bits(dictionary: Dictionary, name: str) -> float:
    """Of one column: log2 of its levels; of a number those of its range in steps of its decimals, and 8 at most."""
    if levels := dictionary.levels_of(name):
        return math.log2(len(levels))
    column = dictionary.described[name]
    if column.range is None or column.decimals is None:
        return NUMBER_COLUMN
    low, high = column.range
    return min(NUMBER_COLUMN, math.log2(1.0 + (high - low) * 10.0**column.decimals))


def _aside(study: StudySection, foreign: ForeignSection | None) -> tuple[str, ...]:
    """The columns of a study that are no features; one with a random slope is."""
    labels = (name for name in study.label_columns if name not in study.slope)
    beside = (*labels, *study.id_columns, *((study.cluster,) if study.cluster is not None else ()))
    return (*beside, *(() if foreign is None else foreign.columns))


def _named(
    study: StudySection, prepare: PrepareSection, match: MatchSection, foreign: ForeignSection | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every column that a job names, with the place where it does."""
    yield "[job]", (*study.label_columns, *study.id_columns, *((study.cluster,) if study.cluster is not None else ()))
    yield "[match] dates", tuple(match.dates)
    yield "[prepare] columns", prepare.columns
    yield "[prepare] drop", prepare.drop
    yield "[prepare] categories", tuple(prepare.categories)
    yield "[prepare] ordinal", tuple(prepare.orders)
    yield "[prepare] indicators", () if isinstance(prepare.indicators, bool) else tuple(prepare.indicators)
    yield "[prepare] preserve", prepare.preserve
    yield "[prepare] covariates", prepare.covariates
    yield "[foreign]", () if foreign is None else foreign.columns
    parsed = prepare.joint.parsed if prepare.formula and prepare.joint is not None else None
    if parsed is not None:
        site = {SITE} if parsed.has_site else set()
        yield "the formula", tuple(name for name in parsed.variables if name not in site)


def _expect_knots(described: Mapping[str, Column], prepare: PrepareSection) -> None:
    """Splines are at knots of the dictionary; those that a job chose could lie between any two people."""
    parsed = prepare.joint.parsed if prepare.formula and prepare.joint is not None else None
    for name in sorted(() if parsed is None else parsed.splines):
        if name not in described or described[name].knots is None:
            raise ConfigError(f"the formula has ns({name}), and {name!r} has no knots", HAS_NO_KNOTS)


def _counts(
    dictionary: Dictionary,
    study: StudySection,
    prepare: PrepareSection,
    foreign: ForeignSection | None,
    parties: int,
) -> CountRule | None:
    """Whether joint counts are taken, and what becomes of what is rare: of records that are split among parties."""
    apart = foreign is not None or study.counted_columns or study.task is Task.DESCRIBE
    if study.split is not Split.HORIZONTAL or apart:
        return None
    drop = study.task in (Task.SVD, Task.PCA, Task.LSA) and not prepare.formula
    described = {name: column.pool for name, column in dictionary.described.items()}
    of_groups = {name: described[group.of] for name, group in dictionary.groups.items() if group.by_level}
    pooled = tuple(name for name, pools in (described | of_groups).items() if pools)
    return CountRule(parties > 2, drop, pooled)


def _view(dictionary: Dictionary, study: StudySection, prepare: PrepareSection) -> tuple[str, ...]:
    """The columns of the view that the job names; rows with gaps are left out by a view, or not at all."""
    views = dictionary.views
    if prepare.view is None:
        if prepare.missing is Missing.DROP:
            known = f"view = one of {', '.join(map(repr, views))}" if views else "add [views] to the dictionary"
            fault = "with a dictionary, rows are left out by a view of it: each view has one set of rows"
            raise ConfigError(fault, known)
        return ()
    if prepare.view not in views:
        known = f"one of {', '.join(map(repr, views))}" if views else "add [views] to the dictionary"
        fault = f"[prepare] view names {prepare.view!r}, which is no view of the dictionary {dictionary.shown}"
        raise ConfigError(fault, f"{known}{near(prepare.view, views)}")
    viewed, groups = views[prepare.view], dictionary.groups
    parsed = prepare.joint.parsed if prepare.formula and prepare.joint is not None else None
    # A gap in a label or a weight leaves a row out, too: outside of the view it would make another set of rows.
    named = (
        *study.label_columns,
        *study.counted_columns,
        *prepare.columns,
        *(() if parsed is None else parsed.variables),
    )
    outside = [name for name in named if (groups[name].of if name in groups else name) not in {*viewed, SITE}]
    if outside:
        fault = f"the study takes {outside[0]!r}, which is not in the view {prepare.view!r}"
        raise ConfigError(fault, f"the view has {', '.join(map(repr, viewed))}")
    return tuple(viewed)


def _expect_features(dictionary: Dictionary, names: list[str]) -> None:
    """Ids and clusters without levels are no features."""
    free = [name for name in names if name in dictionary.described and dictionary.described[name].holds == "text"]
    if free:
        role = dictionary.described[free[0]].role
        raise ConfigError(f"{free[0]!r} is a column of role {role} in the dictionary, and no feature", "leave it out")


def expect_own(asked: Dictionary | None, own: Dictionary | None) -> None:
    """Raise unless the dictionary of a job is the one that this site has."""
    if asked is None:
        return
    if own is None:
        fault = f"the job is by the dictionary {asked.shown}, and this site has none"
        raise ConfigError(fault, "read the consortium's, then fedsvd table register FILE --dictionary dictionary.toml")
    if own.digest != asked.digest:
        fault = f"the job is by the dictionary {asked.shown}, and this site has {own.shown}"
        where = f"they differ in {own.difference(asked)}"
        raise ConfigError(f"{fault}: {where}", "ask the consortium which of them holds, and register that one")


def by_none(asked: Dictionary | None, own: Dictionary | None) -> tuple[Finding, ...]:
    """What waits for the owner of a site that has a dictionary, where a job is by none: it settles nothing there."""
    if asked is not None or own is None:
        return ()
    text = (
        f"this job is by no dictionary, and your site has {own.shown}: it may name any columns of your file, no joint "
        "counts are taken, and gaps choose its rows. Researchers can write [dictionary] into the job"
    )
    return (Finding("dictionary", text, below=False, asks=True),)
