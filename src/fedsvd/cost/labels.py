"""Which local work a session does, from the steps of its plan, and the table of what each piece of it costs.

A script names its local work (``roles.user.requests.Local``), and a role names every other computation; these labels
are the keys of the table. Where work has no label because a script does it between two requests, its key is the name
of the step whose answer it takes: ``solution``, ``panels``, ``own part``. Nothing here asks which task is played:
``work_of_user`` walks over the steps that are expected, and says which labels stand before and after each.

``tests/protocol/test_labels.py`` plays sessions and compares.
"""

from collections.abc import Callable, Iterator

from fedsvd.cost import by_steps, masked, provider, users
from fedsvd.cost.rates import Piece, Step, steps_of
from fedsvd.cost.traffic import Expected
from fedsvd.cost.users import User, nothing
from fedsvd.protocol.counted import LIFE_TABLE, TEST
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import FACTORS, SIGNS, SOLUTION, SUMS, PlannedStep, StepKind, What, listed
from fedsvd.protocol.sums import order_step
from fedsvd.protocol.tasks import Item, Mode, Own

Kernel = Callable[[User], Iterator[Piece]]

# Label: its work in the sum family, and under masks or by steps. None: no such session has it.
USER: dict[str, tuple[Kernel | None, Kernel | None]] = {
    "seeding": (users.seeding, users.seeding),
    # tables and their statistics
    "reading": (nothing, None),
    "script": (users.script, None),
    "counting": (users.script, None),
    "comparing": (users.script, None),
    "describe": (users.describe, None),
    "preparing": (users.script, None),
    "orthonormalise": (nothing, nothing),
    "first mean": (users.first_mean, None),
    "means": (None, nothing),
    "compress": (users.compress, None),
    "norm": (nothing, masked.norm),
    "variances": (nothing, masked.variances),
    "scale": (nothing, masked.scale),
    "labels": (None, masked.labels),
    # what is summed or uploaded, and what is made of the answer
    "evaluate": (users.evaluate, None),
    "information": (users.information, None),
    "share": (users.share, None),
    "factorise": (users.factorise, None),
    "answer": (users.answer, None),
    "acceptance": (users.acceptance, by_steps.acceptance),
    # products with a few directions at a time
    "lengths": (None, by_steps.lengths),
    "directions": (None, by_steps.directions),
    "products": (None, by_steps.products),
    "ritz values": (None, by_steps.ritz_values),
    # under masks, and what is checked
    "uploading": (users.uploading, masked.uploading),
    "unmask": (users.unmask, masked.unmask),
    SOLUTION: (users.solution, masked.solution),
    "checks": (users.checks, masked.checks),
    "order": (nothing, masked.order),
    SIGNS: (users.signs, nothing),
    "challenge": (None, masked.challenge),
    "inverse": (None, masked.inverse),
    # what a user ends with
    "right vectors": (users.right_vectors, masked.right_vectors),
    "orthogonality": (nothing, nothing),
    "correction": (users.correction, users.correction),
    "verification": (None, nothing),
    "scores": (users.scores, masked.scores),
    "weights": (nothing, nothing),
    "permuted": (users.permuted, None),
    "path": (nothing, masked.path),
    "leave one out": (nothing, None),
    "refine": (nothing, None),
    "inference": (users.inference, None),
    "regression": (users.regression, by_steps.regression),
    "partial scores": (None, users.partial_scores),
    "hashing ids": (None, masked.hashing),
    "blinding": (None, masked.blinding),
}

CSP: dict[str, Callable[[SessionPlan, Expected], Iterator[Piece]]] = {
    "summing": provider.summing,
    "matching": provider.matching,
    "aggregating": provider.aggregating,
    "factorise": provider.factorise,
    "answering": provider.answering,
}


def user_steps(plan: SessionPlan, i: int, expected: Expected) -> list[Step]:
    """Every stage of user i, counted from 0."""
    user = User(plan, i, expected)
    return steps_of(piece for work in work_of_user(user) for piece in _pieces(user, work))


def _pieces(user: User, work: str | PlannedStep) -> Iterator[Piece]:
    if not isinstance(work, str):
        return users.add_up(user, work)
    kernel = USER[work][0 if user.plan.compress else 1]
    assert kernel is not None, work
    return kernel(user)


def provider_steps(plan: SessionPlan, expected: Expected) -> list[Step]:
    """Every stage of the CSP."""
    return steps_of(piece for label in work_of_csp(plan) for piece in CSP[label](plan, expected))


def authority_steps(plan: SessionPlan) -> list[Step]:
    """Every stage of the TA."""
    return steps_of(provider.dealing(plan))


# --- what is done when ------------------------------------------------------------------------------------------------


_AT_CSP = {
    StepKind.COMPARE: ("matching",),
    StepKind.UPLOAD: ("aggregating", "factorise"),
    StepKind.FETCH: ("answering",),
    StepKind.CHALLENGE: ("answering",),
    StepKind.SHARED: ("answering",),
}


def work_of_csp(plan: SessionPlan) -> list[str]:
    """The labels of the CSP's work, each once, in order; it adds up shares as they come, whatever else it does."""
    found = [label for step in listed(plan.steps) for label in _AT_CSP.get(step.kind, ())]
    return ["summing", *dict.fromkeys(found)]


def work_of_user(user: User) -> Iterator[str | PlannedStep]:
    """The labels of a user's work, in order, and its sums between them.

    A label that stands for work at several places comes once, where all of it is counted.
    """
    yield from _beginning(user)
    for step in user.steps:
        yield from _before(user, step)
        if step.kind in SUMS:
            yield step
        yield from _after(user, step)
    yield from _ending(user)


def _beginning(user: User) -> Iterator[str]:
    yield "seeding"
    if What.DECLARED in user.opened:
        yield "reading"
    if What.CANONICAL in user.opened:
        yield "orthonormalise"
    if What.TABLE in user.opened:
        yield "describe"


_BEFORE = {
    "energy": ("variances",),
    "length": ("lengths",),
    "energies 0": ("directions",),
    "step 0": ("products",),
    "eigen": ("checks",),
    "residual": ("checks",),
    order_step(1): ("order",),
    "left out": ("leave one out",),
    "permuted": ("permuted",),
    "refined gram": ("refine",),
    "scores bound": ("scores",),
    "score bound": ("partial scores",),
    "commitment": ("hashing ids",),
    "blinded sets": ("blinding",),
}
"""Local work whose result a step needs, by the name of the step."""


_BEFORE_TABLE = {"columns": ("compress",), "squares sizes": ("scores",)}
"""The same of a regression table by few digits, whose other sums follow from one factor."""


_OF_COUNTS = {LIFE_TABLE: ("reading", "counting"), f"{TEST} sizes": ("comparing",)}
"""The same of survival curves."""


def _before(user: User, step: PlannedStep) -> tuple[str, ...]:
    plan = user.plan
    if step.name in _OF_COUNTS:
        return _OF_COUNTS[step.name]
    if What.TABLE in user.opened:
        return ()  # one pass before all sums
    if step.what in (What.PREPARED, What.CAPPED, What.DECLARED):  # names of these steps are not ours
        return ("script",) if step.what is What.DECLARED else ("preparing",)
    if plan.few_digits and plan.glm is None:
        return _BEFORE_TABLE.get(step.name, ())
    match step.kind, step.name:
        case _, "mean":
            return ("first mean", "compress") if plan.compress else ("means",)
        case _, "bound" if plan.stacks_labels:
            return "scale", "labels"
        case _, "bound":
            return ("compress", "norm") if plan.compress and not plan.centre else ("norm",)
        case StepKind.GRAM, _:
            return ("share",)
        case StepKind.UPLOAD, _:
            return ("share", "uploading") if plan.compress else ("uploading",)
        case StepKind.CHALLENGE, _:
            return "checks", "challenge"
        case StepKind.EXCHANGE, "inverse":
            return ("inverse",)
        case StepKind.EXCHANGE, "vectors":
            return ("path",)
        case _, "orthogonality":
            if user.by_panels and not plan.reads_rows:
                return ("orthogonality",) if user.expected.ill else ()
            return () if user.solved else ("right vectors",)
        case _, "reconstruction":
            if plan.reads_rows:
                return (*(() if user.plays("orthogonality") else ("right vectors",)), "verification")
            return () if user.plays("orthogonality") else ("right vectors",)
        case _ if step.what is What.INFORMATION:
            return ("information",) if step.name.split()[1] == "1" else ()  # the next pieces are what is left of it
        case _ if step.what in (What.DEVIANCE, What.SCORE, What.SIZES):
            return ("evaluate",)
    return _BEFORE.get(step.name, ())


def _after(user: User, step: PlannedStep) -> tuple[str, ...]:
    plan = user.plan
    match step.kind, step.name:
        case StepKind.GRAM, _:
            return ("factorise", "path") if plan.alphas else ("factorise",)
        case StepKind.UPLOAD, name if name == FACTORS:
            return () if plan.tall else ("unmask",)
        case StepKind.UPLOAD, _:
            return (SOLUTION,)
        case StepKind.FETCH, _:
            return ("unmask",)
        case _, name if name == SIGNS:
            return (SIGNS,) if plan.compress else (SIGNS, "orthogonality")
        case _, "orthogonality" if user.solved or (user.by_panels and not plan.reads_rows):
            return ("right vectors",)
        case _, "orthogonality":
            return ("correction",) if user.expected.ill and not user.by_panels else ()
        case _, "energy" if plan.joins_labels and What.COMPONENTS not in user.opened:
            return ("scale",)
        case StepKind.SHORT, "step 0":
            return ("ritz values",)
        case StepKind.FROM_USER_1, "verdict 0":
            return ("acceptance",) if user.i else ()
        case StepKind.FROM_USER_1, _ if What.PRODUCTS in user.opened:
            return ()  # counted with the first step
        case StepKind.FROM_USER_1, _ if step.what in (What.VECTORS, What.COMPONENTS):
            return ("acceptance",) if user.i else ("answer",)
        case StepKind.FROM_USER_1, _ if step.what in (What.COEFFICIENTS, What.ITERATES):
            found = ("acceptance",) if user.i else ("answer", "acceptance")
            return found if What.REFINED in user.opened or not _infers(user) else (*found, "inference")
        case _, "gradient":
            return ("inference",)
    return ()


def _infers(user: User) -> bool:
    plan = user.plan
    return plan.mode is Mode.A and plan.glm is None and plan.releases(Item.INFERENCE)


def _ending(user: User) -> Iterator[str]:
    own = ("orthogonality", "reconstruction")  # steps with which users make vectors of their own
    found = any(map(user.plays, own)) or (user.plan.own is Own.VECTORS and What.PRODUCTS in user.opened)
    if user.plan.releases(Item.OWN_PART) and not found:
        yield "scores"
    if What.CANONICAL in user.opened:
        yield "weights"
    if What.COMPONENTS in user.opened:
        yield "regression"
