"""A job as it is submitted: the file without data, whose texts every member's owner can be shown as they are."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fedsvd.errors import ConfigError, printable
from fedsvd.protocol.asked import Asked
from fedsvd.studies.job_file import Job, job_from
from fedsvd.studies.study_section import StudySection
from fedsvd.tasks.options import applies, named_columns


def submitted_job(file: Mapping[str, Any]) -> Job:
    """The job in a submitted file, parsed once in a process; paths in it would be of another machine."""
    return _submitted(json.dumps(file, sort_keys=True))


@lru_cache(maxsize=64)
def _submitted(text: str) -> Job:
    file = json.loads(text)
    for party in file.get("party") or ():
        if isinstance(party, Mapping) and any(party.get(key) is not None for key in ("data", "link", "map")):
            raise ConfigError(
                "a submitted job names no data", "take data out of [[party]]: the site.toml of each site names its own"
            )
    job = job_from(file, Path())
    _expect_shown(job)
    return job


def submitted_file(job: Job, every: bool = False) -> dict[str, Any]:
    """A checked job as the file that is submitted: ``written_file``, with texts that can be shown to owners."""
    _expect_shown(job)
    return written_file(job, every)


def written_file(job: Job, every: bool = False) -> dict[str, Any]:
    """A checked job as a file: every key that is not its default, and no data.

    What a role computes with is settled where it runs, and so stays here. With ``every`` also the keys that have their
    defaults, where the task heeds them: a default that changes later does not change what such a file asks for. Parsed
    again, either file is the same job.
    """

    def written(section: BaseModel) -> dict[str, Any]:
        kept = section.model_dump(mode="json", exclude_none=True, exclude_defaults=not every)
        return {key: value for key, value in kept.items() if section is not job.study or _heeded(key, job.study)}

    sections = {"job": written(job.study)}
    sections |= {} if job.match.asks_nothing else {"match": written(job.match)}
    sections |= {} if job.prepare.asks_nothing else {"prepare": written(job.prepare)}
    sections |= {"masks": written(job.masks)}
    sections |= {} if job.dictionary is None else {"dictionary": {"says": job.dictionary.record()}}
    sections |= {} if job.foreign is None else {"foreign": job.foreign.written(every)}
    sections |= {} if job.authority is None else {"authority": written(job.authority)}
    return {**sections, "party": [{"name": party.name} for party in job.parties]}


def _heeded(key: str, study: StudySection) -> bool:
    """Whether a key says something of the study: none of this machine, and none that its task refuses."""
    return key not in ("device", "engine") and (key in study.model_fields_set or applies(key, study.task))


def asked_of(job: Job) -> Asked:
    """A job that no researcher submits, because all its roles are one process: there is no one to sign it for."""
    return Asked(written_file(job), "", tuple(party_caller(party.name) for party in job.parties))


def party_caller(name: str) -> str:
    return f"party/{name}"


def authority_caller(job: Job) -> str:
    if job.authority is None:
        raise ConfigError("no Trusted Authority is named", '[authority] name = "..."')
    return f"authority/{job.authority.name}"


def member_callers(job: Job) -> tuple[str, ...]:
    """All members who must enlist: the parties in order, then the authority where there is one."""
    parties = tuple(party_caller(party.name) for party in job.parties)
    return (*parties, *(() if job.authority is None else (authority_caller(job),)))


def _expect_shown(job: Job) -> None:
    """Raise unless the job's texts can be shown as they are: every member's owner reads them before approving."""
    study = job.study
    columns = (*named_columns("job", study), *named_columns("match", job.match), *study.classes)
    for text in (*columns, study.device or "", study.engine or "", *job.prepare.texts):
        if printable(text) != text:
            fault = f"{printable(text, 80)!r} of the job has control characters, line ends or marks of direction"
            raise ConfigError(fault, "rename the column in every party's data")
