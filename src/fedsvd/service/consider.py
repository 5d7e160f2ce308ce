"""What an owner looks at before it approves a job: what would leave the site, who the others are, what all can derive.

The plan is not made yet: it follows from all parties' shapes, and the others may not have sent theirs. Where one has
not, it is taken to be as large as ours, and the approval says so; all sessions of the job are judged by the owner's
policy once more when all shapes are known, before anything of the data leaves (``foreseen.py``).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from fedsvd.errors import ConfigError, NotAuthenticated, ReleaseRefused
from fedsvd.identity.kit import check_peer
from fedsvd.identity.names import KitRole, grouped
from fedsvd.identity.pins import pin
from fedsvd.policy.rules import Finding, findings, keys_of, settled
from fedsvd.protocol.parties import named
from fedsvd.protocol.plan import SessionPlan
from fedsvd.service.approvals import researcher_gets
from fedsvd.service.enlist import member_callers, open_data, party_caller
from fedsvd.service.foreseen import at_the_least, bounds, stage_plan, study_plan
from fedsvd.service.records import EnlistedFacts, JobRecord, JobState
from fedsvd.service.site import Site
from fedsvd.service.site_memory import Brought
from fedsvd.service.submitter import submitter_of
from fedsvd.studies.doubts import of_own
from fedsvd.studies.foreign import installed_findings
from fedsvd.studies.job_file import Job
from fedsvd.studies.own_columns import OwnColumn
from fedsvd.studies.problems import at_a_site


class Standing(StrEnum):
    """What we know of another member's key."""

    PINNED = "pinned"
    NEW = "new"  # shown; pinned by approving, once its owner has confirmed it
    UNSEEN = "not seen yet"


@dataclass(frozen=True)
class Peer:
    """Another member of a job; ``fingerprint`` of its key, where it is known."""

    member: str
    standing: Standing
    fingerprint: str = ""


@dataclass(frozen=True)
class Considered:
    """A job as its owner sees it before saying yes; no plan where this kit brings no data."""

    record: JobRecord
    job: Job
    peers: tuple[Peer, ...]  # the CSP first
    data: Path | str | None = None
    plan: SessionPlan | None = None
    before_it: tuple[SessionPlan, ...] = ()  # of the sessions before the study: matching, joint preparation
    assumed: tuple[str, ...] = ()  # parties whose shapes are not known yet
    found: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()  # about our own data, for its owner alone
    brought: Brought | None = None  # the data as it was read for this look
    before: str = ""  # what became of an earlier approval of this job
    prepared: str = ""  # what was done to our own table, for its owner alone
    unsigned: str = ""  # why the researcher's signature does not hold; empty where it does
    columns: tuple[OwnColumn, ...] = ()  # of our own table that are taken, for its owner alone
    mapped: tuple[str, ...] = ()  # how our own table is read as a whole, likewise
    bounds: str = ""  # what of the study's size follows from an earlier session

    def expect_allowed(self) -> None:
        """Raise where the owner's policy does not allow this job as far as it is known."""
        below = [finding for finding in self.found if finding.below]
        if below:
            names = tuple(party.name for party in self.job.parties)
            raise ReleaseRefused(
                f"this job is below your policy: {'; '.join(named(str(finding), names) for finding in below)}",
                f"refuse it, or change policy.toml{keys_of(below)} if you agree to it, and approve again",
            )

    @property
    def asks(self) -> tuple[Finding, ...]:
        """What waits for the owner's own answer."""
        return tuple(finding for finding in self.found if finding.asks)

    def expect_nothing_asked(self) -> None:
        """Raise where a person must answer: ``--yes`` never does."""
        if self.asks:
            raise ReleaseRefused(
                f"this job asks its owner: {'; '.join(map(str, self.asks))}",
                "read it and approve without --yes; or change policy.toml if you agree to it always",
            )

    def expect_signed(self) -> None:
        """Raise unless the researcher signed this job as it stands."""
        if self.unsigned:
            raise NotAuthenticated(self.unsigned, "do not approve it; ask the researcher, then the operator of the CSP")

    def expect_all_known(self) -> None:
        """Raise while the key of a member is not known: it could be of any key holder."""
        unseen = [peer.member for peer in self.peers if peer.standing is Standing.UNSEEN]
        if unseen:
            raise NotAuthenticated(
                f"{', '.join(unseen)} has not called the CSP yet, and is not pinned",
                "approve once it has, or ask its owner for the key's fingerprint: fedsvd join pin",
            )

    def expect_compared(self, fingerprints: Collection[str]) -> None:
        """Raise unless every new key is among these, which the owner compared, and each of these is a key of this job.

        A fingerprint that no member has was read out by an owner whose place another key takes here.
        """
        shown = {peer.fingerprint for peer in self.peers}
        foreign = [grouped(digits) for digits in fingerprints if digits not in shown]
        if foreign:
            raise NotAuthenticated(
                f"no member of this job has the key {', '.join(foreign)}",
                "compare the fingerprints once more; if the owner stands by it, stop and ask the operator of the CSP",
            )
        new = [peer for peer in self.new if peer.fingerprint not in fingerprints]
        if new:
            keys = "; ".join(f"{peer.member} has {grouped(peer.fingerprint)}" for peer in new)
            raise NotAuthenticated(
                f"{len(new)} of {len(self.peers)} keys are new here, and were not compared with their owners: {keys}",
                "ask each owner what `fedsvd join show` prints there, by telephone or in person; then name every key "
                'that is the same: --pin "FINGERPRINT". Or leave --yes out, to be asked',
            )

    @property
    def new(self) -> tuple[Peer, ...]:
        """The members whose keys are not pinned yet."""
        return tuple(peer for peer in self.peers if peer.standing is Standing.NEW)


def consider(site: Site, record: JobRecord, csp: bytes, certificates: Mapping[str, str]) -> Considered:
    """Look at a job; ``certificates`` are those its members came to the CSP with, ``csp`` is the CSP's own. A key
    that is not the pinned one is refused here."""
    job = record.job
    if site.caller not in record.members:
        raise NotAuthenticated(f"{site.caller} takes no part in this job", "approve it with the kit of one who does")
    if record.members != member_callers(job):
        raise NotAuthenticated(
            "the members in the CSP's record are not those of the job", "stop and ask the operator of the CSP"
        )
    if record.state in (JobState.DONE, JobState.STOPPED):
        raise ConfigError(
            f"job {record.short} is {record.state}: nothing is left to approve",
            "fedsvd job results shows what became of it; to have the study again, submit it as a new job",
        )
    members = (_peer(site, record, member, certificates) for member in record.members if member != site.caller)
    submitter, unsigned = _submitter(site, record)
    peers = (_csp(site, csp), *submitter, *members)
    if site.kit.identity.role is not KitRole.PARTY:
        return Considered(record, job, peers, unsigned=unsigned)
    path = site.data(job)
    where = path, site.scratch(), site.tables()
    opened = partial(
        open_data, job, site.kit.identity.party_id, *where, link=site.link(job), recognise=site.recognise()
    )
    own = opened(alone=True)
    ours = own.facts.also(site.facts())
    plan = study_plan(record, site.caller, ours)
    sessions = [
        stage_plan(record, site.caller, opened(stage=stage).facts.also(site.facts()), stage)
        for stage in record.stages[:-1]
    ]
    others = [party_caller(party.name) for party in job.parties if party_caller(party.name) != site.caller]
    assumed = tuple(member.partition("/")[2] for member in others if member not in record.enlisted)
    doubts = (*(at_a_site(text) for text in of_own(plan.task, own.data, job.targets)), *own.waiting)
    brought = site.compare(record, own, plan)
    judged = dict.fromkeys(each for session in (*sessions, plan) for each in findings(session, site.policy()))
    few = at_the_least(record, site.caller, ours, site.policy())
    # Which records a study is about, a matching says first: they are judged when it begins.
    rows = site.by_none(record) if own.unmatched else site.home_findings(record, own, plan)
    there = (*judged, *installed_findings(plan, site.policy()), *few, *brought.found, *rows)
    found = tuple(dict.fromkeys(settled(there, site.policy())))
    prepared = "" if own.data.prepared is None else str(own.data.prepared)
    about: dict[str, Any] = {"data": path, "plan": plan, "before_it": tuple(sessions), "columns": own.columns}
    about |= {
        "mapped": tuple(site.tables().map.lines()),
        "assumed": assumed,
        "found": found,
        "doubts": doubts,
        "brought": brought,
    }
    about |= {"before": site.history(record), "prepared": prepared, "bounds": bounds(record), "unsigned": unsigned}
    return Considered(record, job, peers, **about)


def agree(site: Site, considered: Considered, compared: Collection[str], researcher: str | None = None) -> None:
    """The owner says yes: the new keys, all of which it compared, are pinned; the job is approved as it stands.

    ``researcher`` is the owner's answer to what the researcher gets; None for what the policy says.
    """
    given = researcher_gets(site.policy(), researcher)
    considered.expect_signed()
    considered.expect_all_known()
    considered.expect_allowed()
    considered.expect_compared(compared)
    for peer in considered.new:
        pin(site.kit.directory, peer.member, peer.fingerprint)
    brought = considered.brought
    if brought is None:
        site.approvals().give(considered.record)
    else:
        answered = tuple(dict.fromkeys(finding.rule for finding in considered.asks))
        site.approvals().give(considered.record, brought.source, given, answered)


def _csp(site: Site, certificate: bytes) -> Peer:
    """The CSP, which computes for this job: a pin prevents the operator from putting another in its place."""
    identity = site.expect_csp(certificate)
    standing = Standing.PINNED if str(identity) in site.kit.pins() else Standing.NEW
    return Peer(str(identity), standing, identity.fingerprint)


def _submitter(site: Site, record: JobRecord) -> tuple[tuple[Peer, ...], str]:
    """The researcher who signed this job, and why its signature does not hold, where it does not."""
    try:
        identity = submitter_of(site.kit, record)
    except NotAuthenticated as fault:
        return (), fault.fault
    standing = Standing.PINNED if str(identity) in site.kit.pins() else Standing.NEW
    return (Peer(str(identity), standing, identity.fingerprint),), ""


def _peer(site: Site, record: JobRecord, member: str, certificates: Mapping[str, str]) -> Peer:
    pins = site.kit.pins()
    certificate = certificates.get(member) or record.enlisted.get(member, EnlistedFacts()).certificate
    if not certificate:
        standing = Standing.PINNED if member in pins else Standing.UNSEEN
        return Peer(member, standing, pins.get(member, ""))
    identity = check_peer(site.kit, certificate.encode(), (KitRole.PARTY, KitRole.AUTHORITY), datetime.now(UTC))
    if str(identity) != member:
        raise NotAuthenticated(
            f"the CSP shows the certificate of {identity} for {member}", "stop and ask the operator of the CSP"
        )
    return Peer(member, Standing.PINNED if member in pins else Standing.NEW, identity.fingerprint)
