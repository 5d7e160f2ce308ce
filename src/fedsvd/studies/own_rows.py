"""What a party finds against a study in its own table, before anything is sent: for its owner alone.

``home_findings`` is the one list of everything that only the party itself can judge; approvals, sessions and runs in
one process all take it. Rows are measured in ``measured_rows.py`` and judged by ``policy/own_rows.py``.
"""

import math
from collections.abc import Sequence

from fedsvd.errors import DataError, ReleaseRefused, warn_caller
from fedsvd.policy.bits_held import Earlier, most_bits
from fedsvd.policy.own_rows import UNJUDGED, OwnRows, row_findings, together_findings
from fedsvd.policy.rules import ANY, Finding, Policy, findings, settled
from fedsvd.protocol.plan import SessionPlan
from fedsvd.studies.measured_rows import is_judged, measured
from fedsvd.studies.opened_before import Before, earlier_bits, together
from fedsvd.studies.opened_cells import tables_together
from fedsvd.studies.opened_times import times_together
from fedsvd.studies.own_bits import as_between, findings_of_bits, judged_at_home, measured_ways
from fedsvd.studies.parties import PartyData, expect_readable
from fedsvd.studies.table_cells import cells_together


def home_findings(
    plan: SessionPlan, party: PartyData, policy: Policy, before: Before | None = None, beforehand: int = 0
) -> tuple[Finding, ...]:
    """What waits for the owner's answer in this plan, and what the party's own table says against it, after what
    studies ``before`` it opened of the same table; and bits that sessions of this job opened ``beforehand``."""
    asked = tuple(finding for finding in findings(plan, policy) if finding.asks)
    rows = _of_rows(plan, party, policy)
    if before is not None and policy.most_leverage < UNJUDGED and is_judged(plan):
        if plan.table is not None:
            rows += row_findings(cells_together(plan, party, before.columns, before.record, policy), policy)
            cells = tables_together(plan, party, before.columns, before.record, policy)
            rows += row_findings(OwnRows(grids=cells), policy)
        times = times_together(plan, party, before.columns, before.record, policy)
        rows += row_findings(OwnRows(grids=times), policy)
        rows += together_findings(together(plan, party, before, policy), policy)
    earlier = _earlier(plan, party, policy, before, beforehand)
    return settled((*asked, *rows, *findings_of_bits(plan, party, policy, earlier)), policy)


def home_grant(
    plan: SessionPlan, party: PartyData, policy: Policy, before: Before | None = None, beforehand: int = 0
) -> float:
    """Bits of a study by few digits at which this party ends the session."""
    if not plan.few_digits or not judged_at_home(plan, policy):
        return math.inf
    earlier = _earlier(plan, party, policy, before, beforehand)
    return min(most_bits(plan, own, policy, earlier) for own in measured_ways(plan, party))


def _earlier(
    plan: SessionPlan, party: PartyData, policy: Policy, before: Before | None, beforehand: int
) -> tuple[Earlier, ...]:
    """What was opened of the same table: by earlier studies, and by sessions of this job."""
    earlier = () if before is None or policy.openings == ANY else earlier_bits(plan, party, before)
    return (*earlier, *((Earlier(beforehand, {}),) if beforehand else ()))


def guard_rows(plan: SessionPlan, parties: Sequence[PartyData], policy: Policy) -> None:
    """All parties' own tables, in one process: refused where the policy is enforced, warned of elsewhere.

    Asks are silent: the one person who has all tables would be asked about its own.
    """
    if not (policy.enforce or policy.warn):
        return
    found: dict[Finding, list[int]] = {}
    try:
        for index, party in enumerate(parties, start=1):
            of_bits = findings_of_bits(as_between(plan, policy), party, policy)
            for finding in (*_of_rows(plan, party, policy, refusals=True), *of_bits):
                if finding.below:
                    found.setdefault(finding, []).append(index)
    except DataError:
        expect_readable(parties)  # names every bad table and its party, not the first fault alone
        raise
    texts = [
        f"{finding.rule}: at {', '.join(f'party {index}' for index in who)}, {finding.text}"
        for finding, who in found.items()
    ]
    if policy.enforce and texts:
        raise ReleaseRefused(
            f"this study is below the policy: {'; '.join(texts)}", "change the study, or the policy, and ask again"
        )
    for text in texts if policy.warn else ():
        warn_caller(text)


def _of_rows(plan: SessionPlan, party: PartyData, policy: Policy, refusals: bool = False) -> tuple[Finding, ...]:
    """What its rows say; nothing where no single record is in a sum that others see."""
    if policy.most_leverage >= UNJUDGED or not is_judged(plan):
        return ()
    return row_findings(measured(plan, party, policy, refusals), policy)
