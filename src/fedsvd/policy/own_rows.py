"""What a party's own records say against a study whose sums are opened: for its owner alone.

The plan of a study shows shapes; whether one record stands out in its sums only the party itself can see. So each party
judges its own table before anything is sent, and the verdict is one bit to the others: which rule, column or record it
was stays at home. A verdict is *fine*, an *ask* (a sentence that a person answers) or a refusal.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fedsvd.policy.rules import Finding, Policy

UNJUDGED = 1.0
"""``most_leverage`` of an owner who wants no own rows judged, since the table is public."""

LARGEST_OFFSET = 20.0
"""On the scale of the linear predictor: beyond it one record has all the weight, or none."""

_FEWEST_CLUSTERS = 5


@dataclass(frozen=True)
class OwnRows:
    """What is judged of a party's own rows, as they are summed."""

    clusters: tuple[int, ...] = ()  # records of each
    offset: float = 0.0  # the largest, without its sign


def row_findings(own: OwnRows, policy: Policy) -> tuple[Finding, ...]:
    """Everything that this party's own rows say against the study."""
    if policy.most_leverage >= UNJUDGED:
        return ()
    return (*_clusters(own), *_offset(own))


def _clusters(own: OwnRows) -> Iterator[Finding]:
    if not own.clusters:
        return
    if len(own.clusters) < _FEWEST_CLUSTERS or 2 * max(own.clusters) > sum(own.clusters):
        text = (
            f"{len(own.clusters)} clusters, the largest with {max(own.clusters)} of {sum(own.clusters)} records; at "
            f"least {_FEWEST_CLUSTERS} are asked for, none with more than half: the opened sums of scores of few "
            "clusters are nearly those of one"
        )
        yield Finding("own clusters", text, below=False, asks=True)


def _offset(own: OwnRows) -> Iterator[Finding]:
    if own.offset > LARGEST_OFFSET:
        text = (
            f"an offset beyond {LARGEST_OFFSET:g} on the scale of the linear predictor gives one record all the weight "
            "of the opened sums: take its logarithm, or another unit"
        )
        yield Finding("offset", text)
