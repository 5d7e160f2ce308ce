"""Table 1 in a report: the table with its notes, standardised differences, histograms."""

from collections.abc import Iterator

from fedsvd.results.drawings.described import description
from fedsvd.results.report.figures import figures
from fedsvd.results.report.sections import Section, grid
from fedsvd.results.result import PartyResult
from fedsvd.statistics.table_one import table_one


def described(result: PartyResult) -> Iterator[Section]:
    """The sections of a description, where the reader holds one."""
    if "described" not in result.facts:
        return
    found = description(result)
    shown = table_one(found)
    table = grid(shown.title, shown.header, shown.rows)
    notes = tuple(f"{note}." for note in shown.notes)
    yield Section("table-1", "Table 1", notes, figures(result, "love"), first=(table,))
    drawn = figures(result, "histogram")
    if drawn:
        yield Section("histograms", "Histograms", (), drawn)
