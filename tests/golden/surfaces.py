"""What people read of every case and every task, as text: plans, approvals, reports, schema, reference, messages.

Each function makes one text that is the same on every machine. Numbers that a machine, a clock or the last digits of a
BLAS decide are masked: digests as DIGEST, times as TIME, numbers with decimals as X. The cost model counts the threads
of its machine, so it is asked as if this one had two.
"""

import json
import re
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

from tests.golden.jobs import FEW_DIGITS, JOBS, folder_of
from tests.protocol.cases import CASES
from tests.unit.results.report.pages import Page, study
from typer.testing import CliRunner

import fedsvd.cost.kernels
from fedsvd.cli import cost as cost_module
from fedsvd.cli.approve import size_of
from fedsvd.cli.main import cli
from fedsvd.cost.calibration import Rated
from fedsvd.cost.estimate import masks_of, predict
from fedsvd.cost.rates import DEFAULT
from fedsvd.cost.traffic import Expected, full_rank, messages_of
from fedsvd.policy.learned import how_rows_belong
from fedsvd.policy.rules import Policy, findings, what_each_role_learns
from fedsvd.policy.sent import leaves_each_site
from fedsvd.protocol.messages import size
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, StepKind
from fedsvd.studies.job_file import schema
from fedsvd.testing.federation import Federation

ROOT = Path(__file__).parents[2]
PARTIES = (2, 3)
THREADS = 2


def texts(folder: Path) -> dict[str, Callable[[], str]]:
    """Every golden text by its path below ``recorded``; ``folder`` is for what has to be written on the way."""
    made: dict[str, Callable[[], str]] = {
        "job-schema.json": lambda: json.dumps(schema(), indent=2) + "\n",
        "cli.md": lambda: str(runpy.run_path(str(ROOT / "docs/_ext/fedsvd_pages.py"))["cli_page"]()),
    }
    for name in CASES:
        made[f"cases/{slug(name)}.txt"] = lambda name=name: case(name)
    for name in JOBS:
        made[f"plans/{slug(name)}.txt"] = lambda name=name: plan_of_job(name, folder)
        made[f"plans/{slug(name)}.json"] = lambda name=name: plan_of_job(name, folder, "json")
        if name not in FEW_DIGITS:
            made[f"reports/{slug(name)}.txt"] = lambda name=name: report(name, folder)
    return made


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


# --- sessions ---------------------------------------------------------------------------------------------------------


def case(name: str) -> str:
    """One of the protocol's cases, between two parties and between three."""
    lines = [name]
    for k in PARTIES:
        session = CASES[name](k)
        session.run()
        lines += ["", "", f"=== {k} parties", *_plan(session.plan), *_costs(session.plan), *_messages(session)]
    return "\n".join(lines) + "\n"


def _plan(plan: SessionPlan) -> Iterator[str]:
    yield f"{plan.task}, {plan.split} split, scheme {plan.scheme}, mode {plan.mode}: {plan.reason}"
    yield f"{size_of(plan)}; masks {masks_of(plan)}; rows {how_rows_belong(plan) or 'split'}"
    parts = {
        "steps": list(_steps(plan.steps)),
        "what leaves each site": leaves_each_site(plan),
        "what each role learns": what_each_role_learns(plan),
        "what the default policy says": [str(each) for each in findings(plan, Policy())],
    }
    for title, said in parts.items():
        yield from ("", f"--- {title}", *said)


def _steps(steps: tuple[PlannedStep, ...], indent: str = "") -> Iterator[str]:
    for step in steps:
        if step.kind in (StepKind.MAYBE, StepKind.REPEAT):
            yield f"{indent}{step.kind}: {step.name}" + (f", at most {step.times}" if step.times > 1 else "")
            yield from _steps(step.body, indent + "    ")
            continue
        words = [f"{indent}{step.kind}: {step.name}", f"{'up to ' * step.upto}{step.size}"]
        words += [f"last digit 2^-{step.step}"] if step.step else []
        words += [f"for user {step.to}"] if step.to else []
        yield ", ".join(words)


def _costs(plan: SessionPlan) -> Iterator[str]:
    """What the cost model says of each role, with the rates that no machine was measured for."""
    with patch.object(fedsvd.cost.kernels, "available", lambda: THREADS):
        cost = predict(plan)
    yield from ("", "--- cost of each role")
    for role, own in cost.roles.items():
        yield f"{role}: memory {own.memory}, buffers {own.buffers}, sends {own.sent}, receives {own.received}"
        yield from (f"    {stage}: {seconds:.3e} s" for stage, seconds in own.seconds_by_stage.items())


def _messages(session: Federation) -> Iterator[str]:
    """Messages as planned, for full rank and for rank 1, and what differs in the session as it was played."""
    full = _counted(messages_of(session.plan, Expected(full_rank(session.plan))))
    yield from ("", "--- planned messages", *_table(full))
    yield from ("", "--- the same at rank 1, where it differs", *_differences(full, _at_rank_1(session.plan)))
    played = _counted((origin, to, message, 1) for origin, to, message in session.sent)
    yield from ("", "--- the session as played, where it differs", *_differences(full, played))
    kinds = " ".join(_kind(message) for origin, to, message in session.sent if origin == session.plan.users[0])
    yield from ("", "--- what user 1 sent, in order", kinds)


def _at_rank_1(plan: SessionPlan) -> Counter[tuple[str, ...]]:
    return _counted(messages_of(plan, Expected(1)))


def _kind(message: object) -> str:
    name = getattr(message, "name", "")
    return type(message).__name__ + (f"({name})" if name else "")


def _counted(messages) -> Counter[tuple[str, ...]]:
    counted = Counter[tuple[str, ...]]()
    for origin, to, message, times in messages:
        counted[_kind(message), f"{size(message)} bytes", f"{origin.name} to {to.name}"] += times
    return counted


def _table(counted: Counter[tuple[str, ...]]) -> list[str]:
    """A line to each kind and size of message, with its links."""
    links: dict[tuple[str, str], list[str]] = {}
    for (kind, length, link), times in sorted(counted.items()):
        links.setdefault((kind, length), []).append(link if times == 1 else f"{link} ({times} times)")
    return [f"{kind}, {length}: {', '.join(ends)}" for (kind, length), ends in links.items()]


def _differences(expected: Counter[tuple[str, ...]], found: Counter[tuple[str, ...]]) -> list[str]:
    less, more = (_table(one - other) for one, other in ((expected, found), (found, expected)))
    return [*(f"less: {line}" for line in less), *(f"more: {line}" for line in more)]


# --- jobs -------------------------------------------------------------------------------------------------------------


def plan_of_job(name: str, folder: Path, format: str = "text") -> str:
    """``fedsvd plan`` on a job file: standard output, then what was noticed."""
    job = folder_of(name, folder)
    rated = patch.object(cost_module, "rated", lambda afresh=False: Rated(DEFAULT, "rates of no machine"))
    threads = patch.object(fedsvd.cost.kernels, "available", lambda: THREADS)
    with rated, threads:
        said = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(cli, ["plan", str(job), "--format", format])
    assert said.exit_code == 0, said.output
    if format == "json":
        return json.dumps(_rounded(json.loads(said.stdout)), indent=1, ensure_ascii=False) + "\n"
    return f"{said.stdout}\n--- notices\n{said.stderr}"


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.3g}") if isinstance(value, float) else value


class _Lines(Page):
    """A page as lines of text, one to each element that begins a line; drawings are left out."""

    BLOCKS = frozenset({"p", "h1", "h2", "h3", "li", "tr", "pre", "figcaption", "caption", "summary", "section", "div"})

    def __init__(self, html: str) -> None:
        super().__init__(re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL))

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        self.words.append("\n" if tag in self.BLOCKS else " | " if tag in ("td", "th") else "")

    @property
    def lines(self) -> list[str]:
        found = (" ".join(line.split()) for line in "".join(self.words).splitlines())
        return [line for line in found if line]


def report(name: str, folder: Path) -> str:
    """report.html of the first party, in words."""
    out = study(folder_of(name, folder))
    page = sorted(out.rglob("report.html"))[0]
    timed, lines = False, []
    for line in _Lines(page.read_text(encoding="utf-8")).lines:
        timed = line == "Seconds of every stage" or (timed and line.startswith("|"))
        lines.append(re.sub(r"(?: \| [\d.e+-]+){2}$", " | TIME | TIME", line) if timed else masked(line))
    return "\n".join(lines) + "\n"


_MASKS = {
    r"\b[0-9a-f]{16,64}\b": "DIGEST",
    r"\b[0-9a-f]{4}(?: [0-9a-f]{4}){3,}\b": "DIGEST",
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?": "TIME",
    r"[-\u2212]?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?\s?(?:ms|s|min|h)\b": "TIME",
    r"[<>]\s?\d+\.\d+(?:e[-+]?\d+)?": "X",
    r"[-\u2212]?\b\d+(?:\.\d+)+(?:e[-+]?\d+)?": "X",
    r"[-\u2212]?\b\d+e[-+]?\d+\b": "X",
    r"^\d+ components? (?=taken: those above)": "X components ",  # permuted tables are other ones in each run
}


def masked(line: str) -> str:
    """A line without what differs between two runs, or between two machines."""
    for pattern, word in _MASKS.items():
        line = re.sub(pattern, word, line)
    return line
