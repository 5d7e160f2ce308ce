"""What a party finds against a study in its own table, before anything is sent: for its owner alone.

``home_findings`` is the one list of everything that only the party itself can judge; approvals, sessions and runs in
one process all take it. Rows are measured here as the study would sum them, and judged by ``policy/own_rows.py``.
"""

from collections.abc import Sequence

import numpy as np

from fedsvd.errors import DataError, ReleaseRefused, warn_caller
from fedsvd.policy.own_rows import OwnRows, row_findings
from fedsvd.policy.rules import Finding, Policy, findings, settled
from fedsvd.protocol.openings import opened
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import What
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.parties import PartyData, expect_readable
from fedsvd.types import Float


def home_findings(plan: SessionPlan, party: PartyData, policy: Policy) -> tuple[Finding, ...]:
    """What waits for the owner's answer in this plan, and what the party's own table says against it."""
    asked = (finding for finding in findings(plan, policy) if finding.asks)
    return settled((*asked, *_of_rows(plan, party, policy)), policy)


def guard_rows(plan: SessionPlan, parties: Sequence[PartyData], policy: Policy) -> None:
    """All parties' own tables, in one process: refused where the policy is enforced, warned of elsewhere.

    Asks are silent: the one person who has all tables would be asked about its own.
    """
    if not (policy.enforce or policy.warn):
        return
    found: dict[Finding, list[int]] = {}
    try:
        for index, party in enumerate(parties, start=1):
            for finding in home_findings(plan, party, policy):
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


def _of_rows(plan: SessionPlan, party: PartyData, policy: Policy) -> tuple[Finding, ...]:
    """What its rows say; nothing where columns are split, or nothing of the study's own is summed yet."""
    if plan.split is not Split.HORIZONTAL or plan.task is Task.PREPARE:
        return ()
    return row_findings(_measured(plan, party), policy)


def _measured(plan: SessionPlan, party: PartyData) -> OwnRows:
    clusters: tuple[int, ...] = ()
    if party.clusters is not None and What.COUNT in opened(plan):
        clusters = tuple(np.unique(party.clusters, return_counts=True)[1].tolist())
    offset = _offset(plan, party)
    return OwnRows(clusters, 0.0 if offset is None else float(np.max(np.abs(offset), initial=0.0)))


def _offset(plan: SessionPlan, party: PartyData) -> Float | None:
    """The offset of a model whose link is not the identity, which stands next to the label."""
    model = plan.glm
    if model is None or party.labels is None or not model.offset or model.link == "identity":
        return None
    return party.labels[:, 1]
