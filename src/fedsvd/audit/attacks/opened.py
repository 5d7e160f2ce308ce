"""What an opened Gram matrix shows beyond itself: to the CSP of mode B, and to the CSP together with users.

The CSP sees ``c^2 P G P^T`` in an unknown unit, so that ratios of singular values are all it has of G. For small tables
of whole numbers ratios are enough to see that they are whole. A user who pools with it knows P and c: then G is opened,
and less what the pool holds itself it is the sum of the other users' Gram matrices.
"""

import numpy as np

from fedsvd.audit.attacks.lattice import columns_from_gram
from fedsvd.audit.attacks.view import CspView, opened_gram, opened_words
from fedsvd.masks.orthogonal import orthogonal, secret_scale
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.masking import Masks
from fedsvd.secagg.words128 import to_integers
from fedsvd.types import Float

_NEAR = 1e-9
_MOST_ROWS = 12  # of the corner that is reduced: seconds, in exact integers


def ones_from_ratios(csp: CspView, most: int = 400) -> int | None:
    """The least a for which ``a^2 ||X X^T||^2 / ||X||^4`` is a whole number: of zeros and ones, how many ones.

    None where no a up to ``most`` is near enough, as for numbers that are not whole; the larger a is, the more often
    one is near by chance.
    """
    G = opened_gram(csp.plan, csp.received)
    share = float(np.sum(G * G)) / float(np.trace(G)) ** 2
    for a in range(2, most):
        b = a * a * share
        if abs(b - round(b)) < _NEAR * a:
            return a
    return None


def columns_by_lattice(csp: CspView) -> int:
    """How many whole-number columns lattice reduction reads from the exact words, in a corner of them."""
    m = csp.plan.M
    words = iter(to_integers(np.concatenate(opened_words(csp.plan, csp.received))))
    G = [[0] * m for _ in range(m)]
    for i in range(m):
        for j in range(i, m):
            G[i][j] = G[j][i] = next(words)
    corner = [row[:_MOST_ROWS] for row in G[:_MOST_ROWS]]
    return len(columns_from_gram(corner))


def joint_gram(csp: CspView, masks: Masks) -> Float:
    """G, (m, m), up to the unit that every user has: what the CSP sees, with a user's P and c taken off."""
    plan, seed = csp.plan, masks.seed
    P = orthogonal(plan.m, Keystream.of(seed, "P", "gram"))
    c = secret_scale(seed.derive("c", "gram"))
    G = opened_gram(plan, csp.received)[: plan.m, : plan.m]
    found: Float = P.left_t(np.ascontiguousarray(P.left_t(G).T)) / c**2
    return found
