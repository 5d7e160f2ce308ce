"""What is sent in a session of every task, step by step, made from the plans themselves.

``python docs/_ext/step_pages.py`` writes ``docs/reference/steps.md``, and a test holds the page to the declarations.
The steps are those of ``plan.steps``, which users and the CSP hold each other to; how a row looks asks for no task.
"""

from collections.abc import Iterator
from pathlib import Path

from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, StepKind, What
from fedsvd.protocol.table import TablePlan, Variable
from fedsvd.protocol.tasks import Align, ChosenBy, Family, Item, Mode, Robust, Split, Task, Ties
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

PAGE = Path(__file__).parents[1] / "reference" / "steps.md"
RECORDS, FEATURES, PARTIES = 3000, 18, 3

_ROWS, _COLUMNS = Split.HORIZONTAL, Split.VERTICAL
_INFERENCE = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
_SPECTRUM = (*declared(Task.PCA).released, Item.SPECTRUM)
_NUMBERS = tuple(Variable(name, (), 0.0, 100.0, 0) for name in ("age", "weight", "bilirubin", "albumin"))
_CATEGORIES = tuple(Variable(name, ("no", "yes")) for name in ("ascites", "spiders", "oedema", "male"))
_TABLE = TablePlan((Variable("arm", ("placebo", "drug")), *_NUMBERS, *_CATEGORIES), by="arm", digits=Digits.TABLE)
STUDIES: dict[str, Study] = {
    "SVD, split rows": Study(Task.SVD),
    "SVD of 2 components, split columns": Study(Task.SVD, _COLUMNS, components=2, trust_rows=True),
    "LSA of 2 components": Study(Task.LSA, components=2),
    "PCA of 2 components": Study(Task.PCA, components=2),
    "PCA with its spectrum, opened by the users": Study(Task.PCA, components=2, mode=Mode.A, release=_SPECTRUM),
    "PCA of 2 components, by steps": Study(Task.PCA, components=2, scheme="steps", release=_SPECTRUM),
    "CCA": Study(Task.CCA, _COLUMNS, trust_rows=True),
    "Regression on 2 principal components": Study(Task.PCR, components=2, targets=1),
    "The same by steps": Study(Task.PCR, components=2, targets=1, scheme="steps"),
    "Linear regression, split rows": Study(Task.LR, targets=1),
    "The same with standard errors by HC3, all digits": Study(
        Task.LR, targets=1, release=(*_INFERENCE, Item.ROBUST), robust=Robust.HC3
    ),
    "The same, few digits": Study(
        Task.LR, targets=1, release=(*_INFERENCE, Item.ROBUST), robust=Robust.HC3, digits=Digits.TABLE
    ),
    "Ridge among three penalties, by leaving out rows": Study(
        Task.LR,
        targets=1,
        alphas=(0.1, 1.0, 10.0),
        chosen_by=ChosenBy.LOO,
        release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.RIDGE_PATH),
    ),
    "Linear regression, split columns": Study(Task.LR, _COLUMNS, targets=1, label_user=1, trust_rows=True),
    "The same with standard errors": Study(
        Task.LR, _COLUMNS, targets=1, label_user=1, trust_rows=True, release=_INFERENCE
    ),
    "Logistic regression, all digits": Study(
        Task.GLM, targets=1, glm=ModelPlan(Family.BINOMIAL, "logit", digits=Digits.ALL)
    ),
    "Logistic regression, few digits": Study(
        Task.GLM, targets=1, glm=ModelPlan(Family.BINOMIAL, "logit", digits=Digits.TABLE)
    ),
    "Cox regression": Study(
        Task.COX, targets=2, glm=ModelPlan(Family.COX, "log", ties=Ties.EFRON, digits=Digits.TABLE)
    ),
    "Survival curves of two groups": Study(
        Task.SURVIVAL, digits=Digits.TABLE, options=(("groups", '["a", "b"]'), ("times", "[6.0, 12.0, 18.0, 24.0]"))
    ),
    "Ordinal regression": Study(
        Task.ORDINAL, targets=1, glm=ModelPlan(Family.ORDINAL, "logit", classes=3, digits=Digits.TABLE)
    ),
    "Description (Table 1)": Study(Task.DESCRIBE, table=_TABLE),
    "Linear mixed model, restricted likelihood": Study(
        Task.MIXED, targets=2, glm=ModelPlan(Family.MIXED, "identity", beside=("subject",), digits=Digits.TABLE)
    ),
    "Effect of a treatment by propensity weights": Study(
        Task.PROPENSITY,
        targets=2,
        robust=Robust.HC0,
        release=(*declared(Task.PROPENSITY).released, Item.ROBUST),
        glm=ModelPlan(Family.PROPENSITY, "logit", effect="gaussian", beside=("treatment",), digits=Digits.TABLE),
    ),
    "Prediction, split columns": Study(Task.PREDICT, _COLUMNS, targets=1, label_user=1, trust_rows=True),
    "Matching by hashes": Study(Task.MATCH, _COLUMNS, align=Align.SERVER),
    "Matching by blinded points": Study(Task.MATCH, _COLUMNS, align=Align.ECDH),
}

_HEAD = f"""# Every task, step by step

Made by `python docs/_ext/step_pages.py` from the plans of {PARTIES} parties with {RECORDS:,} records and {FEATURES}
features in all; a test fails when it is stale. Every session begins with keys, seeds and, where ids are compared,
their hashes, and ends with digests, signatures and the certificate. In between a session is its `plan.steps`, in this
order. A script that asks for anything else, and a message that is not among these, end it
([specification](../specification.md), section 3).

All links end at the CSP: what is *sealed* goes through it unread. What a party adds to a sum is *padded*, so that the
CSP adds up what it cannot read. "May be left out" and "up to" are what only the data decides.
"""

_SUM = "all → CSP → all"
_WHO = {
    StepKind.SHARED: "all → CSP → each its part",
    StepKind.FROM_USER_1: "party 1 → all, sealed",
    StepKind.FROM_EACH: "each → all, sealed",
    StepKind.EXCHANGE: "each → single others, sealed",
    StepKind.UPLOAD: "all → CSP, which opens the sum; its answer → all",
    StepKind.FETCH: "CSP → all",
    StepKind.CHALLENGE: "all → CSP → label holder",
    StepKind.COMPARE: "all → CSP; places → all",
}
_BYTES = (StepKind.FROM_USER_1, StepKind.FROM_EACH)


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for title, study in STUDIES.items():
        plan = planned(study)
        opened = f", mode {plan.mode}" if plan.mode is not None else ""
        shown = f'`task = "{plan.task}"`, scheme {plan.scheme}{opened}.'
        rows = "\n".join(f"| {' | '.join(cells)} |" for cells in _rows(plan.steps))
        head = "| | who | step | how much | what it opens |\n|---|---|---|---|---|"
        parts.append(f"## {title}\n\n{shown}\n\n{head}\n{rows}\n")
    return "\n".join(parts)


def planned(study: Study) -> SessionPlan:
    """The plan of a study on tables of these shapes."""
    by_rows = study.split is Split.HORIZONTAL
    own = (RECORDS if by_rows else FEATURES) // PARTIES
    identities = tuple(f"{i:064x}" for i in range(PARTIES))
    m = FEATURES if by_rows else RECORDS
    return plan_study(study, m, (own,) * PARTIES, SessionId("0" * 32), identities).plan


def _rows(steps: tuple[PlannedStep, ...], number: str = "") -> Iterator[tuple[str, ...]]:
    for place, step in enumerate(steps, start=1):
        label = f"{number}{place}"
        if step.kind is StepKind.REPEAT:
            yield label, "", f"*{step.name}*", f"up to {step.times} times", ""
        elif step.kind is StepKind.MAYBE:
            yield label, "", f"*{step.name}*", "may be left out", ""
        else:
            yield label, _who(step), step.name, _size(step), step.what
        yield from _rows(step.body, f"{label}.")


def _who(step: PlannedStep) -> str:
    if step.to:
        return f"all → CSP → party {step.to}"
    return _WHO.get(step.kind, _SUM)


def _size(step: PlannedStep) -> str:
    if step.kind in (StepKind.EXCHANGE, StepKind.CHALLENGE, StepKind.COMPARE):
        return ""
    upto = "up to " if step.upto else ""
    if step.kind in _BYTES:
        return f"{upto}{step.size:,} byte{'s' * (step.size > 1)}"
    if step.kind is StepKind.GRAM:
        return f"{step.size} x {step.size}, its upper triangle"
    if step.kind is StepKind.BOUND:
        return f"{step.size:,} {'words' if step.what is What.CHECK else 'flags, an OR of each'}"
    unit = "column" if step.kind in (StepKind.UPLOAD, StepKind.FETCH) else "number"
    bits = f" of {step.step} bits" if step.kind is StepKind.DIGITS else ""
    return f"{upto}{step.size:,} {unit}{'s' * (step.size > 1)}{bits}"


def write() -> None:
    """The page, where it is."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
