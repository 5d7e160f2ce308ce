"""With whom a user shares pads: all others up to 17 users, few of them beyond that, so that work does not grow with k.

Users stand on a circle in an order that follows from the users' seed, and each shares pads with the ``degree(k) / 2``
next to it on either side (Harary's graph with random labels; Bell et al., CCS 2020). All users derive the same graph.
The CSP is not told it and needs none of it: it adds up what it gets.

What pads hide is the sum over each connected part of the honest users, so that the graph of honest users must be
connected. With h = degree / 2, honest users that follow each other on the circle are neighbours unless h or more
colluding ones stand between them. Cutting the circle in two takes two such runs, at disjoint places:

    fewer than ``degree`` colluding users never cut it, chosen before the order or with it in hand;
    t that were chosen before the order do so with probability at most k (k - 2h + 1) / 2 C(k - 2h, t - 2h) / C(k, t),
    the number of pairs of disjoint runs of h places times the probability that all their places are colluding users'.

``degree`` is the least that keeps this below 2^-40 for a third of the users (threat model, Theorem 2; ADR 0092).
"""

from fractions import Fraction
from functools import cache
from math import comb

from fedsvd.errors import ConfigError
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed

LEAST = 16  # neighbours: up to 17 users all pairs have pads
BITS = 40  # a third of the users cut the graph with probability 2^-40 at most


@cache
def degree(k: int) -> int:
    """The users that each of k users shares pads with."""
    if k < 2:
        raise ConfigError(f"secure aggregation needs k >= 2 users, got {k}", "invite another user")
    enough = (d for d in range(LEAST, k - 1, 2) if cut(k, d, k // 3) <= Fraction(1, 1 << BITS))
    return next(enough, k - 1)


def colluding(k: int) -> int:
    """So many of k users, chosen before the session, may pool with the CSP: at least a third, and all but two of 17."""
    d = degree(k)
    return k - 2 if d == k - 1 else max(k // 3, d - 1)


def cut(k: int, d: int, t: int) -> Fraction:
    """An upper bound on the probability that t users leave the others of k in two parts, of d neighbours each."""
    if t < d:
        return Fraction(0)
    return Fraction(k * (k - d + 1) * comb(k - d, t - d), 2 * comb(k, t))


def neighbours(k: int, user: int, order: Seed) -> tuple[int, ...]:
    """The users that share pads with ``user`` of 1 .. k, in order; ``order`` is used for this graph alone."""
    if user not in range(1, k + 1):
        raise ConfigError(f"no user {user} among users 1 .. {k}", "count users from 1 to k")
    if (d := degree(k)) == k - 1:
        return tuple(peer for peer in range(1, k + 1) if peer != user)
    circle = Keystream(order).permutation(k).tolist()
    place = circle.index(user - 1)
    return tuple(sorted(circle[(place + step) % k] + 1 for step in range(-(d // 2), d // 2 + 1) if step))
