"""What a run was expected to take against what it needed.

    python -m benchmarks.estimates [--scale 0.5] [NAME ...]     all shapes, or these
    python -m benchmarks.estimates --new                        ten that nothing was fitted to; time and bytes alone

Each shape is estimated as the command line estimates it, and then run in a process of its own. ``bytes`` are those of
all links and must be equal. ``time`` is expected over needed, on the clock: within 1.5 on an idle machine, within 2.5
on a busy one. ``of work`` is the same of processor time, which other programs hardly change: give the BLAS one thread
where they run, because its threads spin while they wait for each other. ``memory`` is expected over needed of the
first user, the last user and the CSP, each living through the session again alone (``macro/replay.py``), within 25 %;
roles of a few megabytes are left out, where the interpreter's own memory would be measured.

What the data decides is estimated as the command line does, but for the iterations of a model, of which bytes are
compared for as many as there were, and for the steps of a search, of which bytes and time are. Times below half a
second count as half a second: the command line says "less than a second" of them. ``--scale`` shrinks or stretches
both sides of every shape. Rows are printed as they are measured; ``--json FILE`` writes them with the machine, its load
and the rates. The exit status says whether all bars were met.
"""

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.macro.shapes import Shape, shapes, unseen
from benchmarks.measure import Row, fingerprint
from fedsvd.cost.calibration import rated
from fedsvd.cost.rates import Gains, Rates

TIME, BUSY, MEMORY = 1.5, 2.5, 1.25
_SMALL = 16 << 20  # bytes; below, the interpreter's own memory would be measured
_SHORT = 0.5  # seconds; what is shorter is shown as less than a second
_LONG_ENOUGH = 2.0  # seconds; a shorter run is repeated, and the shortest counts


@dataclass(frozen=True)
class Compared:
    """One shape: bytes, seconds on the clock and of processor time, memory by role; each expected and needed."""

    name: str
    samples: int
    features: int
    bytes: tuple[int, int]
    seconds: tuple[float, float]
    work: tuple[float, float]
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)
    stages: dict[str, tuple[float, float]] = field(default_factory=dict)  # all users together

    @property
    def time(self) -> float:
        return max(self.seconds[0], _SHORT) / max(self.seconds[1], _SHORT)

    @property
    def of_work(self) -> float:
        return self.work[0] / self.work[1]

    @property
    def of_memory(self) -> dict[str, float]:
        """Expected over needed of every role that is large enough to be measured."""
        large = {role: pair for role, pair in self.memory.items() if max(pair) > _SMALL}
        return {role: expected / max(needed, 1) for role, (expected, needed) in large.items()}

    @property
    def faults(self) -> list[str]:
        """The bars that were not met."""
        found = [] if self.bytes[0] == self.bytes[1] else ["bytes"]
        found += (
            [] if 1 / TIME <= self.time <= TIME else ["time" if 1 / BUSY <= self.time <= BUSY else "time, even busy"]
        )
        return found + [f"memory of {role}" for role, off in self.of_memory.items() if not 1 / MEMORY <= off <= MEMORY]


# --- in the process of one shape --------------------------------------------------------------------------------------


def compared(shape: Shape, machine: Rates, memory: bool = True) -> Compared:
    """Estimated, run on the clock, and role by role again for its memory."""
    from benchmarks.macro import replay
    from fedsvd.cost.estimate import predict
    from fedsvd.data.sparse import share_stored
    from fedsvd.randomness.seed import Seed
    from fedsvd.studies.run import plan_for, run_study

    parties = shape.parties()
    plan = plan_for(shape.study, parties, Seed(bytes(32)))[0].plan
    stored = tuple(share_stored(party.table) for party in parties)
    cost = predict(plan, machine, stored=stored)
    clock = work = float("inf")
    spent, outcome = 0.0, None
    while spent < _LONG_ENOUGH and (outcome is None or spent + clock < 2 * _LONG_ENOUGH):
        outcome = None
        began, busy = perf_counter(), process_time()
        outcome = run_study(shape.study, parties)
        took = perf_counter() - began
        clock, work, spent = min(clock, took), min(work, process_time() - busy), spent + took
    counted, stages = outcome.certificate.bytes_total, outcome.certificate.seconds_by_stage
    decisions = decided(outcome)
    cost = predict(plan, machine, passes=decisions["passes"], stored=stored) if decisions["passes"] else cost
    expected_bytes = predict(plan, machine, **decisions).bytes_total
    found = Compared(
        shape.name,
        shape.samples,
        shape.features,
        (expected_bytes, counted),
        (cost.seconds_on_one_machine, clock),
        (cost.core_seconds_on_one_machine, work),
        {},
        {f"{party.name} {stage}": (0.0, spent) for (party, stage), spent in stages.items()},
    )
    for role, own in cost.roles.items():
        for stage, seconds in own.seconds_by_stage.items():
            found.stages[f"{role} expected {stage}"] = (seconds, 0.0)
    del outcome
    if memory:
        replay.return_memory_at_once()
        for party, taken in replay.memory_of(shape.study, parties):
            found.memory[party.name] = (cost.roles[party.name].memory, taken)
    return found


def decided(outcome: Any) -> dict[str, Any]:
    """What the data decided: the passes of each block of a search, the iterations of a model."""
    from fedsvd.protocol.tasks import Scheme, Task

    own, plan = outcome.parties[0], outcome.plan
    models = own.models if plan.task is Task.GLM else ()
    return {
        "passes": own.checked.order.passes if plan.scheme is Scheme.STEPS else (),
        "iterations": max((model.iterations for model in models), default=None),
    }


def warm_up() -> None:
    """Everything loaded that a session loads when it first needs it."""
    from dataclasses import replace

    for shape in shapes():
        if shape.name in ("svd, small", "lr, columns split"):
            small = replace(shape, samples=64, features=8)
            from fedsvd.studies.run import run_study

            run_study(small.study, small.parties())


def alone(name: str, scale: float, machine: Rates, memory: bool) -> Compared:
    """One shape, measured in this process."""
    from fedsvd.errors import PrivacyWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warm_up()
        return compared(
            next(shape for shape in (*shapes(), *unseen()) if shape.name == name).scaled(scale), machine, memory
        )


# --- all shapes -------------------------------------------------------------------------------------------------------


def measured(names: list[str], scale: float, machine: Rates, memory: bool = True) -> Iterator[Compared]:
    """Every shape that is named, or all of them, in processes of their own, one after the other."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.estimates",
        "--scale",
        str(scale),
        "--rates",
        json.dumps(asdict(machine)),
    ]
    command += [] if memory else ["--no-memory"]
    for shape in (*shapes(), *unseen()):
        if shape.name in (names or [shape.name for shape in shapes()]):
            done = subprocess.run([*command, "--alone", shape.name], stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                print(f"{shape.name}: failed, exit status {done.returncode}", file=sys.stderr, flush=True)
            else:
                yield Compared(**json.loads(done.stdout))


def rows() -> Iterator[Row]:
    """The same as bars of ``make bench``."""
    for found in measured([], 1.0, rated().machine):
        expected, needed = found.bytes
        name = f"estimate of {found.name}"
        yield Row(f"{name}: bytes", expected, needed, "needed", "equal", expected / needed, expected == needed, "B")
        fits = 1 / TIME <= found.time <= TIME
        yield Row(f"{name}: time", *found.seconds, "needed", f"within {TIME:g}x", found.time, fits)
        for role, off in found.of_memory.items():
            fits = 1 / MEMORY <= off <= MEMORY
            taken = [count / 1e6 for count in found.memory[role]]
            yield Row(f"{name}: memory of {role}", *taken, "needed", f"within {MEMORY:g}x", off, fits, "MB")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimates", description="expected against needed")
    parser.add_argument(
        "names", nargs="*", choices=[[], *(shape.name for shape in (*shapes(), *unseen()))], metavar="NAME"
    )
    parser.add_argument("--new", action="store_true", help="ten shapes that no rate was fitted to: time and bytes")
    parser.add_argument("--scale", type=float, default=1.0, help="of both sides of every shape")
    parser.add_argument("--json", type=Path, help="where the table is written as well")
    parser.add_argument("--no-memory", action="store_true", help="time and bytes only, in a third of the time")
    parser.add_argument("--stages", action="store_true", help="print what every stage took, too")
    parser.add_argument("--alone", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--rates", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.alone:
        print(
            json.dumps(
                asdict(
                    alone(
                        asked.alone,
                        asked.scale,
                        Rates(**{**asked.rates, "gains": Gains(**asked.rates["gains"])}),
                        not asked.no_memory,
                    )
                )
            )
        )
        return 0
    names = [shape.name for shape in unseen()] if asked.new else asked.names
    found, before, began = rated(afresh=asked.new), os.getloadavg()[0], perf_counter()
    console, done = Console(width=160), []
    for row in measured(names, asked.scale, found.machine, not (asked.no_memory or asked.new)):
        done.append(row)
        print(_in_a_line(row), flush=True)
        for stage, (expected, needed) in row.stages.items() if asked.stages else ():
            print(f"    {stage}: {expected or needed:.3f}")
    console.print(_table(done))
    load = f"{before:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end"
    machine = found.machine
    print(f"{found.source}; {machine.cores} cores, {machine.threads} BLAS threads; load {load}")
    print(f"{len(done)} shapes in {perf_counter() - began:.0f} s; not within their bars: {_faults(done)}")
    if asked.json:
        table = [{**asdict(row), "time": row.time, "of_work": row.of_work, "of_memory": row.of_memory} for row in done]
        record = {"machine": fingerprint(), "load": load, "rates": asdict(machine), "scale": asked.scale, "rows": table}
        asked.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if any(row.faults for row in done) else 0


def _in_a_line(row: Compared) -> str:
    shape, byte = f"{row.samples:,} x {row.features:,}", "equal" if row.bytes[0] == row.bytes[1] else "NOT EQUAL"
    time = f"time {row.seconds[0]:.2f}/{row.seconds[1]:.2f} s = {row.time:.2f}, of work {row.of_work:.2f}"
    return f"{row.name}, {shape}: bytes {byte}; {time}; memory {_memory(row)}"


def _memory(row: Compared) -> str:
    return (
        ", ".join(
            f"{role} {row.memory[role][0] / 1e6:.0f}/{row.memory[role][1] / 1e6:.0f} MB = {off:.2f}"
            for role, off in row.of_memory.items()
        )
        or "small"
    )


def _faults(done: list[Compared]) -> str:
    return "; ".join(f"{row.name} ({', '.join(row.faults)})" for row in done if row.faults) or "none"


def _table(done: list[Compared]) -> Table:
    shown = Table("shape", "samples x features", "bytes", "expected", "needed", "time", "of work", "memory")
    for row in done:
        expected, needed = row.bytes
        shown.add_row(
            row.name,
            f"{row.samples:,} x {row.features:,}",
            "equal" if expected == needed else f"{expected:,} / {needed:,}",
            f"{row.seconds[0]:.2f} s",
            f"{row.seconds[1]:.2f} s",
            f"{row.time:.2f}",
            f"{row.of_work:.2f}",
            _memory(row),
        )
    return shown


if __name__ == "__main__":
    raise SystemExit(main())
