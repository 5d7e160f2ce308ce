"""What a researcher gets of a study where every party agrees: files made by a party, written again at the researcher.

These are the arrays that all parties share, without those that have a row for each record; the manifest of a folder of
what all share; and the certificates of sessions before the study (ADR 0069). Tables are left out: their bytes depend on
what a site has installed, and every party signs the root of the tree over exactly these files (``statement``), so that
parties who computed the same sign the same. The signatures lie in the researcher's ``certificate.json``, where
``fedsvd verify`` finds them.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fedsvd.errors import NotSealed
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.outputs import Kind, for_researcher
from fedsvd.results.file_tree import Leaf, manifest_leaf, root_of
from fedsvd.results.folder import MANIFEST, fresh_folder, save_manifest, write_array
from fedsvd.results.outputs import shared_part
from fedsvd.results.result import PartyResult, result_from
from fedsvd.results.signed_certificate import BEFORE, FIX, save_certificate
from fedsvd.results.write import Draw, draw_report, read_result
from fedsvd.roles.user.agreement import Agreement
from fedsvd.sealing.sign import framed
from fedsvd.storage import private

PURPOSE = "handed over"  # of a party's signature
AGREED = "agreed"
_DOMAIN = b"fedsvd/handed over/1"
_LENGTH = 8  # bytes of a length in ``framed``


def researchers_part(result: PartyResult) -> PartyResult:
    """What a researcher gets, from one party's result as it was read back; without that party's own accounts."""
    shared = shared_part(result)
    kept = {output.name for output in for_researcher(result.outputs, result.split) if output.kind is not Kind.FACT}
    arrays = {name: array for name, array in shared.arrays.items() if name in kept}
    held = shared.certificate
    certificate = Certificate(
        plan_digest=held.plan_digest,
        residual=held.residual,
        orthogonality=held.orthogonality,
        rank=held.rank,
        versions=held.versions,
    )
    return replace(shared, arrays=arrays, certificate=certificate, not_finished="")


def files_to_hand_over(folder: Path) -> dict[str, bytes]:
    """The files for a researcher, from a party's folder, by name."""
    part = researchers_part(read_result(folder))
    files = {path.name: private.read(path) for path in sorted(folder.glob(BEFORE.format("*")))}
    for name, array in part.arrays.items():
        content = io.BytesIO()
        write_array(content, array)
        files[f"{name}.npy"] = content.getvalue()
    record = {**part.record(), "only_as_npy": list(part.arrays)}
    files[MANIFEST] = json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
    return files


def leaves_of_files(files: Mapping[str, bytes]) -> dict[str, Leaf]:
    """The leaves of these files; ``NotSealed`` for a manifest that does not parse."""
    leaves = {name: Leaf(len(content), hashlib.sha256(content).hexdigest()) for name, content in files.items()}
    return {**leaves, MANIFEST: manifest_leaf(_manifest(files))}


def root_of_files(files: Mapping[str, bytes]) -> bytes:
    """What every party signs of the files that it hands over."""
    return root_of(leaves_of_files(files))


def statement(body: bytes, state: str, root: bytes) -> bytes:
    """What a party signs for the researcher: SHA-256 of what all signed of the study, whether it agrees, to what."""
    return framed(_DOMAIN, body, state.encode(), root)


def packed(files: Mapping[str, bytes]) -> bytes:
    """Files as one text of bytes."""
    return framed(*(part for name, content in sorted(files.items()) for part in (name.encode(), content)))


def unpacked(content: bytes) -> dict[str, bytes]:
    """The files in it; ``NotSealed`` for what ``packed`` did not make."""
    parts, place = [], 0
    while place < len(content):
        end = place + _LENGTH + int.from_bytes(content[place : place + _LENGTH], "big")
        parts.append(content[place + _LENGTH : end])
        place = end
    names = [name.decode(errors="replace") for name in parts[::2]]
    if place != len(content) or len(parts) % 2 or names != sorted(set(names)) or not all(map(_is_name, names)):
        raise _not_files()
    return dict(zip(names, parts[1::2], strict=True))


def write_handed_over(
    target: Path, files: Mapping[str, bytes], agreement: Agreement, signatures: Mapping[str, bytes], draw: Draw | None
) -> None:
    """A researcher's results folder: these files, the certificate, and what every party signed of the files."""
    record = _manifest(files)
    leaves = {name: asdict(leaf) for name, leaf in leaves_of_files(files).items()}
    local = {"handed_over": {name: signature.hex() for name, signature in signatures.items()}, "files": leaves}
    with fresh_folder(target) as folder:
        for name, content in files.items():
            if name != MANIFEST:
                with private.new_file(folder / name) as file:
                    file.write(content)
        save_certificate(folder, agreement, tuple(record["parties"]), local)
        complete = {**record, "proved": agreement.order}
        if draw is not None:
            draw_report(folder, draw, complete)
        save_manifest(folder, complete)


def handed_result(files: Mapping[str, bytes]) -> PartyResult:
    """The result that files describe, without its arrays; ``NotSealed`` where they describe none."""
    try:
        return result_from(_manifest(files), {})
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _not_files() from None


def _manifest(files: Mapping[str, bytes]) -> dict[str, Any]:
    try:
        record = private.plain_json(files[MANIFEST])
        if not isinstance(record, dict) or "files" in record or "sha256" in record:
            raise ValueError
        manifest_leaf(record)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise _not_files() from None
    return record


def _is_name(name: str) -> bool:
    """Whether a file of this name may be among those that are handed over; none other is written."""
    stem, _, suffix = name.rpartition(".")
    return name == MANIFEST or (stem.replace("_", "").replace("-", "").isalnum() and suffix in ("npy", "json"))


def _not_files() -> NotSealed:
    return NotSealed("what was handed over is not a result", FIX)
