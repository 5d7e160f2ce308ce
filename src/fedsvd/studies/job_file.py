"""The job file: what a study is, in TOML, checked before any data is opened.

One file serves every rung; what a rung does not need (an address, say) is accepted and left alone. The sections below
are the file's tables, and no other key is taken: a misspelt key is an error that names its nearest neighbour, because
an option that is silently ignored may be the one that protects somebody. ``docs/job-file.md`` describes every key. All
lengths are limited: a submitted job is stored by the CSP and read by every member, and none of them may choke on it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)

from fedsvd.data.open import located
from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import RELEASED_BY_DEFAULT, RENAMED, Check, Ids, Item, Mode, Scheme, Split, Task, Write
from fedsvd.storage.toml import read_toml
from fedsvd.studies.job_faults import first_fault, near, one_of
from fedsvd.studies.prepare_section import PrepareSection

TASKS = (Task.SVD, Task.PCA, Task.LSA, Task.LR)
SCHEMES = ("auto", *Scheme)
# A name becomes the name of a folder: no separators, nothing hidden, nothing that a shell would change.
NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?$"
LARGEST_FILE = 256 << 10  # bytes
MOST_PARTIES = 500
_MOST_LABELS = 1000
_LONGEST_NAME = 1000  # characters of a column's name; survey tools make whole questions of them
_LONGEST_PLACE = 4000
_LARGEST_COUNT = 2**48
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# What may be released beyond what a task needs to be that task.
_ON_REQUEST = {Task.SVD: (), Task.LSA: (), Task.PCA: (Item.SPECTRUM,), Task.LR: (Item.SCORE,)}
_ONLY_FOR = {
    "components": (Task.SVD, Task.PCA, Task.LSA),
    "unit_variance": (Task.PCA,),
    "full_matrices": (Task.SVD,),
    "label": (Task.LR,),
    "label_party": (Task.LR,),
    "alpha": (Task.LR,),
    "intercept": (Task.LR,),
    "verify": (Task.SVD, Task.LSA),
    "write": (Task.SVD, Task.PCA, Task.LSA),
}


def applies(key: str, task: Task) -> bool:
    """Whether a study of this task may say something by this key of ``[job]``."""
    if key == "release":
        return bool(_ON_REQUEST[task])
    if task is Task.PCA and key in ("split", "sort_by_id", "ids"):
        return False  # its samples are split over the parties, and no row is another party's too
    return task in _ONLY_FOR.get(key, TASKS)


def bytes_of(text: object) -> object:
    """A number of bytes, from a whole number or a text such as ``"512 MiB"``; anything else as it is."""
    if not isinstance(text, str):
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", text.lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError('a number of bytes, or a text such as "512 MiB" or "2 GB"')
    return int(min(float(found[1]) * _UNITS[found[2]], 2.0 * _LARGEST_COUNT))


def _scheme(value: object) -> object:
    """A scheme's name; one of protocol 1 is answered with the name that took its place."""
    if isinstance(value, str) and value in RENAMED:
        raise ValueError(f'{value!r} is a scheme of protocol 1: write scheme = "{RENAMED[value]}"')
    return one_of(value, SCHEMES)


Name = Annotated[str, StringConstraints(pattern=NAME, max_length=64)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_PLACE)]
Column = Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_NAME)]
_ONE = {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME}
_NAMES = {"anyOf": [_ONE, {"type": "array", "items": _ONE, "maxItems": _MOST_LABELS}]}
Columns = Annotated[
    tuple[Column, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(max_length=_MOST_LABELS),
    WithJsonSchema(_NAMES),
]
Count = Annotated[StrictInt, Field(ge=1, le=_LARGEST_COUNT)]
_AMOUNT = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "examples": ["512 MiB"]}]}
Bytes = Annotated[StrictInt, BeforeValidator(bytes_of), Field(ge=1, le=_LARGEST_COUNT), WithJsonSchema(_AMOUNT)]


class _Section(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class StudySection(_Section):
    """``[job]``: what is computed, from which columns, and what is released."""

    name: Name
    task: Annotated[Task, BeforeValidator(lambda value: one_of(value, TASKS))]
    split: Annotated[Split, BeforeValidator(lambda value: one_of(value, Split))] = Split.HORIZONTAL
    components: Count | None = None
    release: (
        Annotated[
            tuple[Annotated[Item, BeforeValidator(lambda value: one_of(value, Item))], ...], Field(max_length=len(Item))
        ]
        | None
    ) = None
    label: Columns = ()
    label_party: Name | None = None
    id: Column | None = None
    sort_by_id: StrictBool = False
    ids: Annotated[Ids, BeforeValidator(lambda value: one_of(value, Ids))] = Ids.COMPARE
    alpha: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    intercept: StrictBool = True
    unit_variance: StrictBool = False
    full_matrices: StrictBool = False
    memory: Bytes | None = None
    device: Text | None = None
    engine: Text | None = None
    write: Annotated[Write, BeforeValidator(lambda value: one_of(value, Write))] = Write.NPY
    verify: Annotated[Check, BeforeValidator(lambda value: one_of(value, Check))] = Check.NONE


class MasksSection(_Section):
    """``[masks]``: how data is hidden; all of it optional."""

    scheme: Annotated[str, BeforeValidator(lambda value: _scheme(value))] = "auto"
    mode: Annotated[Mode, BeforeValidator(lambda value: one_of(value, Mode))] | None = None
    block_size: Count | None = None


class CspSection(_Section):
    """``[csp]``: where the computing server listens; not needed on one machine."""

    address: Annotated[str, StringConstraints(pattern=r"^[^\s:/]{1,255}:\d{1,5}$")] | None = None


class AuthoritySection(_Section):
    """``[authority]``: naming a Trusted Authority means that it deals the masks."""

    name: Name


class PartySection(_Section):
    """``[[party]]``: who takes part; ``data`` on one machine only."""

    name: Name
    data: Text | None = None


class _File(_Section):
    """A job file of fedsvd."""

    job: StudySection
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

    def computed_with(self, device: str | None, engine: str | None) -> "Job":
        """The same job, with what the command line says its roles compute with."""
        said = {key: value for key, value in (("device", device), ("engine", engine)) if value is not None}
        return replace(self, study=self.study.model_copy(update=said)) if said else self

    def data_of(self, party: PartySection) -> Path | str:
        """Where a party's table is, on this machine; a text for one that is made, not read."""
        if party.data is None:
            raise ConfigError(f"party {party.name} names no data", f'[[party]] name = "{party.name}", data = "FILE"')
        return located(party.data, self.folder)


_SECTIONS: dict[str, type[BaseModel]] = {
    "job": StudySection,
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
    _check_study(file.job, file)
    file.prepare.expect_fits(file.job.split)
    return Job(file.job, file.masks, file.csp, file.authority, file.party, folder, file.prepare)


def schema() -> dict[str, Any]:
    """The JSON Schema of job files, for editors and for the reference; rules between keys are not in it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_File.model_json_schema(),
        "title": "fedsvd job file",
    }


def released(study: StudySection) -> tuple[Item, ...]:
    """What the plan of this study releases, in the plan's own order; a party's own part always goes to its owner."""
    default = RELEASED_BY_DEFAULT[study.task]
    return default + tuple(item for item in _ON_REQUEST[study.task] if item in (study.release or ()))


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


def _check_study(study: StudySection, file: _File) -> None:
    for key, tasks in _ONLY_FOR.items():
        if getattr(study, key) != StudySection.model_fields[key].default and study.task not in tasks:
            raise ConfigError(f"{key} does not apply to task {str(study.task)!r}", f"leave {key} out")
    vertical = study.split is Split.VERTICAL
    if study.task is Task.PCA and vertical:
        raise ConfigError("PCA needs samples split over the parties", 'set split = "horizontal"')
    if study.task is Task.LSA and study.components is None:
        raise ConfigError("task 'lsa' needs a number of components", "components = 100, say")
    if study.task is Task.LR and not study.label:
        raise ConfigError("task 'lr' needs the name of the label column", 'label = "outcome", say')
    if len(set(study.label)) < len(study.label) or study.id in study.label:
        raise ConfigError("one column is named twice among label and id", "name different columns")
    if study.label_party is not None and not vertical:
        raise ConfigError("label_party is for columns split over the parties", "leave it out: every party has labels")
    if study.sort_by_id and (study.id is None or not vertical):
        raise ConfigError(
            "sort_by_id needs split = 'vertical' and the name of the id column", 'id = "customer_id", say'
        )
    if study.ids is Ids.TRUST and (not vertical or study.sort_by_id):
        fault = "sort_by_id has ids to be compared" if vertical else "ids are compared where columns are split"
        raise ConfigError(f"{fault}, and ids = 'trust' compares none", "leave ids out")
    if study.full_matrices and file.masks.scheme != Scheme.PAPER:
        raise ConfigError("full_matrices is there in the paper's scheme alone", 'set [masks] scheme = "paper"')
    if study.verify is Check.SAMPLE and study.write is not Write.NONE:
        raise ConfigError("a sample is verified and not written", 'set write = "none", or verify = "all"')
    if study.verify is not Check.NONE and file.masks.scheme == Scheme.PAPER:
        raise ConfigError("the paper's scheme has its V from the CSP: there is nothing to verify", "leave verify out")
    if file.masks.mode is not None and file.masks.scheme in (Scheme.MASK, Scheme.PAPER):
        fault = f"a mode says who opens a sum of Gram matrices, and scheme {file.masks.scheme!r} has none"
        raise ConfigError(fault, "leave mode out")
    _check_release(study)


def _check_release(study: StudySection) -> None:
    if study.release is None:
        return
    needed = [item for item in RELEASED_BY_DEFAULT[study.task] if item is not Item.OWN_PART]
    missing = [item for item in needed if item not in study.release]
    if missing:
        fault = f"release leaves out {', '.join(missing)}, without which there is no {study.task}"
        raise ConfigError(fault, f"release = {[str(item) for item in needed]}")
    allowed = (*RELEASED_BY_DEFAULT[study.task], *_ON_REQUEST[study.task])
    foreign = [item for item in study.release if item not in allowed]
    if foreign:
        fix = f"for this task, some of {', '.join(allowed)}"
        raise ConfigError(f"release names {', '.join(foreign)}, which {study.task} does not have", fix)
    if Item.SCORE in study.release and study.split is not Split.VERTICAL:
        raise ConfigError("a score is released to the label holder of split columns alone", "leave score out")
