"""Who can compute what from a plan's run: the ledger of docs/threat-model.md in sentences, with this plan's numbers.

Read by ``fedsvd plan`` and shown to every owner before approval. Each sentence is held by a test in
``tests/adversary``; docs/threat-model.md says which. "Party" is the word for a user that the reader knows.
"""

from collections.abc import Iterator
from typing import Protocol

from fedsvd.linalg.windows import Form
from fedsvd.policy.column_lines import regression_on_columns
from fedsvd.policy.component_lines import canonical, components, csp_of_canonical, permuted, two_canonical
from fedsvd.policy.learned_together import matched, opens_gram, prepared_together
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Align, Item, Mode, Robust, Scheme, Split, Task, Trust

_FACTORS = (Task.SVD, Task.LSA, Task.PCA)


def determines_gram(plan: SessionPlan) -> bool:
    """Whether what is released determines the joint Gram matrix: all of U and S, or a regression's covariance."""
    if plan.task is Task.LR:
        return plan.releases(Item.INFERENCE) and plan.alpha == 0.0 and not plan.stacks_labels
    full = plan.components is None or plan.components >= min(plan.m, plan.n)
    return plan.task in _FACTORS and plan.releases(Item.SPECTRUM) and full


def gram_by_consent(plan: SessionPlan) -> bool:
    """Whether parties open the joint Gram matrix although what is released does not determine it, and need not.

    A generalised linear model has no other way: its approval shows what the parties open, and asks no second consent.
    """
    if plan.task is Task.PREPARE:
        return opens_gram(plan)
    return plan.glm is None and plan.mode is Mode.A and not determines_gram(plan)


def full_outputs(plan: SessionPlan) -> bool:
    """Whether the users get U and S, or so much of U that S follows from it or is hardly missed.

    In mode A users hold the joint Gram matrix, whatever the task releases of it.
    U_r gives each user ``G U_r = U_r S_r^2``, G the joint Gram matrix, but for r numbers. When the others' data has
    fewer columns than r, their part of G has a lower rank than r, and that alone decides these numbers.
    """
    if plan.task is Task.PREPARE:
        return opens_gram(plan)
    if plan.mode is Mode.A:
        return True
    if plan.task is Task.CCA:
        return True
    if plan.task not in _FACTORS:
        return False
    r = components(plan)
    return plan.releases(Item.SPECTRUM) or 2 * r > min(plan.m, plan.n) or r > plan.n - max(plan.counts)


def freedom(plan: SessionPlan) -> int:
    """n - p: rows of a regression beyond its coefficients, the intercept among them; of CCA beyond all columns."""
    if plan.task is Task.CCA:
        return plan.m - plan.n - 1
    return (plan.m if plan.stacks_labels else plan.n) - coefficients(plan)


def coefficients(plan: SessionPlan) -> int:
    """p: of one model of a regression, the intercept among them."""
    if plan.glm is not None:
        return plan.M - 1
    return (plan.n if plan.stacks_labels else plan.m) + int(plan.centre)


def freedom_in_words(plan: SessionPlan) -> str:
    """n, p and n - p of a regression."""
    if plan.task is Task.CCA:
        return f"{plan.m} rows less {plan.n} columns and the mean leave {freedom(plan)}"
    records = plan.m if plan.stacks_labels else plan.n
    return f"{records} records less {coefficients(plan)} coefficients leave n - p = {freedom(plan)}"


ROWS_BY_POSITION = (
    "taken together by position alone, so a party with its rows in another order makes every number wrong, and no "
    'residual shows it. Name the id column (id = "NAME", --id NAME), or say that the order is known (ids = "trust", '
    "--ids trust)"
)


def in_scheme(scheme: str, mode: str | None) -> str:
    """A family and its mode, in a word or three."""
    return str(scheme) if mode is None else f"{scheme}, mode {mode}"


def unit(plan: SessionPlan, count: int = 2) -> str:
    """What n_i counts: a party's records, or its columns where these are split."""
    word = "record" if plan.split is Split.HORIZONTAL else "column"
    return word if count == 1 else f"{word}s"


def lonely_windows(plan: SessionPlan) -> int:
    """How many blocks of the paper's Q hold the columns of one user alone, so that the sum hides nothing of them."""
    owners = (sum(own.stop > own.start for own in window.columns) for window in plan.right_windows)
    return sum(count == 1 for count in owners)


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
        how = {Align.SERVER: "by hashes that the CSP compares", Align.ECDH: "by points that the parties blind in turn"}
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
    if plan.matches:
        return [*matched(plan)]
    if plan.task is Task.PREPARE:
        return [*prepared_together(plan)]
    lines = [*_csp(plan), *_parties(plan), *_two_parties(plan)]
    if plan.trust is Trust.AUTHORITY:
        lines.append(_authority(plan))
    if plan.task is not Task.PREDICT:
        lines.append(_collusion(plan))
    return lines


def _authority(plan: SessionPlan) -> str:
    """What the TA learns, alone and with the CSP: it deals the seed of the masks, never that of the sums."""
    alone = "The trusted authority sees shapes and keys"
    if plan.mode is Mode.A:
        return f"{alone}; together with the CSP it learns no more than the CSP, for it adds nothing to this plan."
    if plan.mode is Mode.B:
        return f"{alone}; together with the CSP it could compute the joint Gram matrix, and alter no sum."
    return f"{alone}; together with the CSP it could compute every party's Gram matrix, and alter no sum."


def _csp(plan: SessionPlan) -> Iterator[str]:
    shapes = f"{plan.k} parties, {plan.joint_table}"
    if plan.task is Task.PREDICT:
        yield f"The CSP learns the shapes ({shapes}) and nothing of scores, which it adds up under the parties' pads."
        return
    if plan.check_ids:
        yield "The CSP sees one keyed hash of each party's row ids: whether all are equal, and nothing else of them."
    if plan.glm is not None:
        yield (
            f"The CSP learns the shapes ({shapes}), how many iterations the model needed and how often one was halved, "
            "and where the session was stopped, the code of the reason; nothing else of the data."
        )
    elif plan.mode is Mode.A:
        yield f"The CSP learns the shapes ({shapes}), and whether the session was stopped; nothing of the data."
    elif plan.mode is Mode.B and plan.task is Task.LR:
        yield (
            f"The CSP learns the shapes ({shapes}), ratios of the features' singular values, how large the residual is "
            "against the features, and the coefficients plus a secret shift, in an unknown basis; that these say no "
            "more of the fit is tested, not proven."
        )
    elif plan.mode is Mode.B:
        yield f"The CSP learns the shapes ({shapes}) and ratios of the singular values; nothing else of the data."
    elif plan.published:
        tiles = f"{len(plan.left_windows)} x {len(plan.right_windows)}"
        yield f"The CSP sees P X Q in bare blocks: spectra of {tiles} tiles, empty tiles, order; often the data itself."
        if plan.task in (Task.SVD, Task.LSA) and plan.releases(Item.OWN_PART):
            yield "The CSP can compute every party's own masked share (eq. 6)."
    elif masks_are_haar(plan):
        rest = "nothing else of the features" if plan.task is Task.LR else "nothing else"
        yield f"The CSP learns the singular values up to one unknown factor, shapes ({shapes}), {rest}."
    else:
        seen = "and, mixed over the whole side, what P does not hide of the left vectors"
        if plan.right is not Form.HAAR:
            seen = "and, mixed over both sides, what the masks do not hide of the vectors"
        yield (
            f"The CSP learns the singular values up to one unknown factor, shapes ({shapes}), {seen}; "
            "that this is nothing more is tested, and assumed, not proven."
        )
    if plan.task is Task.CCA:
        yield csp_of_canonical(plan)
    if plan.task is Task.LR:
        yield from _csp_labels(plan)


def _csp_labels(plan: SessionPlan) -> Iterator[str]:
    if plan.published:
        yield "The CSP sees the labels under P alone: their norm in every block."
        return
    if plan.mode is not None:
        return
    yield (
        "The CSP learns the residual norm, and the null space when "
        "rank is lost; the fit itself stays hidden where the secret shift of the coefficients is as large as they are."
    )


def _parties(plan: SessionPlan) -> Iterator[str]:
    m, r = plan.m, components(plan)
    if plan.task is Task.CCA:
        yield from canonical(plan)
    if plan.task in _FACTORS:
        spectrum = plan.releases(Item.SPECTRUM)
        yield f"Every party gets {'U and S' if spectrum else 'U'} with {r} of {min(m, plan.n)} components."
        if plan.mode is Mode.A:
            yield _joint_gram(plan)
        elif full_outputs(plan):
            yield f"Every party can compute the sum of the others' Gram matrices ({m} x {m})."
        else:
            yield f"Every party learns the top {r} directions of the joint data and its total variance."
        if plan.components_by:
            yield f"Of these each party takes the first at home, as many as the rule says: {plan.components_by}."
        if plan.permutes:
            yield permuted(plan)
        if plan.releases(Item.OWN_PART):
            yield "Each party alone gets its own part: right vectors or scores."
    if plan.task is Task.PCA or (plan.joins_labels and plan.centre):
        spread = " and spread" if plan.unit_variance or plan.joins_labels else ""
        yield f"Every party learns the joint mean{spread} of each of the {m} features."
    if plan.task is Task.LR and plan.stacks_labels:
        yield from regression_on_columns(plan, freedom_in_words(plan))
    elif plan.joins_labels:
        if plan.mode is Mode.A:
            yield _joint_gram(plan)
        yield "Every party gets all coefficients and the intercept."
        if plan.task is Task.PCR:
            how = f"as many as the rule says: {plan.components_by}" if plan.components_by else f"the first {r}"
            yield f"Every party takes components of the features ({how}) and their table from that matrix."
        elif plan.releases(Item.INFERENCE):
            yield (
                "Every party computes standard errors, tests and intervals of all coefficients from that matrix; their "
                f"covariance says no less than it does. {freedom_in_words(plan)}."
            )
        yield from _beyond_gram(plan)
    if plan.glm is not None:
        yield from _model(plan, plan.glm)
    if plan.task is Task.PREDICT or plan.releases(Item.SCORE):
        yield f"Party {plan.label_user} alone gets the sum of all parties' partial scores, record by record."
    if plan.task is not Task.PREDICT:
        yield "Two runs whose inputs differ by one record can give that record to every party."


def _model(plan: SessionPlan, about: ModelPlan) -> Iterator[str]:
    """What the parties of a generalised linear model see, beyond its table."""
    several = f", for each of {about.fits} models" if about.fits > 1 else ""
    yield (
        f"All parties will hold one joint Gram matrix of weighted features and target ({plan.M} x {plan.M}) for each "
        f"iteration{several}, {about.max_iterations} at most, the coefficients and the deviance of each, and each the "
        "sum of the others' alone: every party needs the coefficients to weight its rows for the next one. Only the "
        "last are the result."
    )
    yield (
        "Every party gets all coefficients, their standard errors, tests and covariance, and the deviance of the model "
        f"and of the null model. {freedom_in_words(plan)}."
    )
    if about.counts_outcomes:
        yield (
            "Every party learns how many rows each class has, or how many events there are; the session ends with that "
            f"where a class has fewer than {about.least_class} rows, or fewer than {about.least_events} for each "
            "coefficient."
        )


def _beyond_gram(plan: SessionPlan) -> Iterator[str]:
    """What regressions on split rows open beyond the joint Gram matrix: weights, scores, errors of penalties."""
    terms = plan.m + int(plan.centre)
    if plan.weighted:
        yield "Every party learns the sum of all weights, and of their logarithms; n counts rows of a weight above 0."
    if plan.refines:
        yield (
            "Where features are nearly dependent, two sums give that matrix and the products of features and residuals "
            "in more digits: as many as the table needs, and not where it needs none."
        )
    if plan.robust == Robust.CLUSTER:
        yield (
            f"Every party gets the joint sum of squared scores over clusters ({terms} x {terms}), and how many there "
            "are; names of clusters are not sent. Of a party that is one cluster, it is that party's sum of "
            "scores, squared."
        )
    elif plan.robust:
        yield (
            f"Every party gets the joint sum of squared scores ({terms} x {terms}), x x^T times e^2; a record whose "
            "residual e dwarfs all others shows its features x in it, up to a factor."
        )
    if plan.alphas:
        left_out = ", and the joint sum of squared errors of rows left out for each" if plan.chosen_by == "loo" else ""
        yield f"Every party computes the coefficients of all {len(plan.alphas)} penalties from that matrix{left_out}."


def _joint_gram(plan: SessionPlan) -> str:
    """What mode A means for every party, in one sentence."""
    of = " of features and labels" if plan.joins_labels else ""
    return (
        f"All parties will hold the joint Gram matrix{of} ({plan.M} x {plan.M}), with it all singular values and "
        "vectors, and each the sum of the others' alone."
    )


def _two_parties(plan: SessionPlan) -> Iterator[str]:
    """What a sum over two parties says of either: its own part is known to each."""
    if plan.k > 2:
        yield f"{plan.k - 1} parties that pool what they hold know as much of the last one as one of two parties would."
        return
    if plan.task is Task.CCA:
        yield from two_canonical(plan)
        return
    if full_outputs(plan):
        full = plan.mode is Mode.A or components(plan) == min(plan.m, plan.n)
        exact = "exactly" if full else f"in its top {components(plan)} directions"
        exact = "of each iteration exactly" if plan.glm is not None else exact
        yield f"With two parties, each can compute the other's Gram matrix {exact}, and often its records from that."
    elif plan.task is Task.PCA:
        yield f"With two parties, each learns the other's Gram matrix times U, but for {components(plan)} numbers."
    if plan.task is not Task.PREDICT:
        what = "sums of squares" if plan.glm is not None else "total energy, and its mean where a mean is taken"
        yield f"With two parties, each learns the other's {what}."
    if plan.task is Task.PREDICT or plan.releases(Item.SCORE):
        yield f"With two parties, party {plan.label_user} learns the other's partial score of every record."


def _collusion(plan: SessionPlan) -> str:
    who = "The CSP together with any one party (outside the model) could compute"
    if plan.published:
        return f"{who} every party's data wherever the masks of that party's blocks are known or found."
    if plan.mode is not None:
        others = "sum of the other parties' Gram matrices, and no single one while two of these parties are honest"
        learned = "Gram matrix of the other" if plan.k == 2 else others
        return (
            f"The CSP and a party that pool what they see learn the {learned}; lying together, they can alter totals."
        )
    return f"{who} every party's Gram matrix, and a party of one {unit(plan, 1)} up to its sign; not other raw data."
