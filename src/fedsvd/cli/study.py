"""What ``run`` and the task verbs share: a job from options, its run, and how its outcome is told."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsvd.cli import reports
from fedsvd.cli.cost import cost_table
from fedsvd.cli.options import SchemeName
from fedsvd.cli.progress import shown
from fedsvd.cli.signals import if_interrupted
from fedsvd.cli.voice import Voice, duration, facts, number, size, top_of
from fedsvd.data.open import is_address
from fedsvd.errors import ConfigError
from fedsvd.protocol.cost import predict
from fedsvd.protocol.ledger import how_rows_belong
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import RELEASED_BY_DEFAULT, Item, Split, Task, Trust
from fedsvd.runtime.doubts import doubts, warn_of
from fedsvd.runtime.federation import Outcome
from fedsvd.runtime.folder import expect_free
from fedsvd.runtime.holdings import held_by, score_of, shared_by_all
from fedsvd.runtime.job import NAME, Job, job_from
from fedsvd.runtime.job_data import Prepared, prepare
from fedsvd.runtime.job_faults import NAME_RULE
from fedsvd.runtime.jobs import plan_job, run_job
from fedsvd.runtime.own_part import beside, keeper, kept_in_memory
from fedsvd.runtime.results import PARTIES, rank_of, write_results
from fedsvd.runtime.resume import Resumable

_ROWS_SHOWN = 5


def job_from_options(
    task: Task,
    parties: Sequence[str],
    *,
    name: str | None,
    scheme: SchemeName,
    trust: Trust,
    block_size: int | None,
    release: Sequence[str] | None = None,
    **study: Any,
) -> Job:
    """The job that a job file with these options would describe; options that were left out are left out there."""
    section = {key: value for key, value in study.items() if value not in (None, [], ())}
    named = [word.strip() for words in release or () for word in words.split(",") if word.strip()]
    if named:
        default = [str(item) for item in RELEASED_BY_DEFAULT[task] if item is not Item.OWN_PART]
        section["release"] = [*default, *(word for word in named if word not in default)]
    record: dict[str, Any] = {
        "job": {"name": name or str(task), "task": str(task), **section},
        "masks": {"scheme": str(scheme)} | ({} if block_size is None else {"block_size": block_size}),
        "party": named_parties(parties),
    }
    if trust is Trust.AUTHORITY:
        record["authority"] = {"name": "ta"}
    return job_from(record, Path())


def has_name(word: str) -> bool:
    """Whether this is ``NAME=FILE``, not a file with such a name, nor an address with settings."""
    return "=" in word.partition("://")[0] and not Path(word).exists()


def named_parties(words: Sequence[str]) -> list[dict[str, str]]:
    """Names and files from ``[NAME=]FILE``; without a name, that of the file, numbered where it is taken."""
    parties: list[dict[str, str]] = []
    for word in words:
        name, _, file = word.partition("=")
        if not has_name(word):
            stem = word.partition("://")[0] if is_address(word) else Path(word).name.partition(".")[0]
            file, name = word, re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:60]
            taken = [party["name"].lower() for party in parties]
            name, number = name or "party", 1
            while (numbered := name if number == 1 else f"{name}-{number}").lower() in taken:
                number += 1
            name = numbered
        elif re.fullmatch(NAME, name) is None:
            raise ConfigError(f"{name!r} cannot be the name of a party", NAME_RULE)
        elif name in [party["name"] for party in parties]:
            raise ConfigError(f"two parties are named {name}", "give every party a name of its own")
        parties.append({"name": name, "data": file})
    return parties


def carry_out(voice: Voice, job: Job, out: Path | None, overwrite: bool, scratch: Path | None) -> None:
    """Run a job in this process, write its results, and tell what came of it."""
    target = out or Path("results") / job.study.name
    expect_free(target, overwrite)  # before the work, not after it
    prepared = prepare(job, scratch)
    point_out(voice, prepared)
    foretell(voice, prepared)
    resumable = Resumable(target)
    with if_interrupted(lambda: left_behind(target, resumable)), resumable, beside(target) as folder:
        tell_of_resumption(voice, resumable)

        def extras(plan: SessionPlan, i: int) -> dict[str, Any]:
            own = folder / str(i + 1)
            own.mkdir(mode=0o700, exist_ok=True)
            kept = {"checkpoint": resumable.checkpoint(job, job.parties[i])} if plan.compress else {}
            return {"keep": keeper(plan, i, prepared.write, own), **kept}

        with voice.heeding(prepared.names), shown(voice, prepared.names) as progress:
            study = job.study
            outcome = run_job(prepared, scratch, progress, device=study.device, engine=study.engine, extras=extras)
        write_results(target, prepared, outcome, overwrite, reports.artist())
    voice.answer(_record(prepared, outcome, target), lambda console: _show(console, prepared, outcome, target))


def point_out(voice: Voice, prepared: Prepared) -> None:
    """What a person should look at before the numbers are there: rows not compared, columns that look like ids."""
    with voice.heeding(prepared.names):
        warn_of(doubts(prepared.study, prepared.parties, prepared.targets))


def about_rows(plan: SessionPlan) -> dict[str, str]:
    """A line of the summary, where columns are split: by what rows belong together."""
    return {"rows": how_rows_belong(plan)} if plan.split is Split.VERTICAL else {}


def left_behind(target: Path, resumable: Resumable) -> str:
    """What an interrupted run leaves, for a person."""
    if resumable.found:
        return f"no results were written to {target}; the same command goes on from what was compressed so far"
    return f"no results were written to {target}; nothing else was stored"


def tell_of_resumption(voice: Voice, resumable: Resumable) -> None:
    """That an earlier run was interrupted, and is gone on with."""
    if resumable.found:
        voice.line("an earlier run was interrupted: going on from what it compressed")


def foretell(voice: Voice, prepared: Prepared, apart: bool = False) -> None:
    """What the run will cost, before it begins; ``apart`` where every role has a process of its own."""
    plan = plan_job(prepared).plan
    cost = predict(plan, in_memory=all(kept_in_memory(plan, i, prepared.write) for i in range(plan.k)))
    seconds = cost.seconds_side_by_side if apart else cost.seconds_in_turns
    voice.line(f"expected: {size(cost.bytes_total)} between the roles, about {duration(seconds)}")
    voice.table(cost_table(plan, cost, prepared.names))


def own_parts(verified: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What the parties measured of their own parts, where the job asked them to, for a person."""
    told = {}
    for name, part in verified.items():
        looked_at = "all" if part["columns"] == part["of"] else f"{part['columns']:,} of"
        measures = [(word, part[word]) for word in ("residual", "orthogonality") if part[word] is not None]
        figures = "".join(f", {word} {value:.1e}" for word, value in measures)
        told[f"verified by {name}"] = f"{looked_at} {part['of']:,} of its own{figures}"
    return told


def _record(prepared: Prepared, outcome: Outcome, target: Path) -> dict[str, Any]:
    plan, certificate = outcome.plan, outcome.certificate
    return {
        "job": prepared.name,
        "task": plan.task,
        "split": plan.split,
        "scheme": plan.scheme,
        "why": outcome.why,
        "trust": plan.trust,
        "released": plan.release,
        "rows": how_rows_belong(plan) or None,
        "rank": rank_of(outcome),
        "residual": certificate.residual,
        "orthogonality": certificate.orthogonality,
        "bytes": certificate.bytes_total,
        "seconds": certificate.seconds_total,
        "plan_digest": plan.digest,
        "out": str(target),
        "parties": {name: str(target / PARTIES / name) for name in prepared.names},
        "report": reports.drawn(target),
        "score": score_of(prepared, outcome),
    }


def _show(console: Console, prepared: Prepared, outcome: Outcome, target: Path) -> None:
    plan, certificate = outcome.plan, outcome.certificate
    held = {name: held_by(prepared, outcome, i).facts.get("verified") for i, name in enumerate(prepared.names)}
    verified = {name: part for name, part in held.items() if part is not None}
    console.print(
        facts(
            {
                "job": f"{prepared.name}: {plan.task}, {plan.split} split, {plan.k} parties",
                "scheme": f"{plan.scheme} ({outcome.why}), masks dealt by {plan.trust}",
                **about_rows(plan),
                "rank": rank_of(outcome),
                "verified": f"residual {certificate.residual:.1e}, orthogonality {certificate.orthogonality:.1e}",
                **own_parts(verified),
                "moved": f"{size(certificate.bytes_total)} in {sum(certificate.messages_by_link.values())} messages",
                "time": duration(certificate.seconds_total),
                "results": f"{target}{'' if str(target).endswith('/') else '/'}",
                "report": reports.drawn(target) or reports.WITHOUT,
            }
        )
    )
    for table in shared_by_all(prepared, outcome).tables:
        if table.name in ("spectrum", "intercept"):
            console.print(top_of(table, _ROWS_SHOWN))
    for target_name, score in (score_of(prepared, outcome) or {}).items():
        console.print(f"{target_name}: mean squared error {number(score['mse'])}, R^2 {number(score['r2'])}")
