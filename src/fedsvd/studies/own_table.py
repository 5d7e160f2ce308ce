"""A party's own table on its way into a study: mapped by its site, described by the dictionary, named by the job."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.prepare.at_home import renamed
from fedsvd.prepare.categories import ordinal
from fedsvd.prepare.described import described
from fedsvd.prepare.dictionary import Dictionary
from fedsvd.prepare.encoding import Ordinal, encoded
from fedsvd.prepare.mapped import open_mapped
from fedsvd.prepare.site_term import with_site
from fedsvd.prepare.table_map import NOTHING, TableMap
from fedsvd.studies.job_file import Job


@dataclass(frozen=True)
class OwnTables:
    """What a site says of its tables: how they are mapped, and which dictionary it has."""

    map: TableMap = NOTHING
    dictionary: Dictionary | None = None


@dataclass(frozen=True, repr=False)
class OwnTable:
    """A table as it was opened, as the site calls its columns in studies, and as the job calls them."""

    file: MatrixSource
    ours: MatrixSource
    source: MatrixSource


def own_table(
    job: Job, party: str, data: Path | str, words: TableMap = NOTHING, scratch: Path | None = None
) -> OwnTable:
    """The table of a party, opened for a job."""
    return named_table(job, party, open_mapped(data, words, scratch))


def named_table(job: Job, party: str, file: MatrixSource) -> OwnTable:
    """A table that is open and mapped, for a job."""
    ours = with_site(described(file, job.dictionary, _read(job)), job.prepare.joint, party)
    return OwnTable(file, ours, _own_codes(job, renamed(ours, job.prepare.rename)))


def _own_codes(job: Job, source: MatrixSource) -> MatrixSource:
    """The table with strata and subjects of text as numbers: names of one party alone, so that any numbers will do."""
    named = {job.study.strata, job.study.subject} & set(source.text_names) - set(_read(job, beside=False))
    levels = {name: np.unique(values[~gaps]).tolist() for name in named for values, gaps in (source.text(name),)}
    return encoded(source, [Ordinal(name, tuple(ordinal(name, each).items())) for name, each in levels.items()])


def _read(job: Job, beside: bool = True) -> Collection[str]:
    """The columns that a job reads, by the dictionary's names; ``beside``: those that are no features too."""
    study, words = job.study, job.prepare
    parsed = words.joint.parsed if words.formula and words.joint is not None else None
    named = words.columns if parsed is None else parsed.variables
    foreign = () if job.foreign is None else job.foreign.columns
    return {*named, *foreign, *((*study.label_columns, *words.rule.view) if beside else ())}
