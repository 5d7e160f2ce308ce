"""``fedsvd reproduce``: runs experiments case by case, remembers finished ones, writes every table and figure.

    results/reproduce/
        rows/EXPERIMENT.jsonl   what was measured; a case that stands here is not run again
        rows.csv, rows.parquet  all rows, tidy: one number a row, with hardware, scheme, commit, seeds, network
        tables/NAME.md, .tex    every table
        figures/NAME.svg, .png  every figure
        tables.md               all tables and notes in one text
        reproduce.html          all of it in one page

An error of fedsvd in one case (a data set that is not here, an extra that is missing) is noted and the rest goes on;
the case is run again next time.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from fedsvd.errors import FedSVDError, MissingExtra
from fedsvd_lab.experiments import figures
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.experiment import Experiment, Size, experiments
from fedsvd_lab.experiments.page import Section, page
from fedsvd_lab.experiments.ratios import ratios
from fedsvd_lab.experiments.rows import Journal, Row, quoted_row
from fedsvd_lab.experiments.runners import cases_of
from fedsvd_lab.experiments.tables import latex, markdown, tables
from fedsvd_lab.experiments.verdicts import Verdict, verdicts


@dataclass
class Summary:
    """What a run came to."""

    ran: int = 0
    finished_before: int = 0  # finished before
    missing: dict[str, list[str]] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    seconds: float = 0.0


def reproduce(names: Sequence[str], size: Size, context: Context, out: Path) -> Summary:
    """Run these experiments at this size and write what is known of them."""
    known = experiments()
    summary, started = Summary(), perf_counter()
    sections: list[Section] = []
    rows_by_name: dict[str, list[Row]] = {}
    for name in names:
        experiment = known[name]
        source = known[experiment.rows_of] if experiment.rows_of else experiment
        if source.name not in rows_by_name:
            rows_by_name[source.name] = _run(source, size, context, out, summary)
        quoted = [quoted_row(experiment, size, figure) for figure in experiment.quoted]
        sections.append(
            _section(experiment, [*quoted, *rows_by_name[source.name]], summary.missing.get(source.name, []))
        )
        _write(out, sections, size)
    summary.verdicts = [verdict for section in sections for verdict in section.verdicts]
    summary.seconds = perf_counter() - started
    return summary


def _run(experiment: Experiment, size: Size, context: Context, out: Path, summary: Summary) -> list[Row]:
    """Every case that is not finished; then the rows of all."""
    journal = Journal(out, experiment, size)
    cases = cases_of(experiment.kind, experiment.at(size), context)
    for place, case in enumerate(cases, start=1):
        if journal.has(case):
            summary.finished_before += 1
            continue
        started = perf_counter()
        context.say(f"{experiment.name} {place}/{len(cases)}: {case.words()}")
        try:
            journal.add(case, list(case.run()), context.seed)
        except FedSVDError as error:
            summary.missing.setdefault(experiment.name, []).append(f"{case.words()}: {error}")
            context.say(f"  not run: {error}")
            continue
        summary.ran += 1
        context.say(f"  {perf_counter() - started:.1f} s")
    return journal.rows(cases)


def _section(experiment: Experiment, rows: list[Row], missing: list[str]) -> Section:
    rows = [*rows, *ratios(experiment, rows)]
    drawn = []
    if figures.drawable():
        found = (figures.draw(spec, rows) for spec in experiment.figures)
        drawn = [one for one in found if one is not None]
    return Section(
        experiment,
        rows,
        tables(experiment, rows),
        [svg for svg, _ in drawn],
        [png for _, png in drawn],
        verdicts(experiment, rows),
        missing,
    )


def _write(out: Path, sections: Sequence[Section], size: Size) -> None:
    for folder in ("tables", "figures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for section in sections:
        name = section.experiment.name
        (out / "tables" / f"{name}.md").write_text(_markdown(section), encoding="utf-8")
        (out / "tables" / f"{name}.tex").write_text("\n".join(map(latex, section.tables)), encoding="utf-8")
        for place, svg in enumerate(section.figures):
            stem = name if not place else f"{name}-{place + 1}"
            (out / "figures" / f"{stem}.svg").write_text(svg, encoding="utf-8")
            (out / "figures" / f"{stem}.png").write_bytes(section.images[place])
    rows = [row for section in sections for row in section.rows]
    _write_tidy(out, rows)
    (out / "tables.md").write_text("\n".join(_markdown(section) for section in sections), encoding="utf-8")
    (out / "reproduce.html").write_text(page(sections, size), encoding="utf-8")


def _markdown(section: Section) -> str:
    experiment = section.experiment
    lines = [f"## {experiment.title}", "", f"{experiment.place}. {experiment.said}", ""]
    lines += [f"Not run: {line}\n" for line in section.missing]
    lines += [markdown(table) for table in section.tables]
    if section.verdicts:
        held = sum(verdict.holds for verdict in section.verdicts)
        lines.append(f"{held} of {len(section.verdicts)} comparisons hold.")
        failed = [v for v in section.verdicts if not v.holds]
        lines += [f"- no: {v.check}: {v.case}, {v.method}: {v.value:.3g} against {v.bar:.3g}" for v in failed]
        lines.append("")
    lines += [f"- {note}" for note in experiment.notes]
    return "\n".join(lines) + "\n"


def _write_tidy(out: Path, rows: Sequence[Row]) -> None:
    flat = [{**row, "case": json.dumps(row["case"], sort_keys=True)} for row in rows]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    with (out / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(flat)
    try:
        _write_parquet(out / "rows.parquet", flat, columns)
    except MissingExtra:
        (out / "rows.parquet").unlink(missing_ok=True)


def _write_parquet(path: Path, flat: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("Parquet files need PyArrow", "pip install 'fedsvd[data]'") from None
    numbers = {"value": pyarrow.float64(), "blas_threads": pyarrow.int64()}
    fields = {
        name: pyarrow.array([row.get(name) for row in flat], numbers.get(name, pyarrow.string())) for name in columns
    }
    parquet.write_table(pyarrow.table(fields), path)
