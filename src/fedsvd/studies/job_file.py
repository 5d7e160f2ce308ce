"""The job file: what a study is, in TOML, checked before any data is opened.

One file serves every rung; what a rung does not need (an address, say) is accepted and left alone. The sections below
are the file's tables, and no other key is taken: a misspelt key is an error that names its nearest neighbour, because
an option that is silently ignored may be the one that protects a person. ``docs/job-file.md`` describes every key. All
lengths are limited: a submitted job is stored by the CSP and read by every member, and none of them may choke on it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    ValidationError,
    model_validator,
)

from fedsvd.data.open import located
from fedsvd.errors import ConfigError
from fedsvd.prepare.record_ids import BETWEEN
from fedsvd.protocol.tasks import Check, Ids, Item, Mode, Split, Task, Trust, Write
from fedsvd.storage.toml import read_toml
from fedsvd.studies.job_faults import first_fault, near, one_of
from fedsvd.studies.job_values import TASKS, Bytes, Columns, Components, Count, IdColumns, Name, Text, scheme_of
from fedsvd.studies.linear_section import LinearKeys
from fedsvd.studies.match_section import MatchSection
from fedsvd.studies.model_section import ModelKeys, model_of
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.study import ON_REQUEST, ONLY_FOR, Study, expect_legal, released

LARGEST_FILE = 256 << 10  # bytes
MOST_PARTIES = 500
# Keys that are no option of the study itself, and the tasks that heed them.
_ONLY_HERE = {
    "label_party": (Task.LR,),
    "intercept": (Task.LR, Task.GLM),
    "inference": (Task.LR,),
    "write": (Task.SVD, Task.PCA, Task.LSA),
    **dict.fromkeys(ModelKeys.model_fields, (Task.GLM,)),
    **dict.fromkeys(LinearKeys.model_fields, (Task.LR,)),
    **dict.fromkeys(("weights", "offset"), (Task.LR, Task.GLM)),
}
_OF_SPLIT_ROWS = (Task.PCA, Task.PCR)


def applies(key: str, task: Task) -> bool:
    """Whether a study of this task may say something by this key of ``[job]``."""
    if key == "release":
        return bool(ON_REQUEST[task])
    if key == "split" and task is Task.CCA:
        return False  # its columns are split over the parties
    if task in _OF_SPLIT_ROWS and key in ("split", "sort_by_id", "ids"):
        return False  # its samples are split over the parties, and no row is another party's too
    return task in {**ONLY_FOR, **_ONLY_HERE}.get(key, TASKS)


class _Section(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class StudySection(_Section, LinearKeys, ModelKeys):
    """``[job]``: what is computed, from which columns, and what is released."""

    name: Name
    task: Annotated[Task, BeforeValidator(lambda value: one_of(value, TASKS))]
    split: Annotated[Split, BeforeValidator(lambda value: one_of(value, Split))] = Split.HORIZONTAL
    components: Components | None = None
    release: (
        Annotated[
            tuple[Annotated[Item, BeforeValidator(lambda value: one_of(value, Item))], ...], Field(max_length=len(Item))
        ]
        | None
    ) = None
    label: Columns = ()
    label_party: Name | None = None
    id: IdColumns | None = None
    sort_by_id: StrictBool = False
    ids: Annotated[Ids, BeforeValidator(lambda value: one_of(value, Ids))] = Ids.COMPARE
    alpha: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    intercept: StrictBool = True
    inference: StrictBool = False
    unit_variance: StrictBool = False
    full_matrices: StrictBool = False
    memory: Bytes | None = None
    device: Text | None = None
    engine: Text | None = None
    write: Annotated[Write, BeforeValidator(lambda value: one_of(value, Write))] = Write.NPY
    verify: Annotated[Check, BeforeValidator(lambda value: one_of(value, Check))] = Check.NONE

    @model_validator(mode="before")
    @classmethod
    def _columns_are_split(cls, record: Any) -> Any:
        """Canonical correlations are of split columns, and need not say so."""
        cca = isinstance(record, Mapping) and record.get("task") == Task.CCA
        return {"split": str(Split.VERTICAL), **record} if cca else record

    @property
    def components_by(self) -> str:
        """How the number of components is found; "" where it is given, or all are asked for."""
        return self.components if isinstance(self.components, str) else ""

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Columns that are no features: the label, and an offset and weights next to it."""
        return (*self.label, *self.at_side)

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns that a row's id is made of; none where rows have none."""
        return () if self.id is None else (self.id,) if isinstance(self.id, str) else self.id

    @property
    def id_name(self) -> str | None:
        """What the ids are read by: the id column, or the names of several with a sign between them."""
        return BETWEEN.join(self.id_columns) or None

    @property
    def asked(self) -> tuple[Item, ...] | None:
        """What is asked to be released: ``inference = true``, or a rule, is short for its place in ``release``."""
        more = (*((Item.INFERENCE,) if self.inference else ()), *self.more_released)
        if self.components_by and self.task is Task.PCA:
            more = (*more, Item.SPECTRUM)
        if not more:
            return self.release
        return tuple(dict.fromkeys((*(self.release or released(self.task, None)), *more)))


class MasksSection(_Section):
    """``[masks]``: how data is hidden; all of it optional."""

    scheme: Annotated[str, BeforeValidator(scheme_of)] = "auto"
    mode: Annotated[Mode, BeforeValidator(lambda value: one_of(value, Mode))] | None = None
    block_size: Count | None = None


class CspSection(_Section):
    """``[csp]``: where the computing server listens; not needed on one machine."""

    address: Annotated[str, StringConstraints(pattern=r"^[^\s:/]{1,255}:\d{1,5}$")] | None = None


class AuthoritySection(_Section):
    """``[authority]``: naming a Trusted Authority means that it deals the masks."""

    name: Name


class PartySection(_Section):
    """``[[party]]``: who takes part; ``data`` and ``link`` on one machine only."""

    name: Name
    data: Text | None = None
    link: Text | None = None


class _File(_Section):
    """A job file of fedsvd."""

    job: StudySection
    match: MatchSection = MatchSection()
    prepare: PrepareSection = PrepareSection()
    masks: MasksSection = MasksSection()
    csp: CspSection = CspSection()
    authority: AuthoritySection | None = None
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

    @property
    def targets(self) -> tuple[str, ...]:
        """What is predicted: the label columns, or what stands left of ~ in the formula."""
        return self.prepare.targets or self.study.label

    def computed_with(self, device: str | None, engine: str | None) -> "Job":
        """The same job, with what the command line says its roles compute with."""
        said = {key: value for key, value in (("device", device), ("engine", engine)) if value is not None}
        return replace(self, study=self.study.model_copy(update=said)) if said else self

    def data_of(self, party: PartySection) -> Path | str:
        """Where a party's table is, on this machine; a text for one that is made, not read."""
        if party.data is None:
            raise ConfigError(f"party {party.name} names no data", f'[[party]] name = "{party.name}", data = "FILE"')
        return located(party.data, self.folder)

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
    "party": PartySection,
}


def read_job(path: Path) -> Job:
    """The job in a TOML file."""
    if path.is_file() and path.stat().st_size > LARGEST_FILE:
        raise ConfigError(f"{path} is larger than {LARGEST_FILE:,} bytes", "a job file names columns, not values")
    return job_from(read_toml(path, "docs/job-file.md"), path.parent)


def expect_short(record: Mapping[str, Any]) -> None:
    """Raise unless this job file is one that can be submitted and listed."""
    size = len(json.dumps(record, default=str))
    if size > LARGEST_FILE:
        raise ConfigError(f"the job has {size:,} bytes, more than {LARGEST_FILE:,}", "shorten its names and lists")


def job_from(record: Mapping[str, Any], folder: Path) -> Job:
    """The job that a parsed job file describes."""
    expect_short(record)
    try:
        file = _File.model_validate(record)
    except ValidationError as fault:
        raise first_fault(fault, {name: list(section.model_fields) for name, section in _SECTIONS.items()}) from None
    _check_parties(file)
    _check_keys(file.job)
    file.match.expect_fits(file.job, [party.name for party in file.party if party.link is not None])
    aligned = file.match.align is not None
    file.prepare.expect_fits(file.job.split, file.job.task, file.job.label, file.job.intercept, aligned)
    job = Job(file.job, file.masks, file.csp, file.authority, file.party, folder, file.prepare, file.match)
    expect_legal(replace(study_of(job), release=file.job.asked))  # as it is asked for, not as it was completed
    return job


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
        centre=study.intercept if study.task in (Task.LR, Task.GLM) else None,
        unit_variance=study.unit_variance,
        full_matrices=study.full_matrices,
        alpha=study.alpha,
        alphas=study.alphas,
        chosen_by=study.choose_by,
        weighted=study.weights is not None and study.task is Task.LR,
        robust=study.robust,
        targets=len(job.targets) + (len(study.at_side) if study.task is Task.GLM else 0),
        label_user=label_user,
        block_size=job.masks.block_size or 0,
        memory=study.memory,
        check_ids=study.id is not None and vertical and study.ids is Ids.COMPARE,
        trust_rows=study.ids is Ids.TRUST,
        align=job.match.align,
        id_rule=job.match.record_ids(study.id_columns).text() if job.match.align else "",
        least_overlap=job.match.least_overlap if job.match.align else 0,
        check=study.verify,
        glm=model_of(study) if study.task is Task.GLM else None,
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of job files, for editors and for the reference; rules between keys are not in it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_File.model_json_schema(),
        "title": "fedsvd job file",
    }


def _check_parties(file: _File) -> None:
    names = [party.name for party in file.party]
    if len(names) < 2:
        raise ConfigError(f"parties in this job: {len(names)}", "a federation needs at least two")
    folded = [name.lower() for name in names]
    twice = next((name for place, name in enumerate(names) if name.lower() in folded[:place]), None)
    if twice is not None:
        raise ConfigError(f"two parties are named {twice}", "give every party a name of its own")
    if file.job.label_party is not None and file.job.label_party not in names:
        fix = f"one of {', '.join(names)}{near(file.job.label_party, names)}"
        raise ConfigError(f"label_party is {file.job.label_party!r}, and no party has that name", fix)


def _check_keys(study: StudySection) -> None:
    """What a job file says beyond the study itself: columns, ids, what is written."""
    for key, tasks in _ONLY_HERE.items():
        if getattr(study, key) != StudySection.model_fields[key].default and study.task not in tasks:
            raise ConfigError(f"{key} does not apply to task {str(study.task)!r}", f"leave {key} out")
    vertical = study.split is Split.VERTICAL
    if study.task is Task.LSA and study.components is None:
        raise ConfigError("task 'lsa' needs a number of components", "components = 100, say")
    columns = (*study.label, *study.at_side, study.cluster, *study.id_columns)
    named = [name for name in columns if name is not None]
    if len(set(named)) < len(named):
        raise ConfigError(
            "one column is named twice among label, weights, offset, cluster and id", "name different ones"
        )
    study.expect_fits()
    if study.offset is not None and vertical:
        raise ConfigError(
            "an offset is subtracted from labels where rows are split", "subtract it from the label column"
        )
    if study.label_party is not None and not vertical:
        raise ConfigError("label_party is for columns split over the parties", "leave it out: every party has labels")
    if study.sort_by_id and (study.id is None or not vertical):
        raise ConfigError(
            "sort_by_id needs split = 'vertical' and the name of the id column", 'id = "customer_id", say'
        )
    if study.ids is Ids.TRUST and (not vertical or study.sort_by_id):
        fault = "sort_by_id has ids to be compared" if vertical else "ids are compared where columns are split"
        raise ConfigError(f"{fault}, and ids = 'trust' compares none", "leave ids out")
    if study.verify is Check.SAMPLE and study.write is not Write.NONE:
        raise ConfigError("a sample is verified and not written", 'set write = "none", or verify = "all"')
