"""The files next to a certificate, compared with what all users signed of them (ADR 0052, 0059).

Arrays and tables have leaves in the tree that was signed; so has the manifest, but for what is known only afterwards:
when it was written, bytes, seconds, memory. What it says was proved must be what the certificate says. A report is
drawn from manifest and arrays alone, and is compared by being drawn again, where this program is the one that drew it.
In a researcher's folder every user signed the root of the tree (ADR 0069); in others the certificate commits to it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedsvd.errors import NotSealed
from fedsvd.protocol.parties import user
from fedsvd.results.file_tree import Leaf, differences, root_of
from fedsvd.results.folder import MANIFEST, REPORT, UNFINISHED, hashed_file, manifest_record
from fedsvd.results.handed_over import AGREED, statement
from fedsvd.results.handed_over import PURPOSE as HANDED_OVER
from fedsvd.results.result import software
from fedsvd.results.signed_certificate import CERTIFICATE, FIX, canonical, read_certificate
from fedsvd.results.write import PARTIES, ROLES, read_result
from fedsvd.roles.user.agreement import committed_root
from fedsvd.sealing.sign import verify


@dataclass(frozen=True)
class Files:
    """The files of a folder, all of which are as they were signed; ``of`` is the user whose result they are."""

    of: str
    shared: bool  # only those that hold what all parties share
    count: int
    same_at: tuple[str, ...] = ()  # other users that signed exactly these shared files
    parties: tuple[str, ...] = ()  # what the signed manifest calls the users
    unsigned: tuple[str, ...] = ()  # what is there, was not signed, and was not compared with what was; why


def verify_files(path: Path) -> Files | None:
    """The files next to a certificate are those that its users signed; None where they signed none.

    ``NotSealed`` names every file that was altered, is missing or was added. Call it for a certificate whose
    signatures hold.
    """
    record = read_certificate(path)
    body, local = record["body"], record["local"]
    if not any(int(item, 16) for item in body["files"]):
        _expect_own_results(path, body)
        return None
    index, kind, leaves = _opened(path, body, local)
    folder, inside = path.parent, (PARTIES, ROLES) if kind == "shared" else ()
    others = (*_NOT_IN_TREE, path.name, *inside)
    wrong = differences(folder, leaves, others) or _unlike(folder, body)
    drawn = not wrong and (folder / REPORT).is_file()
    unseen = _why_not_drawn(folder) if drawn else ""
    if drawn and not unseen and not _as_drawn(folder):
        wrong = [f"{REPORT} is not the page that follows from the signed files (draw it again: fedsvd report)"]
    if wrong:
        raise NotSealed(f"these files are not as they were signed: {'; '.join(wrong)}", FIX)
    same = _same_at(index, kind, body["shared_files"])
    unsigned = [UNFINISHED] if (folder / UNFINISHED).is_file() else []
    unsigned += [f"{name}/, a folder of its own" for name in inside if (folder / name).is_dir()]
    unsigned += [f"{REPORT}, which was not compared: {unseen}"] if unseen else []
    names = tuple(manifest_record(folder)["parties"])
    return Files(user(index).name, kind != "own", len(leaves), tuple(same), names, tuple(unsigned))


def _opened(path: Path, body: Mapping[str, Any], local: Mapping[str, Any]) -> tuple[int, str, dict[str, Leaf]]:
    """Whose files a certificate lists, which of them, and the files: those that were signed, or ``NotSealed``."""
    unsigned = NotSealed(f"the files that {path.name} lists are not those that its users signed", FIX)
    try:
        leaves = {str(name): Leaf(int(about["bytes"]), str(about["sha256"])) for name, about in local["files"].items()}
        root = root_of(leaves)
        if "handed_over" in local:
            _expect_handed_over(body, root, dict(local["handed_over"]))
            return 1, "handed over", leaves
        index, opens = int(local["index"]), dict(local["opens"])
        kind = "own" if "own" in opens else "shared"
        signed = body["files" if kind == "own" else "shared_files"][index - 1] if index > 0 else ""
        opened = committed_root(kind, bytes.fromhex(opens[kind]), root).hex()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise NotSealed(f"{path.name} does not list the files that its users signed", FIX) from None
    except NotSealed:
        raise unsigned from None
    if opened != signed:
        raise unsigned
    return index, kind, leaves


def _expect_handed_over(body: Mapping[str, Any], root: bytes, signatures: Mapping[str, str]) -> None:
    """Every user signed these files for the researcher (ADR 0069)."""
    said = statement(hashlib.sha256(canonical(body)).digest(), AGREED, root)
    for i, key in enumerate(body["identities"], start=1):
        verify(bytes.fromhex(key), HANDED_OVER, said, bytes.fromhex(signatures[user(i).name]))


def _same_at(index: int, kind: str, shared: Sequence[str]) -> list[str]:
    """Other users that signed exactly the same shared files."""
    others = [(i, item) for i, item in enumerate(shared, start=1) if i != index]
    return [user(i).name for i, item in others if kind == "handed over" or item == shared[index - 1]]


def _expect_own_results(path: Path, body: Mapping[str, Any]) -> None:
    """A certificate that covers no file does not lie next to results of another session.

    Users sign none in a matching, in a preparation, and where all roles are one process.
    """
    if path.name != CERTIFICATE or not (path.parent / MANIFEST).is_file():
        return
    record = manifest_record(path.parent)
    if (record.get("plan_digest"), record.get("task")) != (body["plan"], body["task"]):
        raise NotSealed(f"{path.name} is of another session than the results next to it", FIX)


def _unlike(folder: Path, body: Mapping[str, Any]) -> list[str]:
    """The manifest, where it does not fit the certificate, and unsigned files that do not fit the manifest."""
    record = manifest_record(folder)
    if record.get("proved", "") != body["order"] or record["plan_digest"] != body["plan"] or not _dated(record):
        return [f"{MANIFEST} was altered"]
    listed = {name: about["sha256"] for name, about in record["files"].items()}
    there = {name: hashed_file(folder / name) if (folder / name).is_file() else "" for name in _NOT_IN_TREE}
    return [
        f"{name} {'was altered' if there[name] else 'is missing'}"
        for name in _NOT_IN_TREE
        if listed.get(name, "") != there[name]
    ]


def _dated(record: Mapping[str, Any]) -> bool:
    """Whether what stands as its date, which is not signed and is shown in the report, is a date."""
    try:
        return len(str(record["created"])) < 40 and bool(datetime.fromisoformat(str(record["created"])))
    except (KeyError, ValueError):
        return False


_NOT_IN_TREE = (CERTIFICATE, REPORT, UNFINISHED)


def _why_not_drawn(folder: Path) -> str:
    """Why this program cannot draw the report of a folder as it was drawn; empty where it can."""
    if find_spec("jinja2") is None:
        return "jinja2 is missing here: pip install 'fedsvd[report]'"
    drew = read_result(folder).certificate.versions
    if drew != software():
        return f"it was drawn by {', '.join(f'{name} {version}' for name, version in drew.items())}"
    return ""


def _as_drawn(folder: Path) -> bool:
    """Whether the report is the page that follows from the other files."""
    # Imported here: drawing needs jinja2.
    from fedsvd.results.report.page import render

    # That a job did not end is known after its report was drawn.
    page = render(replace(read_result(folder), not_finished=""))
    return (folder / REPORT).read_bytes() == page.encode()
