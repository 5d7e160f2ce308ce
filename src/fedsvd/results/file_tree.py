"""The files of a result as a hash tree: what a party writes is bound by what all users signed (ADR 0052).

A leaf is a file: its name, its length and its SHA-256. The root is taken before anything is signed, from the bytes that
will be written, so that a file which is altered, missing or added later is found by name. There are two trees: of all
files of a party, and of those that hold what all parties share. Each has a leaf of the manifest too, of all of it that
is known before anything is signed (``signed_manifest``). A report is drawn from manifest and arrays alone, so that it
can be drawn again and compared; it is in neither tree.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

from fedsvd.errors import StorageError
from fedsvd.protocol.outputs import Output, is_shared_file
from fedsvd.protocol.tasks import Split
from fedsvd.results.folder import LONGEST_TABLE, MANIFEST, hashed_file, manifest_record, table_writers, write_array
from fedsvd.results.outputs import shared_part, with_tables_of_records
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.agreement import Roots
from fedsvd.sealing.sign import framed

_LEAF, _NODE, _EMPTY = b"\x00", b"\x01", b"fedsvd/no files/1"


@dataclass(frozen=True)
class Leaf:
    """One file."""

    bytes: int
    sha256: str


Leaves = Mapping[str, Leaf]  # by the file's name


def root_of(leaves: Leaves) -> bytes:
    """The root of the tree over these files, in the order of their names; an odd one is carried up."""
    level = [
        hashlib.sha256(_LEAF + framed(name.encode(), str(leaf.bytes).encode(), bytes.fromhex(leaf.sha256))).digest()
        for name, leaf in sorted(leaves.items())
    ]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        last = level[-1:] if len(level) % 2 else []
        level = [*(hashlib.sha256(_NODE + left + right).digest() for left, right in pairs), *last]
    return level[0] if level else hashlib.sha256(_EMPTY).digest()


def roots_of(leaves: Leaves, shared_only: Leaves, outputs: Sequence[Output], split: Split) -> Roots:
    """The roots of a party's files, and of those of a folder with what all parties share."""
    return Roots(root_of(leaves), root_of(shared_among(leaves, shared_only, outputs, split)))


def shared_among(leaves: Leaves, shared_only: Leaves, outputs: Sequence[Output], split: Split) -> dict[str, Leaf]:
    """The files that hold what all parties share: some of a party's own, and those of a shared folder alone."""

    def is_shared(name: str) -> bool:
        if name.endswith(".json"):  # a certificate of an earlier session, not a party's own manifest
            return name != MANIFEST
        return is_shared_file(outputs, split, name)

    return {**{name: leaf for name, leaf in leaves.items() if is_shared(name)}, **shared_only}


def signed_manifest(record: Mapping[str, Any]) -> bytes:
    """What users sign of a manifest, in canonical JSON: all of it but what is known only afterwards.

    That is when it was written, bytes, seconds and memory, and hashes of files, which have leaves of their own. What
    was proved of the order stands in the certificate. Versions in a folder that all share are those of the one site
    that wrote it, so that copies of sites with different ones are the same.
    """
    held = {name: record["certificate"][name] for name in ("plan_digest", "residual", "orthogonality", "rank")}
    shared = record["reader"] != "party"
    left_out = {*_NOT_SIGNED, *(("versions",) if shared else ())}
    signed = {**{name: value for name, value in record.items() if name not in left_out}, "certificate": held}
    # Through JSON once: keys and tuples are then what they are when a manifest is read.
    plain = json.loads(json.dumps(signed, allow_nan=False))
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


_NOT_SIGNED = ("created", "proved", "only_as_npy", "files", "not_finished", "sha256")


def manifest_leaf(record: Mapping[str, Any]) -> Leaf:
    """The leaf of a manifest: of what users sign of it."""
    content = signed_manifest(record)
    return Leaf(len(content), hashlib.sha256(content).hexdigest())


def leaves_of(result: PartyResult) -> dict[str, Leaf]:
    """The files that this result is written as, hashed without writing them."""
    found: dict[str, Leaf] = {}
    for name, array in result.arrays.items():
        found[f"{name}.npy"] = _hashed(lambda file, array=array: write_array(file, array))  # type: ignore[misc]
    for name, made in result.files.items():
        found[f"{name}{made.path.suffix}"] = leaf_of(made.path)
    for table in result.tables:
        if table.size <= LONGEST_TABLE:
            for suffix, write in table_writers(table).items():
                found[f"{table.name}.{suffix}"] = _hashed(write)
    return {**found, MANIFEST: manifest_leaf(result.record())}


def shared_only_leaves(result: PartyResult) -> dict[str, Leaf]:
    """The files that only a folder of what all share has: its manifest, and tables without a party's row ids."""
    shared = with_tables_of_records(replace(shared_part(result), tables=()))
    return leaves_of(replace(shared, arrays={}, files={}))


def leaf_of(path: Path) -> Leaf:
    """A file that is there."""
    return Leaf(path.stat().st_size, hashed_file(path))


def differences(folder: Path, leaves: Leaves, others: Iterable[str] = ()) -> list[str]:
    """What is not as it was signed in a folder: files altered, missing, or added; ``others`` may be there too.

    A folder inside it is named too, as added, unless it is one of the others.
    """
    found = []
    for name, leaf in sorted(leaves.items()):
        path = folder / name
        if Path(name).name != name or not path.is_file():
            found.append(f"{name} is missing")
        elif (_manifest_there(folder, leaves) if name == MANIFEST else leaf_of(path)) != leaf:
            found.append(f"{name} was altered")
    known = {*leaves, *others}
    found += [f"{path.name} was added" for path in sorted(folder.iterdir()) if path.name not in known]
    return found


def _manifest_there(folder: Path, leaves: Leaves) -> Leaf | None:
    """The leaf of the manifest in a folder; None where it is missing, or lists other files than those signed."""
    try:
        record = manifest_record(folder)
        listed = {name: about["sha256"] for name, about in record["files"].items() if name in leaves}
        signed = {name: leaf.sha256 for name, leaf in leaves.items() if name != MANIFEST}
        return manifest_leaf(record) if listed == signed else None
    except (StorageError, KeyError, TypeError, ValueError):
        return None


class _Digest(RawIOBase):
    """A file that is only hashed and counted."""

    def __init__(self) -> None:
        super().__init__()
        self._code, self._count = hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._code.update(view)
        self._count += view.nbytes
        return view.nbytes

    def leaf(self) -> Leaf:
        return Leaf(self._count, self._code.hexdigest())


def _hashed(write: Callable[[BinaryIO], None]) -> Leaf:
    digest = _Digest()
    write(cast(BinaryIO, digest))
    return digest.leaf()
