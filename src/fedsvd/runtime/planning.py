"""From what a person asks for to a plan: which scheme, which masks, which windows.

The rules are those of 02-protocol, section 3. ``auto`` picks ``compressed`` where compressing makes the upload shorter
and its factor fits the memory budget, else ``mixing``, and says why.
"""

import math
from dataclasses import dataclass, replace

from fedsvd.errors import ConfigError, ReleaseRefused, warn_caller
from fedsvd.linalg.windows import HAAR_LEFT_LIMIT, HAAR_RIGHT_LIMIT, MIXING_BLOCK, WINDOW_LIMIT, Form
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.release import Policy, findings
from fedsvd.protocol.tasks import RELEASED_BY_DEFAULT, Check, Item, Scheme, Split, Task, Trust
from fedsvd.types import SessionId, byte_size, enough_bytes

DEFAULT_MEMORY = 2 << 30
_LONGEST_COMPRESSED = 20_000


@dataclass(frozen=True)
class Study:
    """What a person asks for; everything else follows from the data's shapes."""

    task: Task
    split: Split = Split.HORIZONTAL
    components: int | None = None
    scheme: str = "auto"
    trust: Trust = Trust.PEERS
    release: tuple[Item, ...] | None = None
    centre: bool | None = None  # None: as the task is usually understood
    unit_variance: bool = False
    full_matrices: bool = False
    alpha: float = 0.0
    targets: int = 0
    label_user: int = 0
    block_size: int = 0
    window: int = WINDOW_LIMIT
    memory: int = DEFAULT_MEMORY
    check_ids: bool = False
    trust_rows: bool = False
    check: Check = Check.NONE
    certain_bound: bool = False
    dense_masks: bool = False  # the lab's ablation of the paper's optimisations (``SessionPlan``)
    whole_shares: bool = False
    forms: tuple[Form, Form] | None = None  # of P and Q, for the lab; None: haar where it fits, else mixing

    def __post_init__(self) -> None:
        # Roles compare by identity: a word that only equals a choice would silently choose the other one.
        for name, kind in (("task", Task), ("split", Split), ("trust", Trust), ("check", Check)):
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except ValueError:
                raise ConfigError(f"{name} is {getattr(self, name)!r}", f"one of {', '.join(kind)}") from None


@dataclass(frozen=True)
class Planned:
    """A plan and the reason for its scheme."""

    plan: SessionPlan
    why: str


def plan_study(
    study: Study, m: int, counts: tuple[int, ...], session: SessionId, identities: tuple[str, ...] = ()
) -> Planned:
    """The plan for this study on matrices X_i of m rows and these columns."""
    _check(study, m)
    scheme, why = _choose_scheme(study, m, counts)
    paper = scheme is Scheme.PAPER
    centre = study.task in (Task.PCA, Task.LR) if study.centre is None else study.centre
    plan = SessionPlan(
        session=session,
        task=study.task,
        split=study.split,
        scheme=scheme,
        trust=Trust.AUTHORITY if paper else study.trust,
        m=m,
        counts=counts,
        release=study.release if study.release is not None else RELEASED_BY_DEFAULT[study.task],
        components=study.components,
        centre=centre,
        unit_variance=study.unit_variance,
        full_matrices=study.full_matrices,
        targets=study.targets,
        label_user=study.label_user,
        alpha=study.alpha,
        left=Form.BLOCKS if paper else Form.HAAR,
        right=Form.BLOCKS if paper else Form.HAAR,
        block=max(m, sum(counts)) + 1 if study.dense_masks else study.block_size,
        window=study.window,
        compress=scheme is Scheme.COMPRESSED or (scheme is Scheme.ALIGNED and _shortens(study, m, counts)),
        check_ids=study.check_ids,
        trust_rows=study.trust_rows,
        check=study.check,
        certain_bound=study.certain_bound,
        dense_masks=study.dense_masks,
        whole_shares=study.whole_shares,
        memory=study.memory,
        identities=identities,
    )
    return Planned(plan if paper else _with_masks(plan, study.forms), why)


def guard(plan: SessionPlan, policy: Policy) -> None:
    """Refuse a plan below an enforced policy; warn of what is found in it otherwise, once for each finding.

    The one place that warns of a plan. It runs before any role exists, so nothing has been sent by then.
    """
    found = findings(plan, policy)
    below = [finding for finding in found if finding.below]
    if policy.enforce and below:
        rules = "; ".join(str(finding) for finding in below)
        raise ReleaseRefused(
            f"this plan is below the policy: {rules}", "change the study, or the policy, and ask again"
        )
    if policy.warn:
        for finding in found:
            warn_caller(str(finding))


def _check(study: Study, m: int) -> None:
    if study.full_matrices and study.scheme != Scheme.PAPER:
        raise ConfigError("full_matrices is there in the paper's scheme alone", 'set scheme="paper"')
    if (study.dense_masks or study.whole_shares) and (study.scheme != Scheme.PAPER or study.task is Task.LR):
        raise ConfigError("the ablation of the paper's optimisations is of its SVD", 'set scheme="paper", task="svd"')
    if study.full_matrices and study.components is not None:
        raise ConfigError("full_matrices and components exclude each other", "leave one of them out")
    _check_numbers(study)
    _check_options(study)
    if study.task is Task.PCA and study.split is not Split.HORIZONTAL:
        raise ConfigError("PCA needs samples split over the parties", 'set split="horizontal"')
    if study.task is Task.LR and study.targets < 1:
        raise ConfigError("a regression needs labels", "name the label column and who holds it")
    _check_release(study)
    if study.scheme not in ("auto", *Scheme):
        raise ConfigError(f"scheme is {study.scheme!r}", f"one of auto, {', '.join(Scheme)}")


def _check_numbers(study: Study) -> None:
    """Refuse numbers no plan can hold: a plan is compared digit by digit, and a NaN equals nothing."""
    if not 0.0 <= study.alpha < math.inf:
        raise ConfigError("alpha is negative or not finite", "a finite alpha >= 0")
    least = {"components": 1, "targets": 0, "label_user": 0, "block_size": 0, "window": 1, "memory": 1}
    for name, smallest in least.items():
        value = getattr(study, name)
        if name == "components" and value is None:
            continue
        if not isinstance(value, int) or value < smallest:
            raise ConfigError(f"{name} = {value!r}", f"a whole number, at least {smallest}")


def _check_options(study: Study) -> None:
    """Refuse what the task would not heed: it would look as if it had been done."""
    regression = study.task in (Task.LR, Task.PREDICT)
    refused = {
        "centre": study.centre is not None and study.task not in (Task.LR, Task.PCA),
        "centre = False": study.centre is False and study.task is Task.PCA,
        "unit_variance": study.unit_variance and study.task is not Task.PCA,
        "full_matrices": study.full_matrices and study.task is not Task.SVD,
        "alpha": study.alpha > 0 and study.task is not Task.LR,
        "targets": study.targets > 0 and not regression,
        "components": study.components is not None and regression,
        "check": study.check is not Check.NONE
        and (study.task not in (Task.SVD, Task.LSA) or study.full_matrices or study.scheme == Scheme.PAPER),
        "a horizontal split": study.split is Split.HORIZONTAL and study.task is Task.PREDICT,
    }
    for option, wrong in refused.items():
        if wrong:
            raise ConfigError(f"{study.task} has no use for {option}", "leave it out")


def _check_release(study: Study) -> None:
    """A plan that does not list what every user comes to hold would be a promise nobody keeps."""
    spared = (Item.OWN_PART, Item.INTERCEPT) if study.centre is False else (Item.OWN_PART,)
    known = [item for item in RELEASED_BY_DEFAULT[study.task] if item not in spared]
    if study.release is not None and not set(known) <= set(study.release):
        fault = f"the release of {study.task} leaves out what the parties come to hold in any case"
        raise ConfigError(fault, f"list {', '.join(known)}")


def _shortens(study: Study, m: int, counts: tuple[int, ...]) -> bool:
    """Whether compressing makes anybody's upload shorter."""
    rows = m + (study.targets if study.split is Split.HORIZONTAL else 0)
    vertical_regression = study.task is Task.LR and study.split is Split.VERTICAL
    return not vertical_regression and max(counts) > rows + 1


def _choose_scheme(study: Study, m: int, counts: tuple[int, ...]) -> tuple[Scheme, str]:
    if study.scheme != "auto":
        scheme = Scheme(study.scheme)
        if scheme is Scheme.COMPRESSED and study.task is Task.LR and study.split is Split.VERTICAL:
            return Scheme.MIXING, "a regression on split columns streams its rows: nothing to compress"
        return scheme, "as asked for"
    # In the words of the tables as their owners have them: X_i is the table where columns are split, else turned over.
    theirs, common = ("columns", "rows") if study.split is Split.VERTICAL else ("rows", "columns")
    if not _shortens(study, m, counts):
        return Scheme.MIXING, f"no party has more {theirs} than its table has {common}: nothing to compress"
    if m > _LONGEST_COMPRESSED:
        return Scheme.MIXING, f"{m} {common}: a factor of {m} x {m} costs more than it saves"
    if 8 * 6 * m * m > study.memory:
        return Scheme.MIXING, f"a factor of {m} x {m} does not fit the memory budget"
    saved = sum(counts) / sum(min(n_i, m) for n_i in counts)
    return Scheme.COMPRESSED, f"uploads are {saved:.1f} times shorter and do not grow with the data"


def _with_masks(plan: SessionPlan, forms: tuple[Form, Form] | None = None) -> SessionPlan:
    """The same plan with the form of each side's mask and windows that fit the memory budget."""
    beside = plan.N + plan.targets if plan.by_rows else plan.masked_rows
    fits = plan.memory // (8 * 6 * beside)
    length = plan.masked_rows if plan.by_rows else plan.N
    # Where the side that streams fits whole, the other one's windows need not be cut to the budget: P mixes all rows.
    window = plan.window if fits >= length else min(plan.window, max(fits, 1))
    # A haar mask is one window, and all of a tall matrix at once is what does not fit.
    left = Form.HAAR if plan.masked_rows <= HAAR_LEFT_LIMIT and not plan.tall else Form.MIXING
    right = Form.HAAR if plan.N <= HAAR_RIGHT_LIMIT and (plan.by_rows or fits >= plan.N) else Form.MIXING
    if window < min(2 * MIXING_BLOCK, length):
        needed = 8 * 6 * beside * 2 * MIXING_BLOCK
        raise ConfigError(
            f"a memory budget of {byte_size(plan.memory)} holds no window of {beside} numbers a line",
            f"allow at least {enough_bytes(needed)}",
        )
    left, right = forms or (left, right)
    return replace(plan, left=left, right=right, window=window)
