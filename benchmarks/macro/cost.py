"""The cost model against what happens: bytes to 1 %, memory to 20 %, time to a factor of 2, over all shapes.

Bytes are those of the metered transport. Time is what all stages of all roles take, added up, against the rates of one
core calibrated just before (``benchmarks/estimates.py`` has the time on the clock). Memory is that of the role furthest
from its prediction, each role living through the session alone; roles of a few megabytes are left out, where the
interpreter's own memory would be measured.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from warnings import catch_warnings, simplefilter

from rich.console import Console
from rich.table import Table

from benchmarks.macro.memory import well_conditioned
from benchmarks.macro.shapes import Shape, shapes
from benchmarks.measure import Row
from fedsvd.cost.calibration import calibrate
from fedsvd.cost.estimate import Cost, masks_of, predict, table
from fedsvd.errors import PrivacyWarning
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId, byte_size


def rows() -> Iterator[Row]:
    """Every shape's bytes and time, then every shape's memory."""
    many_users()
    with catch_warnings():
        simplefilter("ignore", PrivacyWarning)
        for shape in shapes():
            yield from bytes_and_time(shape)
    yield from memory()


def bytes_and_time(shape: Shape) -> Iterator[Row]:
    """Two runs, of which the quicker counts."""
    federation = shape.federation()
    runs = [run_study(federation.study, federation.parties) for _ in range(2)]
    outcome = min(runs, key=lambda run: run.certificate.seconds_total)
    cost = predict(outcome.plan, calibrate(), well_conditioned=well_conditioned(outcome.parties[0]))
    counted, seconds = outcome.certificate.bytes_total, outcome.certificate.seconds_total
    yield compared(f"{shape.name}: bytes", cost.bytes_total / 1e6, counted / 1e6, 0.01, "MB")
    expected = sum(role.core_seconds for role in cost.roles.values())
    factor = expected / seconds
    met = 0.5 <= factor <= 2.0
    yield Row(f"{shape.name}: time", expected, seconds, "measured", "within 2x", factor, met)


def memory() -> Iterator[Row]:
    """Of each shape the role furthest from its prediction, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.macro.memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as measuring:
        for line in measuring.stdout or ():
            found = json.loads(line)
            name = f"{found['shape']}: memory"
            if not found["role"]:
                yield Row(name, 0, 0, "measured", "a few MB", 1.0, True, "MB")
                continue
            yield compared(f"{name} of {found['role']}", found["predicted"] / 1e6, found["taken"] / 1e6, 0.2, "MB")
    if measuring.returncode:
        raise RuntimeError(f"memory was not measured: exit status {measuring.returncode}")


def compared(name: str, predicted: float, measured: float, within: float, unit: str) -> Row:
    ratio = predicted / measured
    return Row(name, predicted, measured, "measured", f"within {within:.0%}", ratio, abs(ratio - 1) <= within, unit)


def many_users(m: int = 1000, n_i: int = 50_000) -> None:
    """Masks, bytes and memory of an SVD by exact sums for k = 2, 5, 10, 50, and the table printed before a run."""
    shown = Table("k", "masks", "a user sends", "all links", "a user's memory", "the CSP's", "time, side by side")
    machine, console = calibrate(), Console()
    for k in (2, 5, 10, 50):
        plan = plan_study(Study(Task.SVD), m, (n_i,) * k, SessionId("table")).plan
        cost = predict(plan, machine)
        user, csp = cost.roles["user-1"], cost.roles["csp"]
        amounts = [byte_size(count) for count in (user.sent, cost.bytes_total, user.memory, csp.memory)]
        shown.add_row(str(k), masks_of(plan), *amounts, f"{cost.seconds_side_by_side:.0f} s")
        if k == 5:
            before = before_a_run(plan, cost)
    console.print(f"SVD, {m} rows, {n_i:,} columns a user:", shown, "five users, role by role:", before)


def before_a_run(plan: SessionPlan, cost: Cost) -> Table:
    shown = Table("role", "does", "sends", "receives", "memory", "time")
    for line in table(plan, cost):
        shown.add_row(line.role, line.does, line.sends, line.receives, line.memory, line.time)
    return shown
