"""What the roles without data come to hold: accounts of a study, and no result.

The CSP saw shapes, masked numbers, bytes and times; the trusted authority saw shapes and keys. Each gets a folder with
``manifest.json`` and, where somebody can draw it, ``report.html``. No array and no column name is here to be written.
"""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.parties import TA
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Trust
from fedsvd.results.folder import fresh_folder, save_manifest
from fedsvd.results.stored import Draw, draw_report, seen_by

FORMAT = "fedsvd-account/1"
ROLES = "roles"
_NOTHING = dict.fromkeys(("party", "index", "label_holder", "features", "id")) | {"targets": (), "facts": {}}
_PUBLIC = ("job", "created", "task", "split", "parties", "plan_digest", "plan", "why_this_scheme")


def write_accounts(folder: Path, record: Mapping[str, Any], certificate: Certificate, draw: Draw | None) -> None:
    """``roles/csp`` and ``roles/authority`` below a job's folder, from what is public in the record of its results."""
    readers = {"csp": certificate}
    if record["plan"]["trust"] == Trust.AUTHORITY:
        readers["authority"] = seen_by(certificate, TA)
    (folder / ROLES).mkdir(mode=0o700)
    for reader, seen in readers.items():
        own = folder / ROLES / reader
        own.mkdir(mode=0o700)
        _write(own, record, reader, seen, draw)


def write_own_account(
    target: Path, job: str, names: tuple[str, ...], plan: SessionPlan, certificate: Certificate, draw: Draw | None
) -> None:
    """What a CSP saw of a job, on its own machine."""
    record = {
        "job": job,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": plan.task,
        "split": plan.split,
        "parties": names,
        "plan_digest": plan.digest,
        "plan": asdict(plan),
        "why_this_scheme": "",
    }
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with fresh_folder(target, overwrite=True) as folder:
        _write(folder, record, "csp", certificate, draw)


def _write(folder: Path, record: Mapping[str, Any], reader: str, certificate: Certificate, draw: Draw | None) -> None:
    public = {key: record[key] for key in _PUBLIC}
    about = {"format": FORMAT, "reader": reader, **public, "certificate": certificate.record()}
    if draw is not None:
        draw_report(folder, draw, {**_NOTHING, **about, "rank": certificate.rank}, {})
    save_manifest(folder, about)
