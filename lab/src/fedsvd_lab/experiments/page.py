"""``reproduce.html``: every table and figure of the paper next to ours, in one file without anything from elsewhere."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from fedsvd_lab.experiments.experiment import Experiment, Size
from fedsvd_lab.experiments.machine import fingerprint
from fedsvd_lab.experiments.rows import NOT_RUN, QUOTED, Row
from fedsvd_lab.experiments.tables import Table, number
from fedsvd_lab.experiments.verdicts import Verdict

_STYLE = """
:root { color-scheme: light dark; --ink: #212529; --back: #fff; --line: #ced4da; --soft: #f1f3f5; --no: #c92a2a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9ecef; --back: #16191d; --line: #495057; --soft: #23272b; --no: #ff8787; }
  figure svg { background: #fff; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 0 auto;
  max-width: 1100px; padding: 1.5rem; }
table { border-collapse: collapse; font-size: 13px; margin: .5rem 0 1.2rem; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left; vertical-align: top; }
td { font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
.no { color: var(--no); font-weight: 600; }
details { background: var(--soft); padding: .4rem .8rem; margin: .5rem 0; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
nav a { margin-right: .8rem; white-space: nowrap; }
@media print { nav { display: none; } section { break-inside: avoid-page; } }
"""


@dataclass(frozen=True)
class Section:
    """One experiment as it is shown."""

    experiment: Experiment
    rows: Sequence[Row]
    tables: Sequence[Table]
    figures: Sequence[str]  # SVG
    images: Sequence[bytes]  # the same as PNG
    verdicts: Sequence[Verdict]
    missing: Sequence[str]


def page(sections: Sequence[Section], size: Size) -> str:
    """The whole page."""
    machine = ", ".join(f"{key} {value}" for key, value in fingerprint().items())
    links = "".join(f'<a href="#{s.experiment.name}">{escape(s.experiment.name)}</a>' for s in sections)
    body = "\n".join("\n".join(_section(section)) for section in sections)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>FedSVD: the paper's evaluation, reproduced</title><style>{_STYLE}</style></head><body>
<header><h1>The paper's evaluation, reproduced</h1>
<p>Chai et al., <i>Practical Lossless Federated Singular Vector Decomposition over Billion-Scale Data</i>, KDD 2022:
each table and figure with the paper's own figures, our run of the paper's scheme, and our default. Size of this run:
<b>{escape(size)}</b>. This machine: {escape(machine)}.</p>
<p>“extr.” is extrapolated from measured rows, “pred.” predicted by the cost model; everything else was measured in this
run or is quoted from the paper. The paper's hardware: 3.6 GHz, 8 cores, 128 GB, participants in containers.</p>
<nav aria-label="experiments">{links}</nav></header><main>
{body}
</main></body></html>
"""


def _section(section: Section) -> Iterator[str]:
    experiment = section.experiment
    yield f'<section id="{experiment.name}"><h2>{escape(experiment.title)}</h2>'
    yield f"<p>{escape(experiment.place)}. {escape(experiment.said)}</p>"
    for line in section.missing:
        yield f'<p class="no">{NOT_RUN}: {escape(line)}</p>'
    for svg in section.figures:
        yield f"<figure>{svg}</figure>"
    for table in section.tables:
        yield f'<h3>{escape(table.title)}</h3><div class="wide">{_table(table.header, table.lines)}</div>'
    if section.verdicts:
        yield _verdicts(section.verdicts)
    if experiment.notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in experiment.notes)
        yield f"<h3>Notes</h3><ul>{items}</ul>"
    yield _how(section.rows) + "</section>"


def _verdicts(found: Sequence[Verdict]) -> str:
    lines = [(v.check, v.case, v.method, number(v.value), number(v.bar), "yes" if v.holds else "no") for v in found]
    holding = sum(v.holds for v in found)
    table = _table(("what must show", "case", "method", "value", "bar", "holds"), lines)
    opened = "" if holding == len(found) else " open"
    summary = f"<summary>{holding} of {len(found)} comparisons hold</summary>"
    return f'<details{opened}>{summary}<div class="wide">{table}</div></details>'


def _how(rows: Sequence[Row]) -> str:
    """Where the rows come from: seeds, schemes, networks, commits, times."""
    ours = [row for row in rows if row["how"] != QUOTED]
    if not ours:
        return ""
    facts = {
        "rows": str(len(ours)),
        "how": _several(ours, "how"),
        "schemes": _several(ours, "scheme"),
        "networks": _several(ours, "network"),
        "seeds": _several(ours, "seeds"),
        "commits": _several(ours, "commit"),
        "hardware": _several(ours, "hardware"),
        "load of the machine": _several(ours, "load"),
        "measured between": f"{min(row['when'] for row in ours)} and {max(row['when'] for row in ours)}",
        "notes on rows": _several(ours, "note"),
    }
    lines = [line for line in facts.items() if line[1]]
    return f"<details><summary>How it was measured</summary>{_table(('', ''), lines)}</details>"


def _several(rows: Sequence[Row], key: str) -> str:
    return "; ".join(dict.fromkeys(str(row[key]) for row in rows if row.get(key)))


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return f'<td class="no">{text}</td>' if text == "no" else f"<td>{escape(text)}</td>"
