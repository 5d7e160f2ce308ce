"""Where a site puts the results of a job: a folder of its own for each run of it, and none is ever overwritten."""

from pathlib import Path

from fedsvd.service.enlist import plain_id
from fedsvd.service.records import JobRecord


def newest_results(folder: Path, record: JobRecord) -> Path:
    """The newest results of a job among those of a site; where the first will go, while there are none."""
    return _result_folders(folder, record)[-1]


def new_results(folder: Path, record: JobRecord) -> Path:
    """A folder for the results of a job that holds none yet: results are never overwritten."""
    folders = _result_folders(folder, record)
    first = folders[0]
    return first.with_name(f"{first.name}-{len(folders) + 1}") if first.exists() else first


def _result_folders(folder: Path, record: JobRecord) -> list[Path]:
    """The first folder for a job's results, and those that a job approved again has made since."""
    found = [folder / f"{record.job.study.name}-{plain_id(record.id)[:8]}"]
    while (following := found[0].with_name(f"{found[0].name}-{len(found) + 1}")).exists():
        found.append(following)
    return found
