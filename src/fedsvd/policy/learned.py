"""Who can compute what from a plan's run: the ledger of docs/threat-model.md in sentences, with this plan's numbers.

Read by ``fedsvd plan`` and shown to every owner before approval. Each sentence is held by a test in
``tests/adversary``; docs/threat-model.md says which. "Party" is the word for a user that the reader knows.
"""

from collections.abc import Iterator
from typing import Protocol

from fedsvd.linalg.windows import Form
from fedsvd.policy.foreign import foreign_together
from fedsvd.policy.learned_together import matched, prepared_together
from fedsvd.policy.sentences import components, full_u_and_s, of_openings
from fedsvd.protocol.directions import answer_width, by_share, most_directions
from fedsvd.protocol.openings import opened
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import What
from fedsvd.protocol.tasks import Align, Item, Mode, Scheme, Split, Trust
from fedsvd.secagg.neighbours import colluding, degree

_COUNTED = {What.FIVES, What.CELLS, What.WITHIN, What.SIZES}
_FITTED = {What.COEFFICIENTS, What.OWN_COEFFICIENTS}


def determines_gram(plan: SessionPlan) -> bool:
    """Whether what is released determines the joint Gram matrix: all of U and S, or a regression's covariance."""
    if {What.COEFFICIENTS, What.RESIDUALS} & opened(plan):
        return plan.releases(Item.INFERENCE) and plan.alpha == 0.0
    full = plan.components is None or plan.components >= min(plan.m, plan.n)
    return What.VECTORS in opened(plan) and plan.releases(Item.SPECTRUM) and full


def gram_by_consent(plan: SessionPlan) -> bool:
    """Whether parties open the joint Gram matrix although what is released does not determine it, and need not.

    A model that iterates has no other way: its approval shows what the parties open, and asks no second consent.
    """
    found = opened(plan)
    return bool({What.GRAM, What.RESIDUALS} & found) and What.ITERATES not in found and not determines_gram(plan)


def full_outputs(plan: SessionPlan) -> bool:
    """Whether the users get U and S, or so much of U that S follows from it or is hardly missed.

    Who holds the joint Gram matrix has them, whatever the task releases of it; a model's information is one, though in
    few digits.
    """
    found = opened(plan)
    if {What.GRAM, What.CANONICAL, What.INFORMATION} & found:
        return True
    return What.VECTORS in found and full_u_and_s(plan)


def opens_records_alone(plan: SessionPlan) -> bool:
    """Whether nothing but scores of records, or which records are common, is opened: no number of all together."""
    return opened(plan) <= {What.UNIT, What.SCORES, What.RECORDS}


ROWS_BY_POSITION = (
    "taken together by position alone, so a party with its rows in another order makes every number wrong, and no "
    'residual shows it. Name the id column (id = "NAME"), or say that the order is known (ids = "trust")'
)


def in_scheme(scheme: str, mode: str | None) -> str:
    """A family and its mode, in a word or three."""
    return str(scheme) if mode is None else f"{scheme}, mode {mode}"


def unit(plan: SessionPlan, count: int = 2) -> str:
    """What n_i counts: a party's records, or its columns where these are split."""
    word = "record" if plan.split is Split.HORIZONTAL else "column"
    return word if count == 1 else f"{word}s"


class Rows(Protocol):
    """What a plan, or the study it is made for, says of rows."""

    @property
    def split(self) -> Split: ...
    @property
    def check_ids(self) -> bool: ...
    @property
    def trust_rows(self) -> bool: ...
    @property
    def align(self) -> Align | None: ...


def how_rows_belong(plan: Rows) -> str:
    """By what the rows of split columns belong together, in a few words; nothing where rows are split."""
    if plan.split is Split.HORIZONTAL:
        return ""
    if plan.align is not None:
        how = {Align.SERVER: "by hashes that the CSP compares", Align.ECDH: "by blinded points that the CSP compares"}
        return f"matched by their ids in a session before, {how[plan.align]}; then compared by their ids"
    if plan.check_ids:
        return "compared by their ids, all parties' in the same order, before anything else"
    if plan.trust_rows:
        return 'taken together by position, on the word of the study: ids = "trust"'
    return f"NOT COMPARED: {ROWS_BY_POSITION}"


def masks_are_haar(plan: SessionPlan) -> bool:
    """Whether both masks are dense Haar matrices, so that the theorem of docs/threat-model.md holds."""
    return plan.left is Form.HAAR and plan.right is Form.HAAR and plan.scheme is Scheme.MASK


def what_each_role_learns(plan: SessionPlan) -> list[str]:
    """The ledger's lines for this plan: the CSP, the parties, the TA, and what collusion would add."""
    if What.RECORDS in opened(plan):
        return [*matched(plan)]
    if opened(plan) & {What.PREPARED, What.CAPPED} and What.TABLE not in opened(plan):
        return [*prepared_together(plan), *_neighbours(plan)]
    if What.DECLARED in opened(plan):
        return [*foreign_together(plan), *_neighbours(plan)]
    lines = [*_csp(plan), *_parties(plan), *_two_parties(plan)]
    if plan.trust is Trust.AUTHORITY:
        lines.append(_authority(plan))
    if not opens_records_alone(plan):
        lines.append(_collusion(plan))
    return [*lines, *_neighbours(plan)]


def _neighbours(plan: SessionPlan) -> Iterator[str]:
    """How many parties may pool with the CSP where not all pairs of parties share pads (threat model, Theorem 2)."""
    if (pads := degree(plan.k)) < plan.k - 1:
        yield (
            f"Each of the {plan.k} parties shares pads with {pads} others. The CSP with up to {colluding(plan.k)} "
            "parties, fixed before the session, sees no part of what the others add up: only their total "
            "(but for a chance of 2^-40)."
        )


def _authority(plan: SessionPlan) -> str:
    """What the TA learns, alone and with the CSP: it deals the seed of the masks, never that of the sums."""
    alone = "The trusted authority sees shapes and keys"
    if plan.mode is Mode.A:
        return f"{alone}; together with the CSP it learns no more than the CSP, for it adds nothing to this plan."
    if plan.mode is Mode.B:
        return f"{alone}; together with the CSP it could compute the joint Gram matrix, and alter no sum."
    return f"{alone}; together with the CSP it could compute every party's Gram matrix, and alter no sum."


def _csp(plan: SessionPlan) -> Iterator[str]:
    shapes, fits = f"{plan.k} parties, {plan.joint_table}", bool(opened(plan) & _FITTED)
    if opens_records_alone(plan):
        yield f"The CSP learns the shapes ({shapes}) and nothing of scores, which it adds up under the parties' pads."
        return
    if plan.check_ids:
        yield "The CSP sees one keyed hash of each party's row ids: whether all are equal, and nothing else of them."
    if What.SCORE in opened(plan):
        yield (
            f"The CSP learns the shapes ({shapes}), how often the model was evaluated, in how many pieces its "
            "information was added up, and where the session was stopped, the code of the reason; nothing else of the "
            "data."
        )
    elif What.TABLE in opened(plan):
        yield (
            f"The CSP learns the shapes ({shapes}), the columns and levels of the dictionary, and whether the session "
            "was stopped; nothing of the data: no count, no mean, and not which levels were joined."
        )
    elif What.ITERATES in opened(plan):
        yield (
            f"The CSP learns the shapes ({shapes}), how many iterations the model needed and how often one was halved, "
            "and where the session was stopped, the code of the reason; nothing else of the data."
        )
    elif What.PRODUCTS in opened(plan):
        width = answer_width(plan)
        blocks = f"how many blocks of {width} components were found, " if by_share(plan) else ""
        yield (
            f"The CSP learns the shapes ({shapes}), how many steps were played, which of their blocks were "
            f"orthogonalised more than twice, and how often, {blocks}and where the session was stopped, the code of "
            "the reason; nothing else of the data."
        )
    elif plan.mode is Mode.A:
        yield f"The CSP learns the shapes ({shapes}), and whether the session was stopped; nothing of the data."
    elif plan.mode is Mode.B and fits:
        yield (
            f"The CSP learns the shapes ({shapes}), ratios of the features' singular values, how large the residual is "
            "against the features, and the coefficients plus a secret shift, in an unknown basis; that these say no "
            "more of the fit is tested, not proven."
        )
    elif plan.mode is Mode.B:
        yield f"The CSP learns the shapes ({shapes}) and ratios of the singular values; nothing else of the data."
    elif masks_are_haar(plan):
        rest = "nothing else of the features" if fits else "nothing else"
        yield f"The CSP learns the singular values up to one unknown factor, shapes ({shapes}), {rest}."
    else:
        seen = "and, mixed over the whole side, what P does not hide of the left vectors"
        if plan.right is not Form.HAAR:
            seen = "and, mixed over both sides, what the masks do not hide of the vectors"
        yield (
            f"The CSP learns the singular values up to one unknown factor, shapes ({shapes}), {seen}; "
            "that this is nothing more is tested, and assumed, not proven."
        )
    if What.CANONICAL in opened(plan) and plan.mode is not Mode.A:
        yield (
            "The singular values are those of orthonormal tables, whose scale is known: the CSP learns the first "
            f"{components(plan)} canonical correlations."
        )
    if fits:
        yield from _csp_labels(plan)


def _csp_labels(plan: SessionPlan) -> Iterator[str]:
    if plan.mode is not None:
        return
    yield (
        "The CSP learns the residual norm, and the null space when "
        "rank is lost; the fit itself stays hidden where the secret shift of the coefficients is as large as they are."
    )


def _parties(plan: SessionPlan) -> Iterator[str]:
    yield from of_openings(plan)
    if plan.releases(Item.SCORE):
        yield f"Party {plan.label_user} alone gets the sum of all parties' partial scores, record by record."
    if not opens_records_alone(plan):
        yield "Two runs whose inputs differ by one record can give that record to every party."


def _two_parties(plan: SessionPlan) -> Iterator[str]:
    """What a sum over two parties says of either: its own part is known to each."""
    if plan.k > 2:
        yield f"{plan.k - 1} parties that pool what they hold know as much of the last one as one of two parties would."
        return
    found = opened(plan)
    if What.ROC in found:
        yield "With two parties, each can compute the other's counts of cases and controls as it sent them."
    if What.CANONICAL in found:
        yield from _two_canonical(plan)
        return
    if What.SCORE in found:
        yield (
            "With two parties, each can compute the other's gradient of each iteration and its information in the "
            "digits that were opened, from its own part."
        )
        return
    if What.TABLE in found:
        yield "With two parties, each can compute the other's counts and sums as it sent them, from its own."
        return
    if found <= _COUNTED:
        yield "With two parties, each can compute the other's counts as it sent them, from its own."
        return
    if full_outputs(plan):
        full = What.GRAM in found or components(plan) == min(plan.m, plan.n)
        exact = "exactly" if full else f"in its top {components(plan)} directions"
        exact = "of each iteration exactly" if What.ITERATES in found else exact
        if What.PRODUCTS in found:
            exact = f"in the directions that were opened, at most {most_directions(plan)}"
        yield f"With two parties, each can compute the other's Gram matrix {exact}, and often its records from that."
    elif What.VECTORS in found:
        yield f"With two parties, each learns the other's Gram matrix times U, but for {components(plan)} numbers."
    if not opens_records_alone(plan):
        what = "sums of squares" if What.ITERATES in found else "total energy, and its mean where a mean is taken"
        yield f"With two parties, each learns the other's {what}."
    if plan.releases(Item.SCORE):
        yield f"With two parties, party {plan.label_user} learns the other's partial score of every record."


def _two_canonical(plan: SessionPlan) -> Iterator[str]:
    """What one of two parties can compute of the other's columns: its scores, and the space that they span."""
    r = components(plan)
    yield f"With two parties, each can compute the other's scores of every record on these {r} canonical variables."
    for index, n_i in enumerate(plan.counts, start=1):
        if n_i == 1:
            yield f"Party {index} has one column: the other can compute it but for its mean and its scale."
        elif r >= n_i or What.GRAM in opened(plan):
            yield (
                f"Party {index} has {n_i} columns, and the other can compute the space that they span: its table but "
                f"for means and an unknown {n_i} x {n_i} matrix."
            )


def _collusion(plan: SessionPlan) -> str:
    who = "The CSP together with any one party (outside the model) could compute"
    if What.TABLE in opened(plan) or opened(plan) <= _COUNTED:
        both = "counts and sums of all other parties together, as that party alone does"
        return f"The CSP and a party that pool what they see learn the {both}; lying together, they can alter totals."
    if plan.mode is not None:
        found = opened(plan)
        honest = "and no single one while two of these parties are honest"
        learned = "Gram matrix of the other" if plan.k == 2 else f"sum of the other parties' Gram matrices, {honest}"
        alone = "same as that party alone, which opens the totals"
        if What.PRODUCTS in found:
            learned = f"{alone}: the {learned}, in the directions opened"
        elif What.INFORMATION in found:
            whose = "of the other" if plan.k == 2 else f"of the other parties together, {honest}"
            sums = "the Gram matrix" if plan.glm is None else "gradients and information"
            learned = f"{alone}: {sums} {whose}, in the digits opened"
        elif What.GRAM in found:
            learned = f"{alone}: the {learned}"
        return (
            f"The CSP and a party that pool what they see learn the {learned}; lying together, they can alter totals."
        )
    return f"{who} every party's Gram matrix, and a party of one {unit(plan, 1)} up to its sign; not other raw data."
