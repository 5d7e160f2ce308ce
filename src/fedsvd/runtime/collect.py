"""From the folders that the parties wrote, each its own, to one ``results/JOB`` as the sim rung writes it.

Only where one person owns all of them: on the ``local`` rung. The parties' folders are taken as they are; what all
parties share is copied from the first, without its row ids.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsvd.protocol.tasks import Split
from fedsvd.runtime.folder import fresh_folder, read_manifest, save_array, save_manifest, save_table
from fedsvd.runtime.holdings import by_sample
from fedsvd.runtime.results import PARTIES, Stored, read_results

# What a party holds beyond what all do (02-protocol, section 2).
_OWN = {
    Split.HORIZONTAL: ("left_vectors", "scores", "row_ids"),
    Split.VERTICAL: ("components", "coefficients", "fitted", "row_ids"),
}
_OWN_FACTS = {Split.HORIZONTAL: (), Split.VERTICAL: ("constant_columns", "score")}
_ACCOUNTS = ("bytes_by_link", "messages_by_link", "seconds_by_stage")


def collect(
    target: Path,
    folders: Mapping[str, Path],
    told: Mapping[str, Mapping[str, Any]],
    why: str,
    overwrite: bool = False,
) -> None:
    """Write ``target``; ``told`` is what the roles said at the end, from which the certificate's accounts are."""
    first = read_results(next(iter(folders.values())))
    with fresh_folder(target, overwrite) as folder:
        (folder / PARTIES).mkdir(mode=0o700)
        for name, own in folders.items():
            shutil.copytree(own, folder / PARTIES / name)  # keeps the modes
        record = read_manifest(first.folder)
        left_out = [name for name in record["only_as_npy"] if name not in _OWN[first.split]]
        _write_shared(folder, first, left_out)
        shared = first.split is Split.HORIZONTAL
        save_manifest(
            folder,
            {key: value for key, value in record.items() if key != "files"}
            | {
                "party": None,
                "index": None,
                "features": record["features"] if shared else None,
                "facts": {key: value for key, value in first.facts.items() if key not in _OWN_FACTS[first.split]},
                "certificate": _certificate(record["certificate"], told),
                "why_this_scheme": why,
                "only_as_npy": left_out,
            },
        )


def _write_shared(folder: Path, first: Stored, left_out: Sequence[str]) -> None:
    """The arrays and tables that all parties hold."""
    own = _OWN[first.split]
    for name, array in first.arrays.items():
        if name not in own:
            save_array(folder, name, array)
    for path in sorted(first.folder.iterdir()):
        if path.suffix in (".csv", ".parquet") and path.stem not in (*own, "left_vectors"):
            shutil.copy2(path, folder / path.name)
    if first.split is Split.VERTICAL and "left_vectors" in first.arrays and "left_vectors" not in left_out:
        for table in by_sample("left_vectors", first.arrays["left_vectors"]).tables:
            save_table(folder, table)


def _certificate(record: Mapping[str, Any], told: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The first party's certificate with the accounts of all roles."""
    accounts: dict[str, dict[str, Any]] = {key: {} for key in _ACCOUNTS}
    for said in told.values():
        for key in _ACCOUNTS:
            accounts[key].update(said.get(key, {}))
    totals = {
        "bytes_total": sum(accounts["bytes_by_link"].values()),
        "seconds_total": sum(accounts["seconds_by_stage"].values()),
    }
    return {**record, **accounts, **totals}
