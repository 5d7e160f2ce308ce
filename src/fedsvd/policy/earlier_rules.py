"""The release guard between studies: what earlier studies of a party's records, and who takes part, forbid.

Two studies that differ by one record, or by one party, give that record or that party's Gram matrix away. What a party
remembers for this is in ``earlier_studies.py`` and is never sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedsvd.policy.learned import full_outputs
from fedsvd.policy.rules import Finding, Policy
from fedsvd.protocol.plan import SessionPlan


def growth_findings(
    sizes: Mapping[str, int], earlier: Mapping[str, Sequence[int]], policy: Policy
) -> tuple[Finding, ...]:
    """Whether the set of another party is much larger than in every earlier matching with it: a sign of guessed ids."""
    found = []
    for party, size in sizes.items():
        before = max(earlier.get(party, ()), default=0)
        if policy.set_growth and before and size > policy.set_growth * before:
            found.append(
                Finding(
                    "set size",
                    f"party {party} brings {size} records to match, and brought {before} at most in earlier matchings; "
                    f"{policy.set_growth} times as many are allowed: a set of guessed ids looks like that",
                )
            )
    return tuple(found)


@dataclass(frozen=True)
class Compared:
    """An earlier study of this party, compared with the one it is asked for now."""

    roster: frozenset[str]  # who took part, by organisation
    known: bool = True  # whether its records could be compared: not where every column was re-scaled
    changed: int = 0  # records that one study has and the other has not, small differences apart
    touched: int = 0  # the same, any difference counted
    columns: int = 0  # columns likewise, where columns are split

    @property
    def same(self) -> bool:
        """Whether both studies are of the same records and columns."""
        return self.known and not (self.touched or self.columns)


def earlier_findings(earlier: Iterable[Compared], roster: frozenset[str], policy: Policy) -> tuple[Finding, ...]:
    """What earlier studies of a party's records forbid: a few of them changed, or a few parties came or went.

    The same records again are no new information. ``touched`` catches a cell that was corrected in a few records;
    where many records differ by a last digit it says nothing, and ``changed`` decides.
    """
    least, found = policy.least_changed, {}
    for study in earlier:
        few = study.changed or study.touched
        if study.known and 0 < few < least:
            found["re-run"] = (
                f"{few} of your records changed since an earlier study, {least} are asked for: the others can compute "
                "what changed from the difference of both results"
            )
        if 0 < study.columns < least:
            found["re-run"] = (
                f"{study.columns} of your columns changed since an earlier study, {least} are asked for: the others "
                "can compute what changed from the difference of both results"
            )
        apart = len(study.roster ^ roster)
        if study.known and study.changed < least and 0 < apart <= policy.parties_for_full - 2:
            found["roster"] = (
                f"an earlier study of nearly the same records had {len(study.roster)} parties, this one has "
                f"{len(roster)}: the difference of both results is that of {apart} of them alone"
            )
    return tuple(Finding(rule, text) for rule, text in found.items())


def organisation_findings(plan: SessionPlan, organisations: int, policy: Policy) -> tuple[Finding, ...]:
    """Whether there are enough parties when those of one organisation count once: they may pool what they hold."""
    fewest = 2 if policy.consent_to_two else policy.parties_for_full
    if not full_outputs(plan) or organisations >= min(fewest, plan.k):
        return ()
    text = (
        f"the {plan.k} parties belong to {organisations} organisation(s), {fewest} are asked for where U and S go out"
    )
    return (Finding("parties", text),)


def version_findings(versions: int, policy: Policy) -> tuple[Finding, ...]:
    """Whether one more version of a dataset may go into full outputs; ``versions`` of this year are there already."""
    if not policy.versions_per_year or versions < policy.versions_per_year:
        return ()
    text = (
        f"{versions} versions of these records went into full outputs within a year, {policy.versions_per_year} are "
        "allowed: several differences together can give single records away"
    )
    return (Finding("versions", text),)
