"""What studies of the same tables with other parties give away: the span of their rosters, in rationals.

A study opens the sum of its parties' numbers, the same ones for each party and study. Who has the results of several
studies can compute every combination of their rosters, as vectors over the parties; a party has its own numbers, too.
Where the vector of one party alone is such a combination, that party's own numbers can be computed: from {A, B, C},
{A, B, D} and {A, C, D} party A computes those of B, of C and of D.
"""

from collections.abc import Collection, Iterable
from fractions import Fraction

from fedsvd.policy.rules import Finding

ORGANISATION = "organisation/"
"""Before the name of an organisation in a roster; parties without one have their own names."""

Roster = frozenset[str]
_Vector = dict[str, Fraction]


class Span:
    """The linear span of some vectors over named coordinates, by elimination without rounding."""

    def __init__(self, vectors: Iterable[Collection[str]] = ()) -> None:
        self._rows: dict[str, _Vector] = {}  # by the coordinate that each is the only one to have
        for vector in vectors:
            self.add(vector)

    def add(self, ones: Collection[str]) -> None:
        """Add the vector that is 1 at these coordinates."""
        rest = self._reduced(ones)
        if not rest:
            return
        pivot = min(rest)
        row = {name: value / rest[pivot] for name, value in rest.items()}
        self._rows = {name: _less(other, row, other.get(pivot, Fraction(0))) for name, other in self._rows.items()}
        self._rows[pivot] = row

    def holds(self, ones: Collection[str]) -> bool:
        """Whether the vector that is 1 at these coordinates is in the span."""
        return not self._reduced(ones)

    def _reduced(self, ones: Collection[str]) -> _Vector:
        vector = dict.fromkeys(ones, Fraction(1))
        for pivot, row in self._rows.items():
            if pivot in vector:
                vector = _less(vector, row, vector[pivot])
        return vector


def _less(vector: _Vector, row: _Vector, times: Fraction) -> _Vector:
    if not times:
        return vector
    names = {**vector, **row}
    values = {name: vector.get(name, Fraction(0)) - times * row.get(name, Fraction(0)) for name in names}
    return {name: value for name, value in values.items() if value}


def computable(rosters: Collection[Roster]) -> dict[str, str]:
    """Whose own numbers can be computed from studies with these rosters, and by whom; "" for the researcher.

    A party sees the studies that it is in; a researcher may see all of them. Two parties see each other's in one study.
    """
    distinct = set(rosters)
    everyone = sorted({name for roster in distinct for name in roster})
    found: dict[str, str] = {}
    for who in ("", *everyone):
        seen = [roster for roster in distinct if not who or who in roster]
        span = Span([*seen, {who}] if who else seen)
        for name in everyone:
            if name != who and name not in found and span.holds({name}):
                found[name] = who
    return found


def roster_findings(earlier: Collection[Roster], roster: Roster, me: str) -> tuple[Finding, ...]:
    """What earlier studies of this party's table with other rosters forbid, or ask its owner.

    A party that was in none of them joins: its own numbers are the difference, and it is asked about that, as all are.
    Those of a party that took part before are protected: it need not be in this study to be asked.
    """
    found = []
    before, now = computable(set(earlier)), computable({*earlier, roster})
    alone = computable({roster})
    known = {name for each in earlier for name in each}
    new = sorted(name for name in now if name not in before and name not in alone)
    if earlier and set(new) & known:
        whose = "your own numbers" if me in new else "the own numbers of a party that was in one of them"
        text = f"together with earlier studies of your table, whose rosters were others, {whose} can be computed"
        found.append(Finding("roster", text))
    elif earlier and new:
        text = (
            "a party joins that was in no earlier study of your table: from the difference of both results its own "
            "sums can be computed, and it is asked, too"
        )
        found.append(Finding("roster", text, below=False, asks=True))
    elif earlier and roster not in earlier:
        text = (
            f"earlier studies of your table were with other parties; this one has {len(roster)}: with studies among "
            "the others alone, your own sums can be computed"
        )
        found.append(Finding("roster", text, below=False, asks=True))
    return tuple(found)


def others_findings(jobs: int) -> tuple[Finding, ...]:
    """What studies among the other parties ask, to which this party did not belong: their digests are in the plan."""
    if not jobs:
        return ()
    text = (
        f"the other parties brought these tables to {jobs} {'study' if jobs == 1 else 'studies'} without you: "
        "with studies among the others alone, your own sums can be computed"
    )
    return (Finding("roster", text, below=False, asks=True),)
