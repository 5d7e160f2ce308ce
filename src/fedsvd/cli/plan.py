"""``fedsvd plan``: what a job will compute, by whom, what leaves each site, what each role learns. Nothing is sent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedsvd.cli.options import FormatOption, LinkOption, Scratch
from fedsvd.cli.output import Format, Output, bullets, facts, listing
from fedsvd.policy.learned import how_rows_belong, in_scheme
from fedsvd.policy.rules import Policy, findings, what_each_role_learns
from fedsvd.protocol.directions import expected_in_words, fine_in_words
from fedsvd.protocol.foreign import ForeignPlan
from fedsvd.protocol.openings import expected_bits, in_bits
from fedsvd.protocol.parties import named
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import StepKind, listed
from fedsvd.protocol.tasks import Answer, Item, Mode, Scheme, Split, Trust

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
    from fedsvd.data.sparse import share_stored
    from fedsvd.studies.job_data import prepare
    from fedsvd.studies.job_file import read_job
    from fedsvd.studies.jobs import plan_job, plan_matching
    from fedsvd.studies.planning import other_family

    output = Output(format, quiet=True)
    asked = read_job(job, tables_here=True)
    with output.notices_of_warnings(tuple(party.name for party in asked.parties)):
        prepared = prepare(asked, scratch)
    planned = plan_job(prepared)
    stored = tuple(share_stored(party.table) for party in prepared.parties)
    estimated = estimate(planned.plan, link=link, afresh=calibrate, stored=stored)
    matching = plan_matching(prepared)
    agreed = None if prepared.agreed is None else prepared.agreed.plan
    first = agreed or (None if matching is None else matching.plan)
    record = _record(prepared, planned, first) | {"cost": cost_record(planned.plan, estimated, prepared.names)}
    other = other_family(prepared.study, planned)
    compared = None if other is None else (other.plan, estimate(other.plan, link=link, stored=stored))
    record |= {"bits": expected_bits(planned.plan), "openings": openings_record(planned.plan)}
    if planned.plan.scheme is Scheme.STEPS:
        record["steps"] = expected_in_words(planned.plan)
        record["fine_components"] = fine_in_words(planned.plan)
    record["other_family"] = None if compared is None else family_record(*compared)
    stages = (planned.plan,) if matching is None else (matching.plan, planned.plan)
    for finding in (each for stage in stages for each in findings(stage, Policy())):
        output.notice(named(str(finding), prepared.names))
    point_out(output, prepared)
    costs = cost_table(planned.plan, estimated.cost, prepared.names)
    totals = in_words(estimated.cost, estimated.basis) + ([] if compared is None else [compared_line(*compared)])
    output.answer(record, lambda console: _show(console, record, totals, costs, first))


def _record(prepared: "Prepared", planned: "Planned", first: SessionPlan | None) -> dict[str, Any]:
    from fedsvd.policy.sent import leaves_each_site
    from fedsvd.studies.doubts import units

    plan = planned.plan
    samples, features = (plan.m, plan.n) if plan.split is Split.VERTICAL else (plan.n, plan.m)
    return {
        "job": prepared.name,
        "task": plan.task,
        **({} if plan.foreign is None else {"foreign": _foreign(plan.foreign)}),
        "split": plan.split,
        "samples": samples,
        "features": features,
        "components": plan.components,
        **({"components_by": plan.components_by} if plan.components_by else {}),
        "scheme": plan.scheme,
        "mode": plan.mode,
        "why": planned.why,
        "trust": plan.trust,
        "roles": _roles(plan),
        "parties": [
            {
                "name": name,
                "rows": party.table.shape[0],
                "columns": party.table.shape[1],
                **({} if party.mapped.asks_nothing else {"mapped": party.mapped.sentences()}),
            }
            for name, party in zip(prepared.names, prepared.parties, strict=True)
        ],
        "align": plan.align,
        "prepare": list(prepared.prepare),
        "units": units(prepared.study, prepared.words, "dictionary" in prepared.file),
        "leaves_each_site": [*(() if first is None else leaves_each_site(first)), *leaves_each_site(plan)],
        "rows": how_rows_belong(plan) or None,
        "released": _released(plan),
        "learns": [
            named(line, prepared.names) for stage in (first, plan) if stage for line in what_each_role_learns(stage)
        ],
    }


def openings_record(plan: SessionPlan) -> list[dict[str, Any]]:
    """How many numbers the study opens, of what and to whom: as expected, and at most; bits are those of a float64."""
    # Imported here: --help needs no linear algebra.
    from fedsvd.cost.traffic import Expected, expected_steps, full_rank
    from fedsvd.protocol.openings import openings, totals

    expected = totals(openings(plan, expected_steps(plan, Expected(full_rank(plan)))))
    return [
        {
            "what": what,
            "to": to,
            "expected": dict(zip(("numbers", "bits"), expected.get((what, to), (0, 0)), strict=True)),
            "most": {"numbers": numbers, "bits": bits},
        }
        for (what, to), (numbers, bits) in totals(openings(plan, listed(plan.steps))).items()
    ]


def _foreign(about: ForeignPlan) -> dict[str, Any]:
    return {"name": about.name, "options": about.chosen, "declaration": about.declaration}


def _roles(plan: SessionPlan) -> dict[str, str]:
    """Who does what."""
    roles = {
        "parties": "mask and pad their own data; take the masks off the answer and check it",
        "csp": "adds up padded shares, factorises the masked sum, verifies it; sees no mask",
    }
    if plan.foreign is not None:
        task = plan.foreign.name
        roles["parties"] = f"run the script of {task}, each in a process of its own; open the sums it asks for"
        roles["csp"] = "adds up padded shares and relays sealed messages; can read neither, and alter no sum unseen"
    elif plan.table is not None:
        roles["parties"] = "count and add up their own records, join levels that are rare, open the totals"
        roles["csp"] = "adds up padded shares and relays sealed messages; can read neither, and alter no sum unseen"
    elif plan.answer is Answer.SUMS:
        roles["parties"] = "count and compare their own records, open the totals"
        roles["csp"] = "adds up padded shares and relays sealed messages; can read neither, and alter no sum unseen"
    elif plan.few_digits:
        tested = "; test at home" if plan.glm is not None else ""
        roles["parties"] = f"round their own sums to a few digits, open the totals, take the next step{tested}"
        roles["csp"] = "adds up padded shares and relays sealed messages; can read neither, and alter no sum unseen"
    elif plan.scheme is Scheme.STEPS:
        roles["parties"] = "multiply a few directions at a time, open the totals; test what party 1 makes of them"
        roles["csp"] = "adds up padded shares and relays sealed messages; can read neither, and alter no sum unseen"
    elif plan.mode is Mode.A:
        answered = any(step.kind is StepKind.FROM_USER_1 for step in listed(plan.steps))
        made = "factorise it; test the result by their own" if answered else "compute the result from it, each alone"
        roles["parties"] = f"share their Gram matrices exactly, open the sum, {made}"
        roles["csp"] = "adds up padded shares and relays sealed messages; can read neither, and alter no sum unseen"
    elif plan.mode is Mode.B:
        roles["parties"] = "share their Gram matrices exactly under one rotation; take it off the answer and check it"
        roles["csp"] = "adds up padded shares, factorises their exact sum, verifies it; does not know the rotation"
    if plan.trust is Trust.AUTHORITY:
        roles["authority"] = "deals the seeds of the masks, then leaves; sees no data"
    return roles


def _released(plan: SessionPlan) -> dict[str, str]:
    """Who gets what: every released item, or every output that a foreign task declares."""
    if plan.table is not None:
        return {"table 1": "to every party"}
    if plan.foreign is None:
        return {item: _whom(plan, item) for item in plan.release}
    return {output.name: f"to every party, {output.says}" for output in plan.foreign.outputs}


def _whom(plan: SessionPlan, item: Item) -> str:
    """Who gets a released item."""
    own = item in (Item.COEFFICIENTS, Item.INFERENCE) and plan.split is Split.VERTICAL
    if item is Item.OWN_PART or own:
        return "to each party its own"
    if item is Item.INFERENCE:
        held = "Gram matrix"
        if plan.few_digits:
            held = f"{'information' if plan.glm is not None else held}, in a few digits,"
        return f"to every party, each computes it from the joint {held} that all will hold"
    return "to the label holder" if item is Item.SCORE else "to every party"


def _show(console: Console, record: dict[str, Any], totals: list[str], costs: Table, first: SessionPlan | None) -> None:
    """The record for a person; what an earlier session does stands under headings of its own."""
    from fedsvd.policy.sent import leaves_each_site

    most = "at most " if record["align"] else ""
    task = record["task"] if "foreign" not in record else f"{record['foreign']['name']} ({record['task']})"
    what = f"{task} of {most}{record['samples']} samples x {record['features']} features"
    if record["components"]:
        most, rule = record["components"], record.get("components_by")
        what += f", components that hold {rule} of the variance, at most {most}" if rule else f", {most} components"
    console.print(
        facts(
            {
                "job": record["job"],
                "what": what,
                "split": record["split"],
                **{key: record[key] for key in ("rows", "units") if record[key]},
                "scheme": f"{in_scheme(record['scheme'], record['mode'])}: {record['why']}",
                **({"steps": record["steps"]} if "steps" in record else {}),
                **({"fine components": record["fine_components"]} if "steps" in record else {}),
                "masks": f"{record['cost']['masks']}, dealt by {record['trust']}",
                "opens": in_bits(record["bits"]),
            }
        )
    )
    console.print(listing(("party", "rows", "columns"), [tuple(each.values())[:3] for each in record["parties"]]))
    mapped = [f"{each['name']}: {line}" for each in record["parties"] for line in each.get("mapped", ())]
    if mapped:
        bullets(console, "How parties map their own tables", mapped)
    bullets(console, "By whom", [f"{role}: {does}" for role, does in record["roles"].items()])
    if record["prepare"]:
        bullets(console, PREPARED, record["prepare"])
    sent, learned = (0, 0) if first is None else (len(leaves_each_site(first)), len(what_each_role_learns(first)))
    if first is not None:
        earlier = f"in a session before the study ({first.task})"
        bullets(console, f"What leaves each party {earlier}", record["leaves_each_site"][:sent])
        bullets(console, f"What each role learns {earlier}", record["learns"][:learned])
    bullets(console, "What leaves each party", record["leaves_each_site"][sent:])
    bullets(console, "What is released", [f"{item}: {whom}" for item, whom in record["released"].items()])
    bullets(console, "What each role learns", record["learns"][learned:])
    bullets(console, "What it will cost", totals)
    console.print(costs)
