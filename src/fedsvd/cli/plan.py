"""``fedsvd plan``: what a job will compute, by whom, what leaves each site, what each role learns. Nothing is sent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedsvd.cli.options import FormatOption, LinkOption, Scratch
from fedsvd.cli.output import Format, Output, facts, listing
from fedsvd.policy.learned import how_rows_belong, in_scheme
from fedsvd.policy.rules import Policy, findings, what_each_role_learns
from fedsvd.protocol.parties import named
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Align, Item, Mode, Split, Task, Trust
from fedsvd.types import byte_size

if TYPE_CHECKING:
    from fedsvd.studies.job_data import Prepared
    from fedsvd.studies.planning import Planned

PREPARED = "What is done to every party's table first"


def plan(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Measure this machine again: a second.")] = False,
    link: LinkOption = None,
    scratch: Scratch = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Say what a job will do, what it reveals and what it costs, before anything is sent."""
    # Imported here: --help needs neither the cost model nor what opens data.
    from fedsvd.cli.cost import compared_line, cost_record, cost_table, estimate, family_record, in_words
    from fedsvd.cli.study import point_out
    from fedsvd.studies.job_data import prepare
    from fedsvd.studies.job_file import read_job
    from fedsvd.studies.jobs import plan_job, plan_matching
    from fedsvd.studies.planning import other_family

    output = Output(format, quiet=True)
    asked = read_job(job)
    with output.notices_of_warnings(tuple(party.name for party in asked.parties)):
        prepared = prepare(asked, scratch)
    planned = plan_job(prepared)
    estimated = estimate(planned.plan, link=link, afresh=calibrate)
    matching = plan_matching(prepared)
    record = _record(prepared, planned, None if matching is None else matching.plan) | {
        "cost": cost_record(planned.plan, estimated, prepared.names)
    }
    other = other_family(prepared.study, planned)
    compared = None if other is None else (other.plan, estimate(other.plan, link=link))
    record["other_family"] = None if compared is None else family_record(*compared)
    stages = (planned.plan,) if matching is None else (matching.plan, planned.plan)
    for finding in (each for stage in stages for each in findings(stage, Policy())):
        output.notice(named(str(finding), prepared.names))
    point_out(output, prepared)
    costs = cost_table(planned.plan, estimated.cost, prepared.names)
    totals = in_words(estimated.cost, estimated.basis) + ([] if compared is None else [compared_line(*compared)])
    output.answer(record, lambda console: _show(console, record, totals, costs))


def _record(prepared: "Prepared", planned: "Planned", matching: SessionPlan | None) -> dict[str, Any]:
    from fedsvd.studies.doubts import units

    plan, first = planned.plan, matching if prepared.agreed is None else prepared.agreed.plan
    samples, features = (plan.m, plan.n) if plan.split is Split.VERTICAL else (plan.n, plan.m)
    return {
        "job": prepared.name,
        "task": plan.task,
        "split": plan.split,
        "samples": samples,
        "features": features,
        "components": plan.components,
        "scheme": plan.scheme,
        "mode": plan.mode,
        "why": planned.why,
        "trust": plan.trust,
        "roles": _roles(plan),
        "parties": [
            {"name": name, "rows": party.table.shape[0], "columns": party.table.shape[1]}
            for name, party in zip(prepared.names, prepared.parties, strict=True)
        ],
        "align": plan.align,
        "prepare": list(prepared.prepare),
        "units": units(prepared.study, prepared.words),
        "leaves_each_site": [*(() if first is None else leaves_each_site(first)), *leaves_each_site(plan)],
        "rows": how_rows_belong(plan) or None,
        "released": {item: _whom(plan, item) for item in plan.release},
        "learns": [
            named(line, prepared.names) for stage in (first, plan) if stage for line in what_each_role_learns(stage)
        ],
    }


def _roles(plan: SessionPlan) -> dict[str, str]:
    """Who does what."""
    roles = {
        "parties": "mask and pad their own data; take the masks off the answer and check it",
        "csp": "adds up padded shares, factorises the masked sum, verifies it; sees no mask",
    }
    if plan.mode is Mode.A:
        roles["parties"] = "share their Gram matrices exactly, open the sum, factorise it; test the result by their own"
        roles["csp"] = "adds up padded shares and relays sealed messages; can read neither, and alter no sum unseen"
    elif plan.mode is Mode.B:
        roles["parties"] = "share their Gram matrices exactly under one rotation; take it off the answer and check it"
        roles["csp"] = "adds up padded shares, factorises their exact sum, verifies it; does not know the rotation"
    if plan.trust is Trust.AUTHORITY:
        roles["authority"] = "deals the seeds of the masks, then leaves; sees no data"
    return roles


def _whom(plan: SessionPlan, item: Item) -> str:
    """Who gets a released item."""
    if item is Item.OWN_PART or (item is Item.COEFFICIENTS and plan.split is Split.VERTICAL):
        return "to each party its own"
    if item is Item.INFERENCE:
        return "to every party, each computes it from the joint Gram matrix that all will hold"
    return "to the label holder" if item is Item.SCORE else "to every party"


def leaves_each_site(plan: SessionPlan) -> list[str]:
    """Everything a party sends, in the order in which it goes."""
    # Imported here: --help needs no linear algebra.
    from fedsvd.protocol.sums import planned_sums
    from fedsvd.protocol.upload import upload_bytes

    lines = ["a session key, signed", "a salted commitment to its data, and a signed digest of what it received"]
    if plan.task is Task.PREPARE:
        rounds = [step for step in plan.steps if step.name.startswith("low rank")]
        named_alone = [step for step in plan.steps if step not in rounds]
        parts = [f"its part of the sum {step.name!r} ({step.size} numbers)" for step in named_alone]
        parts += (
            [f"its part of {len(rounds)} sums of low-rank imputation ({rounds[0].size} numbers each)"] if rounds else []
        )
        return [*lines, *(f"{part}, under pads that only the total survives; the parties open it" for part in parts)]
    if plan.matches:
        return [*lines, *_sets(plan)]
    if plan.check_ids:
        lines.append("one keyed hash of all its row ids; the key stays among the parties")
    if plan.glm is not None:
        lines.append("for each iteration its sums of squares, deviance and counts, under pads that only totals survive")
    elif plan.centre or plan.task is Task.LR:
        lines.append("its sums for means, scales and norms, under pads that only the total survives")
    else:
        lines.append("the norm of its data, under a pad that only the total survives")
    upload = byte_size(upload_bytes(plan))
    gram = f"its Gram matrix of {plan.M} x {plan.M}, with noise in the last digits, as exact integers ({upload})"
    if plan.glm is not None:
        lines.append(f"for each iteration {gram}, padded likewise; the parties open the total")
        lines.append("from party 1, the coefficients of each iteration, sealed to the parties")
    elif plan.mode is Mode.A:
        lines.append(f"{gram}, under pads that only the total survives; the parties open the total")
        lines.append("from party 1, the joint result, sealed to the parties")
    elif plan.mode is Mode.B:
        lines.append(f"{gram}, under a rotation that the CSP does not know, and padded; the CSP opens the total")
    else:
        form = "masked by rotations that the CSP does not know"
        lines.append(f"its share of {plan.M} x {plan.N} numbers ({upload}), {form}, and padded")
    if plan.task is not Task.PREDICT and not plan.published and plan.mode is not Mode.A:
        lines.append("its part of the sums that check the CSP's answer, under pads that only the total survives")
    if any(planned.name == "orthogonality" for planned in planned_sums(plan)):
        lines.append("its part of the sum that corrects the right singular vectors, under such pads too")
    if plan.published and plan.task in (Task.SVD, Task.LSA) and plan.releases(Item.OWN_PART):
        lines.append("its slice of the mask under a blind (eq. 6 of the paper)")
    if plan.releases(Item.SCORE):
        lines.append("the partial scores of its columns, under pads that only the label holder can take off the total")
    return lines


def _sets(plan: SessionPlan) -> list[str]:
    """What a party sends of its ids to have them matched."""
    if plan.align is Align.SERVER:
        return ["a keyed hash of every id, sorted, to the CSP; the key stays among the parties"]
    return [
        "a blinded point for every id, and those of the others once it has blinded them, sealed from party to party"
    ]


def _show(console: Console, record: dict[str, Any], totals: list[str], costs: Table) -> None:
    most = "at most " if record["align"] else ""
    what = f"{record['task']} of {most}{record['samples']} samples x {record['features']} features"
    if record["components"]:
        what += f", {record['components']} components"
    console.print(
        facts(
            {
                "job": record["job"],
                "what": what,
                "split": record["split"],
                **{key: record[key] for key in ("rows", "units") if record[key]},
                "scheme": f"{in_scheme(record['scheme'], record['mode'])}: {record['why']}",
                "masks": f"{record['cost']['masks']}, dealt by {record['trust']}",
            }
        )
    )
    console.print(listing(("party", "rows", "columns"), [tuple(each.values()) for each in record["parties"]]))
    _list(console, "By whom", [f"{role}: {does}" for role, does in record["roles"].items()])
    if record["prepare"]:
        _list(console, PREPARED, record["prepare"])
    _list(console, "What leaves each party", record["leaves_each_site"])
    _list(console, "What is released", [f"{item}: {whom}" for item, whom in record["released"].items()])
    _list(console, "What each role learns", record["learns"])
    _list(console, "What it will cost", totals)
    console.print(costs)


def _list(console: Console, title: str, lines: list[str]) -> None:
    console.print()
    console.print(title, style="bold")
    for line in lines:
        console.print(f"- {line}")
