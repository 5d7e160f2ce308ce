"""``make chaos``: everything that goes wrong on purpose, as a table of cases and outcomes.

Runs every test with the mark ``chaos`` (``python -m benchmarks.chaos -k disk`` only some, and then writes nothing),
prints the table from what the tests recorded, and writes ``benchmarks/results/chaos.json`` and
``docs/reference/chaos.md``. A case is a test that passed: its outcome was asserted there, not merely seen.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from benchmarks.measure import fingerprint

ROOT = Path(__file__).parents[1]
RESULT, PAGE = ROOT / "benchmarks" / "results" / "chaos.json", ROOT / "docs" / "reference" / "chaos.md"
WHERE = ("tests/e2e", "tests/unit/transport")

Case = dict[str, Any]


class Recorder:
    """Listens to pytest; keeps what each case came to."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        facts = dict(report.user_properties)
        if "kind" not in facts or not (report.when == "call" or report.failed or report.skipped):
            return
        passed = "ended as it must" if report.passed else "SKIPPED HERE" if report.skipped else "FAILED"
        outcome = facts.get("outcome", passed) if report.passed else passed
        test = report.nodeid.partition("[")[0]
        seconds = round(report.duration, 1)
        case = {"kind": facts["kind"], "case": facts["case"], "outcome": outcome, "test": test, "seconds": seconds}
        self.cases.append(case)


def main(words: list[str]) -> int:
    """Run, print, write; the exit status says whether every case ended as it must."""
    recorder = Recorder()
    status = pytest.main(["-q", "-m", "chaos", "-n", "2", *WHERE, *words], [recorder])
    cases = merged(recorder.cases)
    Console(width=160).print(_table(cases))
    if not words:
        RESULT.write_text(json.dumps({"machine": fingerprint(), "cases": cases}, indent=1) + "\n")
        PAGE.write_text(page(cases))
    return int(status)


def merged(cases: list[Case]) -> list[Case]:
    """One row to a case, in order; where several tests are one case, those that came to something else stand apart."""
    rows: dict[tuple[str, str, str], Case] = {}
    for case in sorted(cases, key=lambda case: (case["kind"], case["case"], case["outcome"])):
        rows.setdefault((case["kind"], case["case"], case["outcome"]), case)
    return list(rows.values())


def page(cases: list[Case]) -> str:
    """The table for the documentation."""
    lines = [
        "# What goes wrong on purpose",
        "",
        "Made by `make chaos` from the tests with the mark `chaos`; do not edit. Each row is a test, and its",
        "outcome is what the test asserts: the study ends right, at once or after `fedsvd job resume`, or it is",
        "broken with a code at every member that took part. Nothing hangs, no result is wrong, nothing is lost.",
        "Right means: every party's singular values are NumPy's on the joint table. Codes are those of the",
        "[error pages](../errors/index.md); *csp*, *party/b* and so on say who reported them.",
        "",
        "| trouble | case | outcome |",
        "|---|---|---|",
        *(f"| {case['kind']} | {case['case']} | {case['outcome']} |" for case in cases),
    ]
    return "\n".join(lines) + "\n"


def _table(cases: list[Case]) -> Table:
    table = Table("trouble", "case", "outcome", "seconds")
    for case in cases:
        table.add_row(case["kind"], case["case"], case["outcome"], f"{case['seconds']:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
