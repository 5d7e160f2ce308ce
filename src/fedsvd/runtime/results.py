"""``results/JOB/``: what a study came to, party by party, and back again.

    results/JOB/                   for the researcher who asked: what all parties share
        manifest.json              task, shapes, plan, certificate; hashes of all files beside it
        components.npy  .csv ...
        parties/NAME/              for party NAME alone: what all share, and its own part
            manifest.json  ...

A party's folder holds nothing of another party and is complete without the folder above it. Nothing is unpickled, and
every file is compared with its hash, before a result is used again.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedsvd import __version__
from fedsvd.errors import StorageError
from fedsvd.linalg.windows import Form
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.parties import Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item, Scheme, Split, Task, Trust
from fedsvd.runtime.federation import Outcome
from fedsvd.runtime.folder import (
    LONGEST_TABLE,
    MANIFEST,
    fresh_folder,
    load_array,
    read_manifest,
    save_array,
    save_manifest,
    save_table,
)
from fedsvd.runtime.holdings import Holding, held_by, shared_by_all
from fedsvd.runtime.job import NAME
from fedsvd.runtime.job_data import Prepared

FORMAT = "fedsvd-results/1"
PREDICTIONS = "fedsvd-predictions/1"
PARTIES = "parties"


@dataclass(frozen=True, repr=False)
class Stored:
    """A result read back: what is written in its manifest, and its arrays by name."""

    folder: Path
    job: str
    task: Task
    split: Split
    party: str | None  # None for what all parties share
    index: int | None  # of the party among the users, from 1
    label_holder: str | None
    features: tuple[str, ...] | None  # column names, where the data has names and this folder's reader may know them
    targets: tuple[str, ...]
    id: str | None
    rank: int
    facts: Mapping[str, Any]
    plan: SessionPlan
    certificate: Certificate
    arrays: Mapping[str, NDArray[Any]]

    def __repr__(self) -> str:
        return f"Stored({self.job}, {self.task}, party={self.party})"


def write_results(target: Path, prepared: Prepared, outcome: Outcome, overwrite: bool = False) -> None:
    """Write what a study came to; all of it is there at the end, or nothing."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    with fresh_folder(target, overwrite) as folder:
        record = _record(prepared, outcome, created, outcome.certificate)
        common = prepared.parties[0].table.names if prepared.study.split is Split.HORIZONTAL else None
        _write(folder, shared_by_all(prepared, outcome), {**record, "features": common})
        (folder / PARTIES).mkdir(mode=0o700)
        for i, name in enumerate(prepared.names):
            own = folder / PARTIES / name
            own.mkdir(mode=0o700)
            _write_own(own, prepared, outcome, i, created)


def write_own_results(target: Path, prepared: Prepared, outcome: Outcome, i: int, overwrite: bool = False) -> None:
    """Write what party ``i`` (from 0) holds, on its own machine: nobody else's part is there to be written."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with fresh_folder(target, overwrite) as folder:
        _write_own(folder, prepared, outcome, i, created)


def _write_own(folder: Path, prepared: Prepared, outcome: Outcome, i: int, created: str) -> None:
    record = _record(prepared, outcome, created, _seen_by(outcome.certificate, user(i + 1)))
    features = prepared.parties[i].table.names
    about = {"party": prepared.names[i], "index": i + 1, "features": features}
    _write(folder, held_by(prepared, outcome, i), {**record, **about})


def write_predictions(target: Path, of: Stored, holdings: Mapping[str, Holding], overwrite: bool = False) -> None:
    """Write what a result said of new data, one folder to each party that may read it."""
    record = {
        "format": PREDICTIONS,
        "job": of.job,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": of.task,
        "split": of.split,
        "versions": of.certificate.versions | {"fedsvd": __version__},
        "plan_digest": of.plan.digest,
    }
    with fresh_folder(target, overwrite) as folder:
        _write(folder, Holding(), {**record, "parties": list(holdings)})
        (folder / PARTIES).mkdir(mode=0o700)
        for name, holding in holdings.items():
            own = folder / PARTIES / name
            own.mkdir(mode=0o700)
            _write(own, holding, {**record, "party": name})


def read_results(folder: Path) -> Stored:
    """The result in one folder, its files as they were written."""
    record = read_manifest(folder)
    if record.get("format") != FORMAT:
        raise StorageError(f"{folder} is not a result of this version of fedsvd", f"its format is not {FORMAT}")
    try:
        stored = _stored(folder, record)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise StorageError(f"the results in {folder} are damaged: {MANIFEST} lacks what it must hold") from None
    if stored.plan.digest != record["plan_digest"]:
        raise StorageError(f"the results in {folder} are damaged: the plan does not have the digest it had")
    return stored


def party_folders(folder: Path) -> tuple[Path, ...]:
    """The parties' folders below a job's, in the order of the users; none where there are only shared results."""
    inside = folder / PARTIES
    found = [path for path in inside.iterdir() if (path / MANIFEST).is_file()] if inside.is_dir() else []
    return tuple(sorted(found, key=lambda path: read_manifest(path).get("index") or 0))


def _write(folder: Path, holding: Holding, record: Mapping[str, Any]) -> None:
    for name, array in holding.arrays.items():
        save_array(folder, name, array)
    left_out = []
    for table in holding.tables:
        if table.size <= LONGEST_TABLE:
            save_table(folder, table)
        else:
            left_out.append(table.name)
    save_manifest(folder, {**record, "facts": holding.facts, "only_as_npy": left_out})


def rank_of(outcome: Outcome) -> int:
    """The rank the users found; with square factors the CSP cannot cut at it."""
    return int(getattr(outcome.parties[0], "rank", outcome.certificate.rank))


def _seen_by(certificate: Certificate, me: Party) -> Certificate:
    """The certificate without what was sent by, sent to or timed at another user."""

    def ours(counts: Mapping[str, Any]) -> dict[str, Any]:
        return {key: count for key, count in counts.items() if set(re.findall(r"user-\d+", key)) <= {me.name}}

    return replace(
        certificate,
        bytes_by_link=ours(certificate.bytes_by_link),
        messages_by_link=ours(certificate.messages_by_link),
        seconds_by_stage=ours(certificate.seconds_by_stage),
    )


def _record(prepared: Prepared, outcome: Outcome, created: str, certificate: Certificate) -> dict[str, Any]:
    plan = outcome.plan
    return {
        "format": FORMAT,
        "job": prepared.name,
        "created": created,
        "task": plan.task,
        "split": plan.split,
        "party": None,
        "index": None,
        "label_holder": prepared.label_holder,
        "features": None,
        "targets": prepared.targets,
        "id": prepared.id,
        "shape": _joint_shape(plan),
        "rank": rank_of(outcome),
        "residual": certificate.residual,
        "orthogonality": certificate.orthogonality,
        "versions": certificate.versions,
        "why_this_scheme": outcome.why,
        "plan_digest": plan.digest,
        "plan": asdict(plan),
        "certificate": certificate.record(),
    }


def _joint_shape(plan: SessionPlan) -> Sequence[int]:
    """(samples, features) of the joint table."""
    return (plan.m, plan.n) if plan.split is Split.VERTICAL else (plan.n, plan.m)


def _stored(folder: Path, record: Mapping[str, Any]) -> Stored:
    arrays = [Path(name).stem for name in record["files"] if name.endswith(".npy")]
    return Stored(
        folder=folder,
        job=record["job"],
        task=Task(record["task"]),
        split=Split(record["split"]),
        party=_party_name(record["party"]),
        index=record["index"],
        label_holder=record["label_holder"],
        features=None if record["features"] is None else tuple(record["features"]),
        targets=tuple(record["targets"]),
        id=record["id"],
        rank=record["rank"],
        facts=record["facts"],
        plan=_plan(record["plan"]),
        certificate=_certificate(record["certificate"]),
        arrays={name: load_array(folder, name) for name in arrays},
    )


def _party_name(name: str | None) -> str | None:
    """A name that is safe as that of a folder, as in job files."""
    if name is not None and re.fullmatch(NAME, name) is None:
        raise ValueError("a party's name that is no name")
    return name


def _plan(record: Mapping[str, Any]) -> SessionPlan:
    values: dict[str, Any] = dict(record)
    words = (("task", Task), ("split", Split), ("scheme", Scheme), ("trust", Trust), ("left", Form), ("right", Form))
    for key, word in words:
        values[key] = word(record[key])
    values["release"] = tuple(Item(item) for item in record["release"])
    values["counts"], values["identities"] = tuple(record["counts"]), tuple(record["identities"])
    return SessionPlan(**values)


def _certificate(record: Mapping[str, Any]) -> Certificate:
    derived = ("bytes_total", "seconds_total")
    return Certificate(**{key: value for key, value in record.items() if key not in derived})
