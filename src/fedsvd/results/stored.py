"""A result as one reader holds it: what its manifest says, its arrays by name; and the drawing of its report.

``results.py`` writes and reads the folders; ``role_accounts.py`` writes those of the roles that hold no result.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedsvd.errors import FedSVDError
from fedsvd.linalg.windows import Form
from fedsvd.protocol.certificate import ACCOUNTS, Certificate
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Check, Item, Mode, Scheme, Split, Task, Trust
from fedsvd.results.folder import private_file
from fedsvd.studies.job_file import NAME

REPORT = "report.html"
_log = logging.getLogger(__name__)


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
    reader: str = "everybody"  # or party, csp, authority
    names: tuple[str, ...] = ()  # of all parties
    created: str = ""
    why: str = ""
    not_finished: str = ""  # why the job of these results is not done, where it is not

    def __repr__(self) -> str:
        return f"Stored({self.job}, {self.task}, party={self.party})"


Draw = Callable[[Stored], str]
"""Draws ``report.html`` from a result: ``results.report.page.render``, where jinja2 is installed."""


def draw_report(folder: Path, draw: Draw, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """``report.html``; a study of hours is worth more than its picture, so a fault of the drawing is only told."""
    try:
        page = draw(stored_from(folder, record, arrays))
    except Exception as fault:
        _log.warning("no report was drawn: %s", fault if isinstance(fault, FedSVDError) else type(fault).__name__)
        return
    with private_file(folder / REPORT) as file:
        file.write(page.encode())


def with_accounts(certificate: Certificate, told: Mapping[str, Mapping[str, Any]]) -> Certificate:
    """The certificate with the accounts of all roles, as each told them at the end."""
    accounts: dict[str, Any] = {key: {} for key in ACCOUNTS}
    for said in told.values():
        for key in ACCOUNTS:
            accounts[key].update(said.get(key, {}))
    return replace(certificate, **accounts)


def seen_by(certificate: Certificate, me: Party) -> Certificate:
    """The certificate without what was sent by, sent to or timed at another user."""

    def ours(counts: Mapping[str, Any]) -> dict[str, Any]:
        return {key: count for key, count in counts.items() if set(re.findall(r"user-\d+", key)) <= {me.name}}

    return replace(
        certificate,
        bytes_by_link=ours(certificate.bytes_by_link),
        messages_by_link=ours(certificate.messages_by_link),
        seconds_by_stage=ours(certificate.seconds_by_stage),
        began_by_stage=ours(certificate.began_by_stage),
        bytes_by_kind=ours(certificate.bytes_by_kind),
        peak_memory=ours(certificate.peak_memory),
    )


def stored_from(folder: Path, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Stored:
    """The result that a manifest describes, with these arrays."""
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
        arrays=arrays,
        reader=record["reader"],
        names=tuple(record["parties"]),
        created=record["created"],
        why=record["why_this_scheme"],
        not_finished=record.get("not_finished", ""),
    )


def _party_name(name: str | None) -> str | None:
    """A name that is safe as that of a folder, as in job files."""
    if name is not None and re.fullmatch(NAME, name) is None:
        raise ValueError("a party's name that is no name")
    return name


def _plan(record: Mapping[str, Any]) -> SessionPlan:
    values: dict[str, Any] = dict(record)
    words = (("task", Task), ("split", Split), ("scheme", Scheme), ("trust", Trust), ("left", Form), ("right", Form))
    for key, word in (*words, ("check", Check)):
        values[key] = word(record[key])
    values["mode"] = None if record.get("mode") is None else Mode(record["mode"])
    values["release"] = tuple(Item(item) for item in record["release"])
    for name in ("counts", "identities", "prekeys"):
        values[name] = tuple(record.get(name, ()))
    return SessionPlan(**values)


def _certificate(record: Mapping[str, Any]) -> Certificate:
    derived = ("bytes_total", "seconds_total")
    return Certificate(**{key: value for key, value in record.items() if key not in derived})
