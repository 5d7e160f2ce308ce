"""What an opened Gram matrix shows beyond itself: to the CSP of mode B, and to the CSP together with users.

The CSP sees ``c^2 P G P^T`` in an unknown unit, so that ratios of singular values are all it has of G. For small tables
of whole numbers ratios are enough to see that they are whole. A user who pools with it knows P and c: then G is opened,
and less what the pool holds itself it is the sum of the other users' Gram matrices.

Whole-number columns from an exact Gram matrix, by lattice reduction: why shares are widened (specification, step 4).

The rows of an integer matrix Z (m, N) are vectors of Z^N whose inner products are ``G = Z Z^T``. If N < m they nearly
always generate all of Z^N, and a reduced basis of it has unit vectors: ``Z e_j`` is then a column of Z, whatever Z is
made of. With N > m the rows are a basis of some lattice of rank m, in which no vector is short, and nothing follows.

The reduction is that of Lenstra, Lenstra and Lovasz, in exact integers, on inner products alone. Vectors are inserted
one by one; one that depends on those before it is reduced like Euclid's algorithm would until it is zero.
"""

from collections.abc import Sequence

import numpy as np

from fedsvd.audit.attacks.view import CspView, opened_gram, opened_words
from fedsvd.masks.orthogonal import orthogonal, secret_scale
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.masking import Masks
from fedsvd.secagg.words128 import to_integers
from fedsvd.types import Float

Integers = list[int]


def columns_from_gram(G: Sequence[Sequence[int]]) -> list[Integers]:
    """The columns of Z that a reduced basis shows, each up to its sign, from ``G = Z Z^T``; empty where it shows none.

    A basis vector of squared length 1 is a unit vector of Z^N, and its inner products with the rows are a column.
    """
    return [products for length, products in reduced(G) if length == 1]


def reduced(G: Sequence[Sequence[int]]) -> list[tuple[int, Integers]]:
    """A reduced basis of the lattice with these inner products: squared lengths, and products with the generators."""
    return [(vector.dot(vector), vector.products) for vector in _reduced(G)]


def combinations(G: Sequence[Sequence[int]]) -> list[Integers]:
    """The same basis as combinations of the generators."""
    return [vector.coefficients for vector in _reduced(G)]


def _reduced(G: Sequence[Sequence[int]]) -> "list[_Vector]":
    m = len(G)
    basis = _Basis()
    waiting = [_Vector([int(i == j) for j in range(m)], [int(entry) for entry in G[i]]) for i in reversed(range(m))]
    while waiting:
        waiting += basis.insert(waiting.pop())
    return basis.vectors


class _Vector:
    """A combination of the generators: its coefficients, and its inner products with them."""

    def __init__(self, coefficients: Integers, products: Integers) -> None:
        self.coefficients = coefficients
        self.products = products

    def dot(self, other: "_Vector") -> int:
        return sum(a * b for a, b in zip(self.coefficients, other.products, strict=True))

    def subtract(self, times: int, other: "_Vector") -> None:
        self.coefficients = [a - times * b for a, b in zip(self.coefficients, other.coefficients, strict=True)]
        self.products = [a - times * b for a, b in zip(self.products, other.products, strict=True)]


class _Basis:
    """Reduced vectors in order; ``d[i]`` is the determinant of the first i, ``lower[i][j] = d[j + 1] mu_ij``.

    Both stay integers (Cohen, A Course in Computational Algebraic Number Theory, section 2.6.3).
    """

    def __init__(self) -> None:
        self.vectors: list[_Vector] = []
        self.d = [1]
        self.lower: list[Integers] = []

    def insert(self, vector: _Vector) -> list[_Vector]:
        """Reduce with one vector more; those that must be inserted again, because a dependency passed them."""
        self._append(vector)
        k = len(self.vectors) - 1
        again: list[_Vector] = []
        while k < len(self.vectors):
            if k == 0:
                if self.d[1] == 0:  # the vector that depended on others is zero
                    self._cut(0)
                    return again
                k = 1
                continue
            self._size_reduce(k, k - 1)
            if self._in_order(k):
                for j in reversed(range(k - 1)):
                    self._size_reduce(k, j)
                k += 1
                continue
            if self.d[k + 1] == 0 and self.lower[k][k - 1] == 0:
                # The dependency lies in the first k: what stood before it is inserted again after it.
                passed, dependent = self.vectors[k - 1], self.vectors[k]
                self._cut(k - 1)
                again.append(passed)
                self._append(dependent)
            else:
                self._swap(k)
            k = max(k - 1, 0)
        return again

    def _append(self, vector: _Vector) -> None:
        """One vector at the end, with its row of ``lower`` and its determinant."""
        row: Integers = []
        self.vectors.append(vector)
        for j, other in enumerate(self.vectors):
            u = vector.dot(other)
            for i in range(j):
                below = row[i] if other is vector else self.lower[j][i]
                u = (self.d[i + 1] * u - row[i] * below) // self.d[i]
            if other is vector:
                self.d.append(u)
            else:
                row.append(u)
        self.lower.append(row)

    def _cut(self, count: int) -> None:
        """Leave the first ``count`` vectors."""
        del self.vectors[count:], self.lower[count:], self.d[count + 1 :]

    def _size_reduce(self, k: int, j: int) -> None:
        d, value = self.d[j + 1], self.lower[k][j]
        if 2 * abs(value) <= d:
            return
        times = (2 * value + d) // (2 * d)
        self.vectors[k].subtract(times, self.vectors[j])
        self.lower[k][j] -= times * d
        for i in range(j):
            self.lower[k][i] -= times * self.lower[j][i]

    def _in_order(self, k: int) -> bool:
        """Lovasz's condition, with 3/4."""
        d, value = self.d, self.lower[k][k - 1]
        return 4 * (d[k + 1] * d[k - 1] + value * value) >= 3 * d[k] * d[k]

    def _swap(self, k: int) -> None:
        """Exchange vectors k - 1 and k."""
        vectors, lower, d = self.vectors, self.lower, self.d
        vectors[k - 1], vectors[k] = vectors[k], vectors[k - 1]
        value = lower[k][k - 1]
        lower[k - 1], lower[k] = lower[k][: k - 1], [*lower[k - 1], value]
        determinant = (d[k - 1] * d[k + 1] + value * value) // d[k]
        for i in range(k + 1, len(vectors)):
            above = lower[i][k]
            lower[i][k] = (d[k + 1] * lower[i][k - 1] - value * above) // d[k]
            lower[i][k - 1] = (determinant * above + value * lower[i][k]) // d[k + 1]
        d[k] = determinant


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
