"""The job file: what a study is, in TOML, checked before any data is opened.

One file serves every rung; what a rung does not need (an address, say) is accepted and left alone. The sections
are the file's tables, their keys are rows of the option table (``tasks/options.py``), and no other key is taken: a
misspelt key is an error that names its nearest neighbour, because an option that is silently ignored may be the one
that protects a person. ``docs/job-file.md`` describes every key. All lengths are limited: a submitted job is stored by
the CSP and read by every member, and none of them may choke on it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from fedsvd.data.open import located
from fedsvd.errors import ConfigError
from fedsvd.prepare.dictionary import Dictionary
from fedsvd.prepare.table_map import NOTHING, TableMap, read_map
from fedsvd.protocol.model import Digits
from fedsvd.protocol.tasks import MODEL_TASKS, Ids, Split, Task, Trust
from fedsvd.storage.toml import read_toml
from fedsvd.studies.counted_columns import counted_by, with_counted
from fedsvd.studies.described_table import plan_of_job
from fedsvd.studies.foreign import ForeignSection, with_declaration
from fedsvd.studies.formula_options import with_formula
from fedsvd.studies.job_dictionary import DictionarySection, by_dictionary, record_bits, with_dictionary
from fedsvd.studies.job_faults import first_fault
from fedsvd.studies.made_dictionary import with_made_dictionary
from fedsvd.studies.match_section import MatchSection
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.sections import Section, with_keys
from fedsvd.studies.study import Study, expect_legal, released
from fedsvd.studies.study_section import StudySection, model_of
from fedsvd.tasks.declared import declared
from fedsvd.tasks.job_rules import PARTY_RULES, STUDY_RULES
from fedsvd.tasks.option import expect
from fedsvd.tasks.options import applies, scripted

LARGEST_FILE = 256 << 10  # bytes
MOST_PARTIES = 500


@with_keys("masks")
class MasksSection(Section):
    """``[masks]``: how data is hidden; all of it optional."""


@with_keys("csp")
class CspSection(Section):
    """``[csp]``: where the computing server listens; not needed on one machine."""


@with_keys("authority")
class AuthoritySection(Section):
    """``[authority]``: naming a Trusted Authority means that it deals the masks."""


@with_keys("party")
class PartySection(Section):
    """``[[party]]``: who takes part; ``data`` and ``link`` on one machine only."""


class _File(Section):
    """A job file of fedsvd."""

    job: StudySection
    match: MatchSection = MatchSection()
    prepare: PrepareSection = PrepareSection()
    masks: MasksSection = MasksSection()
    csp: CspSection = CspSection()
    authority: AuthoritySection | None = None
    dictionary: DictionarySection | None = None
    foreign: ForeignSection | None = None
    party: Annotated[tuple[PartySection, ...], Field(max_length=MOST_PARTIES)] = ()


@dataclass(frozen=True)
class Job:
    """A checked job file; paths in it are relative to ``folder``."""

    study: StudySection
    masks: MasksSection
    csp: CspSection
    authority: AuthoritySection | None
    parties: tuple[PartySection, ...]
    folder: Path
    prepare: PrepareSection
    match: MatchSection = field(default_factory=MatchSection)
    foreign: ForeignSection | None = None
    dictionary: Dictionary | None = None  # the consortium's, where the job names one
    made_dictionary: bool = False  # whether it was made of the tables, all of which are here

    @property
    def targets(self) -> tuple[str, ...]:
        """What is predicted: the label columns, or what stands left of ~ in the formula."""
        return () if self.study.counted_columns else self.prepare.targets or self.study.label

    def computed_with(self, device: str | None, engine: str | None) -> "Job":
        """The same job, with what the command line says its roles compute with."""
        said = {key: value for key, value in (("device", device), ("engine", engine)) if value is not None}
        return replace(self, study=self.study.model_copy(update=said)) if said else self

    def data_of(self, party: PartySection) -> Path | str:
        """Where a party's table is, on this machine; a text for one that is made, not read."""
        if party.data is None:
            raise ConfigError(f"party {party.name} names no data", f'[[party]] name = "{party.name}", data = "FILE"')
        return located(party.data, self.folder)

    def map_of(self, party: PartySection) -> TableMap:
        """How a party's table is mapped, on this machine; as it is where the job does not say."""
        return NOTHING if party.map is None else read_map(self.folder / party.map)

    def link_of(self, party: PartySection) -> Path | str | None:
        """Where a party's linkage map is, on this machine; None where it has none."""
        return None if party.link is None else located(party.link, self.folder)


_SECTIONS: dict[str, type[BaseModel]] = {
    "job": StudySection,
    "match": MatchSection,
    "prepare": PrepareSection,
    "masks": MasksSection,
    "csp": CspSection,
    "authority": AuthoritySection,
    "dictionary": DictionarySection,
    "foreign": ForeignSection,
    "party": PartySection,
}


def read_job(path: Path, tables_here: bool = False) -> Job:
    """The job in a TOML file; with ``tables_here`` a dictionary that it needs and does not name is made of them."""
    if path.is_file() and path.stat().st_size > LARGEST_FILE:
        raise ConfigError(f"{path} is larger than {LARGEST_FILE:,} bytes", "a job file names columns, not values")
    record = with_declaration(read_toml(path, "docs/job-file.md"))
    if tables_here:
        return job_of_tables_here(record, path.parent)
    return job_from(with_dictionary(record, path.parent), path.parent)


def job_of_tables_here(record: Mapping[str, Any], folder: Path) -> Job:
    """The job of a parsed file, where all tables are on this machine and may be opened."""
    described = with_made_dictionary(with_dictionary(record, folder), folder)
    made = "dictionary" in described and "dictionary" not in record
    return replace(job_from(described, folder), made_dictionary=made)


def expect_short(record: Mapping[str, Any]) -> None:
    """Raise unless this job file is one that can be submitted and listed."""
    size = len(json.dumps(record, default=str))
    if size > LARGEST_FILE:
        raise ConfigError(f"the job has {size:,} bytes, more than {LARGEST_FILE:,}", "shorten its names and lists")


def job_from(record: Mapping[str, Any], folder: Path) -> Job:
    """The job that a parsed job file describes."""
    expect_short(record)
    record = with_formula(record)
    try:
        file = _File.model_validate(record)
    except ValidationError as fault:
        raise first_fault(fault, {name: list(section.model_fields) for name, section in _SECTIONS.items()}) from None
    expect(PARTY_RULES, file)
    expect(STUDY_RULES, file.job)
    file.match.expect_fits(file.job, [party.name for party in file.party if party.link is not None])
    aligned = file.match.align is not None
    dictionary = None if file.dictionary is None else file.dictionary.content
    study = counted_by(dictionary, file.job, file.prepare.targets or file.job.label)
    words = with_counted(study, file.prepare)
    prepare = by_dictionary(dictionary, study, words, file.match, file.foreign, len(file.party))
    if file.job.task in (Task.LR, *MODEL_TASKS) and file.job.intercept and not (file.job.alpha or file.job.alphas):
        prepare = prepare.beside_constant()
    prepare.expect_fits(file.job.split, file.job.task, file.job.label, file.job.intercept, aligned)
    sections = study, file.masks, file.csp, file.authority, file.party, folder, prepare, file.match
    job = Job(*sections, file.foreign, dictionary)
    expect_legal(replace(study_of(job), release=file.job.asked))  # as it is asked for, not as it was completed
    return job


_DIGITS = (Task.LR, Task.SURVIVAL, *(task for task in Task if declared(task).by_steps))  # others have them elsewhere


def study_of(job: Job, label_user: int = 0) -> Study:
    """The study a job file asks for; ``label_user`` is who alone holds the labels of split columns, 0 for no one."""
    study, vertical = job.study, job.study.split is Split.VERTICAL
    return Study(
        task=study.task,
        split=study.split,
        components=study.components if isinstance(study.components, int) else None,
        components_by=study.components_by,
        scheme=job.masks.scheme,
        mode=job.masks.mode,
        trust=Trust.PEERS if job.authority is None else Trust.AUTHORITY,
        release=released(study.task, study.asked),
        centre=study.intercept if applies("intercept", study.task) else None,
        unit_variance=study.unit_variance,
        alpha=study.alpha,
        alphas=study.alphas,
        chosen_by=study.choose_by,
        weighted=study.weights is not None and study.task is Task.LR,
        robust=study.robust,
        digits=study.digits if study.task in _DIGITS else Digits.ALL,
        targets=len(job.targets) + (len(study.at_side) if study.task in MODEL_TASKS else 0),
        label_user=label_user,
        block_size=job.masks.block_size or 0,
        memory=study.memory,
        check_ids=study.id is not None and vertical and study.ids is Ids.COMPARE,
        trust_rows=study.ids is Ids.TRUST,
        align=job.match.align,
        id_rule=job.match.record_ids(study.id_columns).text() if job.match.align else "",
        least_overlap=job.match.least_overlap if job.match.align else 0,
        check=study.verify,
        glm=model_of(study) if study.task in MODEL_TASKS else None,
        table=plan_of_job(job.dictionary, study, job.prepare) if study.task is Task.DESCRIBE else None,
        record_bits=record_bits(job.dictionary, job.prepare),
        foreign=None if job.foreign is None else job.foreign.study,
        options=scripted(study.task, lambda option: getattr(study, option.key)),
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of job files, for editors and for the reference; rules between keys are not in it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_File.model_json_schema(),
        "title": "fedsvd job file",
    }
