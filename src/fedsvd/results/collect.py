"""From the folders that the parties wrote, each its own, to one ``results/JOB`` as the sim rung writes it.

Only where one person owns all of them: on the ``local`` rung. The parties' folders are taken as they are; what all
parties share is copied from the first, without its row ids.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsvd.protocol.tasks import Split
from fedsvd.results.folder import fresh_folder, read_manifest, save_array, save_manifest, save_table
from fedsvd.results.role_accounts import write_accounts
from fedsvd.results.signed_certificate import CERTIFICATE
from fedsvd.results.stored import Draw, draw_report, with_accounts
from fedsvd.results.tables import by_sample
from fedsvd.results.write import PARTIES, Stored, read_results

# What a party holds beyond what all do (02-protocol, section 2).
_OWN = {
    Split.HORIZONTAL: ("left_vectors", "scores", "fitted", "residuals", "row_ids"),
    Split.VERTICAL: ("components", "coefficients", "fitted", "residuals", "row_ids"),
}
_OWN_FACTS = {Split.HORIZONTAL: ("score",), Split.VERTICAL: ("constant_columns", "score")}


def collect(
    target: Path,
    folders: Mapping[str, Path],
    told: Mapping[str, Mapping[str, Any]],
    why: str,
    overwrite: bool = False,
    draw: Draw | None = None,
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
        # How long a party's stages took is in its own folder alone.
        own_accounts = {name: read_manifest(own)["certificate"] for name, own in folders.items()}
        certificate = with_accounts(first.certificate, {**told, **own_accounts})
        whole = {key: value for key, value in record.items() if key != "files"} | {
            "reader": "everybody",
            "party": None,
            "index": None,
            "features": record["features"] if shared else None,
            "facts": {key: value for key, value in first.facts.items() if key not in _OWN_FACTS[first.split]},
            "certificate": certificate.record(),
            "why_this_scheme": why,
            "only_as_npy": left_out,
        }
        if draw is not None:
            arrays = {name: array for name, array in first.arrays.items() if name not in _OWN[first.split]}
            draw_report(folder, draw, whole, arrays)
        write_accounts(folder, whole, certificate, draw)
        shutil.copy2(first.folder / CERTIFICATE, folder / CERTIFICATE)
        save_manifest(folder, whole)


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
