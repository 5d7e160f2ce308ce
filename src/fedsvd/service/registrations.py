"""Which tables a site registered by which dictionary, and which studies it forgot: ``state/tables.jsonl``.

A registration is a dictionary's digest, the file with its stamp, and how many records it had: enough to see later
whether the table, or the dictionary, is still the one that its owner checked. Nothing of it is sent.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.policy.table_memory import TableMemory
from fedsvd.prepare.described import Shortfall, shortfalls
from fedsvd.prepare.dictionary import FILE, Dictionary, read_dictionary
from fedsvd.prepare.mapped import open_mapped
from fedsvd.service.site import Site
from fedsvd.storage import private
from fedsvd.storage.file_stamp import file_stamp
from fedsvd.storage.journal import AuditLog, Journal


@dataclass(frozen=True)
class Registered:
    """A table that was compared with a dictionary."""

    dictionary: Dictionary
    records: int
    found: tuple[Shortfall, ...]


def register(site: Site, data: Path, path: Path, replace: bool = False) -> Registered:
    """Compare a table of this site with a dictionary; if it fits, that dictionary is the site's from now on."""
    dictionary, own = read_dictionary(path), site.tables().dictionary
    if own is not None and own.digest != dictionary.digest and not replace:
        raise ConfigError(
            f"this site has the dictionary {own.shown}, and {path} is {dictionary.shown}: they differ in "
            f"{own.difference(dictionary)}",
            "--replace, if the consortium agreed on the new one",
        )
    source = open_mapped(data, site.tables().map, site.scratch())
    least = site.policy().least_count
    found = tuple(shortfalls(source, dictionary, least, by_name=True))
    if any(each.refused for each in found):
        return Registered(dictionary, source.shape[0], found)
    private.replace(site.kit.directory / FILE, path.read_bytes())
    stamp = file_stamp(data)
    _journal(site).append(
        {
            "event": "registered",
            "when": _now(),
            "file": str(data),
            "stamp": None if stamp is None else list(stamp),
            "records": source.shape[0],
            "dictionary": dictionary.digest,
            "name": dictionary.name,
        }
    )
    return Registered(dictionary, source.shape[0], found)


def history(site: Site) -> list[dict[str, Any]]:
    """What was registered, and to which studies this site brought a table, oldest first."""
    studies = TableMemory(site.state / "records").studies()
    return sorted([*_journal(site).records(), *studies], key=lambda each: str(each["when"]))


def forget(site: Site, study: str, now: datetime | None = None) -> str:
    """Forget a study that began long enough ago: later ones are not compared with it. Its id is returned."""
    run = TableMemory(site.state / "records").forget(study, now or datetime.now(UTC))
    _journal(site).append({"event": "forgotten", "when": _now(), "run": run})
    AuditLog(site.state / "audit.jsonl").write(_now(), "table.forget", job=run)
    return run


def _journal(site: Site) -> Journal:
    return Journal(site.state / "tables.jsonl")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
