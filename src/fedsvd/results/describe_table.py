"""Table 1 as a result: the description as a fact, and its tables for people and their tools."""

from fedsvd.results.folder import Table
from fedsvd.results.outputs import Values
from fedsvd.roles.user.describe import DescribedResult
from fedsvd.statistics.table_one import histograms_of, table_one, tests_of


def _smd(text: str) -> float | None:
    """A number, not a text: one below 0 would be a formula to a spreadsheet, and is written with a quote."""
    return None if text in ("", "-") else float(text)


def described(computed: DescribedResult, tables: bool) -> Values:
    """What every party gets of a description."""
    found = computed.description
    made: list[Table] = []
    if tables:
        shown = table_one(found)
        columns: dict[str, list[object]] = {
            name or "variable": [_smd(row[j]) if name == "SMD" else row[j] for row in shown.rows]
            for j, name in enumerate(shown.header)
        }
        made = [Table("table_1", columns)]
        made += [Table("tests", tests_of(found))] if found.groups else []
        histograms = histograms_of(found)
        made += [Table("histograms", histograms)] if histograms["variable"] else []
    return Values(facts={"described": computed.record}, tables=tuple(made), objects={"described": found})
