"""A plan is public, frozen and the same at every party: its digest, and the shapes that follow from it."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsvd.errors import ConfigError
from fedsvd.linalg.windows import Form
from fedsvd.protocol.foreign import ForeignPlan
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.steps import PlannedStep, StepKind
from fedsvd.protocol.table import TablePlan, Variable
from fedsvd.protocol.tasks import (
    Align,
    Answer,
    Check,
    Family,
    Item,
    Labels,
    Mode,
    Own,
    Scheme,
    Split,
    Task,
    Ties,
    Trust,
)
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

IDENTITIES = ("aa" * 32, "bb" * 32, "cc" * 32)
PLAN = SessionPlan(
    SessionId("a session"),
    Task.SVD,
    Split.VERTICAL,
    Scheme.MASK,
    Trust.PEERS,
    m=6,
    counts=(4, 9),
    release=(Item.COMPONENTS, Item.SPECTRUM),
    **declared(Task.SVD).facts(Split.VERTICAL),
    identities=IDENTITIES,
)
OTHER = {
    "session": "another",
    "task": Task.LSA,
    "split": Split.HORIZONTAL,
    "scheme": Scheme.SUM,
    "trust": Trust.AUTHORITY,
    "m": 7,
    "counts": (9, 4),
    "release": (Item.COMPONENTS,),
    "answer": Answer.SOLUTION,
    "labels": Labels.JOINED,
    "own": Own.SCORES,
    "components": 2,
    "components_by": "mle",
    "centre": True,
    "unit_variance": True,
    "targets": 1,
    "label_user": 1,
    "alpha": 0.5,
    "alphas": (0.1, 1.0),
    "chosen_by": "gcv",
    "weighted": True,
    "robust": "HC3",
    "digits": Digits.MORE,
    "left": Form.MIXING,
    "right": Form.MIXING,
    "block": 3,
    "mode": Mode.B,
    "why": (Why.ASKED,),
    "check_ids": True,
    "trust_rows": True,
    "align": Align.ECDH,
    "id_rule": "{}",
    "least_overlap": 5,
    "check": Check.ALL,
    "certain_bound": True,
    "memory": 1 << 20,
    "identities": IDENTITIES[::-1],
    "csp_identity": "dd" * 32,
    "column_names": "ee" * 32,
    "job": "ff" * 32,
    "earlier": ("ab" * 32,),
    "ticket": "8f3a/2",
    "prekeys": ("ab", "cd"),
    "glm": ModelPlan(Family.BINOMIAL, "logit", classes=3),
    "table": TablePlan((Variable("age", low=18.0, high=110.0),), gaps=False),
    "steps": (PlannedStep("totals and counts", StepKind.WIDE, 7),),
    "options": (("shrink", 0.25),),
    "foreign": ForeignPlan("one-sum", "A sum.", "ab" * 32, "{}", (), (("sums", "totals"),), (), ()),
    "least_count": 5,
    "protocol": 99,
}


def regression(**changes):
    facts = declared(Task.LR).facts(changes.get("split", Split.VERTICAL))
    return replace(PLAN, **{"task": Task.LR, **facts, "targets": 2, "label_user": 1, "centre": True, **changes})


def test_every_field_is_in_the_digest():
    assert set(OTHER) == {field.name for field in fields(SessionPlan)}
    digests = {name: replace(PLAN, **{name: value}).digest for name, value in OTHER.items() if name != "glm"}
    assert len({PLAN.digest, *digests.values()}) == len(OTHER)


def test_every_field_of_a_model_is_in_the_digest_of_its_plan():
    model = OTHER["glm"]
    plan = replace(PLAN, task=Task.GLM, split=Split.HORIZONTAL, glm=model, labels=Labels.APART)
    other = {
        "family": Family.MULTINOMIAL,
        "link": "probit",
        "classes": 4,
        "offset": True,
        "weighted": True,
        "tolerance": 1e-6,
        "max_iterations": 7,
        "least_class": 5,
        "least_events": 2,
        "digits": Digits.MORE,
    }
    survival = {"ties": Ties.BRESLOW, "beside": ("entry", "strata")}
    mixed, bins = {"reml": False, "correlated": False}, {"bins": 3}
    treated = {"effect": "poisson"}
    assert {*other, *survival, *mixed, *bins, *treated} == {field.name for field in fields(ModelPlan)}
    digests = {replace(plan, glm=replace(model, **{name: value})).digest for name, value in other.items()}
    assert len({plan.digest, *digests}) == len(other) + 1
    cox = ModelPlan(Family.COX, "log", ties=Ties.EFRON, digits=Digits.TABLE)
    changed = {replace(plan, glm=replace(cox, **{name: value})).digest for name, value in survival.items()}
    assert len({replace(plan, glm=cox).digest, *changed}) == len(survival) + 1
    binned = replace(cox, ties=Ties.BRESLOW)
    assert replace(plan, glm=binned).digest != replace(plan, glm=replace(binned, **bins)).digest
    weighted = ModelPlan(Family.PROPENSITY, "logit", effect="gaussian", beside=("treatment",), digits=Digits.TABLE)
    assert replace(plan, glm=weighted).digest != replace(plan, glm=replace(weighted, **treated)).digest
    grouped = ModelPlan(Family.MIXED, "identity", beside=("subject",), digits=Digits.TABLE)
    changed = {replace(plan, glm=replace(grouped, **{name: value})).digest for name, value in mixed.items()}
    assert len({replace(plan, glm=grouped).digest, *changed}) == len(mixed) + 1


def test_a_model_belongs_to_its_task_and_no_other():
    with pytest.raises(ConfigError, match="another task"):
        replace(PLAN, glm=OTHER["glm"])
    with pytest.raises(ConfigError, match="another task"):
        replace(PLAN, task=Task.GLM, labels=Labels.APART)


def test_the_digest_is_that_of_equal_plans_everywhere():
    assert replace(PLAN).digest == PLAN.digest
    assert len(PLAN.digest) == 64
    assert set(PLAN.digest) <= set("0123456789abcdef")


def test_a_plan_does_not_change():
    with pytest.raises(FrozenInstanceError):
        PLAN.m = 7


def test_parties_and_identities():
    assert PLAN.parties == (CSP, user(1), user(2))
    assert replace(PLAN, trust=Trust.AUTHORITY).parties == (CSP, TA, user(1), user(2))
    assert [PLAN.identity(party).hex() for party in (user(1), user(2), TA)] == list(IDENTITIES)


@pytest.mark.parametrize(
    "changes",
    [
        {"identities": IDENTITIES[:2] * 2},
        {"counts": (4,)},
        {"counts": ()},
        {"counts": (4, 0)},
        {"m": 0},
        {"components": 0},
        {"components": 7},
    ],
    ids=repr,
)
def test_plans_without_sense_are_refused(changes):
    with pytest.raises(ConfigError):
        replace(PLAN, **changes)


@pytest.mark.parametrize(
    ("changes", "widths", "M"),
    [
        ({}, (4, 9), 6),
        ({"scheme": Scheme.SUM}, (35, 35), 6),
        ({"scheme": Scheme.SUM, "m": 100, "counts": (90, 200)}, (90, 100), 100),
        ({"scheme": Scheme.SUM, "m": 100, "counts": (90, 200), "centre": True}, (91, 101), 100),
        ({"scheme": Scheme.SUM, "m": 101, "counts": (1, 3)}, (82, 82), 101),
    ],
    ids=repr,
)
def test_widths_of_what_users_share(changes, widths, M):
    plan = replace(PLAN, **changes)
    assert (plan.widths, plan.M, plan.N) == (widths, M, sum(widths))
    assert plan.n == sum(plan.counts)


@given(m=st.integers(1, 400), counts=st.lists(st.integers(1, 300), min_size=2, max_size=6), centre=st.booleans())
def test_any_two_shares_together_are_wide_enough_that_whole_numbers_do_not_determine_them(m, counts, centre):
    """Section 3.4: N >= m + 63 for two honest users; at N <= m + 1 exact integers give every column away."""
    plan = replace(PLAN, scheme=Scheme.SUM, m=m, counts=tuple(counts), centre=centre)
    narrowest, next_to_it = sorted(plan.widths)[:2]
    assert narrowest + next_to_it >= m + 63
    assert all(q >= p for q, p in zip(plan.widths, plan.factor_widths, strict=True))


def test_a_ridge_is_folded_into_the_factor_of_user_1_in_the_sum_family():
    plan = regression(split=Split.HORIZONTAL, scheme=Scheme.SUM, alpha=1.0, m=60, counts=(4, 90))
    assert plan.factor_widths == (62, 63)
    assert plan.M == 62


def test_r_is_the_plans_and_does_not_depend_on_the_rank_of_the_data():
    assert PLAN.planned_rank == 6
    assert replace(PLAN, counts=(2, 3)).planned_rank == 5
    assert replace(PLAN, components=2).planned_rank == 2


def test_a_vertical_regression_has_the_ridge_below_its_samples():
    plan = regression()
    assert (plan.M, plan.widths, plan.by_rows) == (6, (4, 9), True)
    ridge = regression(alpha=1.0)
    assert (ridge.ridge_rows, ridge.M, ridge.ridge_columns) == (13, 19, 0)


def test_a_horizontal_regression_has_labels_as_rows_and_a_ridge_as_columns_of_user_1():
    plan = regression(split=Split.HORIZONTAL, scheme=Scheme.SUM)
    assert (plan.M, plan.masked_rows, plan.by_rows) == (8, 6, False)
    ridge = regression(split=Split.HORIZONTAL, scheme=Scheme.SUM, alpha=1.0)
    assert (ridge.ridge_columns, ridge.factor_widths[0]) == (6, ridge.M)


@given(
    counts=st.lists(st.integers(1, 200), min_size=2, max_size=5),
    m=st.integers(1, 300),
    left=st.sampled_from(Form),
    block=st.integers(1, 40),
    alpha=st.sampled_from([0.0, 1.0]),
    task=st.sampled_from([Task.SVD, Task.LR]),
)
def test_panels_cover_every_row_once(counts, m, left, block, alpha, task):
    plan = replace(
        PLAN, task=task, counts=tuple(counts), m=m, left=left, block=block, alpha=alpha,
        targets=int(task is Task.LR),
    )  # fmt: skip
    assert sum(rows * width for rows, width in plan.panels) == plan.M * (plan.N + plan.targets)
    assert [row for rows in plan.row_panels for row in range(rows.start, rows.stop)] == list(range(plan.M))
