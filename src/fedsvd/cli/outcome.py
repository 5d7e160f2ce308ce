"""What came of a job, shown at the command line: one record and one page, whichever rung it ran on."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from fedsvd.cli import reports
from fedsvd.cli.output import Output, duration, facts, listing, number, top_of
from fedsvd.policy.learned import how_rows_belong, in_scheme
from fedsvd.protocol.openings import expected_bits, in_bits
from fedsvd.protocol.outputs import Named
from fedsvd.protocol.tasks import Answer, Scheme, Split, Task
from fedsvd.results.drawings.ranking import pooled, thresholds
from fedsvd.results.folder import Table
from fedsvd.results.foreign_tables import outputs
from fedsvd.results.hazard_tables import tables_beyond_fit
from fedsvd.results.model_table import summaries
from fedsvd.results.regression_table import models_of
from fedsvd.results.report.model import printed_ratios, quality_in_words, roc_in_words
from fedsvd.results.report.survival import in_words
from fedsvd.results.result import PartyResult
from fedsvd.results.write import PARTIES
from fedsvd.statistics.describe import description_of
from fedsvd.statistics.summary import linear_summary
from fedsvd.statistics.table_one import table_one
from fedsvd.types import byte_size

_ROWS_SHOWN, _COEFFICIENTS_SHOWN = 5, 40
_TABLES = ("spectrum", "intercept", "correlations", "wilks", "component_coefficients", "groups")


def show_outcome(
    output: Output, results: Sequence[PartyResult], seconds: float, target: Path, apart: bool = False
) -> None:
    """Show what all share and what each party has, in this order; ``apart`` where every role was a process."""
    record = _record(results, seconds, target)
    output.answer(record, lambda console: _show(console, results, seconds, target, apart))


def _record(results: Sequence[PartyResult], seconds: float, target: Path) -> dict[str, Any]:
    shared = results[0]
    plan, certificate = shared.plan, shared.certificate
    return {
        "job": shared.job,
        "task": plan.task,
        "split": plan.split,
        "scheme": plan.scheme,
        "mode": plan.mode,
        "why": shared.why,
        "trust": plan.trust,
        "released": plan.release,
        "rows": how_rows_belong(plan) or None,
        "rank": shared.rank,
        "residual": certificate.residual,
        "orthogonality": certificate.orthogonality,
        "bytes": certificate.bytes_total,
        "seconds": seconds,
        "seconds_of_work": certificate.seconds_total,
        "peak_memory": certificate.record()["peak_memory"],
        "plan_digest": plan.digest,
        "out": str(target),
        "parties": {name: str(target / PARTIES / name) for name in shared.names},
        "report": reports.drawn(target),
        "score": _score(results),
        "inference": shared.facts.get("inference"),
        "own_inference": {own.party: own.facts["inference"] for own in _with_own_tables(results)} or None,
        "choice": shared.facts.get("choice"),
        "wilks": shared.facts.get("wilks"),
        "quality": shared.facts.get("quality"),
        "roc": shared.facts.get("roc_curve"),
        "described": shared.facts.get("described"),
    }


def _show(console: Console, results: Sequence[PartyResult], seconds: float, target: Path, apart: bool) -> None:
    shared = results[0]
    plan, certificate = shared.plan, shared.certificate
    messages, rows = sum(certificate.messages_by_link.values()), how_rows_belong(plan)
    measured = {each.party: each.facts["verified"] for each in results if each.party and "verified" in each.facts}
    memory = f"at most {byte_size(max(certificate.peak_memory.values(), default=0))} in one process"
    if (described := shared.facts.get("described")) is not None:
        console.print(str(table_one(description_of(described))), markup=False, highlight=False, soft_wrap=True)
    for table in _leading_tables(shared):
        console.print(top_of(table, _COEFFICIENTS_SHOWN if table.name == "coefficients" else _ROWS_SHOWN))
    _show_tables(console, shared)
    if (quality := shared.facts.get("quality")) is not None:
        console.print(quality_in_words(quality))
    if (joint := pooled(shared)) is not None:
        console.print(roc_in_words(joint))
        for at in thresholds(shared):
            console.print(listing(at.header, at.rows))
    for words in in_words(shared):
        console.print(words)
    for beyond in (*printed_ratios(shared), *tables_beyond_fit(shared)):
        console.print(beyond.title)
        console.print(listing(beyond.header, beyond.rows))
    for own in _with_own_tables(results):
        console.print(f"\n{own.party}, its own columns", style="bold", markup=False, highlight=False)
        _show_tables(console, own)
    for name, score in (_score(results) or {}).items():
        console.print(f"{name}: mean squared error {number(score['mse'])}, R^2 {number(score['r2'])}")
    console.print()
    console.print(
        facts(
            {
                "job": f"{shared.job}: {plan.task}, {plan.split} split, {plan.k} parties"
                + (f" in {len(plan.parties)} processes" if apart else ""),
                "scheme": f"{in_scheme(plan.scheme, plan.mode)} ({shared.why}), masks dealt by {plan.trust}",
                **({"rows": rows} if rows else {}),
                **_measured(shared),
                **_own_parts(measured),
                "moved": f"{byte_size(certificate.bytes_total)} in {messages} messages",
                "time": duration(seconds) + (", over mutual TLS" if apart else ""),
                **({"memory": memory} if apart else {}),
                "results": f"{str(target).rstrip('/')}/, each party's in {target / PARTIES}/",
                "report": reports.drawn(target) or reports.WITHOUT,
            }
        )
    )


def _measured(shared: PartyResult) -> dict[str, Any]:
    """How exact the result is; of a foreign task its name and declaration, for nothing is factorised."""
    about, certificate = shared.plan.foreign, shared.certificate
    if shared.plan.table is not None:
        return {"opened": in_bits(expected_bits(shared.plan))}
    if about is not None:
        return {"task": f"{about.name}, declaration {about.declaration[:16]}"}
    if shared.plan.answer is Answer.SUMS:
        return {}
    verified = f"residual {certificate.residual_text}, orthogonality {certificate.orthogonality:.1e}"
    found = {"found": shared.proved} if shared.plan.scheme is Scheme.STEPS and shared.proved else {}
    return {"rank": shared.rank, "verified": verified, **found}


def _leading_tables(shared: PartyResult) -> list[Table]:
    """The tables of all parties that come first; of a result that was read from its folder, as its arrays have them."""
    if shared.plan.foreign is not None:
        return list(shared.tables or outputs(shared, Named(shared.arrays), tables=True).tables)
    if shared.tables:
        # Of a regression without standard errors the coefficients are the result; with them they stand in its table.
        tabled = bool(shared.facts.get("inference") or shared.facts.get("models"))
        wanted = {*_TABLES} - {"intercept"} if tabled else {*_TABLES, "coefficients"}
        return [*(table for table in shared.tables if table.name in wanted), *_loadings(shared)]
    found = {name: shared.arrays[name] for name in ("singular_values", "intercept") if name in shared.arrays}
    return [Table(name, {"": range(1, 1 + len(values)), name: values}) for name, values in found.items()]


def _loadings(shared: PartyResult) -> Iterator[Table]:
    """The features that weigh most in the components, which are the result of a PCA that releases no spectrum."""
    components = shared.arrays.get("components")
    if shared.plan.task is not Task.PCA or components is None:
        return
    heaviest = np.argsort(-np.abs(components).max(axis=0), kind="stable").tolist()
    names = shared.feature_names(components.shape[1])
    weights = {f"component {k + 1}": row[heaviest].tolist() for k, row in enumerate(components)}
    yield Table("loadings", {"loadings of": [names[j] for j in heaviest], **weights})


def _score(results: Sequence[PartyResult]) -> dict[str, Any] | None:
    """How well the label holder's labels are fitted, where the plan released a score."""
    holder = next((each for each in results if each.party and each.party == each.label_holder), None)
    return None if holder is None else holder.facts.get("score")


def _show_tables(console: Console, shared: PartyResult) -> None:
    """The regression table of every target, where the plan released inference."""
    coefficients = shared.arrays.get("coefficients")
    names = [] if coefficients is None else list(shared.feature_names(coefficients.shape[1]))
    tables = [
        linear_summary(model, names, name) for name, model in zip(shared.targets, models_of(shared), strict=False)
    ]
    for table in (*tables, *(summary for _, summary in summaries(shared))):
        console.print(table.text(), markup=False, highlight=False, soft_wrap=True)


def _with_own_tables(results: Sequence[PartyResult]) -> list[PartyResult]:
    """Parties of split columns that have the standard errors of their own coefficients."""
    return [own for own in results if own.party and own.split is Split.VERTICAL and "inference" in own.facts]


def _own_parts(verified: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What the parties measured of their own parts, where the job asked them to, for a person."""
    figures_of = {}
    for name, part in verified.items():
        looked_at = "all" if part["columns"] == part["of"] else f"{part['columns']:,} of"
        measures = [(word, part[word]) for word in ("residual", "orthogonality") if part[word] is not None]
        figures = "".join(f", {word} {value:.1e}" for word, value in measures)
        figures_of[f"verified by {name}"] = f"{looked_at} {part['of']:,} of its own{figures}"
    return figures_of
