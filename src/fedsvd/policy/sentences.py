"""What parties are shown before they approve, once for everything that a session can open to them.

``SENTENCES`` has what is said of each ``What`` in the steps of a plan, in the order in which it is read; no sentence
asks for a task. What follows from several openings together, from the number of parties or from collusion is in
``learned.py``, the judgement of a policy in ``rules.py``. "Party" is the word for a user that the reader knows.
"""

from collections.abc import Callable, Iterator

from fedsvd.policy.described import of_table
from fedsvd.policy.hazards import exposure, timed, within
from fedsvd.protocol.directions import by_share, components_in_words, direction_bits, most_directions
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.openings import expected_bits, granted_bits, opened
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.quality import ROCPlan
from fedsvd.protocol.steps import What, listed
from fedsvd.protocol.sums import ORDER_BLOCK, ORDER_OUTSIDE, order_left, order_steps, order_sums
from fedsvd.protocol.tasks import PERMUTED_TABLES, Item, Split
from fedsvd.statistics.fives import deviation, most_off

# --- public numbers of a plan -----------------------------------------------------------------------------------------


def components(plan: SessionPlan) -> int:
    """r: how many singular vectors the users get at most."""
    return plan.components or min(plan.m, plan.n)


def searched(plan: SessionPlan) -> int:
    """Directions outside of U in which parties may open the joint Gram matrix, to show the order (step 7)."""
    return ORDER_BLOCK * order_steps(plan)


def freedom(plan: SessionPlan) -> int:
    """n - p: rows of a regression beyond its coefficients, the intercept among them; of CCA beyond all columns."""
    if What.CANONICAL in opened(plan):
        return plan.m - plan.n - 1
    return _records(plan) - coefficients(plan)


def coefficients(plan: SessionPlan) -> int:
    """p: of one model of a regression, the intercept among them."""
    if plan.glm is not None:
        return plan.M - 1
    if What.COMPONENTS in opened(plan) and What.GRAM not in opened(plan):
        return components(plan) + int(plan.centre)  # labels are opened on these alone
    return (plan.n if What.OWN_COEFFICIENTS in opened(plan) else plan.m) + int(plan.centre)


def freedom_in_words(plan: SessionPlan) -> str:
    """n, p and n - p of a regression."""
    if What.CANONICAL in opened(plan):
        return f"{plan.m} rows less {plan.n} columns and the mean leave {freedom(plan)}"
    return f"{_records(plan)} records less {coefficients(plan)} coefficients leave n - p = {freedom(plan)}"


def _records(plan: SessionPlan) -> int:
    return plan.m if What.OWN_COEFFICIENTS in opened(plan) else plan.n


def full_u_and_s(plan: SessionPlan) -> bool:
    """Whether U and S are released so far that S follows, or is hardly missed: then others' Gram matrices follow.

    U_r gives each user ``G U_r = U_r S_r^2``, G the joint Gram matrix, but for r numbers. When the others' data has
    fewer columns than r, their part of G has a lower rank than r, and that alone decides these numbers. Directions
    outside of U in which G is opened, to show the order, count like those of U.
    """
    r = components(plan) + searched(plan)
    return plan.releases(Item.SPECTRUM) or 2 * r > min(plan.m, plan.n) or r > plan.n - max(plan.counts)


# --- sentences --------------------------------------------------------------------------------------------------------


def _canonical(plan: SessionPlan) -> Iterator[str]:
    r = components(plan)
    yield f"Every party gets the first {r} canonical correlations, and the common variables U ({plan.m} x {r})."
    yield "Each party alone gets the weights and loadings of its own columns."
    if What.GRAM in opened(plan):
        yield (
            f"All parties will hold the sum of the projections on their columns ({plan.m} x {plan.m}): for every two "
            "records how alike they are in all parties' columns, and each party the sum of the others' alone, which "
            f"says more of each record than {r} canonical variables do."
        )
    yield "Every party learns how many linearly independent columns all parties have together."
    if plan.k > 2:
        yield f"Every party can compute the sum of the others' scores of every record on these {r} variables."


def _vectors(plan: SessionPlan) -> Iterator[str]:
    m, r = plan.m, components(plan)
    spectrum = plan.releases(Item.SPECTRUM)
    yield f"Every party gets {'U and S' if spectrum else 'U'} with {components_in_words(plan)}."
    if What.GRAM in opened(plan):
        yield _joint_gram(plan)
    elif What.PRODUCTS in opened(plan):
        yield from _products(plan)
    elif full_u_and_s(plan):
        yield f"Every party can compute the sum of the others' Gram matrices ({m} x {m}){_as_far(plan)}."
    else:
        yield f"Every party learns the top {r} directions of the joint data and its total variance."


def _as_far(plan: SessionPlan) -> str:
    """How much of the others' Gram matrices follows from U and S, where that is not all."""
    r, more, most = components(plan), searched(plan), min(plan.m, plan.n)
    outside = plan.n - max(plan.counts)
    # The last direction follows from the others and the total variance; without S this is not looked into further.
    if not plan.releases(Item.SPECTRUM) or r + more >= most - 1 or r + more > outside:
        return ""
    return f" in the top {r} of {most} directions" + (f", and to 16 bits in up to {more} more" if more else "")


def _products(plan: SessionPlan) -> Iterator[str]:
    """Of the directions that are opened on the way to U and S."""
    most, outside = most_directions(plan), plan.n - max(plan.counts)
    of = "records" if plan.split is Split.HORIZONTAL else "columns"
    yield (
        f"On the way every party sees the joint Gram matrix ({plan.m} x {plan.m}) times directions that follow from "
        f"one another, as many as the data needs and at most {most}, and each the sum of the others' alone in them: "
        f"{direction_bits(plan)} bits of each of {plan.m} numbers a direction."
    )
    if plan.split is Split.VERTICAL:
        yield f"These are numbers of single records: up to {most} of each record, which the others' columns went into."
    if most >= min(outside, plan.m):
        yield (
            f"So many directions may be all there are: there are {outside} {of} outside of the largest party. Then "
            "every party can compute the sum of the others' Gram matrices."
        )


def _gram_alone(plan: SessionPlan) -> Iterator[str]:
    """Of a matrix that no sentence on what is made of it names."""
    made = {What.CANONICAL, What.VECTORS, What.COEFFICIENTS, What.COMPONENTS, What.ITERATES}
    if not made & opened(plan):
        yield _joint_gram(plan)


def _joint_gram(plan: SessionPlan) -> str:
    of = " of features and labels" if plan.m < plan.M else ""
    return (
        f"All parties will hold the joint Gram matrix{of} ({plan.M} x {plan.M}), with it all singular values and "
        "vectors, and each the sum of the others' alone."
    )


def _order(plan: SessionPlan) -> Iterator[str]:
    """What is opened to show that the vectors of the CSP's answer lead (specification, step 7)."""
    if count := searched(plan):
        where = "Where the total variance does not show" if plan.releases(Item.SPECTRUM) else "To show"
        yield (
            f"{where} that the vectors of the CSP lead, every party sees the joint Gram matrix outside of U in {count} "
            f"of {order_left(plan)} directions, the largest ones there among them, to 16 bits."
        )
    elif any(step.name == ORDER_OUTSIDE for step in order_sums(plan)):
        yield "To show that the vectors of the CSP lead, every party sees how much of the variance is outside of U."


def _own_vectors(plan: SessionPlan) -> Iterator[str]:
    """What parties take of U and S at home."""
    if plan.components_by and not by_share(plan):
        yield f"Of these each party takes the first at home, as many as the rule says: {plan.components_by}."
    if What.PERMUTED in opened(plan):
        yield (
            f"Every party gets {PERMUTED_TABLES} Gram matrices of tables whose columns every party permuted among its "
            "own records: with them how the others' values are spread beyond mean and variance, and of a party with a "
            "handful of records the values themselves."
        )
    if plan.releases(Item.OWN_PART):
        yield "Each party alone gets its own part: right vectors or scores."


def _mean(plan: SessionPlan) -> Iterator[str]:
    spread = " and spread" if What.ENERGY in opened(plan) else ""
    yield f"Every party learns the joint mean{spread} of each of the {plan.m} features."


def _own_coefficients(plan: SessionPlan) -> Iterator[str]:
    yield "Each party alone gets the coefficients of its own columns; all get the intercept."
    if plan.weighted:
        yield "Every party has the weights of all rows: the parties compare that theirs are equal."
    yield "Every party learns the magnitude of the labels' spread, and of the others' coefficients plus a secret."
    yield "Where rank is lost, every party learns which part of what cannot be separated lies with the others."


def _inverse(plan: SessionPlan) -> Iterator[str]:
    yield (
        "Each party alone gets the standard errors, tests and covariances of its own coefficients. Every party "
        "gets the error of the intercept, the residual and the total sum of squares of the labels (sigma, R2, F, "
        f"the likelihood), and the condition of the joint columns. {freedom_in_words(plan)}."
    )
    yield of_others(plan)


def of_others(plan: SessionPlan) -> str:
    """What a party can compute of the others' columns from its own standard errors."""
    seen = "From its standard errors each party can compute how its columns correlate with the others'"
    alone = [i for i, n_i in enumerate(plan.counts, start=1) if plan.n - n_i == 1]
    if alone:
        who = ", ".join(f"party {i}" for i in alone)
        return f"{seen}: {who}, with its one partner's one column, up to a sign, column by column."
    return f"{seen}, all taken together: the canonical correlations, and with which of its own columns."


def asked_of_columns(plan: SessionPlan) -> str:
    """What an owner consents to where the parties of split columns share a matrix of the CSP; empty where not."""
    agrees = "an owner who agrees writes consent_to_columns = true into policy.toml"
    if What.INVERSE in opened(plan):
        return (
            "standard errors on split columns are asked for: from its own each party can compute how its columns "
            f"correlate with all others' together; {agrees}, and without inference a study gives the same coefficients"
        )
    if What.PATH in opened(plan):
        return (
            f"a ridge is chosen among {len(plan.alphas)} on split columns: party {plan.label_user} will hold the "
            f"singular values of the joint columns and how the labels lie along them; {agrees}, and one study for each "
            "alpha shows them to no party"
        )
    return ""


def _path(plan: SessionPlan) -> Iterator[str]:
    yield (
        f"Party {plan.label_user}, who holds the labels, alone gets the {plan.N} singular values of the joint "
        "columns and how much of the labels lies along each singular vector; no party gets the vectors."
    )
    yield (
        f"Every party gets the error of all {len(plan.alphas)} penalties, and how much of the chosen coefficients "
        "lies along each singular vector. Each alone gets its own coefficients, of the chosen penalty and of none."
    )


def _coefficients(plan: SessionPlan) -> Iterator[str]:
    if What.GRAM in opened(plan):
        yield _joint_gram(plan)
    yield "Every party gets all coefficients and the intercept."
    if plan.releases(Item.INFERENCE):
        yield (
            "Every party computes standard errors, tests and intervals of all coefficients from that matrix; their "
            f"covariance says no less than it does. {freedom_in_words(plan)}."
        )


def _components(plan: SessionPlan) -> Iterator[str]:
    if What.GRAM not in opened(plan):
        yield (
            f"Every party gets the coefficients on {components_in_words(plan)}, with them those of all features and "
            "the intercept, the mean of each target, and how much of its variance the components leave. No party gets "
            "the targets' products with single features."
        )
        return
    yield _joint_gram(plan)
    yield "Every party gets all coefficients and the intercept."
    how = f"as many as the rule says: {plan.components_by}" if plan.components_by else f"the first {components(plan)}"
    yield f"Every party takes components of the features ({how}) and their table from that matrix."


def _weights(plan: SessionPlan) -> Iterator[str]:
    yield "Every party learns the sum of all weights, and of their logarithms; n counts rows of a weight above 0."


def _refined(plan: SessionPlan) -> Iterator[str]:
    yield (
        "Where features are nearly dependent, two sums give that matrix and the products of features and residuals "
        "in more digits: as many as the table needs, and not where it needs none."
    )


def _quality(plan: SessionPlan) -> Iterator[str]:
    yield (
        "Every party gets how well the model ranks and predicts all parties' records, in four numbers of 24 bits: how "
        "many pairs of a case and a control are in their order, counted inside each party, of how many pairs, the "
        "variance of that, and the squared errors of the probabilities. A party with fewer than five cases or controls "
        "adds no pairs."
    )


def _roc(plan: SessionPlan) -> Iterator[str]:
    about = ROCPlan.of(plan)
    assert about is not None
    counted = (
        f"Two more of these numbers, of the linear predictor, say where its grid lies: parties open how many cases and "
        f"controls are at or below each of {about.numbers // 2 - 1} values of it, {about.numbers} numbers"
    )
    if about.least == 1:
        yield f"{counted}, exactly: where few records lie between two values, that they are there."
        return
    yield (
        f"{counted}: every party rounds its own counts to multiples of {about.least} at home. A total is off by at "
        f"most {most_off(about.least, plan.k)} records (standard deviation {deviation(about.least, plan.k):.1f})."
    )


def _squared_scores(plan: SessionPlan) -> Iterator[str]:
    terms = plan.m + int(plan.centre) if plan.glm is None else plan.glm.scored(plan.m, plan.centre)
    if What.COUNT in opened(plan):
        yield (
            f"Every party gets the joint sum of squared scores over clusters ({terms} x {terms}), and how many there "
            "are; names of clusters are not sent. Clusters are each party's own: a name at two parties is two. Of a "
            "party that is one cluster, it is that party's sum of scores, squared."
        )
    else:
        yield (
            f"Every party gets the joint sum of squared scores ({terms} x {terms}), x x^T times e^2; a record whose "
            "residual e dwarfs all others shows its features x in it, up to a factor."
        )
    if plan.glm is not None and plan.few_digits:
        yield (
            "That sum is opened in as many bits as standard errors need, once for each model; where one record or "
            "cluster makes up most of a party's own part, the study ends as one that did not converge."
        )


def _penalties(plan: SessionPlan) -> Iterator[str]:
    """What follows for penalties that one is chosen from, all of them fitted by every party."""
    if plan.alphas:
        errors = What.LEFT_OUT in opened(plan)
        left_out = ", and the joint sum of squared errors of rows left out for each" if errors else ""
        yield f"Every party computes the coefficients of all {len(plan.alphas)} penalties from that matrix{left_out}."


def _iterates(plan: SessionPlan) -> Iterator[str]:
    about = plan.glm
    if about is None:
        return
    several = _several(about)
    yield (
        f"All parties will hold one joint Gram matrix of weighted features and target ({plan.M} x {plan.M}) for each "
        f"iteration{several}, {about.max_iterations} at most, the coefficients and the deviance of each, and each the "
        "sum of the others' alone: every party needs the coefficients to weight its rows for the next one. Only the "
        "last are the result."
    )
    yield from _model(plan, about)


def _several(about: ModelPlan) -> str:
    return f", for each of {about.fits} models" if about.fits > 1 else ""


def _model(plan: SessionPlan, about: ModelPlan) -> Iterator[str]:
    """What every party has of a model in the end, and what it learns of the outcome on the way."""
    yield (
        "Every party gets all coefficients, their standard errors, tests and covariance, and the deviance of the model "
        f"and of the null model. {freedom_in_words(plan)}."
    )
    yield from about.facts.learns
    if about.facts.counts:
        yield about.facts.counts.format(least_class=about.least_class, least_events=about.least_events)


def _regression(plan: SessionPlan) -> Iterator[str]:
    """Of a regression table by few digits."""
    P = coefficients(plan)
    means = "the mean of each column in 16 bits, " if plan.centre else ""
    yield (
        f"Parties open the table's sums a few digits at a time: {means}the Gram matrix of the features ({P} x {P}) in "
        "as many bits as standard errors need, products of features and residuals in 14 new bits for each step to the "
        f"coefficients, and residual squares. About {expected_bits(plan):,} bits are expected in all; no party opens "
        f"more than {granted_bits(plan):,}."
    )
    yield (
        "Every party gets all coefficients and the intercept, and computes standard errors, tests and intervals. "
        f"{freedom_in_words(plan)}."
    )


def _scores(plan: SessionPlan) -> Iterator[str]:
    about = plan.glm
    if about is None:
        yield from _regression(plan)
        return
    P = coefficients(plan)
    yield (
        f"Parties open the model's sums a few digits at a time{_several(about)}: {about.facts.begins}, "
        f"for each iteration the gradient ({P} numbers of 14 new bits) and the coefficients, now and then its "
        f"information ({P} x {P}) in 12 bits or twelves of the rest, at the end in as many as the table needs. About "
        f"{expected_bits(plan):,} bits are expected in all; no party opens more than {granted_bits(plan):,}."
    )
    yield (
        "Before a party sends anything at new coefficients it tests at home that none of its records stands out there; "
        "where one does the study ends as one that did not converge, and no party learns at which."
    )
    yield from about.facts.stays
    yield from _model(plan, about)


def _rounded_counts(plan: SessionPlan) -> Iterator[str]:
    steps = [step for step in listed(plan.steps) if step.what is What.FIVES]
    numbers, least = sum(step.size for step in steps), min(step.step for step in steps)
    yield (
        f"Parties open how many of all records are at or below each edge of a public grid, {numbers} numbers: every "
        f"party rounds its own counts to multiples of {least} at home, so that the numbers it adds differ by 0 or at "
        f"least {least} between two edges, groups or tables of the same rows; several numbers together may say more. "
        "A total is off by at most "
        f"{most_off(least, plan.k)} records (standard deviation {deviation(least, plan.k):.1f})."
    )


def _exact_counts(plan: SessionPlan) -> Iterator[str]:
    numbers = sum(step.size for step in listed(plan.steps) if step.what is What.CELLS)
    yield (
        f"Parties open how many of all records are at or below each edge of a public grid, {numbers} numbers, exactly: "
        "where a cell holds few records, that they are there. A party whose own cells hold fewer than its least count "
        "is asked."
    )


SENTENCES: tuple[tuple[What, Callable[[SessionPlan], Iterator[str]]], ...] = (
    (What.CANONICAL, _canonical),
    (What.VECTORS, _vectors),
    (What.GRAM, _gram_alone),
    (What.ORDER, _order),
    (What.VECTORS, _own_vectors),
    (What.MEAN, _mean),
    (What.OWN_COEFFICIENTS, _own_coefficients),
    (What.INVERSE, _inverse),
    (What.PATH, _path),
    (What.COEFFICIENTS, _coefficients),
    (What.COMPONENTS, _components),
    (What.WEIGHTS, _weights),
    (What.REFINED, _refined),
    (What.SQUARED_SCORES, _squared_scores),
    (What.COEFFICIENTS, _penalties),
    (What.ITERATES, _iterates),
    (What.SCORE, _scores),
    (What.QUALITY, _quality),
    (What.ROC, _roc),
    (What.TABLE, of_table),
    (What.FIVES, _rounded_counts),
    (What.WITHIN, within),
    (What.CELLS, _exact_counts),
    (What.TIMED, timed),
    (What.EXPOSURE, exposure),
)


def of_openings(plan: SessionPlan) -> Iterator[str]:
    """What is said of everything that the steps of this plan open to the parties."""
    found = opened(plan)
    for what, said in SENTENCES:
        if what in found:
            yield from said(plan)
