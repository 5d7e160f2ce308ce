"""What an owner looks at before it approves a job: what would leave the site, who the others are, what all can derive.

The plan is not made yet: it follows from all parties' shapes, and the others may not have sent theirs. Where one has
not, it is taken to be as large as ours, and the approval says so; the plan itself is judged by the owner's policy once
more when all shapes are known, before anything of the data leaves.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from fedsvd.errors import NotAuthenticated, ReleaseRefused
from fedsvd.identity.kit import check_peer
from fedsvd.identity.names import KitRole, grouped
from fedsvd.identity.pins import pin
from fedsvd.policy.earlier_studies import Brought
from fedsvd.policy.rules import Finding, findings
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split
from fedsvd.service.enlist import OpenedData, member_callers, open_data, party_caller, plan_of
from fedsvd.service.records import EnlistedFacts, JobRecord
from fedsvd.service.site import Site
from fedsvd.studies.doubts import of_own
from fedsvd.studies.job_file import Job
from fedsvd.studies.job_stages import Stage
from fedsvd.types import SessionId

_NO_SESSION = SessionId("0" * 32)


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

    @property
    def party_id(self) -> str:
        return self.member.partition("/")[2]


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

    def expect_allowed(self) -> None:
        """Raise where the owner's policy does not allow this job as far as it is known."""
        below = [str(finding) for finding in self.found if finding.below]
        if below:
            raise ReleaseRefused(
                f"this job is below your policy: {'; '.join(below)}", "refuse it, or change policy.toml and ask again"
            )

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
        raise NotAuthenticated("the members in the CSP's record are not those of the job", "stop and ask the CSP")
    members = (_peer(site, record, member, certificates) for member in record.members if member != site.caller)
    peers = (_csp(site, csp), *members)
    if site.kit.identity.role is not KitRole.PARTY:
        return Considered(record, job, peers)
    path = site.data(job)
    where = path, site.scratch(), site.rename()
    opened = partial(open_data, job, site.kit.identity.party_id, *where, link=site.link(job))
    own = opened(alone=True)
    known = record.enlisted if record.stage is Stage.STUDY else {}
    plan = assumed_plan(job, site, own, known, record.certain_bound)
    sessions = []
    for stage in record.stages[:-1]:
        known = record.enlisted if record.stage is stage else {}
        sessions.append(assumed_plan(job, site, opened(stage=stage), known, stage=stage))
    others = [party_caller(party.name) for party in job.parties if party_caller(party.name) != site.caller]
    assumed = tuple(member.partition("/")[2] for member in others if member not in record.enlisted)
    doubts = tuple(of_own(plan.task, own.data, job.targets))
    brought = site.compare(record, own, plan)
    judged = dict.fromkeys(each for session in (*sessions, plan) for each in findings(session, site.policy()))
    found = (*judged, *brought.found, *_unlike(brought))
    prepared = "" if own.data.prepared is None else str(own.data.prepared)
    about: dict[str, Any] = {
        "data": path,
        "plan": plan,
        "before_it": tuple(sessions),
        "assumed": assumed,
        "found": found,
    }
    about |= {"assumed": assumed, "found": found, "doubts": doubts, "brought": brought}
    about |= {"before": site.history(record), "prepared": prepared}
    return Considered(record, job, peers, **about)


def _unlike(brought: Brought) -> tuple[Finding, ...]:
    """What only the owner knows: whether records that cannot be compared are others."""
    if not brought.unlike:
        return ()
    text = (
        f"all columns of this data have other values than {len(brought.unlike)} earlier version(s) with the same "
        "names. Approve only if these are other records: the same records in other units, less one, give that one away"
    )
    return (Finding("re-run", text, below=False),)


def assumed_plan(
    job: Job,
    site: Site,
    own: OpenedData,
    enlisted: Mapping[str, EnlistedFacts],
    certain_bound: bool = False,
    stage: Stage = Stage.STUDY,
) -> SessionPlan:
    """The plan of a stage from our own shapes and those that are known; the rest taken to be as ours."""
    facts = {**_assumed(job, site.caller, own.facts), **enlisted, site.caller: own.facts.also(site.facts())}
    return plan_of(job, facts, _NO_SESSION, certain_bound, stage=stage)


def agree(site: Site, considered: Considered, compared: Collection[str]) -> None:
    """The owner says yes: the new keys, all of which it compared, are pinned; the job is approved as it stands."""
    considered.expect_all_known()
    considered.expect_allowed()
    considered.expect_compared(compared)
    for peer in considered.new:
        pin(site.kit.directory, peer.party_id, peer.fingerprint)
    brought = considered.brought
    if brought is None:
        site.approve(considered.record)
    else:
        site.approve(considered.record, brought.source, brought.unlike)


def _csp(site: Site, certificate: bytes) -> Peer:
    """The CSP, which computes for this job: a pin prevents the operator from putting another in its place."""
    identity = site.expect_csp(certificate)
    standing = Standing.PINNED if identity.party_id in site.kit.pins() else Standing.NEW
    return Peer(str(identity), standing, identity.fingerprint)


def _peer(site: Site, record: JobRecord, member: str, certificates: Mapping[str, str]) -> Peer:
    pins, party_id = site.kit.pins(), member.partition("/")[2]
    certificate = certificates.get(member) or record.enlisted.get(member, EnlistedFacts()).certificate
    if not certificate:
        standing = Standing.PINNED if party_id in pins else Standing.UNSEEN
        return Peer(member, standing, pins.get(party_id, ""))
    identity = check_peer(site.kit, certificate.encode(), (KitRole.PARTY, KitRole.AUTHORITY), datetime.now(UTC))
    if str(identity) != member:
        raise NotAuthenticated(f"the CSP shows the certificate of {identity} for {member}", "stop and ask the CSP")
    return Peer(member, Standing.PINNED if party_id in pins else Standing.NEW, identity.fingerprint)


def _assumed(job: Job, caller: str, own: EnlistedFacts) -> dict[str, EnlistedFacts]:
    """Facts for members who have sent none: as large as ours, and the label with one of them."""
    facts: dict[str, EnlistedFacts] = {}
    labelled = own.label or job.study.split is Split.HORIZONTAL
    for number, member in enumerate(member_callers(job)):
        name = member.partition("/")[2]
        label = job.study.split is Split.HORIZONTAL or name == job.study.label_party
        if not labelled and job.study.label_party is None and member != caller:
            label = labelled = True
        facts[member] = own.also(EnlistedFacts(label=label, signing=f"{number:064x}"))
    return facts
