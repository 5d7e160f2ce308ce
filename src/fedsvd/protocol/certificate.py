"""What a result carries about itself: how exact it is, what was sent, how long it took; no value of the result.

Accounts are keyed by parties. They become text in ``record``, for JSON, and parties again in ``accounts_from``, which
takes nothing else than what ``record`` writes. What a reader may see is decided on parties (``seen_by``).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from fedsvd.protocol.parties import Party, Role, party_called
from fedsvd.types import Digest

Link = tuple[Party, Party]  # from, to
READING, WRITING = "reading", "writing"  # stages around a session: data is read before it, results written after it
Stage = tuple[Party, str]  # a party, and one of its stages or a kind of message that it sends


@dataclass(frozen=True)
class Accounts:
    """What was sent and how long it took, as far as one party or one reader can count."""

    bytes_by_link: Mapping[Link, int] = field(default_factory=dict)
    messages_by_link: Mapping[Link, int] = field(default_factory=dict)
    seconds_by_stage: Mapping[Stage, float] = field(default_factory=dict)
    began_by_stage: Mapping[Stage, float] = field(default_factory=dict)  # seconds after the party's own beginning
    bytes_by_kind: Mapping[Stage, int] = field(default_factory=dict)
    peak_memory: Mapping[Party, int] = field(default_factory=dict)
    """The most bytes that a role's process held in main memory, where the role has a process of its own."""

    @property
    def bytes_total(self) -> int:
        return sum(self.bytes_by_link.values())

    @property
    def seconds_total(self) -> float:
        return sum(self.seconds_by_stage.values())

    def with_accounts(self, *others: "Accounts") -> Self:
        """The same with these accounts added; of two counts of the same thing the later one stays."""
        merged: dict[str, Any] = {name: dict(getattr(self, name)) for name in ACCOUNTS}
        for other in others:
            for name in ACCOUNTS:
                merged[name] |= getattr(other, name)
        return replace(self, **merged)

    def seen_by(self, reader: Party) -> Self:
        """The same without what was sent by, sent to or measured at a user other than the reader."""

        def visible(key: Party | Link | Stage) -> bool:
            parties = (key,) if isinstance(key, Party) else [part for part in key if isinstance(part, Party)]
            return all(party.role is not Role.USER or party == reader for party in parties)

        seen = {name: {key: n for key, n in getattr(self, name).items() if visible(key)} for name in ACCOUNTS}
        return replace(self, **seen)

    def accounts_record(self) -> dict[str, dict[str, Any]]:
        """What was counted, keys as text, for JSON: ``user-1 -> csp``, ``user-1: compress``, ``user-1``."""
        tables = {name: {_text(key): n for key, n in getattr(self, name).items()} for name in ACCOUNTS}
        return {name: table for name, table in tables.items() if table}


ACCOUNTS = tuple(each.name for each in fields(Accounts))


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate(Accounts):
    """How exact a result is, verified before it was released, by which plan and versions; and the accounts."""

    plan_digest: Digest
    residual: float | None  # None where users opened no figure of it
    orthogonality: float
    rank: int
    versions: Mapping[str, str]
    why: str = ""  # the plan has its family and its mode

    def __repr__(self) -> str:
        found = f"residual={self.residual_text}, orthogonality={self.orthogonality:.1e}, rank={self.rank}"
        return f"Certificate(plan={self.plan_digest[:16]}, {found})"

    @property
    def residual_text(self) -> str:
        """The residual for a person."""
        return "not measured" if self.residual is None else f"{self.residual:.1e}"

    def record(self) -> dict[str, Any]:
        """The certificate as plain values, for JSON."""
        return {
            **{name: getattr(self, name) for name in _OWN},
            "versions": dict(self.versions),
            **{name: {} for name in ACCOUNTS},
            **self.accounts_record(),
            "bytes_total": self.bytes_total,
            "seconds_total": self.seconds_total,
        }


_OWN = ("plan_digest", "why", "residual", "orthogonality", "rank")


def certificate_from(record: Mapping[str, Any]) -> Certificate:
    """The certificate that ``record`` wrote; ``ValueError`` or ``KeyError`` for anything else."""
    accounts = accounts_from({name: record[name] for name in ACCOUNTS if name in record})
    plan_digest, versions = record["plan_digest"], record["versions"]
    if not isinstance(plan_digest, str) or not isinstance(versions, Mapping):
        raise ValueError("not a certificate")
    return Certificate(
        plan_digest=Digest(plan_digest),
        residual=None if record["residual"] is None else _amount(record["residual"]),
        orthogonality=_amount(record["orthogonality"]),
        rank=_count(record["rank"]),
        versions={str(name): str(version) for name, version in versions.items()},
        why=str(record.get("why", "")),
    ).with_accounts(accounts)


def accounts_from(record: Mapping[str, Any]) -> Accounts:
    """The accounts that ``accounts_record`` wrote; ``ValueError`` for anything else."""
    return Accounts(**{name: _table(name, record.get(name, {})) for name in ACCOUNTS})


def _table(name: str, said: object) -> dict[Any, Any]:
    if not isinstance(said, Mapping):
        raise ValueError(f"{name} is not a table")
    key_of, number_of = _FORMS[name]
    table = {key_of(key): number_of(number) for key, number in said.items()}
    if len(table) < len(said):
        raise ValueError(f"{name} counts one thing twice")
    return table


def _text(key: Party | Link | Stage) -> str:
    if isinstance(key, Party):
        return key.name
    origin, other = key
    return f"{origin.name} -> {other.name}" if isinstance(other, Party) else f"{origin.name}: {other}"


def _link(text: str) -> Link:
    origin, arrow, to = text.partition(" -> ")
    if not arrow:
        raise ValueError("not a link between two parties")
    return party_called(origin), party_called(to)


def _stage(text: str) -> Stage:
    party, colon, stage = text.partition(": ")
    if not colon or not stage:
        raise ValueError("not a stage of a party")
    return party_called(party), stage


def _count(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError("not a count")
    return number


def _amount(number: object) -> float:
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number < math.inf:
        raise ValueError("not an amount")
    return number


_FORMS: dict[str, tuple[Callable[[str], Party | Link | Stage], Callable[[object], float]]] = {
    "bytes_by_link": (_link, _count),
    "messages_by_link": (_link, _count),
    "seconds_by_stage": (_stage, _amount),
    "began_by_stage": (_stage, _amount),
    "bytes_by_kind": (_stage, _count),
    "peak_memory": (party_called, _count),
}
