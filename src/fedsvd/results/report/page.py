"""``report.html``: one file that needs nothing else, drawn for one reader from its result; and its sections in words.

No script, font or image is fetched, and the page's own content security policy forbids it. Text goes through Jinja's
escaping; only drawings, whose text ``svg.py`` escapes, are put in as they are. Numbers are drawn in ``findings.py``,
time and bytes in ``accounts.py``; what was computed, the certificate, what each role learned and how to cite are here.
"""

from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from fedsvd.errors import MissingExtra
from fedsvd.policy.foreign import released
from fedsvd.policy.learned import how_rows_belong, what_each_role_learns
from fedsvd.prepare.matching import MatchReport
from fedsvd.prepare.table_map import map_of
from fedsvd.protocol.openings import expected_bits, in_bits
from fedsvd.protocol.parties import named
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Answer, Mode, Scheme, Split, Trust
from fedsvd.results.folder import to_look_at
from fedsvd.results.report import charts
from fedsvd.results.report.accounts import accounts, against_the_model
from fedsvd.results.report.findings import findings
from fedsvd.results.report.sections import Figure, Section, grid, reader_name, split_words, task_name
from fedsvd.results.result import PartyResult
from fedsvd.storage.toml import spelt_toml

CITATION = (
    "Di Chai, Leye Wang, Junxue Zhang, Liu Yang, Shuowei Cai, Kai Chen and Qiang Yang. Practical Lossless Federated "
    "Singular Vector Decomposition over Billion-Scale Data. KDD 2022. https://doi.org/10.1145/3534678.3539402"
)


def render(result: PartyResult) -> str:
    """The page."""
    # The result first: what was computed and how is for those who read on.
    sections = [
        *findings(result),
        *(() if (prepared := how_tables_were_prepared(result)) is None else (prepared,)),
        how_it_was_computed(result),
        accounts(result),
        against_the_model(result),
        certificate(result),
        who_learned_what(result),
        how_to_repeat(result),
    ]
    html: str = template_of("fedsvd.results.report").render(
        result=result,
        task=task_name(result.plan),
        reader=reader_name(result),
        residual=None
        if result.plan.answer is Answer.SUMS or result.certificate.residual is None
        else result.certificate.residual_text,
        when=_when(result.created),
        lead=what_was_computed(result),
        look_at=to_look_at(result.facts),
        sections=sections,
    )
    return html


def _when(created: str) -> str:
    """A time to the minute, as people write it."""
    try:
        return f"{datetime.fromisoformat(created).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return created


def template_of(package: str) -> Any:
    """``page.html`` of a package, without its content; an error that names the extra where Jinja is missing."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise MissingExtra("a report needs jinja2", "pip install 'fedsvd[report]'") from None
    source = files(package).joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source)


def _shape(plan: SessionPlan) -> tuple[int, int]:
    """Rows and columns of the joint table."""
    return (plan.m, plan.n) if plan.split is Split.VERTICAL else (plan.n, plan.m)


def what_was_computed(result: PartyResult) -> tuple[str, ...]:
    """The study in a sentence or two."""
    plan = result.plan
    samples, features = _shape(plan)
    task = plan.task.in_a_sentence + ("" if plan.foreign is None else f" ({plan.foreign.name})")
    return (
        f"{plan.k} parties computed {_a(task)} of one joint table of {samples} rows and {features} columns. Each holds "
        f"{split_words(plan)}; none handed over data. The numbers are those of the joint table, to rounding.",
        *((f"The rows were {how_rows_belong(plan)}.",) if plan.rows_unchecked else ()),
    )


def _a(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def how_it_was_computed(result: PartyResult) -> Section:
    """The study, its parties, and how it was hidden."""
    plan = result.plan
    samples, features = _shape(plan)
    unit = "rows" if plan.split is Split.HORIZONTAL else "columns"
    brought = [f"{count} {unit}" for count in plan.counts]
    picture = charts.federation(result.names, brought, plan.trust is Trust.AUTHORITY)
    dealt = "the parties among themselves" if plan.trust is Trust.PEERS else "the trusted authority"
    opened = {Mode.A: "A: the parties open the sum", Mode.B: "B: the CSP opens the sum, under a mask"}
    rows = [
        (
            "task",
            task_name(plan)
            + ("" if plan.components is None or plan.components_by else f", {plan.components} components"),
        ),
        ("joint table", f"{samples} rows, {features} columns"),
        ("parties", ", ".join(f"{name} ({amount})" for name, amount in zip(result.names, brought, strict=True))),
        ("released", ", ".join(released(plan))),
        ("scheme", f"{plan.scheme}: {result.why}" if result.why else str(plan.scheme)),
        *((("mode", opened[plan.mode]),) if plan.mode is not None else ()),
        ("masks dealt by", dealt),
        ("opened", in_bits(expected_bits(plan))),
        *_more(result),
    ]
    facts = grid("The study", ("what", "value"), rows)
    return Section("study", "What was computed, and by whom", (), (Figure(picture, "Who took part."),), (facts,))


def _more(result: PartyResult) -> list[tuple[str, str]]:
    plan, rows = result.plan, []
    if plan.split is Split.VERTICAL:
        rows.append(("rows", how_rows_belong(plan)))
    if "matching" in result.facts:
        found = result.facts["matching"]
        rows.append(("records", str(MatchReport(found["records"], found["without_link"], found["matched"]))))
    if "choice" in result.facts:
        rows.append(("components taken", f"{result.facts['choice']['count']}, by the rule {plan.components_by}"))
    if plan.unit_variance:
        rows.append(("scaling", "every column to unit variance"))
    if plan.targets and plan.glm is None and plan.answer is not Answer.SCORES:
        rows.append(("target", ", ".join(result.targets)))
    if plan.answer is Answer.SOLUTION:
        rows.append(("penalty", f"ridge, alpha = {plan.alpha:g}" if plan.alpha else "none (ordinary least squares)"))
    if plan.glm is not None and not result.of_a_role:
        classes = result.facts.get("classes") or ()
        rows.append(("target", ", ".join(result.targets) + (f" ({', '.join(classes)})" if classes else "")))
        rows += [(key, name) for key, name in (result.facts.get("columns") or {}).items()]
    if plan.glm is not None:
        if plan.glm.ties:
            own = plan.glm.column("strata") is not None
            rows.append(("ties", plan.glm.ties))
            rows.append(("strata", "sites, and the values of a column at each" if own else "sites"))
        elif plan.glm.facts.weighs:
            rows.append(("family", f"{plan.glm.effect}, weighted by a {plan.glm.link} score"))
        else:
            rows.append(("family", f"{plan.glm.family}, link {plan.glm.link}"))
        rows.append(("penalty", f"ridge, alpha = {plan.alpha:g}" if plan.alpha else "none (maximum likelihood)"))
    if result.label_holder:
        rows.append(("labels held by", result.label_holder))
    constant = result.facts.get("constant_columns") or []
    if constant:
        rows.append(("constant columns", ", ".join(constant[:10]) + (" …" if len(constant) > 10 else "")))
    return rows


def certificate(result: PartyResult) -> Section:
    """How exact the result is, and by which plan and versions."""
    held = result.certificate
    versions = ", ".join(f"{name} {version}" for name, version in held.versions.items())
    measured = [
        ("residual", held.residual_text),
        ("orthogonality", f"{held.orthogonality:.2e}"),
        ("rank", str(result.rank)),
    ]
    about = result.plan.foreign
    measured = [] if result.plan.answer is Answer.SUMS else measured
    rows = [
        *(measured if about is None else [("task", about.name), ("declaration", about.declaration)]),
        *(((_order(result.plan), result.proved),) if result.proved else ()),
        ("plan digest", held.plan_digest),
        ("session", result.plan.session),
        ("versions", versions),
    ]
    return Section(
        "certificate", "Certificate", (_verified(result.plan),), (), (grid("Certificate", ("what", "value"), rows),)
    )


def _order(plan: SessionPlan) -> str:
    """What the sentence on the order of the vectors is."""
    return "order" if plan.scheme is Scheme.STEPS else "proved"


def _verified(plan: SessionPlan) -> str:
    """What residual and orthogonality are measured of, and by whom."""
    if plan.scheme is Scheme.STEPS:
        return (
            "Every party opened the same totals, each under a tag that the CSP cannot make, and tested what party 1 "
            "made of them: the residual is the larger one of X^T u - s v and X v - s u, in sums of their own and not "
            "squared, relative to the largest singular value, the orthogonality how far the columns of the result are "
            "from being orthonormal."
        )
    if plan.few_digits:
        return (
            "Every party opened the same totals, each under a tag that the CSP cannot make, and took the same steps: "
            "the residual is the length of the last one in standard errors, where the coefficients stand."
        )
    if plan.glm is not None:
        return (
            "For each iteration every party opened the same sum, factorised it and tested the coefficients that party "
            "1 sent to all on its own factor: the residual is how far the last factor is from the exact sum, relative "
            "to that sum."
        )
    if plan.foreign is not None:
        return (
            "Every party opened the same totals, each under a tag that the CSP cannot make, and all signed what was "
            "played: the steps that the task declares. What its script made of them is in its source."
        )
    if plan.answer is Answer.SUMS:
        return (
            "Every party opened the same totals, each under a tag that the CSP cannot make, and all signed what was "
            "played; curves and tests are computed from these totals."
        )
    if plan.mode is Mode.A:
        return (
            "Every party opened the same sum, factorised it and tested the result that was sent to all on its own "
            "factor: the residual is how far the factor is from the exact sum, relative to that sum, the orthogonality "
            "how far the columns of the result are from being orthonormal."
        )
    if plan.mode is Mode.B:
        return (
            "The CSP factorised the exact sum of the parties' masked Gram matrices, and the parties checked the answer "
            "by sums of their own before anything was released: the residual is the largest number that they opened "
            "of it, relative to the squared norm of the joint data, the orthogonality how far the columns of the "
            "result are from being orthonormal, as each party measures them."
        )
    if plan.stacks_labels:
        return (
            "The parties checked the answer of the CSP by products with secret vectors before anything was released; "
            "no figure of a residual is opened by that."
        )
    if plan.factors:
        return (
            "The parties checked the answer of the CSP by sums of their own before anything was released: the residual "
            "is the largest number that they opened of it, relative to the squared norm of the joint data, the "
            "orthogonality how far the columns of the result are from being orthonormal, as each party measures them."
        )
    return (
        "The CSP verifies the factors it found before it releases them: the residual is how far they are from the "
        "masked matrix, the orthogonality how far their columns are from being orthonormal, both relative to the "
        "largest singular value. Masks are orthogonal, so both carry over to the unmasked result."
    )


def how_tables_were_prepared(result: PartyResult) -> Section | None:
    """What was done to every table first, and to the reader's own; None where they were taken as they are."""
    known, table = result.facts.get("preparation"), result.facts.get("table")
    mapped = (
        () if table is None else tuple(f"Your own table: {line}" for line in map_of(table, "the result").sentences())
    )
    if known is None:
        words = ("Your own table was mapped at home, as follows; no one else is sent how.",)
        return Section("prepared", "How the tables were prepared", words, (), (), mapped) if mapped else None
    words = ("Every table was prepared as follows before the study.",)
    if "session" in known:
        words = (f"{words[0]} The joint numbers were found in a session of the parties before it, by sums alone.",)
    own = result.facts.get("prepared") or {}
    rows = [(key.replace("_", " "), _counted(own[key])) for key in own if own[key] not in ({}, [], None)]
    grids = (grid("Your own table", ("what", "value"), rows),) if rows else ()
    return Section("prepared", "How the tables were prepared", words, (), grids, (*mapped, *known["steps"]))


def _counted(value: object) -> str:
    """A fact of a preparation in words."""
    if isinstance(value, dict):
        return "; ".join(f"{key.replace('_', ' ')}: {_counted(each)}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def who_learned_what(result: PartyResult) -> Section:
    """What each role can compute under this plan, parties under their names."""
    before = result.facts.get("preparation", {}).get("learned", [])
    lines = tuple(named(line, result.names) for line in what_each_role_learns(result.plan))
    earlier = tuple(line for each in before if (line := named(each, result.names)) not in lines)
    words = (
        "What each role can compute from what it saw, if all follow the protocol and the CSP does not collude "
        "with a party. A malicious party is outside this model.",
    )
    if not earlier:
        return Section("learned", "What each role learned", words, lines=lines)
    lists = (("When the tables were prepared together", earlier), ("In the study itself", lines))
    return Section("learned", "What each role learned", words, lists=lists)


def how_to_repeat(result: PartyResult) -> Section:
    """A job file for this study, and what to cite."""
    held = result.certificate
    words = (
        "Run the job file below on the same tables with the same versions. Masks and seeds are fresh for every run, so "
        "results agree to rounding and not bit for bit.",
        f"Cite the paper whose method this is: {CITATION}",
        f"Software: FedSVD {held.versions.get('fedsvd', '')}, plan {held.plan_digest[:16]}.",
    )
    return Section("repeat", "How to reproduce and cite", words, code=job_file(result))


def job_file(result: PartyResult) -> str:
    """The job file of this study as it was asked for, with every option and without paths."""
    parties = [{**party, "data": "FILE"} for party in result.file.get("party", ())]
    return spelt_toml({**result.file, "party": parties})
