"""``make chaos``: everything that goes wrong on purpose, as a table of cases and outcomes.

Runs every test with the mark ``chaos``, prints the table from what the tests recorded, and writes
``benchmarks/results/chaos.json`` and ``docs/reference/chaos.md``. A case is a test that passed: its outcome was
asserted there, not merely seen. Then the tests behind the second table, what was found in 0.2.0, are run and counted.

    python -m benchmarks.chaos                 everything
    python -m benchmarks.chaos -k disk         only some, and nothing is written
    python -m benchmarks.chaos --add -k disk   only some, which replace what was recorded of them before
    python -m benchmarks.chaos --found         only what is behind the second table and has no mark
"""

import json
import os
import sys
from collections.abc import Mapping
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

# What was done to services from outside, what 0.2.0 did, what happens now, and the tests that do it again.
FOUND = (
    (
        "a member enlists with 2^40 records, or 2^36 rows of a PCA",
        "the CSP freezes under its lock; 10 GB and growing",
        "more than 2^32 is refused as it is read; 2^32 rows are planned in less than a second, outside the lock",
        "tests/unit/service/test_sizes_of_jobs.py",
    ),
    (
        "formulas of 116 characters; `I(9**9**9)`",
        "expanded for ever at the CSP; a party and `approve` hang",
        "terms are counted before any is expanded; the error names the token",
        "tests/unit/prepare/test_formula_grammar.py",
    ),
    (
        "129 `job watch` of one researcher; 160 waits; 1,100 idle connections, of one caller or of none",
        "every job stops; mute for good",
        "waits and connections have places by caller; with 130 waits, or 1,100 idle connections, a job of others ends",
        "tests/e2e/test_many_callers.py",
    ),
    (
        "a thread that cannot start",
        "mute for good, while the port accepts",
        "all threads start first; a CSP that cannot serve ends with a code; `fedsvd doctor --self`",
        "tests/e2e/test_self_check.py",
    ),
    (
        "kill -9 or SIGSTOP between enlisting and joining, with no call waiting, or while a party enlists",
        "noticed after 120 s (9 of 21)",
        "noticed within 10 s",
        "tests/e2e/test_presence.py",
    ),
    (
        "the CSP is killed as members end",
        "4 resumes and 3 approvals",
        "done without a resume",
        "tests/e2e/test_finished_stays.py",
    ),
    (
        "damaged tables, 500 a format; no memory for one",
        "34 % (.xlsx), 12 % (.npy), 6 % (.parquet) uncaught",
        "a code with a fix",
        "tests/unit/data/test_damaged_files.py",
    ),
    (
        "damaged and nested job files, 2,000",
        "FSVD-000 or a traceback",
        "a code with a fix",
        "tests/unit/studies/test_damaged_job_files.py",
    ),
    (
        "damaged frames and calls, 5,000, with and without a certificate",
        "not tried",
        "refused; other sessions go on",
        "tests/e2e/test_damaged_calls.py",
    ),
    (
        "a peer of another version",
        "an accusation of fraud, or 'damaged'",
        "FSVD-505 names both versions, first",
        "tests/e2e/test_versions.py",
    ),
    (
        "results, ledgers and approvals of an older version",
        "'damaged'",
        "they open, or are refused by their version",
        "tests/vectors/test_what_0_2_0_wrote.py",
    ),
    (
        "100 waiting jobs; ledgers of 3 and 20 parties; a kit that runs twice",
        "all begin, 35 broke; 33 and 962 kB a job; broken sessions",
        "a queue with places; 6 and 36 kB a job; FSVD-504 names the kit",
        "tests/unit/service/test_csp.py",
    ),
    (
        "25 waiting jobs, and `job stop` of them",
        "113 to 467 MB, the same afterwards; checkpoints stay",
        "one table is open; nothing of a stopped job stays but results and approval",
        "tests/unit/service/test_member_node.py",
    ),
    (
        "an emptied ledger",
        "not noticed",
        "FSVD-350 at the start",
        "tests/unit/storage/test_journal.py",
    ),
    (
        "no memory, no thread or no open file left; read-only state; brackets in brackets",
        "FSVD-000 or a traceback",
        "FSVD-351, FSVD-350 or FSVD-100 with a fix",
        "tests/unit/storage/test_faults.py",
    ),
    (
        "a researcher submits without end, lists all jobs, or reads the CSP's errors",
        "no limit; lists carry every job file; texts carry the CSP's paths",
        "a limit on open jobs a researcher; lists without files, page by page; names of files without folders",
        "tests/unit/service/test_csp.py",
    ),
    (
        "column names and cells such as `=cmd|...`; folders of results under any umask",
        "a spreadsheet runs them; others may read",
        "text after an apostrophe; 0700 and 0600 throughout (`tests/e2e/test_rehearsal.py` walks all folders)",
        "tests/unit/results/test_formulas_in_csv.py",
    ),
    (
        "a line of 3 kB/s",
        "FSVD-502: taken for dead",
        "the study ends right, only later",
        "tests/e2e/test_slow_link.py",
    ),
    (
        "many jobs, many parties, one machine (`soak.json`: 200 jobs, 20 parties)",
        "not tried",
        "none wrong; memory, descriptors, threads and disk flat, but for 42 kB a job in the ledger; all results are "
        "fetched",
        "tests/e2e/test_soak.py",
    ),
    (
        "100 random kills, by seeds",
        "39 were tried",
        "all end right, one resume a kill at most",
        "tests/e2e/test_random_kills.py",
    ),
)


WORKERS = str(max(2, (os.cpu_count() or 2) // 2))  # each case has several processes of its own


class Recorder:
    """Listens to pytest; records what each case came to, and which tests passed."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.passed: dict[str, bool] = {}  # by test

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self.passed[report.nodeid] = report.passed and self.passed.get(report.nodeid, True)
        facts = dict(report.user_properties)
        if "kind" not in facts or not (report.when == "call" or report.failed or report.skipped):
            return
        passed = "ended as it must" if report.passed else "SKIPPED HERE" if report.skipped else "FAILED"
        outcome = facts.get("outcome", passed) if report.passed else passed
        test = report.nodeid.partition("[")[0]
        seconds = round(report.duration, 1)
        case = {"kind": facts["kind"], "case": facts["case"], "outcome": outcome, "test": test, "seconds": seconds}
        self.cases.append(case)

    def found(self) -> dict[str, bool]:
        """Whether each test passed that is behind the second table."""
        files = {file for *_, file in FOUND}
        return {test: passed for test, passed in self.passed.items() if test.partition("::")[0] in files}


def main(words: list[str]) -> int:
    """Run, print, write; the exit status says whether every case ended as it must."""
    found_only = words == ["--found"]
    adds = found_only or "--add" in words
    words = [word for word in words if word not in ("--add", "--found")]
    recorder, status = Recorder(), 0
    if not found_only:
        status = pytest.main(["-q", "-m", "chaos", "-n", WORKERS, *WHERE, *words], [recorder])
    before = json.loads(RESULT.read_text()) if adds else {"cases": [], "found": {}}
    found = {**before["found"], **recorder.found()}
    if not words:
        rest = [file for *_, file in FOUND if not any(test.startswith(file) for test in found)]
        status = pytest.main(["-q", "-n", WORKERS, *rest], [recorder]) or status
        found |= recorder.found()
    again = {case["test"] for case in recorder.cases}
    cases = merged([*recorder.cases, *(case for case in before["cases"] if case["test"] not in again)])
    Console(width=160).print(_table(cases))
    if adds or not words:
        RESULT.write_text(json.dumps({"machine": fingerprint(), "cases": cases, "found": found}, indent=1) + "\n")
        PAGE.write_text(page(cases, found))
    return int(status)


def merged(cases: list[Case]) -> list[Case]:
    """One row to a case, in order; where several tests are one case, those that came to something else stand apart."""
    rows: dict[tuple[str, str, str], Case] = {}
    for case in sorted(cases, key=lambda case: (case["kind"], case["case"], case["outcome"])):
        rows.setdefault((case["kind"], case["case"], case["outcome"]), case)
    return list(rows.values())


def page(cases: list[Case], found: Mapping[str, bool]) -> str:
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
        "",
        "## Found in 0.2.0",
        "",
        "The last column counts the tests of that file in the run that made this page.",
        "",
        "| what was done | 0.2.0 | now | done again by | passed |",
        "|---|---|---|---|---|",
        *(f"| {done} | {before} | {now} | `{test}` | {ran(test, found)} |" for done, before, now, test in FOUND),
    ]
    return "\n".join(lines) + "\n"


def ran(file: str, found: Mapping[str, bool]) -> str:
    """How many tests of a file passed, and whether any did not."""
    passed = [each for test, each in found.items() if test.partition("::")[0] == file]
    if not passed:
        return "not in this run"
    return f"{sum(passed)}" if all(passed) else f"{sum(passed)} of {len(passed)}: FAILED"


def _table(cases: list[Case]) -> Table:
    table = Table("trouble", "case", "outcome", "seconds")
    for case in cases:
        table.add_row(case["kind"], case["case"], case["outcome"], f"{case['seconds']:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
