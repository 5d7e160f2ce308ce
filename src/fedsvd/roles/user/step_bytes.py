"""What user 1 sends of a study by steps, as bytes of public lengths: roots, verdicts, restarts.

Matrices are filled up with zeros to the shapes of the plan; counts in front say what is used of them.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.linalg.golub_kahan import refused
from fedsvd.linalg.verdicts import Verdict
from fedsvd.protocol.directions import (
    first_width,
    kept_by_restart,
    later_width,
    left_over,
    reach,
    spare,
    widest_basis,
)
from fedsvd.protocol.plan import SessionPlan
from fedsvd.types import Float


@dataclass(frozen=True)
class Sizes:
    """Shapes of a verdict: N (m, width), c (reach, later), both filled up with zeros."""

    m: int
    width: int
    reach: int
    later: int

    @classmethod
    def of(cls, plan: SessionPlan, step: int) -> "Sizes":
        """Of the verdict after this step."""
        width = first_width(plan) if step == 0 else later_width(plan)
        return cls(plan.m, width, reach(plan, step) + spare(plan), later_width(plan))

    def packed(self, said: Verdict, N: Float, c: Float) -> bytes:
        head = np.array([float(said), N.shape[1], c.shape[1]])
        return packed(head, filled(N, self.width), filled(below(c, self.reach), self.later))

    def read(self, content: bytes, held: int) -> tuple[Verdict, Float, Float]:
        """The verdict, N and c, where the reservoir holds so many directions before N."""
        numbers = np.frombuffer(content, "<f8").astype(np.float64, copy=False)  # N is long, and no one writes to it
        said, new, chosen = (
            whole(numbers[0], max(Verdict)),
            whole(numbers[1], self.width),
            whole(numbers[2], self.later),
        )
        N = numbers[3 : 3 + self.m * self.width].reshape(self.m, self.width)[:, :new]
        c = numbers[3 + self.m * self.width :].reshape(self.reach, self.later)
        return Verdict(said), np.ascontiguousarray(N), np.ascontiguousarray(c[: held + new, :chosen])


@dataclass(frozen=True)
class Restart:
    """Shapes of what a restart goes on from: p and y, (rows, kept), g, (reservoir, left), filled up with zeros."""

    rows: int
    kept: int
    reservoir: int
    left: int

    @classmethod
    def of(cls, plan: SessionPlan) -> "Restart":
        rows = widest_basis(plan)
        return cls(rows, kept_by_restart(plan), rows + spare(plan) + later_width(plan), left_over(plan))

    def packed(self, p: Float, y: Float, g: Float) -> bytes:
        head = np.array([float(p.shape[1]), g.shape[1]])
        p, y = (filled(below(A, self.rows), self.kept) for A in (p, y))
        return packed(head, p, y, filled(below(g, self.reservoir), self.left))

    def read(self, content: bytes, d: int, e: int, held: int) -> tuple[Float, Float, Float]:
        """p, y and g of d images, e directions, and a reservoir of this size."""
        numbers, size = numbers_of(content), self.rows * self.kept
        count, left = whole(numbers[0], self.kept), whole(numbers[1], self.left)
        p, y = numbers[2 : 2 + 2 * size].reshape(2, self.rows, self.kept)[:, :, :count]
        g = numbers[2 + 2 * size :].reshape(self.reservoir, self.left)[:held, :left]
        return np.ascontiguousarray(p[:d]), np.ascontiguousarray(y[:e]), np.ascontiguousarray(g)


def packed_root(done: bool, root: Float, width: int) -> bytes:
    return packed(np.array([float(done), root.shape[1]]), filled(below(root, width), width))


def read_root(content: bytes, rows: int, width: int) -> tuple[bool, Float]:
    numbers = numbers_of(content)
    root = numbers[2:].reshape(width, width)
    return bool(whole(numbers[0], 1)), np.ascontiguousarray(root[:rows, : whole(numbers[1], rows)])


def whole(number: float, most: int) -> int:
    """A count that user 1 sent, or a refusal."""
    if not (0.0 <= number <= most and float(number).is_integer()):
        raise refused()
    return int(number)


def filled(A: Float, width: int) -> Float:
    """A with zero columns up to this width; A itself where it has them: blocks of long sides are most often full."""
    return A if A.shape[1] == width else np.pad(A, ((0, 0), (0, width - A.shape[1])))


def below(A: Float, rows: int) -> Float:
    """A with zero rows up to this number."""
    return A if len(A) == rows else np.pad(A, ((0, rows - len(A)), (0, 0)))


def packed(*parts: Float) -> bytes:
    return b"".join(np.ascontiguousarray(part, "<f8").data.cast("B") for part in parts if part.size)


def numbers_of(content: bytes) -> Float:
    return np.frombuffer(content, "<f8").astype(np.float64)
