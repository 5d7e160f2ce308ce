"""What the CSP splits among the users of a regression on split columns, and what they send each other of it.

A *shared* sum has a part of the CSP's own in it. Users send masks, uniform in the ring; the CSP adds what it found, and
all users read a total that is as uniform. No one holds the masks of all. User l multiplies its mask with what it knows
(Q is every user's) and seals the product to user i alone, who adds them up and has one product, and no more:

    inverse    Q_i S Q_i^T of the CSP's inverse Gram matrix S: the standard errors of user i's own columns
    vectors    what a ridge is chosen by, at the label holder; then Q_i V z, the coefficients of user i's own columns

Next to it stand products of the matrix with secret vectors of the users', made in the ring: a CSP that answers with
another matrix for them than the one it splits makes them random, so that one matrix is behind all. Whether it is the
right one, users check under P (specification, step 7), and whether a part was altered on its way, by those products.

The words of a shared sum, in order: products of the users that the CSP is to multiply, under a mask of the users' own;
numbers that the CSP writes for all; the matrix. All sizes follow from the plan.
"""

from fedsvd.linalg.ring_forms import HALVES, LOW_HALVES, MOST_SIDE
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item

SHARED_BITS = 60
"""Singular vectors and values are whole numbers, in steps of 2^-60 of a power of two above them all."""

INVERSE_BITS = 110
"""The inverse: in steps of 2^-110, for blocks of it are smaller than others by the square of the condition."""

VECTOR_BITS = 76
"""Numbers of the users' own vectors, in steps of 2^-76 of the least class above them all."""

MOST_SHARED = MOST_SIDE
"""Features up to which a matrix is split among the users."""

INVERSE, VECTORS = "inverse", "vectors"
_LOW, _WORD = 8 * LOW_HALVES, 8 * HALVES


def shares_inverse(plan: SessionPlan) -> bool:
    """Whether standard errors of split columns are asked for."""
    return plan.stacks_labels and plan.releases(Item.INFERENCE)


def shares_vectors(plan: SessionPlan) -> bool:
    """Whether a ridge is chosen on split columns."""
    return plan.stacks_labels and bool(plan.alphas)


def about_words(plan: SessionPlan) -> int:
    """Numbers that the CSP writes for all: a unit, and a condition or the residual squares of each target."""
    return 2 if shares_inverse(plan) else 1 + plan.targets


def vectors_of(plan: SessionPlan) -> int:
    """The users' own vectors: of an inverse one secret for each user, and the mean twice, where there is an intercept.

    Of singular vectors: the coefficients of every target, and a secret one.
    """
    return plan.k + 2 * int(plan.centre) if shares_inverse(plan) else plan.targets + 1


def vector_words(plan: SessionPlan) -> int:
    """Words of the users' own vectors."""
    return plan.N * vectors_of(plan)


def matrix_words(plan: SessionPlan) -> int:
    """Words that are split: the triangle of S, S times the vectors, two forms of the mean; or ``[V^T, V^T v, s]``."""
    if shares_inverse(plan):
        return _triangle(plan.N) + vector_words(plan) + 2 * int(plan.centre)
    return plan.N * (plan.N + vectors_of(plan) + 1)


def challenge_columns(plan: SessionPlan) -> int:
    """Columns under P that a solution is checked with: residuals, products with a secret vector, what hides them.

    Where the CSP splits a matrix, one column more for that and one for the squares of the residuals.
    """
    return plan.targets + (3 if shares_inverse(plan) or shares_vectors(plan) else 1)


def challenge_numbers(plan: SessionPlan) -> int:
    """Numbers that a user adds to the sum that the products are compared with."""
    return 2 * plan.targets + 1 if shares_inverse(plan) or shares_vectors(plan) else plan.targets


def shared_words(plan: SessionPlan) -> int:
    """Words of the shared sum of this plan."""
    return vector_words(plan) + about_words(plan) + matrix_words(plan)


def _triangle(side: int) -> int:
    """Words of the upper triangle of a matrix of this side."""
    return side * (side + 1) // 2


def own_form_bytes(plan: SessionPlan, to: int) -> int:
    """Bytes of what a user sends user ``to``, counted from 0: its part of Q_i S Q_i^T."""
    return _LOW * _triangle(plan.counts[to])


def own_probe_bytes(plan: SessionPlan, to: int) -> int:
    """Likewise: its parts of Q_i S g for the receiver's own g and for that of all, and of two forms of the mean."""
    return _WORD * 2 * (plan.counts[to] + int(plan.centre))


def projected_bytes(plan: SessionPlan) -> int:
    """Bytes of what a user sends the label holder: its parts of V^T w, of every target, of V^T r, and of s."""
    return _WORD * plan.N * (vectors_of(plan) + 1)


def choice_bytes(plan: SessionPlan) -> int:
    """Bytes of what the label holder sends every user: number of the penalty, errors of all, a bound, z, zeta."""
    return 8 * (2 + len(plan.alphas) + plan.N * (plan.targets + 1))


def own_solution_bytes(plan: SessionPlan, to: int) -> int:
    """Bytes of what a user sends user ``to``: its part of Q_i V z, of every target, and of the secret."""
    return _WORD * plan.counts[to] * (plan.targets + 1)


def shared_exchanges(plan: SessionPlan) -> list[tuple[int, int, int]]:
    """Every content that one user seals to another after a shared sum: from, to, bytes; users count from 0."""
    if not shares_inverse(plan) and not shares_vectors(plan):
        return []  # before k^2 pairs are listed
    pairs = [(i, j) for i in range(plan.k) for j in range(plan.k) if i != j]
    if shares_inverse(plan):
        return [(i, j, own_form_bytes(plan, j) + own_probe_bytes(plan, j)) for i, j in pairs]
    holder = plan.label_user - 1
    found = [(i, holder, projected_bytes(plan)) for i in range(plan.k) if i != holder]
    found += [(holder, j, choice_bytes(plan)) for j in range(plan.k) if j != holder]
    return found + [(i, j, own_solution_bytes(plan, j)) for i, j in pairs]
