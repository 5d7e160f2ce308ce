"""Table 2: applications at billion scale. What this size of run can do is measured; the paper's sizes are predicted.

Predictions are those of ``fedsvd.cost.estimate``, and of ``published.cost`` for the paper's scheme, with the rates of
this machine, one machine to each role and no network. A record of a real run at the paper's size, where the repository
has one, stands next to it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fedsvd.cost.calibration import rated
from fedsvd.cost.estimate import predict
from fedsvd.cost.rates import DEFAULT as USUAL
from fedsvd.cost.rates import Rates
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.job_data import party_data
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId
from fedsvd_lab.datasets import synthetic
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.ours import DEFAULT, PAPER, PUBLISHED, as_published, run_on
from fedsvd_lab.experiments.rows import PREDICTED, Case, Measurement
from fedsvd_lab.published.cost import predicted
from fedsvd_lab.published.setting import Setting

TIME, TRAFFIC, MEMORY = "time", "bytes sent", "largest memory of a role"
_AMPLE = 16 << 30
FOLDER = Path(__file__).parents[4] / "benchmarks" / "results"
_RECORDS = {
    "SVD": (
        ("scale-50m.json", "record, local rung", "sum"),
        ("h200-svd-50m.json", "record, one H200", "sum"),
    ),
    "LSA": (("h200-lsa.json", "record, one H200", "mask"),),
    "LR": (("h200-lr-50m.json", "record, one H200", "mask"),),
}


def cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """For each application a run at this size, and a prediction at the paper's."""
    for run in settings["runs"]:
        m, n = run["shape"]
        key = {"application": run["application"], "m": m, "n": n, "r": run.get("r", "all")}
        yield Case(key, _measured(run, context))
    for run in settings["runs"]:
        m, n = run["paper"]
        key = {"application": run["application"], "m": m, "n": n, "r": run.get("paper_r", "all"), "of": "prediction"}
        yield Case(key, _predicted(run, settings.get("calibrate", True)))


def _study(run: Mapping[str, Any], r: int | None) -> Study:
    if run["task"] == Task.LR:
        return Study(Task.LR, Split.VERTICAL, targets=1, label_user=2)
    return Study(Task.SVD if r is None else Task.LSA, Split.VERTICAL, components=r)


def _measured(run: Mapping[str, Any], context: Context) -> Callable[[], Iterator[Measurement]]:
    def work() -> Iterator[Measurement]:
        parties = _parties(run, context.seed)
        tables, y = [party.table for party in parties], parties[-1].labels
        published = as_published(tables, y, context.scratch, components=run.get("r"))
        default = run_on(_study(run, run.get("r")), parties, context.scratch)
        for method, ran in ((PAPER, published), (DEFAULT, default)):
            yield Measurement(method, TIME, ran.seconds, "s", scheme=ran.scheme)
            yield Measurement(method, TRAFFIC, ran.bytes_total, "bytes", scheme=ran.scheme)

    return work


def _parties(run: Mapping[str, Any], seed: int) -> list[PartyData]:
    """Two users' halves of the columns: normals, a power law, ratings, or features and labels."""
    m, n = run["shape"]
    half = n // 2
    cuts = ((0, half), (half, n))
    if run["data"] == "ratings":
        X = synthetic.ratings(m, n, run["ratings"], seed=seed).tocsc()
        return [PartyData(open_source(X[:, start:stop])) for start, stop in cuts]
    law = "&alpha=1" if run["data"] == "power law" else ""
    texts = [f"synthetic://{m}x{n}?seed={seed}{law}&columns={start}:{stop}" for start, stop in cuts]
    if run["task"] != Task.LR:
        return [PartyData(open_source(text)) for text in texts]
    labelled = party_data(open_source(f"{texts[1]}&label=y"), ("y",), None, False)
    return [PartyData(open_source(texts[0])), labelled]


def _predicted(run: Mapping[str, Any], calibrated: bool) -> Callable[[], Iterator[Measurement]]:
    def work() -> Iterator[Measurement]:
        machine = _this_machine() if calibrated else USUAL
        yield from _at_the_papers_size(run, machine)
        yield from recorded(run["application"])

    return work


def _at_the_papers_size(run: Mapping[str, Any], machine: Rates) -> Iterator[Measurement]:
    (m, n), r, solves = run["paper"], run.get("paper_r"), run["task"] == Task.LR
    setting = Setting(m, (n // 2, n - n // 2), components=r, targets=int(solves), bias=solves)
    published = predicted(setting, machine)
    try:
        plan = _plan(_study(run, r), m, n)
    except ConfigError:
        # The usual memory budget holds no window of so long a line.
        plan = _plan(replace(_study(run, r), memory=_AMPLE), m, n)
    cost = predict(plan, machine)
    values = (
        (PAPER, PUBLISHED, published.seconds, published.bytes_total),
        (DEFAULT, str(plan.scheme), cost.seconds_side_by_side, cost.bytes_total),
    )
    note = "cost model, this machine's rates, a machine to each role, no network"
    for method, scheme, seconds, moved in values:
        yield Measurement(method, TIME, seconds, "s", how=PREDICTED, scheme=scheme, note=note)
        yield Measurement(method, TRAFFIC, moved, "bytes", how=PREDICTED, scheme=scheme, note=note)


@cache
def _this_machine() -> Rates:
    return rated().machine


def _plan(study: Study, m: int, n: int) -> SessionPlan:
    return plan_study(study, m, (n // 2, n - n // 2), SessionId("0" * 32)).plan


def recorded(application: str, folder: Path = FOLDER) -> Iterator[Measurement]:
    """The records of an application at the paper's size, where there are any."""
    for name, what, scheme in _RECORDS.get(application, ()):
        try:
            record = json.loads((folder / name).read_text(encoding="utf-8"))
            seconds = float(record["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        machine = record.get("device") or record.get("machine", {}).get("processor", "as recorded there")
        note = f"benchmarks/results/{name}, {machine}"
        yield Measurement(f"{DEFAULT}, {what}", "time", seconds, "s", scheme=scheme, note=note)
