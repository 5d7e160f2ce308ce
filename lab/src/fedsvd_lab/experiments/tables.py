"""Rows as tables: values of methods side by side, one line to a case; in Markdown, LaTeX and for the page.

The paper's own figures are methods like any other, so every table has them in its first columns. An empty cell says
that there is no such number: the paper prints none, or the method does not apply.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedsvd_lab.experiments.experiment import Experiment, TableSpec
from fedsvd_lab.experiments.rows import EXTRAPOLATED, PREDICTED, QUOTED, Row, matches

_MARKS = {EXTRAPOLATED: " (extr.)", PREDICTED: " (pred.)"}
_ESCAPES = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "^": r"\^{}", "~": r"\~{}"}


@dataclass(frozen=True)
class Table:
    """A finished table: header and lines of text."""

    title: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def tables(experiment: Experiment, rows: Sequence[Row]) -> list[Table]:
    """Every table of an experiment that has a line."""
    found = [_table(spec, rows) for spec in experiment.tables]
    return [table for table in found if table.lines]


def markdown(table: Table) -> str:
    """A table for GitHub, and to be read as plain text."""
    lines = [table.header, tuple("---" for _ in table.header), *table.lines]
    body = "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)
    return f"**{table.title}**\n\n{body}\n"


def latex(table: Table) -> str:
    """A table for a paper."""
    width = len(table.header)
    body = "\n".join(" & ".join(map(_tex, line)) + r" \\" for line in table.lines)
    return "\n".join(
        (
            r"\begin{table}[h]",
            rf"\caption{{{_tex(table.title)}}}",
            rf"\begin{{tabular}}{{{'l' * width}}}",
            r"\hline",
            " & ".join(map(_tex, table.header)) + r" \\",
            r"\hline",
            body,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        )
    )


def _table(spec: TableSpec, rows: Sequence[Row]) -> Table:
    chosen = [row for row in rows if matches(row, spec.where)]
    methods = _methods(spec, chosen)
    lines: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in chosen:
        lines.setdefault(_index(spec, row), {})[row["method"]] = row
    body = []
    for index, cells in lines.items():
        if all(row["how"] == QUOTED for row in cells.values()) and any(row["how"] != QUOTED for row in chosen):
            # What the paper prints for a case that this size does not run is still shown, at the end.
            index = (*index[:-1], f"{index[-1]} (not run at this size)") if index else index
        body.append((*index, *(shown(cells[method]) if method in cells else "" for method in methods)))
    body.sort(key=lambda line: line[len(spec.index) - 1].endswith("(not run at this size)") if spec.index else False)
    return Table(spec.title, (*spec.index, *methods), tuple(body))


def _methods(spec: TableSpec, rows: Sequence[Row]) -> list[str]:
    """The columns in the order of the file; ``*`` stands for all others in the order in which they came."""
    there = list(dict.fromkeys(row["method"] for row in rows))
    named = [method for method in spec.columns if method in there]
    others = [method for method in there if method not in spec.columns]
    if "*" in spec.columns:
        named += others
    return named


def _index(spec: TableSpec, row: Row) -> tuple[str, ...]:
    fields = {**row["case"], "metric": f"{row['metric']}" + (f", {row['unit']}" if row["unit"] else "")}
    return tuple(_plain(fields.get(name, "")) for name in spec.index)


def shown(row: Row) -> str:
    """A value for a person, with a mark where it was not measured."""
    return number(row["value"], row["unit"]) + _MARKS.get(row["how"], "")


def number(value: float, unit: str = "") -> str:
    """A number to three or four digits; seconds and bytes in units that can be read."""
    if math.isnan(value):
        return "-"
    if unit == "s":
        return seconds(value)
    if unit == "bytes":
        return size(value)
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2e}"
    return f"{value:.4g}"


def seconds(value: float) -> str:
    """A time from milliseconds to years."""
    for unit, length in (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if value >= 2 * length:
            return f"{value / length:.3g} {unit}"
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def size(value: float) -> str:
    """A number of bytes in units of a thousand."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and value >= 10_000 else str(value)


def _tex(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)
