"""The ablation of the paper's optimisations as a table, beside the paper's figures.

    python -m benchmarks.macro.ablation                          4,000 x 20,000, and 10,000 x 100,000 for Opt3: hours
    python -m benchmarks.macro.ablation 1000x5000 1000x20000     smaller, in minutes; both shapes can be given

Written to benchmarks/results/ablation.json. Without optimisations Q alone takes 8 n^2 bytes, twice over.
"""

import json
import sys
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from benchmarks.measure import RESULTS, fingerprint
from fedsvd_lab.experiments.ablation import Measured, ablation, offloading

PAPER = {"bytes": 0.732, "seconds": 0.819, "memory": 0.956, "offloading": 0.447}  # its section 5.5
SHAPES = ("4000x20000", "10000x100000")


def main(words: list[str]) -> int:
    """Measure, print, write."""
    console = Console()
    first, second = ([*words, *SHAPES[len(words) :]])[:2]
    (m, n), (tall, wide) = (tuple(map(int, shape.split("x"))) for shape in (first, second))
    steps = ablation(m, n, budget(m), report=console.print)
    console.print(_table(steps))
    layouts = offloading(tall, wide, budget(tall), report=console.print)
    console.print(_offloading(layouts))
    record = {
        "ablation": [asdict(step) for step in steps],
        "offloading": [asdict(layout) for layout in layouts],
        "saved": {"all three": steps[-1].saved(steps[0]), "offloading": layouts[1].saved(layouts[0]), "paper": PAPER},
        "machine": fingerprint(),
    }
    (RESULTS / "ablation.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0


def budget(m: int) -> int:
    """The least memory with which the CSP factorises m rows from their folded factor, and some for panels."""
    return 8 * 8 * m * m + (64 << 20)


def _table(steps: list[Measured]) -> Table:
    table = Table(
        "on", "moved", "time", "processor", "memory", title=f"SVD of {steps[0].m} x {steps[0].n}, paper's scheme"
    )
    for step in steps:
        amounts = f"{step.bytes / 1e6:.0f} MB", f"{step.seconds:.1f} s", f"{step.cpu_seconds:.1f} s"
        table.add_row(step.variant, *amounts, f"{step.memory / 1e6:.0f} MB")
    saved = steps[-1].saved(steps[0])
    shares = [f"-{saved[name]:.1%}" for name in ("bytes", "seconds", "cpu_seconds", "memory")]
    table.add_row("saved", *shares)
    table.add_row(
        "paper, 10K x 50K", f"-{PAPER['bytes']:.1%}", f"-{PAPER['seconds']:.1%}", "", f"-{PAPER['memory']:.1%}"
    )
    return table


def _offloading(layouts: list[Measured]) -> Table:
    table = Table("X' on disk", "time", "processor", "memory", title=f"Opt3, {layouts[0].m} x {layouts[0].n}")
    for layout in layouts:
        table.add_row(
            layout.variant, f"{layout.seconds:.1f} s", f"{layout.cpu_seconds:.1f} s", f"{layout.memory / 1e6:.0f} MB"
        )
    saved = layouts[1].saved(layouts[0])
    table.add_row("saved", f"-{saved['seconds']:.1%}", f"-{saved['cpu_seconds']:.1%}", f"-{saved['memory']:.1%}")
    table.add_row("paper, 10K x 100K", f"-{PAPER['offloading']:.1%}", "", "")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
