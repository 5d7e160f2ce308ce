"""``fedsvd job``: a study among institutions, asked for by a researcher and followed by all its members."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from rich.console import Console

from fedsvd.cli.group import Group, Lazy
from fedsvd.cli.options import CspOption, FormatOption, JobId, KitOption, Quiet
from fedsvd.cli.output import Format, Output, facts, listing
from fedsvd.cli.reports import drawing, drawn
from fedsvd.cli.signals import if_interrupted
from fedsvd.cli.watch import awaited, watched
from fedsvd.policy.learned import how_rows_belong
from fedsvd.service.client import Connection, Results
from fedsvd.service.failures import first_cause, what_failed
from fedsvd.service.records import Failure, JobRecord, JobState, ListedJob, WatchedJob
from fedsvd.service.site import Site
from fedsvd.studies.job_file import read_job, study_of


class _Jobs(Lazy):
    """``approve`` shows a whole plan and its cost, and brings along what makes one."""

    LINES: ClassVar[Mapping[str, str]] = {"approve": "Show what a job means for this site, and approve it."}

    @classmethod
    def load(cls, name: str) -> Any:
        from fedsvd.cli.approve import approve

        return approve


job = Group(cls=_Jobs, help="Jobs of a federation: submit, approve, watch, resume, stop, results.")


@job.command()
def submit(
    file: Annotated[Path, typer.Argument(metavar="JOB.TOML", help="The job file; data it names is not submitted.")],
    kit: KitOption,
    csp: CspOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Ask a federation for a study; it runs when every member has approved it."""
    read = read_job(file)
    known = csp or Site.at(kit).settings().csp.address or read.csp.address
    output = Output(format)
    with Connection(kit, known) as connection, output.notices_of_warnings():
        record = connection.job(connection.submit(read))
        strange = _not_called(connection, record)
    text = f"submitted as {record.id}; it awaits {', '.join(record.members)}"
    doubts = [f"{member} has not called this CSP since it started: is it running?" for member in strange]
    shown = {**_short(record), "not_called": strange}
    output.answer(shown, lambda console: console.print("\n".join([text, *doubts])))


def _not_called(connection: Connection, record: JobRecord) -> list[str]:
    """Members that this process of the CSP has not seen; after its first minute all have called it at some time."""
    seen = connection.certificates(record.id)
    return [member for member in record.members if member not in seen]


@job.command("list")
def list_jobs(kit: KitOption, csp: CspOption = None, format: FormatOption = Format.TEXT) -> None:
    """The jobs that this kit submitted or takes part in."""
    with Connection(kit, csp) as connection:
        jobs, site = connection.jobs(), connection.site
    here = [site.standing(record) if site.caller in record.members else "submitted" for record in jobs]
    shown = [{**_short(record), "approved": approved} for record, approved in zip(jobs, here, strict=True)]
    rows = [
        (record.short, record.name, record.task, _standing(record), record.submitter, approved)
        for record, approved in zip(jobs, here, strict=True)
    ]
    header = ("job", "name", "task", "state", "submitted by", "here")

    def show(console: Console) -> None:
        console.print(listing(header, rows) if rows else "no jobs yet")
        if any(record.state is JobState.BROKEN for record in jobs):
            console.print(f"fedsvd job results NAME --kit {kit} says why a job is broken")

    Output(format).answer({"jobs": shown}, show)


@job.command()
def watch(
    job: JobId, kit: KitOption, csp: CspOption = None, quiet: Quiet = False, format: FormatOption = Format.TEXT
) -> None:
    """Follow a job to its end; exit code 1 unless that is a good one."""
    output = Output(format, quiet)
    with Connection(kit, csp) as connection:
        goes_on = f"the job goes on; follow it again: fedsvd job watch {job} --kit {kit}"
        with if_interrupted(lambda: goes_on), watched(output) as seen:
            record = connection.watch(job, seen)
        if record.state is not JobState.DONE:
            raise cause_of(connection.site, record)
        _show_results(output, connection.results(record.id, draw=drawing()), record)


@job.command()
def resume(job: JobId, kit: KitOption, csp: CspOption = None, format: FormatOption = Format.TEXT) -> None:
    """Try a broken job again, in a new session with fresh seeds."""
    with Connection(kit, csp) as connection:
        record = connection.resume(job)
    text = f"{record.name} ({record.short}) recruits again, attempt {record.attempt}"
    text += "; a party where it had finished, or had failed too often, must approve it again"
    for member in record.members:
        if member.startswith("authority/"):
            text += f"; {member} must be there once more, for it deals fresh seeds to every session"
    Output(format).answer(_short(record), lambda console: console.print(text))


@job.command()
def stop(job: JobId, kit: KitOption, csp: CspOption = None, format: FormatOption = Format.TEXT) -> None:
    """End a job for good."""
    with Connection(kit, csp) as connection:
        record = connection.stop(job)
    text = f"{record.name} ({record.short}) is {record.state}"
    Output(format).answer(_short(record), lambda console: console.print(text))


@job.command()
def results(
    job: JobId,
    kit: KitOption,
    csp: CspOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="A researcher's results go there; else to the kit's results."),
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Where this party's results are; a researcher's, which all parties agreed to, are fetched and verified."""
    with Connection(kit, csp) as connection:
        record = connection.job(job)
        found = connection.results(record.id, out, drawing())
        _show_results(Output(format), found, record, _failures(connection.site, record))


def _show_results(output: Output, found: Results, record: JobRecord, failures: Sequence[Failure] = ()) -> None:
    rows = how_rows_belong(study_of(record.job))
    report = None if found.folder is None else drawn(found.folder)
    look_at = [] if found.folder is None else _to_look_at(found.folder)
    shown_facts = {
        **_short(record),
        "rows": rows or None,
        "finished": list(found.finished),
        "awaited": list(found.awaited),
        "folder": None if found.folder is None else str(found.folder),
        "report": report,
        "warning": found.warning,
        "look_at": look_at,
        "why": found.why or None,
        "plan_digest": record.plan_digest,
        "failures": [failure.model_dump() for failure in failures],
    }
    shown = {
        "job": f"{record.name} ({record.short}): {_standing(record)}",
        "finished": ", ".join(found.finished) or "no member yet",
        "results": found.folder or f"in the folders of the parties, not here{f': {found.why}' if found.why else ''}",
    }
    if rows:
        shown["rows"] = rows
    if found.warning:
        shown["warning"] = found.warning
    if report:
        shown["report"] = report
    if look_at:
        shown["look at"] = "\n".join(look_at)
    for failure in failures:
        shown[f"failed: {failure.who}"] = f"{failure.code} in {failure.stage or 'starting'}: {what_failed(failure)}"
    output.answer(shown_facts, lambda console: console.print(facts(shown)))


def _to_look_at(folder: Path) -> list[str]:
    """What this party should look at in its own table, in the words of its site; a researcher's results have none."""
    # Imported here: arrays are read with NumPy, and most commands of jobs need none.
    from fedsvd.results.folder import read_manifest, to_look_at
    from fedsvd.studies.problems import at_a_site

    return [at_a_site(text) for text in to_look_at(read_manifest(folder).get("facts", {}))]


def _standing(record: JobRecord | ListedJob) -> str:
    place = f"place {record.place}" if isinstance(record, WatchedJob | ListedJob) and record.place else ""
    session = "" if record.over else record.in_stage
    return ", ".join(filter(None, (str(record.state), place, session, awaited(record))))


def _short(record: JobRecord | ListedJob) -> dict[str, Any]:
    return {
        "job": record.id,
        "name": record.name,
        "task": record.task,
        "state": record.state,
        "place": record.place if isinstance(record, WatchedJob | ListedJob) else 0,
        "attempt": record.attempt,
        "session": record.stage,
        "submitter": record.submitter,
        "members": list(record.members),
        "enlisted": sorted(record.enlisted),
    }


def _failures(site: Site, record: JobRecord) -> list[Failure]:
    """What the members reported, and of our own failure the details, which are in our own log."""
    ours = site.failure(record) if site.caller in record.members else None
    if ours is None:
        return list(record.failures)
    return [
        failure.model_copy(update={"text": ours.text}) if failure.who == site.caller else failure
        for failure in record.failures
    ]


def cause_of(site: Site, record: JobRecord) -> Exception:
    """Why a job did not end well; in our own words where it was our own failure."""
    who, error = first_cause(record)
    ours = site.failure(record) if who == site.caller else None
    if ours is not None:
        error.fault, error.fix = ours.fault, ours.fix
    return error
