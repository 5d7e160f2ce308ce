"""What a site brought to earlier studies and matchings, and whether one more may begin (``policy/earlier_studies.py``).

The same table is compared at every session of a job, as the site itself calls and codes it. Where records are matched
first, which of them a study is about is known after the matching: until then the table is only held against what was
approved, and the records that are common are compared when the study begins.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from fedsvd.errors import ReleaseRefused
from fedsvd.policy.earlier_matchings import EarlierMatchings
from fedsvd.policy.earlier_rules import organisation_findings
from fedsvd.policy.earlier_studies import Asked, Brought, EarlierStudies
from fedsvd.policy.learned import full_outputs
from fedsvd.policy.rules import Policy, settled
from fedsvd.protocol.plan import SessionPlan
from fedsvd.service.approvals import Approval, Approvals, expect_covered
from fedsvd.service.enlist import OpenedData, organisation, party_caller, plain_id
from fedsvd.service.records import JobRecord


@dataclass(frozen=True, repr=False)
class SiteMemory:
    """The memory of one party, with its policy."""

    folder: Path
    me: str  # the party's name
    policy: Policy
    approvals: Approvals

    def compare(self, record: JobRecord, own: OpenedData, plan: SessionPlan | None = None) -> Brought:
        """This data, read and compared with that of all earlier studies."""
        job, policy = record.job, self.policy
        roster = frozenset(organisation(record, party_caller(party.name)) for party in job.parties)
        full = plan is not None and full_outputs(plan)
        complete = all(party_caller(party.name) in record.enlisted for party in job.parties)
        asked = Asked(plain_id(record.id), job.study.split, roster, full, complete)
        studies, unjudged = EarlierStudies(self.folder), replace(policy, least_changed=0)
        if own.unmatched:
            return studies.compare(asked, own.data.remembered or own.data, unjudged, reading=own.reading)
        brought = studies.compare(asked, own.data.remembered or own.data, policy, reading=own.reading)
        if own.before_matching is not None:
            whole = own.before_matching.remembered or own.before_matching
            brought = replace(brought, source=studies.compare(asked, whole, unjudged, reading=own.reading).source)
        found = () if plan is None or not complete else organisation_findings(plan, len(roster), policy)
        return replace(brought, found=settled((*found, *brought.found), policy))

    def fresh(self, record: JobRecord, own: OpenedData, plan: SessionPlan | None, approval: Approval | None) -> Brought:
        """This data is what was approved, and gives no record or party away with that of an earlier study."""
        brought = self.compare(record, own, plan)
        expect_covered(approval, brought)
        if approval is not None:
            self.approvals.bring(approval, brought.source)
        return brought

    def bring(self, record: JobRecord, own: OpenedData, plan: SessionPlan, approval: Approval | None) -> None:
        """The same, and from now on it is an earlier study; no other study of this site is compared meanwhile, or two
        at once would each not know of the other."""
        studies = EarlierStudies(self.folder)
        with studies.alone():
            brought = self.fresh(record, own, plan, approval)
            if plan.matches:
                self._begin_matching(record, plan)
            studies.begin(brought)
        if own.reading is not None:
            own.reading.clear()

    def _begin_matching(self, record: JobRecord, plan: SessionPlan) -> None:
        names, matchings = tuple(party.name for party in record.job.parties), EarlierMatchings(self.folder)
        sizes = dict(zip(names, plan.counts, strict=True))
        found = matchings.findings(self.me, sizes, self.policy)
        if found:
            raise ReleaseRefused(
                f"this matching is below your policy: {found[0]}", "ask why, or change policy.toml if you agree to it"
            )
        matchings.begin(plain_id(record.id), plan, names)

    def matched(self, record: JobRecord, common: int) -> None:
        """A matching came to its end."""
        EarlierMatchings(self.folder).end(plain_id(record.id), common)
