"""What components, permuted tables and canonical variables show: sentences of the ledger, and of findings about counts.

``learned.py`` puts the first together with the lines of all other tasks, ``rules.py`` the latter with its rules.
"""

from collections.abc import Iterator

from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import PERMUTED_TABLES, Task

_FEW_TO_PERMUTE = 10  # records whose orders can all be tried


def components(plan: SessionPlan) -> int:
    """r: how many singular vectors the users get at most."""
    return plan.components or min(plan.m, plan.n)


def canonical(plan: SessionPlan) -> Iterator[str]:
    """What canonical correlations show of the parties' columns."""
    r = components(plan)
    yield f"Every party gets the first {r} canonical correlations, and the common variables U ({plan.m} x {r})."
    yield "Each party alone gets the weights and loadings of its own columns."
    yield "Every party learns how many linearly independent columns all parties have together."
    if plan.k > 2:
        yield f"Every party can compute the sum of the others' scores of every record on these {r} variables."


def permuted(plan: SessionPlan) -> str:
    """What parallel analysis shows beyond the joint Gram matrix."""
    return (
        f"Every party gets {PERMUTED_TABLES} Gram matrices of tables whose columns every party permuted among its own "
        "records: with them how the others' values are spread beyond mean and variance, and of a party with a handful "
        "of records the values themselves."
    )


def two_canonical(plan: SessionPlan) -> Iterator[str]:
    """What one of two parties can compute of the other's columns: its scores, and the space that they span."""
    r = components(plan)
    yield f"With two parties, each can compute the other's scores of every record on these {r} canonical variables."
    for index, n_i in enumerate(plan.counts, start=1):
        if n_i == 1:
            yield f"Party {index} has one column: the other can compute it but for its mean and its scale."
        elif r >= n_i:
            yield (
                f"Party {index} has {n_i} columns, and the other can compute the space that they span: its table but "
                f"for means and an unknown {n_i} x {n_i} matrix."
            )


def csp_of_canonical(plan: SessionPlan) -> str:
    """What the CSP reads of singular values whose scale is no secret."""
    return (
        "The singular values are those of orthonormal tables, whose scale is known: the CSP learns the first "
        f"{components(plan)} canonical correlations."
    )


def spans_a_table(plan: SessionPlan) -> bool:
    """Whether there are as many canonical variables as the narrowest table has columns: they span all of these."""
    return components(plan) >= min(plan.counts)


def canonical_scores(plan: SessionPlan) -> str:
    """What parties compute of each other from common variables, for a finding."""
    if plan.k == 2:
        return "either can compute the other's scores of every record on them"
    return "each can compute the sum of the others' scores of every record on them"


def derived_of_few(plan: SessionPlan, n_i: int) -> str:
    """What others compute of a party with so few records, or columns, in these studies; nothing special otherwise."""
    if n_i == 1 and plan.task is Task.CCA:
        return "its scores are this column, but for mean and scale"
    if plan.permutes and n_i < _FEW_TO_PERMUTE:
        return "the Gram matrices of its permuted columns can give the values of each column away"
    return ""
