"""Figure 6: the paper's optimisations taken away again (``ablation.py``), and the default scheme at the same size."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedsvd.data.open import open_source
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study
from fedsvd_lab.experiments.ablation import Measured, ablation, offloading
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.ours import DEFAULT, PAPER, run_on
from fedsvd_lab.experiments.rows import Case, Measurement

COMMUNICATION, TIME, MEMORY = "communication", "time", "memory"
SHARE = "share of no optimisation"
_NAMES = {"none": "no optimisation", "1": "Opt1", "1+2": "Opt1+2", "1+2+3": "Opt1+2+3"}
_OFFLOADED = {"swap": "swap-like offloading", "advanced": "advanced offloading"}


def cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """The steps of the ablation, the default next to them, and the two ways of offloading."""
    (m, n), budget = settings["shape"], settings["memory"]
    yield Case({"m": m, "n": n, "budget": budget}, _steps(m, n, budget, settings["block"], context))
    yield Case({"m": m, "n": n, "budget": budget, "of": DEFAULT}, _default(m, n, context))
    (m, n), budget = settings["offload_shape"], settings["offload_memory"]
    yield Case(
        {"m": m, "n": n, "budget": budget, "of": "offloading"}, _offloading(m, n, budget, settings["block"], context)
    )


def _steps(m: int, n: int, budget: int, block: int, context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        found = ablation(m, n, budget, block, lambda text: context.say(f"  {text}"))
        for one in found:
            yield from _amounts(_NAMES[one.variant], one)
        for count, one in enumerate(found):
            yield from _shares(count, one, found[0])
        saved = found[-1].saved(found[0])
        for metric, key in ((COMMUNICATION, "bytes"), (TIME, "seconds"), (MEMORY, "memory")):
            yield Measurement(PAPER, f"{metric} saved by all three", saved[key], scheme="paper")

    return run


def _amounts(name: str, one: Measured) -> Iterator[Measurement]:
    note = f"{one.cpu_seconds:.1f} s of processor, in a process of its own"
    amounts = ((COMMUNICATION, one.bytes, "bytes"), (TIME, one.seconds, "s"), (MEMORY, one.memory, "bytes"))
    for metric, value, unit in amounts:
        yield Measurement(name, metric, value, unit, scheme="paper", note=note)


def _shares(count: int, one: Measured, none: Measured) -> Iterator[Measurement]:
    """The bars of the figure: each amount as a share of what it is without any optimisation."""
    left = {name: 1 - share for name, share in one.saved(none).items()}
    for metric, key in ((COMMUNICATION, "bytes"), (TIME, "seconds"), (MEMORY, "memory")):
        yield Measurement(metric, SHARE, left[key], case={"optimisations": count}, scheme="paper")


def _default(m: int, n: int, context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        address = f"synthetic://{m}x{n}?alpha=1&seed=7&columns="
        halves = ((0, n // 2), (n // 2, n))
        parties = [PartyData(open_source(f"{address}{start}:{stop}")) for start, stop in halves]
        ran = run_on(Study(Task.SVD, Split.VERTICAL), parties, context.scratch)
        yield Measurement(DEFAULT, COMMUNICATION, ran.bytes_total, "bytes", scheme=ran.scheme)
        yield Measurement(DEFAULT, TIME, ran.seconds, "s", scheme=ran.scheme)

    return run


def _offloading(m: int, n: int, budget: int, block: int, context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        swap, advanced = offloading(m, n, budget, block, lambda text: context.say(f"  {text}"))
        for one in (swap, advanced):
            yield from _amounts(_OFFLOADED[one.variant], one)
        yield Measurement(PAPER, "time saved by offloading", advanced.saved(swap)["seconds"], scheme="paper")

    return run
