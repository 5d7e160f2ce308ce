"""The drawings of a result as figures of its report."""

from fedsvd.results.drawings.declared import pictures
from fedsvd.results.report import charts
from fedsvd.results.report.sections import Figure
from fedsvd.results.result import PartyResult


def figures(result: PartyResult, *names: str) -> tuple[Figure, ...]:
    """These drawings in this order, as far as the task declares them and the reader holds what they are made of."""
    return tuple(
        Figure(charts.drawn(picture), f"{picture.caption}{charts.thinned_in_words(picture)}", picture.numbers)
        for name in names
        for picture in pictures(result, name)
    )
