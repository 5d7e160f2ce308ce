"""What a linear regression on split rows shows beyond the joint Gram matrix, in sentences: part of ``learned.py``."""

from collections.abc import Iterator

from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Robust


def beyond_gram(plan: SessionPlan) -> Iterator[str]:
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
