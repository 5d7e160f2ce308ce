"""What a report says in words: what was computed and by whom, the certificate, who learned what, how to cite."""

import json

from fedsvd.policy.learned import how_rows_belong, what_each_role_learns
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item, Mode, Split, Task, Trust
from fedsvd.results.report import charts
from fedsvd.results.report.parts import Figure, Section, grid
from fedsvd.results.report.subject import TASKS, Subject, in_names, split_words

CITATION = (
    "Di Chai, Leye Wang, Junxue Zhang, Liu Yang, Shuowei Cai, Kai Chen and Qiang Yang. Practical Lossless Federated "
    "Singular Vector Decomposition over Billion-Scale Data. KDD 2022. https://doi.org/10.1145/3534678.3539402"
)


def what_was_computed(subject: Subject) -> Section:
    """The study, its parties, and how it was hidden."""
    plan = subject.plan
    samples, features = (plan.m, plan.n) if plan.split is Split.VERTICAL else (plan.n, plan.m)
    unit = "rows" if plan.split is Split.HORIZONTAL else "columns"
    task = TASKS[plan.task].lower()
    words = (
        f"{plan.k} parties computed a {task} of one joint table of {samples} rows and {features} columns. Each holds "
        f"{split_words(plan)}; none handed over data. The numbers are those of the joint table, to rounding.",
        *((f"The rows were {how_rows_belong(plan)}.",) if plan.rows_unchecked else ()),
    )
    brought = [f"{count} {unit}" for count in plan.counts]
    picture = charts.federation(subject.names, brought, plan.trust is Trust.AUTHORITY)
    dealt = "the parties among themselves" if plan.trust is Trust.PEERS else "the trusted authority"
    opened = {Mode.A: "A: the parties open the sum", Mode.B: "B: the CSP opens the sum, under a mask"}
    rows = [
        ("task", TASKS[plan.task] + ("" if plan.components is None else f", {plan.components} components")),
        ("joint table", f"{samples} rows, {features} columns"),
        ("parties", ", ".join(f"{name} ({amount})" for name, amount in zip(subject.names, brought, strict=True))),
        ("released", ", ".join(str(item) for item in plan.release)),
        ("scheme", f"{plan.scheme}: {subject.why}" if subject.why else str(plan.scheme)),
        *((("mode", opened[plan.mode]),) if plan.mode is not None else ()),
        ("masks dealt by", dealt),
        *_more(subject),
    ]
    facts = grid("The study", ("what", "value"), rows)
    return Section("study", "What was computed, and by whom", words, (Figure(picture, "Who took part."),), (facts,))


def _more(subject: Subject) -> list[tuple[str, str]]:
    plan, rows = subject.plan, []
    if plan.split is Split.VERTICAL:
        rows.append(("rows", how_rows_belong(plan)))
    if plan.task is Task.PCA and plan.unit_variance:
        rows.append(("scaling", "every column to unit variance"))
    if plan.task is Task.LR:
        rows.append(("target", ", ".join(subject.targets)))
        rows.append(("penalty", f"ridge, alpha = {plan.alpha:g}" if plan.alpha else "none (ordinary least squares)"))
    if subject.label_holder:
        rows.append(("labels held by", subject.label_holder))
    constant = subject.facts.get("constant_columns") or []
    if constant:
        rows.append(("constant columns", ", ".join(constant[:10]) + (" …" if len(constant) > 10 else "")))
    return rows


def certificate(subject: Subject) -> Section:
    """How exact the result is, and by which plan and versions."""
    held = subject.certificate
    versions = ", ".join(f"{name} {version}" for name, version in held.versions.items())
    rows = [
        ("residual", f"{held.residual:.2e}"),
        ("orthogonality", f"{held.orthogonality:.2e}"),
        ("rank", str(subject.rank)),
        ("plan digest", held.plan_digest),
        ("session", subject.plan.session),
        ("versions", versions),
    ]
    return Section(
        "certificate", "Certificate", (_verified(subject.plan),), (), (grid("Certificate", ("what", "value"), rows),)
    )


def _verified(plan: SessionPlan) -> str:
    """What residual and orthogonality are measured of, and by whom."""
    if plan.mode is Mode.A:
        return (
            "Every party opened the same sum, factorised it and tested the result that was sent to all on its own "
            "factor: the residual is how far the factor is from the exact sum, relative to that sum, the orthogonality "
            "how far the columns of the result are from being orthonormal."
        )
    if plan.mode is Mode.B:
        return (
            "The CSP factorised the exact sum of the parties' masked Gram matrices: the residual is how far its factor "
            "is from that sum, relative to it, the orthogonality how far the columns of the result are from being "
            "orthonormal. The parties checked the answer by sums of their own before anything was released."
        )
    return (
        "The CSP verifies the factors it found before it releases them: the residual is how far they are from the "
        "masked matrix, the orthogonality how far their columns are from being orthonormal, both relative to the "
        "largest singular value. Masks are orthogonal, so both carry over to the unmasked result."
    )


def who_learned_what(subject: Subject) -> Section:
    """The ledger's lines for this plan, parties under their names."""
    lines = tuple(in_names(line, subject.names) for line in what_each_role_learns(subject.plan))
    words = (
        "What each role can compute from what it saw, if everybody follows the protocol and the CSP does not collude "
        "with a party. A malicious party is outside this model.",
    )
    return Section("learned", "What each role learned", words, lines=lines)


def how_to_repeat(subject: Subject) -> Section:
    """A job file for this study, and what to cite."""
    held = subject.certificate
    words = (
        "Run the job file below on the same tables with the same versions. Masks and seeds are fresh for every run, so "
        "results agree to rounding and not bit for bit.",
        f"Cite the paper whose method this is: {CITATION}",
        f"Software: FedSVD {held.versions.get('fedsvd', '')}, plan {held.plan_digest[:16]}.",
    )
    return Section("repeat", "How to reproduce and cite", words, code=job_file(subject))


def job_file(subject: Subject) -> str:
    """The study as a job file, without paths."""
    plan = subject.plan
    keys: dict[str, object] = {"name": subject.job, "task": str(plan.task), "split": str(plan.split)}
    if plan.components is not None:
        keys["components"] = plan.components
    keys["release"] = [str(item) for item in plan.release if item is not Item.OWN_PART]
    if plan.task is Task.LR:
        keys["label"] = list(subject.targets)
        keys |= {"label_party": subject.label_holder} if subject.label_holder else {}
        keys |= {"alpha": plan.alpha} if plan.alpha else {}
        keys |= {} if plan.centre else {"intercept": False}
    keys |= {"id": subject.id} if subject.id else {}
    keys |= {"ids": "trust"} if plan.trust_rows else {}
    keys |= {"unit_variance": True} if plan.unit_variance else {}
    keys |= {"full_matrices": True} if plan.full_matrices else {}
    lines = ["[job]", *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items())]
    lines += ["", "[masks]", f'scheme = "{plan.scheme}"']
    lines += [f'mode = "{plan.mode}"'] if plan.mode is not None else []
    lines += ["", "[authority]", 'name = "ta"'] if plan.trust is Trust.AUTHORITY else []
    for name in subject.names:
        lines += ["", "[[party]]", f"name = {json.dumps(name)}", 'data = "FILE"']
    return "\n".join(lines) + "\n"
