"""The audit of a plan on an owner's own data: all attacks that apply, within a time budget, worst news first."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from fedsvd.audit import against_csp, against_users
from fedsvd.audit.attacks.view import Recorded
from fedsvd.audit.finding import Finding, Verdict
from fedsvd.audit.subject import Audited, audited
from fedsvd.data.source import MatrixSource
from fedsvd.errors import PrivacyWarning
from fedsvd.policy.learned import masks_are_haar
from fedsvd.policy.rules import what_each_role_learns
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Mode
from fedsvd.studies.job_file import Job
from fedsvd.studies.planning import plan_study

BUDGET = 240.0
MOST_RUNS = 12
_FEWEST_RUNS = 3
Report = Callable[[str], None]


@dataclass(frozen=True, repr=False)
class Audit:
    """Everything that was found, and what is recommended."""

    subject: Audited
    plan: SessionPlan
    findings: tuple[Finding, ...]
    recommended: str
    why: str
    seconds: float

    def record(self) -> dict[str, Any]:
        samples, features = self.subject.used
        return {
            "job": self.subject.job.study.name,
            "task": self.plan.task,
            "scheme": self.plan.scheme,
            "mode": self.plan.mode,
            "parties": self.plan.k,
            "samples": samples,
            "features": features,
            "table": list(self.subject.shape),
            "learns": what_each_role_learns(self.plan),
            "findings": [finding.record() for finding in self.findings],
            "recommended": self.recommended,
            "why": self.why,
            "seconds": self.seconds,
        }


def audit(
    source: MatrixSource,
    job: Job,
    *,
    budget: float = BUDGET,
    include_data: bool = False,
    seed: int = 0,
    report: Report = lambda text: None,
) -> Audit:
    """Simulate this job on this table, and attack what CSP and parties come to see."""
    started = monotonic()
    subject = audited(source, job, budget, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # the findings say it, with figures
        return _audit(subject, budget, started, include_data, seed, report)


def _audit(subject: Audited, budget: float, started: float, include_data: bool, seed: int, report: Report) -> Audit:
    samples, features = subject.used
    report(f"simulating {len(subject.tables)} parties on {samples} samples x {features} features")
    first = subject.run(seed)
    found: list[Finding] = [against_csp.spectrum(first)]

    def left() -> float:
        return budget - (monotonic() - started)

    def take(name: str, findings: Callable[[], Iterator[Finding]], share: float) -> None:
        if left() < share * budget:
            found.append(Finding("-", name, Verdict.LEFT_OUT, "no time was left; give a larger --budget"))
            return
        report(f"{name} ({left():.0f} s left)")
        found.extend(findings())

    take("what results show a party", lambda: against_users.from_results(subject, first, include_data), 0.1)
    take("two runs", lambda: against_users.from_two_runs(subject, first), 0.1)
    take("collusion", lambda: against_users.of_colluders(subject, first, include_data), 0.05)
    take("the opened sum", lambda: against_csp.of_opened_sum(first), 0.05)
    masked = first.plan.mode is None and first.plan.factors  # a matrix under masks was uploaded
    if masked:
        take("ICA over several runs", lambda: _several(subject, first, seed, left, budget), 0.3)
    if masked:
        take("alternating ICA", lambda: iter([against_csp.alternating(subject, first, include_data)]), 0.2)
    scheme, why = recommendation(subject, first.plan)
    order = list(Verdict)
    ordered = tuple(sorted(found, key=lambda finding: order.index(finding.verdict)))
    return Audit(subject, first.plan, ordered, scheme, why, monotonic() - started)


def _several(
    subject: Audited, first: Recorded, seed: int, left: Callable[[], float], budget: float
) -> Iterator[Finding]:
    """ICA on as many runs as a third of the budget allows, and on three at least: fewer show nothing."""
    limit = left() - 0.3 * budget

    def runs() -> Iterator[Recorded]:
        yield first
        for number in range(1, MOST_RUNS):
            if number >= _FEWEST_RUNS and left() < limit:
                return
            yield subject.run(seed + number)

    yield against_csp.repeated_ica(subject, first, runs())


def recommendation(subject: Audited, plan: SessionPlan) -> tuple[str, str]:
    """The scheme to use, and why."""
    automatic = replace(subject.study, scheme="auto", mode=None, block_size=0)
    ours = plan_study(automatic, plan.m, plan.counts, plan.session).plan
    if ours.mode is Mode.A:
        why = "the parties open the sum themselves: by proof the CSP learns shapes and no more"
    elif ours.mode is Mode.B and ours.factors:
        why = "by proof the CSP learns ratios of singular values and no more"
    elif ours.mode is Mode.B:
        why = "the CSP learns ratios of the features' singular values, and blinded numbers of the labels"
    elif masks_are_haar(ours):
        why = "its masks are dense Haar matrices on both sides: by proof the CSP learns the singular values and no more"
    else:
        why = "no attack here does better on it than chance; for masks this long that is tested, not proven"
    return str(ours.scheme), why
