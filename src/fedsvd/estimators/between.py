"""``fit`` as a job between institutions (``federation=Federation(...)``): submitted or found by name, waited for, read.

Tables are where each site's ``site.toml`` says, so ``fit`` is given no X, and names of columns in place of arrays. A
researcher's kit submits the job, and has of its results what all parties share, if all of them agree. A party's kit
finds it by its name, sees that it asks for the same, and reads the results in the party's own folder. Attributes that a
kit does not have say who has them.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsvd.errors import ConfigError, StillRunning, TimedOut
from fedsvd.estimators.as_job import asked_of, job_file
from fedsvd.estimators.federation import Federation, Masks
from fedsvd.estimators.matched import id_columns
from fedsvd.prepare.dictionary import read_dictionary
from fedsvd.protocol.tasks import Task
from fedsvd.service.client import Connection, connect
from fedsvd.service.failures import first_cause
from fedsvd.service.records import JobState, WatchedJob
from fedsvd.studies.foreign import ForeignStudy
from fedsvd.studies.job_file import Job, job_from
from fedsvd.studies.submitted import submitted_file

_CLASSES = ["0", "1"]


def fit_between(estimator: Any, where: Federation, task: Task, masks: Masks, given: Mapping[str, Any]) -> None:
    """Run the study that an estimator asks for as a job, and set what this kit may have of it."""
    fit_by_job(estimator, where, job_of(estimator, where, task, masks, given))


def fit_by_job(estimator: Any, where: Federation, job: Job) -> None:
    """Find the job or submit it, wait for it, and set what this kit may have of its results."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)
    with connect(Path(where.kit), where.address) as connection:
        record = _found(connection, job) or _submitted(connection, job, where)
        caller = connection.site.caller
        estimator.job_, estimator._elsewhere = record.id, _who_has(caller, job)
        record = _ended(connection, record, where)
        results = connection.results(record.id)
    estimator._elsewhere = _who_has(caller, job, results.why)
    if results.certificate is not None:
        estimator.certificate_ = results.certificate
    if results.folder is not None:
        _take(estimator, results.folder)


def job_of(estimator: Any, where: Federation, task: Task, masks: Masks, given: Mapping[str, Any]) -> Job:
    """The job file of an estimator's parameters, and of the columns that ``fit`` was given the names of."""
    _expect_elsewhere(given.get("X"))
    parameters = estimator.get_params(deep=False)
    words = asked_of(task, parameters) | {"label": _columns("y", given.get("y"))}
    words |= {key: _column(key, given[key]) for key in given if key not in ("X", "y", "groups", "formula")}
    words |= {"cluster": parameters.get("cluster"), "id": list(id_columns(estimator.id)) or None}
    if given.get("groups") is not None:
        raise ConfigError("groups are an array, and tables are not here", 'name the column: cluster="COLUMN"')
    if parameters.get("label_party") is not None:
        words["label_party"] = where.parties[int(parameters["label_party"])]
    if "multi_class" in parameters:  # a classifier
        words |= {"family": "binomial", "classes": _CLASSES}
    sections: dict[str, Any] = {}
    if where.columns:
        sections["prepare"] = {"columns": list(where.columns)}
    if given.get("formula") is not None:
        sections["prepare"] = {**sections.get("prepare", {}), "formula": given["formula"]}
    if estimator.align is not None:
        sections["match"] = {"align": estimator.align} if isinstance(estimator.align, str) else dict(estimator.align)
    return _job(where, words, masks, sections)


def statistic_job(where: Federation, study: ForeignStudy, X: Any) -> Job:
    """The job file of a foreign task; its declaration travels in it."""
    _expect_elsewhere(X)
    if where.columns:
        raise ConfigError(
            "columns of a federation are features, and a statistic takes all columns of the tables",
            "leave columns out of Federation(...)",
        )
    return _job(where, {"task": str(Task.FOREIGN)}, Masks(), {"foreign": study.section})


def _expect_elsewhere(X: Any) -> None:
    if X is not None:
        raise ConfigError(
            "X was given, and tables of a federation are where each site's site.toml says",
            'fit(None, y="COLUMN"); cross-validation, which divides tables, is for Simulation() and Local()',
        )


def _job(where: Federation, words: Mapping[str, Any], masks: Masks, sections: Mapping[str, Any]) -> Job:
    """The job of these keys of ``[job]`` and these other sections, under the federation's name for it."""
    said = {key: value for key, value in {**words, "memory": where.memory}.items() if value not in (None, [])}
    file = job_file({"name": where.name, **said}, masks, [{"name": name} for name in where.parties], where.authority)
    file |= sections
    if where.dictionary is not None:
        file["dictionary"] = {"says": read_dictionary(Path(where.dictionary)).record()}
    if where.each_fit_is_a_job:
        digest = hashlib.sha256(json.dumps(file, sort_keys=True).encode()).hexdigest()[:8]
        file["job"] = {**file["job"], "name": f"{where.name}-{digest}"}
    return job_from(file, Path())


def _found(connection: Connection, job: Job) -> WatchedJob | None:
    """The newest job of this name; refused where it asks for something else."""
    named = [listed for listed in connection.jobs() if listed.name == job.study.name]
    if not named:
        return None
    record = connection.job(named[-1].id)
    if record.file != submitted_file(job):
        raise ConfigError(
            f"a job of the name {job.study.name!r} is known here, and asks for something else",
            "give another name, or each_fit_is_a_job=True to make a job of every different fit",
        )
    return record


def _submitted(connection: Connection, job: Job, where: Federation) -> WatchedJob:
    if not connection.site.caller.startswith("researcher/"):
        raise ConfigError(
            f"no job of the name {job.study.name!r} is known here, and a party submits none",
            "the same fit with a researcher's kit submits it",
        )
    return connection.job(connection.submit(job))


def _ended(connection: Connection, record: WatchedJob, where: Federation) -> WatchedJob:
    """The job once it is done; the error of the member that failed, if one did."""
    try:
        record = connection.watch(record.id, timeout=where.wait)
    except TimedOut:
        raise StillRunning(
            f"job {record.short} has not ended after {where.wait:g} seconds", "call fit again: it goes on waiting"
        ) from None
    if record.state is not JobState.DONE:
        raise first_cause(record)[1]
    return record


def _take(estimator: Any, folder: Path) -> None:
    """Every attribute that this party's results have; of split columns, marked as a part."""
    from fedsvd.estimators.load import load  # which knows all estimators, and they this module

    found = load(folder)
    vars(estimator).update({name: value for name, value in vars(found).items() if name.endswith("_")})
    estimator._part = type(found) is not type(estimator)


def _who_has(caller: str, job: Job, why: str = "") -> str:
    """Who has what this caller has not, in words; ``why`` a researcher has nothing."""
    names = [party.name for party in job.parties]
    if caller.startswith("researcher/"):
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        gets = why or "a researcher gets what all parties share, and nothing with a row for each record"
        return f"{gets}; the parties {listed} have theirs"
    others = ", ".join(name for name in names if f"party/{name}" != caller)
    return f"this party's results do not have it; what is not shared lies with its owners ({others})"


def _columns(what: str, given: Any) -> list[str]:
    names = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{what} holds values, and tables are where each site's site.toml says", f'{what}="COLUMN"')
    return list(names)


def _column(what: str, given: Any) -> str | list[str] | None:
    names = _columns(what, given)
    return names if len(names) > 1 else next(iter(names), None)
