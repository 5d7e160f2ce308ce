"""Hypothesis strategies: joint matrices, and ways in which parties may hold them.

Entries come from seeded normals, shaped into something hard (lost rank, zero rows, scales), because hypothesis shrinks
shapes and seeds well and floats one by one badly.
"""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from hypothesis import strategies as st

from fedsvd.protocol.tasks import Split
from fedsvd.types import Float

KINDS = ("normal", "whole numbers", "lost rank", "zero row", "constant column", "graded", "equal rows", "zero")


@dataclass(frozen=True, repr=False)
class Joint:
    """A joint matrix X, (m, n), and the number of columns of it that each party holds."""

    X: Float
    widths: tuple[int, ...]
    kind: str

    def __repr__(self) -> str:
        return f"Joint({self.kind}, m={self.X.shape[0]}, widths={self.widths})"

    @property
    def parts(self) -> list[Float]:
        """The parties' X_i."""
        return np.split(self.X, list(accumulate(self.widths))[:-1], axis=1)

    def tables(self, split: Split) -> list[Float]:
        """The parties' tables, samples in rows: X_i where columns are split, X_i^T where rows are."""
        return self.parts if split is Split.VERTICAL else [X_i.T for X_i in self.parts]


def widths(most_users: int = 4, widest: int = 7) -> st.SearchStrategy[tuple[int, ...]]:
    """Two parties or more, with a column or more each."""
    return st.lists(st.integers(1, widest), min_size=2, max_size=most_users).map(tuple)


@st.composite
def joints(draw: st.DrawFn, tallest: int = 9, most_users: int = 4, widest: int = 7) -> Joint:
    """A joint matrix of some kind, dealt to some parties."""
    dealt = draw(widths(most_users, widest))
    m, n = draw(st.integers(1, tallest)), sum(dealt)
    kind = draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    scale = 10.0 ** draw(st.integers(-20, 20))
    return Joint(scale * _shaped(kind, rng.normal(size=(m, n)), rng), dealt, kind)


def _shaped(kind: str, X: Float, rng: np.random.Generator) -> Float:
    m, n = X.shape
    if kind == "whole numbers":
        return np.rint(3 * X)
    if kind == "lost rank":
        return X[:, :1] @ rng.normal(size=(1, n))
    if kind == "zero row":
        X[int(rng.integers(m))] = 0.0
    if kind == "constant column":
        X[:, int(rng.integers(n))] = 1.0
    if kind == "graded":
        X *= np.logspace(0, -9, m)[:, None]
    if kind == "equal rows":
        X[:] = X[0]
    return np.zeros((m, n)) if kind == "zero" else X
