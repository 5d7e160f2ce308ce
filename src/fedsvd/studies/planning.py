"""From a study and the shapes of the data to a plan: which family, which mode, which masks.

The rules are those of the specification, section 1: the sum family where the common side is short, else the mask
family; and in the sum family mode A, where users open the joint Gram matrix, where the release determines it anyway.
"""

from dataclasses import dataclass, replace

from fedsvd.errors import ConfigError, ReleaseRefused, StorageError, warn_caller
from fedsvd.linalg.windows import HAAR_LEFT_LIMIT, HAAR_RIGHT_LIMIT, LEAST_BLOCK, Form
from fedsvd.policy.rules import Policy, findings, keys_of
from fedsvd.prepare.rule import planned_steps
from fedsvd.protocol.budget import DEFAULT_MEMORY, memory_of_sums
from fedsvd.protocol.directions import components_for_share, expect_memory, memory_of_steps, pays
from fedsvd.protocol.held import decided, decided_table
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.shared import MOST_SHARED, shares_inverse, shares_vectors
from fedsvd.protocol.table import TablePlan
from fedsvd.protocol.tasks import (
    Answer,
    ChosenBy,
    ComponentRule,
    Item,
    Labels,
    Mode,
    Own,
    Scheme,
    Split,
    Task,
    Trust,
)
from fedsvd.protocol.upload import expect_route
from fedsvd.studies.study import Study, expect_legal, is_legal, opens_table
from fedsvd.tasks.declared import declared, with_steps
from fedsvd.tasks.options import completed
from fedsvd.types import SessionId, byte_size, enough_bytes

LONGEST_SIDE = 1 << 32
"""Rows or columns of one party's table, at most; numbers beyond are refused where they are read."""

_SHORT_SIDE = 4096  # rows up to which split rows are summed whatever the number of records
_LONGEST_SUMMED = 16_384
_MOST_USERS = 500  # beyond, the noise of the joint norm is not covered by its margin


@dataclass(frozen=True)
class Planned:
    """A plan and the reason for its scheme."""

    plan: SessionPlan

    @property
    def why(self) -> str:
        return self.plan.reason


def plan_study(
    study: Study, m: int, counts: tuple[int, ...], session: SessionId, identities: tuple[str, ...] = ()
) -> Planned:
    """The plan for this study on matrices X_i of m rows and these columns: nothing of this machine is in it."""
    expect_legal(study)
    if len(counts) > _MOST_USERS:
        raise ConfigError(f"{len(counts)} parties take part", f"at most {_MOST_USERS} in one session")
    if max(m, *counts) > LONGEST_SIDE:
        raise ConfigError(f"a table of {max(m, *counts):,} rows or columns", f"at most {LONGEST_SIDE:,}")
    if study.about.answer is Answer.SUMS:
        return _plan_of_sums(study, m, counts, session, identities)
    needed, held = _needed_by_sums(study, m, counts), held_whole(study, m, counts)
    memory = study.memory or max(DEFAULT_MEMORY, needed, held)
    scheme, why = _choose_scheme(study, m, counts, memory, needed)
    why = Why.STEPS_ENDED if study.steps_ended else why
    if study.memory is None and scheme is not Scheme.SUM and not held:
        memory = DEFAULT_MEMORY
    if study.memory is None and scheme is Scheme.STEPS:
        memory = max(memory, memory_of_steps(_session_plan(study, m, counts, scheme, Mode.A, memory)))
    if memory < held:
        raise StorageError(
            f"{study.task.upper()} holds a party's table in memory, which takes {byte_size(held)} here, and the memory "
            f"budget is {byte_size(memory)}",
            f"allow at least {enough_bytes(held)} of memory, or choose fewer columns or records",
        )
    if scheme is Scheme.MASK and 0 < study.block_size < LEAST_BLOCK:
        raise ConfigError(f"block_size = {study.block_size}", f"at least {LEAST_BLOCK}, or leave it out")
    _expect_permutable(study, scheme, m, memory, needed)
    mode, because = _choose_mode(study, scheme, m, counts)
    plan = _session_plan(study, m, counts, scheme, mode, memory)
    quicker = (Why.NO_SPECTRUM,) if _hinders_steps(study, m, counts, memory) else ()
    reasons = (Why.FEW_DIGITS,) if plan.few_digits else tuple(dict.fromkeys((why, *quicker, *because)))
    plan = replace(plan, session=session, why=reasons, identities=identities)
    if scheme is Scheme.STEPS:
        expect_memory(plan)
    return Planned(with_steps(_with_masks(plan) if scheme is Scheme.MASK else plan))


def expect_machine(study: Study, plan: SessionPlan, machine: int | None) -> None:
    """Refuse a plan whose unset budget is beyond half of the main memory that all roles of this machine share.

    The plan is the same on every machine, so it is not made smaller here. A budget that the study names is taken as
    it is: its author knows what the machine has.
    """
    about = declared(plan.task)
    needed = max(memory_of_sums(plan, about.c) if plan.compress else 0, held_whole(study, plan.m, plan.counts))
    needed = memory_of_steps(plan) if plan.scheme is Scheme.STEPS else needed
    if study.memory is None and machine is not None and needed > machine // 2:
        masked = "" if about.sums_rows else ', or set scheme = "mask"'
        raise StorageError(
            f"this study takes {byte_size(needed)} in a role, and half of the memory of this machine is "
            f"{byte_size(machine // 2)}",
            f"run it where there is more, name a memory budget, or choose fewer features{masked}",
        )


def held_whole(study: Study, m: int, counts: tuple[int, ...]) -> int:
    """Bytes of the widest table in all copies that its party holds at once; 0 where tables are read in panels."""
    return 8 * study.about.held * m * max(counts)


def _plan_of_sums(
    study: Study, m: int, counts: tuple[int, ...], session: SessionId, identities: tuple[str, ...]
) -> Planned:
    """The plan of sums that the parties open, and nothing else: of a preparation, a foreign task, counts, Table 1."""
    plan = _session_plan(study, m, counts, Scheme.SUM, Mode.A, study.memory or DEFAULT_MEMORY)
    _, why = _choose_mode(study, Scheme.SUM, m, counts)
    plan = replace(plan, session=session, why=why, identities=identities)
    if study.foreign is not None:
        steps, about = study.foreign.declaration.planned(study.foreign.options, m, len(counts))
        plan = replace(plan, steps=steps, foreign=about)
    elif (rule := study.rule) is not None:
        plan = replace(plan, steps=planned_steps(rule, m), least_count=rule.minimum)
    return Planned(with_steps(plan))


def _session_plan(
    study: Study, m: int, counts: tuple[int, ...], scheme: Scheme, mode: Mode | None, memory: int
) -> SessionPlan:
    """A plan of these shapes, for no session yet."""
    about = study.about
    return SessionPlan(
        session=SessionId("00" * 16),
        task=study.task,
        split=study.split,
        scheme=scheme,
        trust=Trust.PEERS if about.answer is Answer.RECORDS else study.trust,
        m=m,
        counts=counts,
        release=_release(study),
        **about.facts(study.split, scheme),
        components=_components(study, m, counts, scheme),
        components_by=study.components_by,
        centre=about.centred if study.centre is None else study.centre,
        unit_variance=study.unit_variance,
        targets=study.targets,
        label_user=study.label_user,
        alpha=study.alpha,
        alphas=study.alphas,
        chosen_by=str(study.chosen_by or ChosenBy.LOO) if study.alphas else "",
        weighted=study.weighted,
        robust=str(study.robust or ""),
        digits=_digits(study, m, counts, scheme),
        block=study.block_size,
        mode=mode,
        check_ids=study.check_ids,
        trust_rows=study.trust_rows,
        align=study.align,
        id_rule=study.id_rule,
        least_overlap=study.least_overlap,
        check=study.check,
        certain_bound=study.certain_bound,
        glm=None if study.glm is None else _model(study, m, counts),
        table=_table(study),
        options=completed(study.task, study.options),
        memory=memory,
    )


def _table(study: Study) -> TablePlan | None:
    """What is described, with the digits that its sums will have: few, where no one chose."""
    about = study.table
    return replace(about, digits=Digits.TABLE) if about is not None and about.digits is Digits.AUTO else about


def _model(study: Study, m: int, counts: tuple[int, ...]) -> ModelPlan | None:
    """The model of a study, with the digits that its sums will have."""
    about = study.glm
    intercept = study.about.centred if study.centre is None else study.centre
    robust = study.robust is not None
    return None if about is None else decided(about, m, intercept, counts, study.record_bits, robust)


def _digits(study: Study, m: int, counts: tuple[int, ...], scheme: Scheme) -> Digits:
    """The digits that the sums of a regression table, or of a search by steps, will have."""
    if scheme is Scheme.STEPS:
        return Digits.ALL if study.digits is Digits.AUTO else study.digits
    if study.task is Task.SURVIVAL:
        return Digits.TABLE if study.digits is Digits.AUTO else study.digits
    if not opens_table(study):
        return Digits.ALL
    about = study.about
    intercept = about.centred if study.centre is None else study.centre
    robust = study.robust is not None
    return decided_table(study.digits, m, intercept, study.targets, robust, counts, study.record_bits)


def _release(study: Study) -> tuple[Item, ...]:
    return study.release if study.release is not None else study.about.released


def _components(study: Study, m: int, counts: tuple[int, ...], scheme: Scheme) -> int | None:
    """How many components a plan releases; of canonical variables there are as many as the narrowest table has."""
    if scheme is Scheme.STEPS and study.components_by:
        return components_for_share(m, counts)
    if study.about.own is not Own.VARIATES:
        return study.components
    most = min(m, *counts)
    if study.components is not None and study.components > most:
        raise ConfigError(
            f"components = {study.components}", f"between 1 and {most}, the columns of the narrowest table"
        )
    return study.components or most


def _expect_permutable(study: Study, scheme: Scheme, m: int, memory: int, needed: int) -> None:
    """Refuse parallel analysis where no party opens Gram matrices, or a table has no space to be permuted in."""
    if study.components_by != ComponentRule.PARALLEL or scheme is Scheme.SUM:
        return
    if needed > memory:
        raise StorageError(
            f"parallel analysis permutes each party's table in memory, which needs {byte_size(needed)}; the budget is "
            f"{byte_size(memory)}",
            f"allow at least {enough_bytes(needed)} of memory, or choose the number by another rule",
        )
    raise ConfigError(
        f"parallel analysis adds up Gram matrices, and the common side is long ({m})",
        'choose the number by another rule, or set scheme = "sum" and allow the memory',
    )


def _needed_by_sums(study: Study, m: int, counts: tuple[int, ...]) -> int:
    """Bytes that the sum family needs for this study; 0 where it is no task or no length of its own."""
    about = study.about
    columns = study.labels_at is Labels.STACKED
    if _no_matrix(study) or study.scheme in (Scheme.MASK, Scheme.STEPS) or columns:
        return 0
    if m + study.targets > _LONGEST_SUMMED and not about.sums_rows and study.scheme != Scheme.SUM:
        return 0
    return memory_of_sums(_session_plan(study, m, counts, Scheme.SUM, None, 1), about.c)


def _no_matrix(study: Study) -> bool:
    return study.about.answer in (Answer.SCORES, Answer.RECORDS)


def other_family(study: Study, planned: Planned) -> Planned | None:
    """The same study in the other family, for comparison; None where only one of them can do it."""
    plan = planned.plan
    other = {Scheme.SUM: Scheme.MASK, Scheme.MASK: Scheme.SUM}.get(plan.scheme)
    only_one = plan.opens_nothing or plan.stacks_labels or plan.answer in (Answer.GRAM, Answer.SUMS)
    if other is None or only_one or plan.M > _LONGEST_SUMMED:
        return None
    try:
        return plan_study(replace(study, scheme=str(other), mode=None), plan.m, plan.counts, plan.session)
    except (ConfigError, StorageError):
        return None


def guard(plan: SessionPlan, policy: Policy) -> None:
    """Refuse a plan below an enforced policy; warn of what is found in it otherwise, once for each finding.

    The one place that warns of a plan. It runs before any role exists, so nothing has been sent by then.
    """
    found = findings(plan, policy)
    below = [finding for finding in found if finding.below]
    if policy.enforce and below:
        rules = "; ".join(str(finding) for finding in below)
        raise ReleaseRefused(
            f"this plan is below the policy: {rules}", f"change the study, or the policy{keys_of(below)}, and ask again"
        )
    if policy.warn:
        for finding in found:
            if not finding.asks:  # the one person who has all tables is asked nothing
                warn_caller(str(finding))


def _choose_scheme(study: Study, m: int, counts: tuple[int, ...], memory: int, needed: int) -> tuple[Scheme, Why]:
    """The family, by the rule of the specification's section 1, and the reason."""
    split_columns = study.split is Split.VERTICAL
    about = study.about
    if _no_matrix(study):
        return Scheme.MASK, Why.NO_MATRIX
    if study.labels_at is Labels.STACKED:
        if study.scheme == Scheme.SUM:
            raise ConfigError("a regression on split columns has a long common side", 'set scheme = "mask"')
        return Scheme.MASK, Why.LONG_RECORDS
    rows = m + study.targets
    fits = needed <= memory
    if about.sums_rows and study.scheme != Scheme.STEPS and not _by_steps(study, m, counts, memory):
        return _summed_rows(study, rows, memory, needed)
    if study.scheme != "auto":
        if study.scheme == Scheme.SUM and not fits:
            raise _too_little(needed, memory, rows)
        return Scheme(study.scheme), Why.ASKED
    if _by_steps(study, m, counts, memory):
        return Scheme.STEPS, Why.MANY_FEATURES
    width = sum(min(n_i, rows) for n_i in counts)
    within = rows <= width and rows <= _LONGEST_SUMMED
    if not within and (split_columns or rows > _SHORT_SIDE):
        return Scheme.MASK, Why.LONG_SIDE
    if not fits and study.mode is not None:
        raise _too_little(needed, memory, rows)
    return (Scheme.SUM, Why.SHORT_SIDE) if fits else (Scheme.MASK, Why.TOO_LARGE)


def _by_steps(study: Study, m: int, counts: tuple[int, ...], memory: int) -> bool:
    """Whether steps are taken without being asked for: they can do it, pay, and fit a budget that is named."""
    asked = replace(study, scheme=Scheme.STEPS)
    r = study.components
    if (
        r is None
        or study.scheme != "auto"
        or study.mode is not None
        or study.split is Split.VERTICAL
        or not is_legal(asked)
    ):
        return False
    if not pays(min(r, m, sum(counts)), m, counts):
        return False
    plan = _session_plan(asked, m, counts, Scheme.STEPS, Mode.A, memory)
    return study.memory is None or memory_of_steps(plan) <= study.memory


def _hinders_steps(study: Study, m: int, counts: tuple[int, ...], memory: int) -> bool:
    """Whether steps would be taken if the release had the singular values, which it leaves out."""
    release = _release(study)
    return Item.SPECTRUM not in release and _by_steps(
        replace(study, release=(*release, Item.SPECTRUM)), m, counts, memory
    )


def _too_little(needed: int, memory: int, rows: int) -> StorageError:
    return StorageError(
        f"the sum family needs {byte_size(needed)} for a Gram matrix of {rows} x {rows}, the memory budget is "
        f"{byte_size(memory)}",
        f'allow at least {enough_bytes(needed)} of memory, or set scheme = "mask"',
    )


def _choose_mode(study: Study, scheme: Scheme, m: int, counts: tuple[int, ...]) -> tuple[Mode | None, tuple[Why, ...]]:
    """Mode A where the release determines the joint Gram matrix, or where it is asked for; else B."""
    if scheme is Scheme.STEPS:
        return Mode.A, (Why.BY_STEPS,)
    if scheme is not Scheme.SUM:
        if study.mode is not None:
            raise ConfigError(f"mode = {str(study.mode)!r}, and this plan is not of the sum family", "leave mode out")
        return None, ()
    about, release = study.about, _release(study)
    if about.opened_by_users is not None:
        return Mode.A, (about.opened_by_users,)
    if Item.INFERENCE in release:
        return Mode.A, (Why.STANDARD_ERRORS,)
    if Item.RIDGE_PATH in release:
        return Mode.A, (Why.RIDGE_PATH,)
    most = min(m, sum(counts))
    factors = about.answer is Answer.FACTORS and about.own is not Own.VARIATES and Item.SPECTRUM in release
    determined = factors and (study.components is None or study.components >= most)
    if study.mode is None:
        if determined:
            return Mode.A, (Why.ALL_RELEASED,)
        return Mode.B, (Why.NOT_DETERMINED,)
    if study.mode is Mode.A and not determined:
        return Mode.A, (Why.ASKED_OPEN,)
    return study.mode, (Why.ASKED,)


def _with_masks(plan: SessionPlan) -> SessionPlan:
    """The same plan with the form of each side's mask, which the lengths alone decide, once it fits the memory.

    Memory has no influence on what a mask mixes: a plan that does not fit is refused.
    """
    left = Form.HAAR if plan.masked_rows <= HAAR_LEFT_LIMIT else Form.MIXING
    right = Form.HAAR if plan.N <= HAAR_RIGHT_LIMIT else Form.MIXING
    plan = replace(plan, left=left, right=right)
    if not plan.opens_nothing:
        _expect_memory(plan)
    if (shares_inverse(plan) or shares_vectors(plan)) and plan.N > MOST_SHARED:
        raise ConfigError(
            f"{plan.N} columns of all parties, and what the CSP splits among the parties has at most {MOST_SHARED}",
            "choose fewer features, or leave inference and alphas out",
        )
    return plan


def _expect_memory(plan: SessionPlan) -> None:
    """Refuse a plan of the mask family whose memory holds no column under P, no Q, or no factor at the CSP."""
    width = plan.N + plan.targets
    needed = {
        f"a column of {plan.masked_rows} rows under P": 32 * plan.masked_rows,
        f"a row of {width} columns of {plan.k} users on its way up": max(160, 40 * plan.k) * width,
    }
    if plan.right is Form.HAAR:
        needed[f"Q, which is {plan.N} x {plan.N}"] = 12 * plan.N**2
    if shares_inverse(plan) or shares_vectors(plan):
        needed[f"the limbs of a matrix of {plan.N} x {plan.N} that the CSP splits"] = 200 * plan.N**2
    for what, size in needed.items():
        if plan.memory < size:
            raise StorageError(
                f"a memory budget of {plan.memory} bytes has no space for {what}", f"allow at least {size} bytes"
            )
    expect_route(plan)


def _summed_rows(study: Study, rows: int, memory: int, needed: int) -> tuple[Scheme, Why]:
    """The family of what adds Gram matrices of split rows: sums, however many features, as far as memory goes."""
    what = "a regression on split rows" if study.about.labelled else f"task {str(study.task)!r}"
    if study.scheme == Scheme.MASK:
        raise ConfigError(f"{what} is a task of the sum family", 'set scheme = "sum", or leave it out')
    if needed > memory:
        raise StorageError(
            f"{what}, with {rows} features and labels, needs {byte_size(needed)}, the memory budget is "
            f"{byte_size(memory)}",
            f"allow at least {enough_bytes(needed)} of memory, or choose fewer features",
        )
    split_rows = Why.SPLIT_ROWS if study.about.labelled else Why.FROM_GRAM
    return Scheme.SUM, Why.ASKED if study.scheme == Scheme.SUM else split_rows
