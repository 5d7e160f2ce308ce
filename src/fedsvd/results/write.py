"""``results/JOB/``: what a study came to, party by party, and back again.

    results/JOB/                   for the researcher who asked: what all parties share
        manifest.json              task, shapes, plan, certificate; hashes of all files beside it
        report.html                the same for people, where somebody who can draw it is given
        certificate.json           what all users and the CSP signed; ``fedsvd verify`` checks it
        components.npy  .csv ...
        parties/NAME/              for party NAME alone: what all share, and its own part
            manifest.json  ...
        roles/csp/                 for the CSP (``role_accounts.py``): what it saw, which is no result

A party's folder holds nothing of another party and is complete without the folder above it. Nothing is unpickled, and
every file is compared with its hash, before a result is used again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsvd import __version__
from fedsvd.errors import StorageError
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.parties import user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split
from fedsvd.results.folder import (
    LONGEST_TABLE,
    MANIFEST,
    fresh_folder,
    load_array,
    read_manifest,
    save_array,
    save_manifest,
    save_table,
)
from fedsvd.results.own_part import moved
from fedsvd.results.role_accounts import write_accounts
from fedsvd.results.signed_certificate import save_certificate
from fedsvd.results.stored import Draw, draw_report, seen_by, stored_from
from fedsvd.results.stored import Stored as Stored
from fedsvd.results.tables import Holding, held_by, shared_by_all
from fedsvd.studies.job_data import Prepared
from fedsvd.studies.run import Outcome

FORMAT = "fedsvd-results/1"
PREDICTIONS = "fedsvd-predictions/1"
PARTIES = "parties"


def write_results(
    target: Path, prepared: Prepared, outcome: Outcome, overwrite: bool = False, draw: Draw | None = None
) -> None:
    """Write what a study came to; all of it is there at the end, or nothing."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    with fresh_folder(target, overwrite) as folder:
        record = _record(prepared, outcome, created, outcome.certificate)
        write_accounts(folder, record, outcome.certificate, draw)
        _certify(folder, prepared, outcome, outcome.certificate)
        common = prepared.parties[0].table.names if prepared.study.split is Split.HORIZONTAL else None
        _write(folder, shared_by_all(prepared, outcome), {**record, "features": common}, draw)
        (folder / PARTIES).mkdir(mode=0o700)
        for i, name in enumerate(prepared.names):
            own = folder / PARTIES / name
            own.mkdir(mode=0o700)
            _write_own(own, prepared, outcome, i, created, draw)


def write_own_results(target: Path, prepared: Prepared, outcome: Outcome, i: int, draw: Draw | None = None) -> None:
    """Write what party ``i`` (from 0) holds, on its own machine, where nothing is yet: no other's part is there."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with fresh_folder(target, overwrite=False) as folder:
        _write_own(folder, prepared, outcome, i, created, draw)


def _write_own(folder: Path, prepared: Prepared, outcome: Outcome, i: int, created: str, draw: Draw | None) -> None:
    seen = seen_by(outcome.certificate, user(i + 1))
    record = _record(prepared, outcome, created, seen)
    _certify(folder, prepared, outcome, seen)
    features = prepared.parties[i].table.names
    about = {"reader": "party", "party": prepared.names[i], "index": i + 1, "features": features}
    _write(folder, held_by(prepared, outcome, i), {**record, **about}, draw)


def _certify(folder: Path, prepared: Prepared, outcome: Outcome, certificate: Certificate) -> None:
    """``certificate.json``, where the users signed one."""
    if outcome.agreement is not None:
        save_certificate(folder, outcome.agreement, tuple(prepared.names), certificate.record())


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
        names = [Path(name).stem for name in record["files"] if name.endswith(".npy")]
        stored = stored_from(folder, record, {name: load_array(folder, name) for name in names})
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


def _write(folder: Path, holding: Holding, record: Mapping[str, Any], draw: Draw | None = None) -> None:
    for name, array in holding.arrays.items():
        save_array(folder, name, array)
    left_out = [name for name, file in holding.files.items() if file.path.suffix == ".npy"]
    for name, file in holding.files.items():
        moved(file, folder, name)
    for table in holding.tables:
        if table.size <= LONGEST_TABLE:
            save_table(folder, table)
        else:
            left_out.append(table.name)
    whole = {**record, "facts": holding.facts, "only_as_npy": left_out}
    if draw is not None:
        draw_report(folder, draw, whole, holding.arrays)
    save_manifest(folder, whole)


def rank_of(outcome: Outcome) -> int:
    """The rank the users found; with square factors the CSP cannot cut at it."""
    return int(getattr(outcome.parties[0], "rank", outcome.certificate.rank))


def _record(prepared: Prepared, outcome: Outcome, created: str, certificate: Certificate) -> dict[str, Any]:
    plan = outcome.plan
    return {
        "format": FORMAT,
        "reader": "everybody",
        "job": prepared.name,
        "parties": prepared.names,
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
