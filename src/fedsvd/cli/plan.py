"""``fedsvd plan``: what a job will compute, by whom, what leaves each site, what each role learns. Nothing is sent."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedsvd.cli.cost import cost_record, cost_table
from fedsvd.cli.options import FormatOption, Scratch
from fedsvd.cli.voice import Format, Voice, duration, facts, listing, size
from fedsvd.protocol.cost import predict
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.rates import DEFAULT
from fedsvd.protocol.release import Policy, findings, what_each_role_learns
from fedsvd.protocol.tasks import Item, Mode, Split, Task, Trust
from fedsvd.protocol.upload import upload_bytes
from fedsvd.runtime.calibration import calibrate as measured
from fedsvd.runtime.job import read_job
from fedsvd.runtime.job_data import Prepared, prepare
from fedsvd.runtime.jobs import named, plan_job
from fedsvd.runtime.planning import Planned


def plan(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Measure this machine first: a second.")] = False,
    scratch: Scratch = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Say what a job will do, what it reveals and what it costs, before anything is sent."""
    voice = Voice(format, quiet=True)
    prepared = prepare(read_job(job), scratch)
    planned = plan_job(prepared)
    cost = predict(planned.plan, measured() if calibrate else DEFAULT)
    record = _record(prepared, planned) | {"cost": cost_record(planned.plan, cost, prepared.names)}
    for finding in findings(planned.plan, Policy()):
        voice.notice(named(str(finding), prepared.names))
    costs = cost_table(planned.plan, cost, prepared.names)
    voice.answer(record, lambda console: _show(console, record, costs))


def _record(prepared: Prepared, planned: Planned) -> dict[str, Any]:
    plan = planned.plan
    samples, features = (plan.m, plan.n) if plan.split is Split.VERTICAL else (plan.n, plan.m)
    return {
        "job": prepared.name,
        "task": plan.task,
        "split": plan.split,
        "samples": samples,
        "features": features,
        "components": plan.components,
        "scheme": plan.scheme,
        "why": planned.why,
        "trust": plan.trust,
        "roles": _roles(plan),
        "parties": [
            {"name": name, "rows": party.table.shape[0], "columns": party.table.shape[1]}
            for name, party in zip(prepared.names, prepared.parties, strict=True)
        ],
        "leaves_each_site": leaves_each_site(plan),
        "released": {item: _whom(plan, item) for item in plan.release},
        "learns": [named(line, prepared.names) for line in what_each_role_learns(plan)],
    }


def _roles(plan: SessionPlan) -> dict[str, str]:
    """Who does what."""
    roles = {
        "parties": "compress, mask and pad their own data; check the answer and take the masks off it",
        "csp": "adds up padded shares, factorises the masked sum, verifies it; sees no mask",
    }
    if plan.mode is Mode.A:
        roles = {
            "parties": "add up their Gram matrices under pads, open the sum and factorise it, each checking the first",
            "csp": "adds up padded shares that it cannot open, and relays sealed messages",
        }
    if plan.trust is Trust.AUTHORITY:
        roles["authority"] = "deals the seeds of the masks, then leaves; sees no data"
    return roles


def _whom(plan: SessionPlan, item: Item) -> str:
    """Who gets a released item."""
    if item is Item.OWN_PART or (item is Item.COEFFICIENTS and plan.split is Split.VERTICAL):
        return "to each party its own"
    return "to the label holder" if item is Item.SCORE else "to every party"


def leaves_each_site(plan: SessionPlan) -> list[str]:
    """Everything a party sends, in the order in which it goes."""
    lines = ["a session key, signed", "a salted commitment to its data, and a signed digest of what it received"]
    if plan.check_ids:
        lines.append("one keyed hash of all its row ids; the key stays among the parties")
    if plan.centre or plan.task is Task.LR:
        lines.append("its sums for means, scales and norms, under pads that only the total survives")
    else:
        lines.append("the norm of its data, under a pad that only the total survives")
    upload = size(upload_bytes(plan))
    if plan.mode is Mode.A:
        lines.append(
            f"its Gram matrix of {plan.M} x {plan.M} as exact integers ({upload}), padded: parties open the sum"
        )
    elif plan.mode is Mode.B:
        mask = "under a rotation that the CSP does not know"
        lines.append(f"its Gram matrix of {plan.M} x {plan.M} as exact integers ({upload}), {mask}, and padded")
    else:
        form = "masked by rotations that the CSP does not know"
        lines.append(f"its share of {plan.M} x {plan.N} numbers ({upload}), {form}, and padded")
    if plan.published and plan.task in (Task.SVD, Task.LSA) and plan.releases(Item.OWN_PART):
        lines.append("its slice of the mask under a blind (eq. 6 of the paper)")
    if plan.releases(Item.SCORE):
        lines.append("the partial scores of its columns, under pads that only the label holder can take off the total")
    return lines


def _show(console: Console, record: dict[str, Any], costs: Table) -> None:
    what = f"{record['task']} of {record['samples']} samples x {record['features']} features"
    if record["components"]:
        what += f", {record['components']} components"
    console.print(
        facts(
            {
                "job": record["job"],
                "what": what,
                "split": record["split"],
                "scheme": f"{record['scheme']}: {record['why']}",
                "masks": f"{record['cost']['masks']}, dealt by {record['trust']}",
            }
        )
    )
    console.print(listing(("party", "rows", "columns"), [tuple(each.values()) for each in record["parties"]]))
    _list(console, "By whom", [f"{role}: {does}" for role, does in record["roles"].items()])
    _list(console, "What leaves each party", record["leaves_each_site"])
    _list(console, "What is released", [f"{item}: {whom}" for item, whom in record["released"].items()])
    _list(console, "What each role learns", record["learns"])
    _list(console, "What it will cost", [_in_all(record["cost"])])
    console.print(costs)


def _in_all(cost: dict[str, Any]) -> str:
    apart, together = duration(cost["seconds_side_by_side"]), duration(cost["seconds_in_one_process"])
    work = f"{size(cost['bytes'])} and {cost['flops']:.1e} operations in all"
    return f"{work}; about {apart} with a machine to each role, {together} in one process"


def _list(console: Console, title: str, lines: list[str]) -> None:
    console.print()
    console.print(title, style="bold")
    for line in lines:
        console.print(f"- {line}")
