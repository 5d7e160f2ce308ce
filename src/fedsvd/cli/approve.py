"""``fedsvd job approve``: an owner is shown exactly what leaves the site and what each role can derive, then asked."""

import logging
import sys
import threading
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsvd.cli.cost import cost_record, cost_table, estimate, in_words
from fedsvd.cli.options import CspOption, FormatOption, JobId, KitOption, LinkOption
from fedsvd.cli.output import Format, Output, bullets, facts, listing
from fedsvd.cli.plan import PREPARED
from fedsvd.cli.signals import heed_signals
from fedsvd.identity.names import grouped, ungrouped
from fedsvd.policy.foreign import released
from fedsvd.policy.learned import gram_by_consent, how_rows_belong, in_scheme, unit
from fedsvd.policy.rules import NOTHING, SHARED, what_each_role_learns
from fedsvd.policy.sent import leaves_each_site
from fedsvd.policy.sentences import asked_of_columns, of_others
from fedsvd.protocol.directions import by_share, components_in_words
from fedsvd.protocol.openings import expected_bits, in_bits, opened
from fedsvd.protocol.parties import named
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import What
from fedsvd.protocol.tasks import Item, Split
from fedsvd.service.approvals import researcher_gets
from fedsvd.service.client import Connection
from fedsvd.service.consider import Considered, agree, consider
from fedsvd.service.records import JobState
from fedsvd.service.serve import enlist_now
from fedsvd.service.site import Site
from fedsvd.studies.doubts import units
from fedsvd.studies.job_file import Job, study_of
from fedsvd.studies.job_stages import Stage
from fedsvd.studies.own_columns import OwnColumn
from fedsvd.tasks.surface import Surface, spelt_for

_ASKS = "asks you: "


class Researcher(StrEnum):
    """What an owner answers of the researcher."""

    SHARED = SHARED
    NONE = NOTHING


def approve(
    job: JobId,
    kit: KitOption,
    csp: CspOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Approve without being asked; refused while a key is new and not in --pin.")
    ] = False,
    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", metavar="FINGERPRINT", help="A new key that you compared with its owner; repeatable."),
    ] = None,
    enlist: Annotated[
        bool, typer.Option("--enlist", help="Also enlist now: the party itself may be started later.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Also take part now, in all sessions of the job, until it has ended.")
    ] = False,
    researcher: Annotated[
        Researcher | None,
        typer.Option(
            "--researcher",
            help="What the researcher gets, if all parties say so: what all share, or nothing; else by policy.toml.",
        ),
    ] = None,
    link: LinkOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Show what a job means for this site, and approve it."""
    output = Output(format)
    with Connection(kit, csp) as connection:
        record = connection.job(job)
        with spelt_for(Surface.SITE):
            considered = consider(connection.site, record, connection.csp(), connection.certificates(record.id))
        site = connection.site
    given = researcher_gets(site.policy(), researcher)
    summary = {**_record(considered, link), "researcher": given}
    if format is Format.TEXT:
        output.answer(summary, lambda console: _show(console, considered, link, given))
    considered.expect_signed()
    considered.expect_all_known()
    considered.expect_allowed()
    compared = {ungrouped(text) for text in pin or ()}
    if yes:
        considered.expect_nothing_asked()
    else:
        others = [peer.fingerprint for peer in considered.new if peer.fingerprint not in compared]
        considered.expect_compared(compared.union(others))  # what was named must be there; the rest is asked for
        typer.confirm(question(others, considered.plan, len(considered.asks)), abort=True, err=True)
        compared.update(others)
    agree(site, considered, compared, researcher)
    enlisted = enlist and not run and enlist_now(site, record, csp)
    if format is Format.JSON:
        output.answer({**summary, "approved": True, "enlisted": enlisted}, lambda console: None)
    else:
        output.line(f"approved{' and enlisted' if enlisted else ''}: {record.name} ({record.short})")
    if enlist and not (enlisted or run):
        output.line("this kit is running, and enlists by itself")
    if enlisted and len(record.stages) > 1:
        later = f"the other {len(record.stages) - 1} when it runs: fedsvd party start, or job approve --run"
        output.line(f"enlisted for session 1 of {len(record.stages)}, {record.stage}; this party enlists for {later}")
    if run:
        take_part_now(output, site, record.id, csp)


def take_part_now(output: Output, site: Site, id: str, csp: str | None) -> None:
    """Take part in one job to its end, in all its sessions; exit code 1 unless that is a good one."""
    # Imported here: an approval needs no role.
    from fedsvd.cli.job import cause_of
    from fedsvd.engine.memory import bound_heap
    from fedsvd.service.serve import take_part

    bound_heap()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="level=%(levelname)s %(message)s")
    stop = threading.Event()
    heed_signals(stop)
    record = take_part(site, id, stop, csp)
    if record is None:
        output.line("this kit is running, and takes part by itself")
        return
    if stop.is_set() and record.under_way:
        output.line(f"interrupted: {record.name} ({record.short}) waits for this party; fedsvd party start goes on")
        return
    if record.state is not JobState.DONE:
        raise cause_of(site, record)
    output.line(f"done: {record.name} ({record.short}), results in {site.results_of(record)}")


def question(new: list[str], plan: SessionPlan | None, asks: int = 0) -> str:
    held = "" if plan is None else _held(plan)
    if plan is not None and asked_of_columns(plan):
        held = f"{of_others(plan)} " if plan.releases(Item.INFERENCE) else "The label holder sees the joint spectrum. "
    if asks:
        held = f"{held}Your policy asks you {'one thing' if asks == 1 else f'{asks} things'} above. "
    if new:
        return f"{held}Have you compared the new fingerprints with their owners, and do you approve this job?"
    return f"{held}Do you approve this job?"


def _held(plan: SessionPlan) -> str:
    """What all parties hold in the end besides the result, as the lists above say it."""
    if What.TABLE in opened(plan):
        return ""
    if What.INFORMATION in opened(plan):
        held = "the joint Gram matrix" if plan.glm is None else "gradients and information of the model"
        return f"All parties will hold {held}, in a few digits. "
    if gram_by_consent(plan) or (plan.releases(Item.INFERENCE) and not plan.stacks_labels):
        return "All parties will hold the joint Gram matrix. "
    return ""


def _record(considered: Considered, link: str | None) -> dict[str, Any]:
    record, plan = considered.record, considered.plan
    names = tuple(party.name for party in considered.job.parties)
    summary: dict[str, Any] = {
        "job": record.id,
        "name": record.name,
        "task": considered.job.study.task,
        "submitter": record.submitter,
        "signature": considered.unsigned or "holds",
        "data": None if considered.data is None else str(considered.data),
        **({} if considered.job.dictionary is None else {"dictionary": considered.job.dictionary.digest}),
        "approved_before": considered.before,
        "members": [
            {"member": peer.member, "key": grouped(peer.fingerprint), "standing": peer.standing}
            for peer in considered.peers
        ],
    }
    if plan is None:
        return summary
    return {
        **summary,
        "size": _size(considered),
        "bounds": considered.bounds or None,
        "columns": [_column(each) for each in considered.columns],
        "mapped": list(considered.mapped),
        "scheme": plan.scheme,
        "mode": plan.mode,
        "why": plan.reason,
        "brings": _brings(plan, names),
        "rows": how_rows_belong(plan) or None,
        "prepare": considered.job.prepare.description(),
        "prepared_here": considered.prepared,
        "units": _units(considered),
        "doubts": list(considered.doubts),
        "assumed": list(considered.assumed),
        "sessions_before": [_session(each, names) for each in considered.before_it],
        "leaves_this_site": leaves_each_site(plan),
        "bits": expected_bits(plan),
        "released": released(plan),
        "learns": _learns(plan, names),
        "findings": [
            {"text": named(str(each), names), "below": each.below, "asks": each.asks} for each in considered.found
        ],
        "cost": cost_record(plan, estimate(plan, link=link), names),
    }


def _column(each: OwnColumn) -> dict[str, str]:
    """A column of the owner's file; how it is mapped, where it is."""
    said = {"own": each.own, "study": each.study, "use": each.use}
    return said | ({"mapped": each.how} if each.how else {})


def _units(considered: Considered) -> str | None:
    """Whether a column in another unit than at the other sites would be noticed."""
    job = considered.job
    return units(study_of(job), job.prepare, job.dictionary is not None)


def _session(plan: SessionPlan, names: tuple[str, ...]) -> dict[str, Any]:
    """A session before the study: what it is, what leaves this site in it, and what follows from it."""
    return {"task": plan.task, "leaves_this_site": leaves_each_site(plan), "learns": _learns(plan, names)}


def _brings(plan: SessionPlan, names: tuple[str, ...]) -> dict[str, str]:
    return {name: f"{n_i} {unit(plan, n_i)}" for name, n_i in zip(names, plan.counts, strict=True)}


def _learns(plan: SessionPlan, names: tuple[str, ...]) -> list[str]:
    return [named(line, names) for line in what_each_role_learns(plan)]


def size_of(plan: SessionPlan) -> str:
    """How much is computed on, and how much comes out: the numbers that what others can derive depends on."""
    samples, features = (plan.m, plan.n) if plan.split is Split.VERTICAL else (plan.n, plan.m)
    of = f"{samples} samples x {features} features"
    if not (plan.factors or plan.components or plan.components_by):
        return of
    chosen = f", of which {plan.components_by} takes some" if plan.components_by and not by_share(plan) else ""
    return f"{of}, {components_in_words(plan)}{chosen}"


def _size(considered: Considered) -> str:
    """The size of the study, with what it can be at most where an earlier session decides."""
    assert considered.plan is not None
    return f"{'at most ' if considered.record.stage is Stage.MATCH else ''}{size_of(considered.plan)}"


def _columns(considered: Considered) -> list[str]:
    """Every column that is taken, by its own name: none is left out, however many there are."""
    if not considered.columns:
        return ["all of them; the file gives them no names"]
    as_they_are = [each for each in considered.columns if each == OwnColumn(each.own, each.own, "feature")]
    plain = [repr(each.own) for each in as_they_are]
    told = [str(each) for each in considered.columns if each not in as_they_are]
    table = [f"your table: {line}" for line in considered.mapped]
    return [*table, *told, *([f"under their own names: {', '.join(plain)}"] if plain else [])]


def _nothing(considered: Considered) -> str:
    if considered.assumed:
        return (
            "nothing against it, if the others are as large as they were taken to be; judged again when they are known"
        )
    return "nothing against it"


def _show(console: Console, considered: Considered, link: str | None, given: str) -> None:
    plan, study, record = considered.plan, considered.job.study, considered.record
    names = tuple(party.name for party in considered.job.parties)
    about = {
        "job": f"{record.name} ({record.short}), submitted by {record.submitter}",
        "signature": f"does not hold: {considered.unsigned}"
        if considered.unsigned
        else f"of {record.submitter}, holds",
        "task": f"{_named(considered.job)}, {study.split} split, {len(considered.job.parties)} parties",
    }
    if considered.job.dictionary is not None:
        about["dictionary"] = f"{considered.job.dictionary.shown}, the same as yours"
    if plan is not None:
        brings = ", ".join(f"{name} {count}" for name, count in _brings(plan, names).items())
        about |= {"size": _size(considered), "brings": brings}
        about |= {"rows": how_rows_belong(plan)} if how_rows_belong(plan) else {}
        scheme = f"{in_scheme(plan.scheme, plan.mode)} ({plan.reason}); masks dealt by {plan.trust}"
        about |= {"our data": str(considered.data), "scheme": scheme, "opens": in_bits(expected_bits(plan))}
        about |= {"units": said} if (said := _units(considered)) else {}
    if considered.before:
        about["before"] = considered.before
    console.print(facts(about))
    rows = [(peer.member, peer.standing, grouped(peer.fingerprint)) for peer in considered.peers]
    console.print(listing(("who else", "key", "fingerprint: compare new ones with their owners"), rows))
    if plan is None:
        console.print("This kit brings no data: nothing of the kind leaves it.")
        return
    if considered.assumed:
        console.print(f"Not known yet, taken to be as large as yours: {', '.join(considered.assumed)}.")
    if considered.bounds:
        console.print(considered.bounds)
    bullets(console, "Columns of your file that go into the study", _columns(considered))
    if considered.prepared:
        bullets(console, PREPARED, [*considered.job.prepare.description(), f"here: {considered.prepared}"])
    if considered.doubts:
        bullets(console, "What to look at in your own data first", list(considered.doubts))
    for each in considered.before_it:
        bullets(console, f"What leaves this site in a session before the study ({each.task})", leaves_each_site(each))
        bullets(console, "What each role can derive from that session", _learns(each, names))
    bullets(console, "What leaves this site", leaves_each_site(plan))
    bullets(console, "What is released", released(plan))
    bullets(console, "What the researcher gets", [_for_researcher(considered, given)])
    bullets(console, "What each role can derive", _learns(plan, names))
    bullets(
        console,
        "What your policy says",
        [f"{_ASKS if each.asks else ''}{named(str(each), names)}" for each in considered.found]
        or [_nothing(considered)],
    )
    estimated = estimate(plan, link=link)
    bullets(console, "What it will cost", in_words(estimated.cost, estimated.basis))
    console.print(cost_table(plan, estimated.cost, names))


def _for_researcher(considered: Considered, given: str) -> str:
    """What goes to the researcher by this approval, in a sentence."""
    who = considered.record.submitter
    if given == SHARED:
        return f"{who} gets what all parties share, and nothing with a row for each record, if every party agrees"
    return f"{who} gets no result; what all parties share would go there with --researcher {SHARED} at every party"


def _named(job: Job) -> str:
    """The task of a job; a foreign one by its own name and options."""
    if job.foreign is None:
        return str(job.study.task)
    options = ", ".join(f"{name} = {value!r}" for name, value in job.foreign.study.options.items())
    return f"{job.foreign.name} ({job.study.task}{f'; {options}' if options else ''})"
