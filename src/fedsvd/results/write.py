"""``results/JOB/``: the results of a study, one folder for each reader, written and read back.

    results/JOB/                   for the researcher who asked: what all parties share
        manifest.json              task, shapes, plan, certificate; hashes of all files next to it
        report.html                the same for people, where a drawing function is given
        certificate.json           what all users and the CSP signed; ``fedsvd verify`` checks it
        components.npy  .csv ...
        parties/NAME/              for party NAME alone: what all share, and what belongs to its rows or columns
            manifest.json  ...
        roles/csp/                 for the CSP: what it saw (shapes, bytes, times), which is no result
        roles/authority/           for the TA, where there is one

A party's folder holds nothing of another party and is complete without the folder above it. Nothing is unpickled, and
every file is compared with its hash, before a result is used again. The simulation writes all of it at once
(``write_job``), a site one folder (``write_result``), the local run collects what its parties wrote (``collect``).
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsvd import __version__
from fedsvd.errors import FedSVDError, StorageError
from fedsvd.protocol.certificate import Accounts
from fedsvd.protocol.outputs import is_shared_file, shared_by
from fedsvd.protocol.parties import CSP, TA
from fedsvd.protocol.plan import PROTOCOL
from fedsvd.results.folder import (
    LONGEST_TABLE,
    MANIFEST,
    REPORT,
    fresh_folder,
    load_array,
    manifest_record,
    read_manifest,
    save_array,
    save_manifest,
    save_table,
)
from fedsvd.results.outputs import shared_part, with_tables_of_records
from fedsvd.results.result import ACCOUNT, FORMAT, PartyResult, result_from
from fedsvd.results.signed_certificate import BEFORE, CERTIFICATE, opened_files, save_certificate, save_shared
from fedsvd.results.vector_files import move_into
from fedsvd.storage import private

PREDICTIONS = "fedsvd-predictions/1"
PARTIES = "parties"
ROLES = "roles"
_ROLE_FOLDERS = {CSP: "csp", TA: "authority"}
_log = logging.getLogger(__name__)

Draw = Callable[[PartyResult], str]
"""Draws ``report.html`` from a result: ``results.report.page.render``, where jinja2 is installed."""


_AGAIN = "copy the folder again from where it was written, or run the study again"


def write_job(target: Path, results: Iterable[PartyResult], overwrite: bool = False, draw: Draw | None = None) -> None:
    """Write the results of a study, one for each reader; all of it is there at the end, or nothing."""
    with fresh_folder(target, overwrite) as folder:
        for result in results:
            _write(_place(folder, result), result, draw)


def write_result(target: Path, result: PartyResult, overwrite: bool = False, draw: Draw | None = None) -> None:
    """Write what one reader gets, on its own machine."""
    private.make_folders(target.parent)
    with fresh_folder(target, overwrite) as folder:
        _write(folder, result, draw)


def collect(
    target: Path,
    folders: Mapping[str, Path],
    accounts: Accounts,
    overwrite: bool = False,
    draw: Draw | None = None,
) -> tuple[PartyResult, ...]:
    """Write ``target`` from the folders that the parties wrote, each its own: where one person owns all of them.

    The parties' folders are taken as they are; what all share is copied from the first, without its row ids.
    ``accounts`` are what the roles sent at the end; how long a party's stages took is in its own folder alone. Returned
    is what was written: what all share, then each party's own.
    """
    source, own = next(iter(folders.values())), [read_result(path) for path in folders.values()]
    first = own[0]
    certificate = first.certificate.with_accounts(accounts)
    for each in own:
        certificate = certificate.with_accounts(each.certificate)
    shared = replace(shared_part(first), certificate=certificate)
    known = {output.table for output in shared_by(first.outputs, first.split)}
    only_as_npy = [name for name in read_manifest(source)["only_as_npy"] if name in known]
    # A table of the rows has their ids in it, and is made again.
    shared = with_tables_of_records(shared, only_as_npy)
    with fresh_folder(target, overwrite) as folder:
        (folder / PARTIES).mkdir(mode=0o700)
        for name, path in folders.items():
            shutil.copytree(path, folder / PARTIES / name, copy_function=_linked)  # with the modes
        for path in sorted(source.iterdir()):
            if path.suffix != ".npy" and is_shared_file(first.outputs, first.split, path.name):
                _linked(path, folder / path.name)
        for path in source.glob(BEFORE.format("*")):
            _linked(path, folder / path.name)
        save_shared(source / CERTIFICATE, folder, first.outputs, first.split)
        _write(folder, shared, draw, only_as_npy)
        for role in (party for party in shared.plan.parties if party in _ROLE_FOLDERS):
            account = shared.for_role(role)
            _write(_place(folder, account), account, draw)
    return shared, *own


def _linked(source: Path | str, target: Path | str) -> Path | str:
    """The same file under a second name, or a copy on another disk: files of results are replaced, never changed."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def write_predictions(target: Path, of: PartyResult, found: Mapping[str, PartyResult], overwrite: bool = False) -> None:
    """Write what a result says of new data, one folder for each table."""
    record = {
        "format": PREDICTIONS,
        "job": of.job,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": of.task,
        "split": of.split,
        "versions": dict(of.certificate.versions) | {"fedsvd": __version__},
        "plan_digest": of.plan.digest,
    }
    with fresh_folder(target, overwrite) as folder:
        save_manifest(folder, {**record, "parties": list(found), "facts": {}, "only_as_npy": []})
        (folder / PARTIES).mkdir(mode=0o700)
        for name, result in found.items():
            own = folder / PARTIES / name
            own.mkdir(mode=0o700)
            only_as_npy = _save_contents(own, result)
            save_manifest(own, {**record, "party": name, "facts": result.facts, "only_as_npy": only_as_npy})


def read_result(folder: Path) -> PartyResult:
    """The result in one folder, its files as they were written."""
    record = read_manifest(folder)
    if record.get("format") not in (FORMAT, ACCOUNT):
        raise StorageError(f"{folder} is not a result of this version of fedsvd", f"its format is not {FORMAT}")
    try:
        _expect_protocol(folder, record)
        names = [Path(name).stem for name in record["files"] if name.endswith(".npy")]
        result = result_from(record, {name: load_array(folder, name) for name in names})
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _unreadable(folder, f"{MANIFEST} lacks what it must hold") from None
    if result.plan.digest != record["plan_digest"]:
        raise _unreadable(folder, "the plan does not have the digest it had")
    return result


def _unreadable(folder: Path, what: str) -> StorageError:
    """Of a manifest whose own hash is right: plans of one version had other fields while it was developed."""
    fault = f"the results in {folder} are damaged, or a development version of fedsvd wrote them: {what}"
    return StorageError(fault, f"{_AGAIN}; the .npy and .csv files can be read as they are")


def _expect_protocol(folder: Path, record: Mapping[str, Any]) -> None:
    """Refuse a result of another protocol: its plan says other things than the plans of this one."""
    protocol = int(record["plan"]["protocol"])
    if protocol != PROTOCOL:
        version = record["certificate"]["versions"]["fedsvd"]
        raise StorageError(
            f"the results in {folder} were written by fedsvd {version}, under protocol {protocol}; this is fedsvd "
            f"{__version__}, with protocol {PROTOCOL}",
            f"open them with that version (pip install fedsvd=={version}), or read the .npy and .csv files as they are",
        )


def party_folders(folder: Path) -> tuple[Path, ...]:
    """The parties' folders below a job's, in the order of the users; none where there are only shared results."""
    inside = folder / PARTIES
    found = [path for path in inside.iterdir() if (path / MANIFEST).is_file()] if inside.is_dir() else []
    return tuple(sorted(found, key=lambda path: manifest_record(path).get("index") or 0))


def _place(folder: Path, result: PartyResult) -> Path:
    """The folder of a result's reader below that of the job."""
    if result.reader is None:
        return folder
    own = folder / PARTIES / str(result.party)
    if result.of_a_role:
        own = folder / ROLES / _ROLE_FOLDERS[result.reader]
    for path in (own.parent, own):
        path.mkdir(mode=0o700, exist_ok=True)
    return own


def _write(folder: Path, result: PartyResult, draw: Draw | None, only_as_npy: Sequence[str] = ()) -> None:
    """One reader's result; ``only_as_npy`` are arrays whose tables were too long before."""
    if result.agreement is not None:
        local = {**result.certificate.record(), **opened_files(result)}
        save_certificate(folder, result.agreement, result.names, local)
    for task, agreement in result.before.items():
        save_certificate(folder, agreement, result.names, {}, BEFORE.format(task))
    record = result.record()
    if not result.of_a_role:
        record["only_as_npy"] = [*only_as_npy, *_save_contents(folder, result)]
    if draw is not None:
        draw_report(folder, draw, record)
    save_manifest(folder, record)


def _save_contents(folder: Path, result: PartyResult) -> list[str]:
    """Arrays, files and tables; the names of those that have no table."""
    for name, array in result.arrays.items():
        save_array(folder, name, array)
    for name, file in result.files.items():
        move_into(folder, name, file)
    for table in result.tables:
        if table.size <= LONGEST_TABLE:
            save_table(folder, table)
    moved = [name for name, file in result.files.items() if file.path.suffix == ".npy"]
    return [*moved, *(table.name for table in result.tables if table.size > LONGEST_TABLE)]


def draw_report(folder: Path, draw: Draw, record: Mapping[str, Any]) -> None:
    """``report.html``; a study of hours is worth more than its report, so a fault of the drawing is only logged.

    It is drawn from what was written, so that it can be drawn again from the folder and compared.
    """
    try:
        arrays = {path.stem: load_array(folder, path.stem) for path in sorted(folder.glob("*.npy"))}
        page = draw(result_from(json.loads(json.dumps(record)), arrays))
    except Exception as fault:
        _log.warning("no report was drawn: %s", fault if isinstance(fault, FedSVDError) else type(fault).__name__)
        return
    with private.new_file(folder / REPORT) as file:
        file.write(page.encode())
