"""An estimator's study as a job file, and the parties' tables as files: what runs outside of this process (ADR 0064).

Column names that a table lacks are made up (x0, x1, ...; y for labels), and are names of these files alone: the
estimator keeps the names it was given.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fedsvd.data.sparse import SparsePanels
from fedsvd.errors import ConfigError
from fedsvd.estimators.federation import Masks
from fedsvd.estimators.stored import Found, of_results, results_in
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Item, Task, Trust
from fedsvd.studies.job_file import Job, job_from
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study
from fedsvd.tasks.declared import declared
from fedsvd.tasks.options import applies

_KEYS = {"n_components": "components", "fit_intercept": "intercept"}
"""Parameters whose key in a job file has another name."""
_NO_KEYS = {"id", "masks", "federation", "whiten", "missing", "multi_class", "label_party", "align", "cluster"}
_NO_KEYS |= {"columns", "categorical", "dictionary"}
_ROWS = 1 << 12  # written at a time


def asked_of(task: Task, parameters: dict[str, Any]) -> dict[str, Any]:
    """The keys of ``[job]`` that these parameters of an estimator stand for; None says nothing."""
    words: dict[str, Any] = {"task": str(task)}
    for name, value in parameters.items():
        key = _KEYS.get(name, name)
        if name == "release_spectrum":
            more = (Item.SPECTRUM,) if value else ()
            words["release"] = [str(item) for item in (*declared(task).released, *more)]
        elif value is not None and name not in _NO_KEYS and applies(key, task):
            words[key] = np.asarray(value).tolist() if isinstance(value, np.ndarray | np.generic | tuple) else value
    return words


def job_file(
    words: dict[str, Any], masks: Masks, parties: Sequence[dict[str, str]], authority: str = "authority"
) -> dict[str, Any]:
    """A job file of these keys of ``[job]``, parsed."""
    hidden = {"scheme": masks.scheme, "mode": masks.mode, "block_size": masks.block_size}
    file: dict[str, Any] = {"job": words, "masks": {key: value for key, value in hidden.items() if value is not None}}
    if masks.trust == Trust.AUTHORITY:
        file["authority"] = {"name": authority}
    return {**file, "party": list(parties)}


@contextmanager
def job_on_files(
    words: dict[str, Any], masks: Masks, study: Study, parties: Sequence[PartyData]
) -> Iterator[tuple[Job, Path]]:
    """The job of a study whose tables are in this process, written to a private folder that is gone afterwards."""
    if study.align is not None:
        raise ConfigError(
            "records are matched first, and tables of this process are matched in a simulation only",
            "leave federation out, or run a job file with [match]: fedsvd run job.toml --env local",
        )
    with TemporaryDirectory(prefix="fedsvd-tables-") as root:
        folder, names = Path(root), [f"party-{i}" for i in range(1, len(parties) + 1)]
        columns = _Columns(study, parties)
        data = [columns.write(folder / name, own) for name, own in zip(names, parties, strict=True)]
        if study.label_user:
            columns.words["label_party"] = names[study.label_user - 1]
        listed = [{"name": name, "data": str(path)} for name, path in zip(names, data, strict=True)]
        asked = {key: value for key, value in {**words, **columns.words}.items() if value is not None}
        file = job_file({"name": "fit", **asked}, masks, listed)
        if study.foreign is not None:
            file["foreign"] = study.foreign.section
        yield job_from(file, folder), folder


class _Columns:
    """What columns of the written tables are called that are no features, and the keys that say so."""

    def __init__(self, study: Study, parties: Sequence[PartyData]) -> None:
        self._taken = {name for own in parties for name in _features(own)}
        self.words: dict[str, Any] = {} if study.memory is None else {"memory": study.memory}
        self._sides: list[str] = []
        if study.trust_rows:
            self.words["ids"] = "trust"
        about = study.glm
        if about is not None:
            sides = {**dict.fromkeys(about.beside, True), "offset": about.offset, "weights": about.weighted}
            self._sides = [key for key, given in sides.items() if given]
            family = {"ties": about.ties} if about.ties else {"family": str(about.family), "link": about.link}
            if about.facts.weighs:
                family = {"link": about.link} | ({} if "event" in about.beside else {"family": about.effect})
            self.words |= {**family, "digits": str(about.digits)}
            self.words |= {"least_class": about.least_class, "least_events": about.least_events}
            if about.classes:
                self.words["classes"] = [str(code) for code in range(about.classes)]
        options = dict(study.options)
        if times := json.loads(str(options.get("times", "[]"))):  # those that were made of the tables, too
            self.words["times"] = times
        if study.task is Task.SURVIVAL:
            names = (*_features(parties[0]), None)[:3]
            self.words |= dict(zip(("label", "event", "group"), names, strict=False))
            groups, causes = (len(json.loads(str(options[key]))) for key in ("groups", "causes"))
            self.words["groups"] = [str(code) for code in range(groups)]
            self.words["causes"] = [str(code) for code in range(1, causes + 1)]
        targets = study.targets - len(self._sides)
        self._labels = [self._free("y" if targets == 1 else f"y{k}") for k in range(targets)]
        if self._labels:
            self.words["label"] = self._labels
        self.words |= {key: self._free(key) for key in self._sides}
        first = parties[0]
        for key, given in (("id", first.ids), ("weights", first.row_weights), ("cluster", first.clusters)):
            if given is not None:
                self.words[key] = self._free(key)

    def write(self, place: Path, own: PartyData) -> Path:
        """This party's table with what goes with it, as a file that ``open_source`` reads to the last digit."""
        beside = dict(self._beside(own))
        if not beside and own.table.names is None:
            return _numbers(place, own)
        path = place.with_suffix(".csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*_features(own), *beside])
            for start in range(0, own.table.shape[0], _ROWS):
                stop = min(start + _ROWS, own.table.shape[0])
                rows = own.table.rows(start, stop).tolist()
                more = [column[start:stop].tolist() for column in beside.values()]
                writer.writerows([*row, *extra] for row, *extra in zip(rows, *more, strict=True))
        return path

    def _beside(self, own: PartyData) -> Iterator[tuple[str, NDArray[Any]]]:
        if own.labels is not None:
            named = [*self._labels, *(self.words[key] for key in self._sides)]
            yield from zip(named, own.labels.T, strict=True)
        for key, column in (("id", own.ids), ("weights", own.row_weights), ("cluster", own.clusters)):
            if column is not None:
                yield self.words[key], np.asarray(column)

    def _free(self, name: str) -> str:
        while name in self._taken:
            name = f"{name}_"
        self._taken.add(name)
        return name


def _features(own: PartyData) -> Iterable[str]:
    names = own.table.names
    return [f"x{j}" for j in range(own.table.shape[1])] if names is None else [str(name) for name in names]


def _numbers(place: Path, own: PartyData) -> Path:
    if isinstance(own.table, SparsePanels):
        scipy.sparse.save_npz(place.with_suffix(".npz"), own.table.sparse_rows(0, own.table.shape[0]))
        return place.with_suffix(".npz")
    np.save(place.with_suffix(".npy"), own.table.rows(0, own.table.shape[0]))
    return place.with_suffix(".npy")


def found_locally(
    words: dict[str, Any], masks: Masks, study: Study, parties: Sequence[PartyData], policy: Policy
) -> Found:
    """The results of a study whose tables are in this process, in processes of their own."""
    with job_on_files(words, masks, study, parties) as (job, folder):
        # A throw-away site has no earlier study to compare records with.
        return results_of(job, folder, replace(policy, remember=False))


def results_of(job: Job, folder: Path, policy: Policy) -> Found:
    """The results that processes on this machine leave, one for each role (``service/local.py``)."""
    # Imported here: a simulation needs neither sockets nor certificates.
    from fedsvd.service.local import local_federation

    with local_federation(job, policy=policy, scratch=folder) as federation:
        federation.run(job).write(folder / "results")
    return of_results(*results_in(folder / "results"))
