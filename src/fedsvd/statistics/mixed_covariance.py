"""The covariance G of the random effects of a group, (q, q), and the parameters that it follows from.

Inside of the cone of positive semidefinite matrices the parameters are its entries as they are: of its lower triangle,
or of its diagonal where effects are not correlated. They may pass outside of the cone, so that zero is an inner point
of every formula. An optimum outside is no covariance: the best one then lies on the boundary (a singular fit), and is
looked for on a face of the cone, with fewer parameters; of correlated effects those of a factor, ``G = L L^T``, with a
column less than rows. A factor with all columns never leaves the cone, and has no inner point at its boundary.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsvd.statistics.positive import factor
from fedsvd.types import Float

_LEAST = 2.0**-4  # of the residual variance: a random effect with less is sized as if it had this
_SHORTEST = 2.0**-12  # of a step
_CUT = 2.0**-3  # of a variance, below which a long step does not lead
_NO_VARIANCE = 2.0**-30  # of the residual variance


@dataclass(frozen=True, repr=False)
class Variances:
    """A point: the residual variance, G, and how G moves with its parameters."""

    s2: float
    G: Float  # (q, q)
    E: Float  # (v - 1, q, q): its derivatives
    bends: Float | None = None  # (v - 1, v - 1, q, q): second ones, where they are not 0


@dataclass(frozen=True)
class Covariance:
    """How G follows from its parameters: entries of G, or of a factor L with ``rank`` columns.

    On a face the first ``rank`` effects of ``order`` lead: only they have a variance, or the columns of L begin there.
    """

    q: int
    correlated: bool = True
    rank: int = -1  # q where it is not said
    factored: bool = False
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.rank < 0:
            object.__setattr__(self, "rank", self.q)
        if not self.order:
            object.__setattr__(self, "order", tuple(range(self.q)))

    @property
    def numbers(self) -> tuple[int, ...]:
        """What says, next to q and ``correlated``, which parameters these are."""
        return self.rank, int(self.factored), *self.order

    @property
    def free(self) -> bool:
        """Whether the parameters are all entries, which may leave the cone."""
        return self.rank == self.q and not self.factored

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Row and column of each parameter, in G or in L."""
        if not self.correlated:
            return tuple((i, i) for i in sorted(self.order[: self.rank]))
        rows, columns = np.tril_indices(self.q, m=self.rank)
        return tuple((self.order[i], j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True))

    @property
    def parameters(self) -> int:
        """With the residual variance."""
        return 1 + len(self.places)

    def _filled(self, values: Float) -> Float:
        """G, or L where there is one."""
        found = np.zeros((self.q, self.q if not self.correlated else self.rank))
        for value, (i, j) in zip(values.tolist(), self.places, strict=True):
            found[i, j] = value
        return found if self.factored else found + np.tril(found, -1).T

    def matrix(self, values: Float) -> Float:
        """G, from the parameters after the residual variance; elementwise, as all public arithmetic."""
        found = self._filled(values)
        if not self.factored:
            return found
        return np.asarray(sum((np.multiply.outer(own, own) for own in found.T), np.zeros((self.q, self.q))))

    def at(self, parameters: Float) -> Variances:
        """The point of these parameters, the residual variance first."""
        s2, values = float(parameters[0]), parameters[1:]
        E = np.zeros((len(self.places), self.q, self.q))
        if not self.factored:
            for u, (i, j) in enumerate(self.places):
                E[u, i, j] = E[u, j, i] = 1.0
            return Variances(s2, self.matrix(values), E)
        L = self._filled(values)
        bends = np.zeros((len(E), *E.shape))
        for u, (i, j) in enumerate(self.places):
            E[u, i] += L[:, j]
            E[u, :, i] += L[:, j]
            for w, (k, m) in enumerate(self.places):
                if j == m:
                    bends[u, w, i, k] += 1.0
                    bends[u, w, k, i] += 1.0
        return Variances(s2, self.matrix(values), E, bends)

    def sizes(self, parameters: Float) -> Float:
        """What one over the slope of log V by each parameter is about, (v,), for the units of sums."""
        s2, G = float(parameters[0]), self.matrix(parameters[1:])
        spread = np.sqrt(np.maximum(G.diagonal(), _LEAST * s2))
        return np.array([s2, *(spread[i] if self.factored else spread[i] * spread[j] for i, j in self.places)])

    # --- the boundary ---------------------------------------------------------------------------------------------

    def outside(self, values: Float) -> bool:
        """Whether these parameters make no covariance."""
        if self.factored or not self.rank:
            return False
        if not self.correlated:
            return bool((values < 0.0).any())
        return isinstance(factor(self.matrix(values)), int)

    def singular(self, parameters: Float) -> bool:
        """Whether some combination of the effects has no variance."""
        if self.rank < self.q:
            return True
        G = self.matrix(parameters[1:])
        return isinstance(factor(G - _NO_VARIANCE * float(parameters[0]) * np.eye(self.q)), int)

    def cut(self, values: Float, there: Float) -> Float:
        """Part of the way from a covariance to parameters that make none: each variance by itself, or in halves."""
        if not self.correlated:
            return np.maximum(there, values * _CUT)
        part = 0.5
        while part > _SHORTEST and self.outside(values + part * (there - values)):
            part /= 2.0
        return values + part * (there - values)

    def face(self, G: Float, s2: float) -> tuple["Covariance", Float]:
        """Where to look for the optimum after one outside of the cone, and where to begin there.

        Effects that are not correlated and have no variance go. Of others the largest are taken one after the other
        (the columns of a Cholesky factor by pivots), one less than there are.
        """
        if not self.correlated:
            left = tuple(i for i, _ in self.places if G[i, i] > 0.0)
            left = left if len(left) < len(self.places) else left[:-1]
            order = (*left, *(i for i in range(self.q) if i not in left))
            return Covariance(self.q, False, len(left), order=order), np.array([G[i, i] for i in sorted(left)])
        return self._factor(G, s2, self.q - 1)

    def whole(self, G: Float, s2: float) -> tuple["Covariance", Float]:
        """All parameters, by a factor, and where to begin: for an optimum that is not on the face it was looked for."""
        if self.correlated:
            return self._factor(G, s2, self.q)
        values = np.sqrt(np.maximum(G.diagonal(), _LEAST * s2))
        return Covariance(self.q, False, factored=True), values

    def _factor(self, G: Float, s2: float, rank: int) -> tuple["Covariance", Float]:
        order: list[int] = []
        columns, rest = [], np.array(G)
        for _ in range(rank):
            i = max((i for i in range(self.q) if i not in order), key=lambda i: (float(rest[i, i]), -i))
            column = np.where(np.arange(self.q) == i, math.sqrt(_LEAST * s2), 0.0)
            if rest[i, i] > _LEAST * s2:
                column = rest[:, i] / math.sqrt(rest[i, i])
                column[order] = 0.0
            order.append(i)
            columns.append(column)
            rest = rest - np.multiply.outer(column, column)
        found = Covariance(self.q, True, rank, True, (*order, *(i for i in range(self.q) if i not in order)))
        return found, np.array([columns[j][i] for i, j in found.places])
