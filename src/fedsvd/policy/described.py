"""What parties are shown of a description (Table 1) before they approve it."""

from collections.abc import Iterator

from fedsvd.protocol.model import FEWEST_MOMENTS, Digits
from fedsvd.protocol.plan import SessionPlan


def of_table(plan: SessionPlan) -> Iterator[str]:
    """What every party gets of all records."""
    about = plan.table
    if about is None:
        return
    least, groups = about.least, len(about.groups)
    by = f" in each of {groups} groups by {about.by!r}" if about.by else ""
    yield (
        f"Every party gets how many records have each level of {len(about.categories)} categories{by}, and how many "
        f"miss each of {len(about.described)} columns, as whole numbers. First, levels that 1 to {least - 1} records "
        f"have outside of some party are joined as 'other', at all parties alike, by counts that are cut at {least} "
        "at each party."
    )
    if about.numbers:
        digits = "10 bits below 50 records, 16 below 500, 24 from there" if about.digits is Digits.TABLE else "44 bits"
        yield (
            f"Every party gets the mean and standard deviation of {len(about.numbers)} numbers{by}, from sums in few "
            f"digits ({digits}); of fewer than {FEWEST_MOMENTS} records none. No smallest or largest value is opened."
        )
    if about.by and about.numbers:
        yield (
            "Every party gets a test of ranks for each number: each party ranks its own records among themselves, and "
            "adds sums of ranks for each group and their covariance."
        )
    if about.correlations:
        yield (
            "Every party gets the correlations of all numbers: sums of products of standardised columns, which are "
            "their joint Gram matrix in a few digits."
        )
