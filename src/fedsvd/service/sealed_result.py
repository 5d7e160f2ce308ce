"""A party's result before it is signed: made once, hashed as it will be written, and finished when all have signed.

The session asks for the roots of its files (``results.file_tree``) before step 9; the same arrays and tables are
written after it, so that the files in the folder are those that were signed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedsvd.protocol.certificate import Accounts
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.results.file_tree import Leaf, leaves_of, roots_of, shared_only_leaves
from fedsvd.results.result import PartyResult, certificate_of
from fedsvd.results.signed_certificate import earlier_leaves
from fedsvd.results.tables import party_result, rank_of
from fedsvd.roles.user.agreement import Agreement, Roots
from fedsvd.service.enlist import OpenedData
from fedsvd.studies.job_file import Job
from fedsvd.studies.jobs import declared_outputs
from fedsvd.studies.submitted import submitted_file


class SealedResult:
    """One party's result of one study; the role calls it with what it computed."""

    def __init__(
        self,
        job: Job,
        plan: SessionPlan,
        me: Party,
        own: OpenedData,
        facts: dict[str, Any],
        before: Mapping[str, Agreement],
    ) -> None:
        self.me = me
        self._job, self._plan, self._own = job, plan, own
        self._facts, self._before = facts, before
        self._made: PartyResult | None = None
        self._leaves: dict[str, Leaf] = {}
        self._shared_only: dict[str, Leaf] = {}

    def __repr__(self) -> str:
        return f"SealedResult({self.me}, {len(self._leaves)} files)"

    def __call__(self, computed: Any) -> Roots:
        """The roots of the files that this result will be written as."""
        self._made = party_result(self._about(computed, Accounts()), self.me, computed, self._own.data)
        self._leaves = {**leaves_of(self._made), **earlier_leaves(self._before, self._made.names)}
        self._shared_only = shared_only_leaves(self._made)
        return roots_of(self._leaves, self._shared_only, self._made.outputs, self._plan.split)

    def finished(self, computed: Any, accounts: Accounts, agreement: Agreement | None) -> PartyResult:
        """The result to be written, with what all signed of it."""
        about = self._about(computed, accounts)
        made = self._made or party_result(about, self.me, computed, self._own.data)
        seen, rank = about.certificate.seen_by(self.me), rank_of(about, computed)
        made = replace(made, certificate=seen, rank=rank, created=about.created, before=self._before)
        proved = "" if agreement is None else agreement.order
        made = replace(made, agreement=agreement, proved=proved)
        return replace(made, leaves=self._leaves, shared_only=self._shared_only)

    def _about(self, computed: Any, accounts: Accounts) -> PartyResult:
        job = self._job
        return PartyResult(
            job=job.study.name,
            names=tuple(party.name for party in job.parties),
            plan=self._plan,
            certificate=certificate_of(self._plan, computed, accounts),
            targets=job.targets,
            id=job.study.id_name,
            why=self._plan.reason,
            file=submitted_file(job, every=True),
            facts={**job.study.about, **self._facts},
            outputs=declared_outputs(self._plan),
        )
