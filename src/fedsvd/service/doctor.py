"""Pre-flight: everything that would stop a job at this site, found before the job does, each with its fix.

First the kit and its files, then the way to the CSP, the machine, and the data as a job wants it. Nothing is changed,
and nothing of the data is sent anywhere.
"""

import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from fedsvd.errors import FedSVDError
from fedsvd.identity.certificates import REHEARSAL
from fedsvd.identity.kit import Kit
from fedsvd.identity.names import KitRole
from fedsvd.identity.request import SIGNING_KEY, TLS_KEY
from fedsvd.policy.rules import findings
from fedsvd.prepare.mapped import not_there, open_mapped
from fedsvd.protocol.budget import DEFAULT_MEMORY
from fedsvd.service.doctor_checks import (
    Check,
    Host,
    attempt,
    examine_machine,
    examine_network,
    failed,
    of_error,
    passed,
    this_machine,
)
from fedsvd.service.enlist import OpenedData, member_callers, open_data
from fedsvd.service.foreseen import plan_alone
from fedsvd.service.self_check import expect_well
from fedsvd.service.serve import LISTEN
from fedsvd.service.site import Site
from fedsvd.studies.job_file import Job
from fedsvd.studies.problems import at_a_site


def examine(
    directory: Path,
    *,
    job: Job | None = None,
    csp: str | None = None,
    now: datetime | None = None,
    machine: Host | None = None,
) -> Iterator[Check]:
    """Every check of a kit, and of a job with it; ``csp`` is where the CSP is, if not where site.toml says."""
    yield from _modes(directory)
    try:
        site = Site(Kit.read(directory))
    except FedSVDError as error:
        yield of_error("kit", error)
        return
    yield passed("kit", f"keys and certificate of {site.kit.identity} belong together")
    if site.kit.rehearsal:
        yield passed("rehearsal", REHEARSAL)
    yield from _expiry(site, now or datetime.now(UTC))
    settings = list(attempt("site.toml", lambda: f"{len(site.settings().model_fields_set)} settings"))
    yield from settings
    if site.kit.identity.role is KitRole.PARTY:
        yield from attempt("policy", lambda: _policy(site))
    if not settings[0].ok:
        return
    yield from _way(site, csp)
    memory = (job.study.memory if job is not None else None) or DEFAULT_MEMORY
    yield from examine_machine(machine or this_machine(directory), memory)
    if site.kit.identity.role is KitRole.PARTY:
        yield from map(_at_a_site, _data(site, job))
    if job is not None:
        yield from _members(site, job)


def examine_itself(directory: Path) -> Iterator[Check]:
    """Whether the role of this kit runs on this machine and answers."""

    def well() -> str:
        site = Site(Kit.read(directory))
        return expect_well(site, site.listen(LISTEN))

    yield from attempt("self", well)


def _modes(directory: Path) -> Iterator[Check]:
    for name in (TLS_KEY, SIGNING_KEY):
        path = directory / name
        if path.exists() and path.stat().st_mode & 0o077:
            mode = path.stat().st_mode & 0o777
            yield failed(
                "modes", f"others can read {path} (mode {mode:o})", f"chmod 600 {path}; if they did, revoke it"
            )
            return
    if directory.is_dir() and directory.stat().st_mode & 0o022:
        yield failed("modes", f"others can put files into {directory}", f"chmod 700 {directory}")
    else:
        yield passed("modes", "keys are for their owner alone")


def _expiry(site: Site, now: datetime) -> Iterator[Check]:
    warnings = site.kit.warnings(now)
    for warning in warnings:
        text, _, fix = warning.partition("; ")
        yield failed("expiry", text, fix)
    if not warnings:
        yield passed("expiry", f"the certificate is good until {site.kit.certificate.not_valid_after_utc:%Y-%m-%d}")


def _policy(site: Site) -> str:
    policy = site.policy()
    return f"{policy.parties_for_full} parties and {policy.records_for_full} records at least for U and S"


def _way(site: Site, csp: str | None) -> Iterator[Check]:
    if site.kit.identity.role is KitRole.CSP:
        yield _port(site.listen(LISTEN))
        return
    try:
        address = site.address(csp)
    except FedSVDError as error:
        yield of_error("address", error)
        return
    yield from examine_network(site, address)


def _port(address: str) -> Check:
    """Whether the CSP can listen where it should."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_server((host.strip("[]"), int(port))):
            return passed("port", f"{address} is free")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not host:port"
        fix = 'stop what uses it (a running CSP is fine), or site.toml: [csp] listen = "0.0.0.0:7443"'
        return failed("port", f"cannot listen at {address}: {why}", fix)


def _data(site: Site, job: Job | None) -> Iterator[Check]:
    if job is None:
        default = site.settings().data.get("default")
        if default is not None:
            yield from attempt("data", lambda: _opened(site, site.kit.directory / default))
        return
    try:
        own = open_data(job, site.kit.identity.party_id, site.data(job), site.scratch(), site.tables())
        faults = own.data.table.faults()
    except FedSVDError as error:
        yield of_error("data", error)
        return
    if faults:
        yield from (of_error("data", fault) for fault in faults)
        return
    rows, columns = own.data.table.shape
    yield passed("data", f"{rows} rows x {columns} columns, every entry a number; label here: {own.facts.label}")
    yield from _allowed(site, job, own)


def _at_a_site(check: Check) -> Check:
    """The check in the words of site.toml."""
    return replace(check, text=at_a_site(check.text), fix=at_a_site(check.fix))


def _opened(site: Site, path: Path) -> str:
    words = site.tables().map
    table = open_mapped(path, words, site.scratch())
    mapped = ", mapped by [table] of site.toml" if words.sentences() else ""
    astray = "".join(f"; {text}" for text in not_there(table, words))
    return f"{path.name}: {table.shape[0]} rows x {table.shape[1]} columns{mapped}{astray}"


def _allowed(site: Site, job: Job, own: OpenedData) -> Iterator[Check]:
    """Whether the owner's policy allows the job, as far as this site knows: the others' sizes are not known here."""
    try:
        found = findings(
            plan_alone(job, site.caller, own.facts.also(site.facts())), replace(site.policy(), enforce=True)
        )
    except FedSVDError as error:
        yield of_error("plan", error)
        return
    for finding in found:
        if finding.below:
            yield failed("release", str(finding), "change the job, or policy.toml if you agree to it")
    if not any(finding.below for finding in found):
        yield passed(
            "release",
            "nothing against this job in what is known here; others' sizes are not, and are judged when they enlist",
        )


def _members(site: Site, job: Job) -> Iterator[Check]:
    members = member_callers(job)
    takes_part = site.kit.identity.role in (KitRole.PARTY, KitRole.AUTHORITY)
    if not takes_part:
        return
    if site.caller not in members:
        yield failed("members", f"{site.caller} is not in this job", f"its members are {', '.join(members)}")
        return
    pins = site.kit.pins()
    missing = [member for member in members if member not in pins]
    if missing:
        fix = "ask their owners for the fingerprints of their keys: fedsvd join pin, or fedsvd job approve"
        yield failed("members", f"not pinned: {', '.join(missing)}", fix)
    else:
        yield passed("members", f"{len(members)} members, all pinned")
