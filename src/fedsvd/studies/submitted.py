"""A job as it is submitted: the file without data, whose texts every member's owner can be shown as they are."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedsvd.errors import ConfigError, printable
from fedsvd.studies.job_file import Job, job_from


def submitted_job(file: Mapping[str, Any]) -> Job:
    """The job in a submitted file, parsed once in a process; paths in it would be of another machine."""
    return _submitted(json.dumps(file, sort_keys=True))


@lru_cache(maxsize=64)
def _submitted(text: str) -> Job:
    file = json.loads(text)
    for party in file.get("party") or ():
        if isinstance(party, Mapping) and (party.get("data") is not None or party.get("link") is not None):
            raise ConfigError("a submitted job names no data", "each site's own site.toml names its data")
    job = job_from(file, Path())
    _expect_shown(job)
    return job


def submitted_file(job: Job) -> dict[str, Any]:
    """A checked job as the file that is submitted: every key that is not its default, and no data.

    What a role computes with is settled where it runs, and so stays here.
    """
    _expect_shown(job)
    sections: dict[str, Any] = {
        "job": job.study.model_dump(mode="json", exclude_defaults=True, exclude={"device", "engine"}),
        "masks": job.masks.model_dump(mode="json", exclude_defaults=True),
        "party": [{"name": party.name} for party in job.parties],
    }
    if not job.match.asks_nothing:
        sections["match"] = job.match.model_dump(mode="json", exclude_defaults=True)
    if not job.prepare.asks_nothing:
        sections["prepare"] = job.prepare.model_dump(mode="json", exclude_defaults=True)
    return sections if job.authority is None else {**sections, "authority": {"name": job.authority.name}}


def _expect_shown(job: Job) -> None:
    """Raise unless the job's texts can be shown as they are: every member's owner reads them before approving."""
    study = job.study
    columns = (*study.label, *study.id_columns, *job.match.dates, *study.model_texts, study.cluster or "")
    for text in (*columns, study.device or "", study.engine or "", *job.prepare.texts):
        if printable(text) != text:
            fault = f"{printable(text, 80)!r} of the job has control characters, line ends or marks of direction"
            raise ConfigError(fault, "rename the column in every party's data")
