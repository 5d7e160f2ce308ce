"""How a search by steps ends: user 1's vectors and values, tested by the others, and the sums that certify them.

A number of components is one message and one pair of sums of that many columns. Of a share of the variance the data
decides how many components there are: they go in blocks of a public width, as many as are needed.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fedsvd.errors import NotConverged, VerificationFailed
from fedsvd.linalg.backend import EPS, to_numpy
from fedsvd.linalg.golub_kahan import Space
from fedsvd.linalg.leading import Ritz
from fedsvd.linalg.signs import signs_of
from fedsvd.linalg.tall import scaled, squares
from fedsvd.linalg.verdicts import Wanted
from fedsvd.protocol.directions import (
    answer_width,
    blocks_of_answer,
    by_share,
    first_width,
    tolerance_of,
    widest_basis,
    word_step,
)
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user.own_products import OwnSide
from fedsvd.roles.user.requests import Common, Local, Script
from fedsvd.roles.user.shared import once_in_process
from fedsvd.roles.user.step_bytes import below, filled, numbers_of, packed, whole
from fedsvd.roles.user.sums import short_sum, wide_sum_of_floats
from fedsvd.roles.user.work import Work
from fedsvd.types import Array, Float


@dataclass(frozen=True)
class Searched:
    """How far the order of the vectors was searched for, which is all that is said of it."""

    passes: tuple[int, ...]  # of each block
    directions: int
    start: int
    tolerance: float

    @property
    def text(self) -> str:
        """In words, for the certificate."""
        return (
            f"found in {len(self.passes)} steps, {self.directions} directions, from {self.start} random ones, to a "
            f"tolerance of {self.tolerance:g}; that no other direction holds more is not shown"
        )

    def record(self) -> dict[str, Any]:
        """The same as plain values, for a manifest."""
        found = {"steps": len(self.passes), "directions": self.directions, "passes": list(self.passes)}
        return found | {"tolerance": self.tolerance}


def not_converged(plan: SessionPlan, seen: int, step: int, ritz: Ritz, wanted: Wanted) -> NotConverged:
    """The end of a search that may open no more."""
    if not by_share(plan):
        return NotConverged(
            f"the search by steps ended without the components: {seen} directions in {step + 1} steps, and the "
            f"residual is {ritz.residual(wanted.most):.1e}",
            'set scheme = "sum", or ask for another number of components: one after which the singular values fall',
        )
    count = wanted.count(ritz.s)
    if count <= min(wanted.most, len(ritz.s)):  # few records: the directions ended before the digits were there
        return NotConverged(
            f"the search by steps ended before the components had their digits: {seen} directions in {step + 1} steps "
            f"hold {plan.components_by} of the variance, and the residual is {ritz.residual(count):.1e}",
            "leave scheme out, or ask for fewer components; records at more parties allow more directions",
        )
    return NotConverged(
        f"the search by steps ended: {seen} directions in {step + 1} steps show no {wanted.most} components or fewer "
        f"that hold {plan.components_by} of the variance",
        "ask for a smaller share, or for a number of components, or leave scheme out",
    )


def answered(work: Work, space: Space, ritz: Ritz, wanted: Wanted) -> Script:
    """User 1's vectors, values and p, tested by the others on their own Ritz values."""
    plan, m, d, most = work.plan, work.plan.m, space.images, widest_basis(work.plan)
    answer: list[tuple[Float, Float, Float]] = []  # of user 1, made once

    def made(part: slice) -> bytes:
        if not answer:
            found, s, p = space.answer(ritz, min(wanted.count(ritz.s), wanted.most))
            V = to_numpy(found)
            signs = np.asarray(signs_of(V))
            answer.append((s, V * signs, below(p * signs, most)))
        s, V, p = answer[0]
        return packed(np.array([float(len(s))]), *(filled(A[..., part], width) for A in (s[None], V, p)))

    contents: list[bytes] = []
    width, rank = answer_width(plan), 1
    while len(contents) < blocks_of_answer(plan, rank):
        name, part = _block(plan, len(contents))
        contents.append((yield Common(f"answer{name}", partial(made, part))))
        rank = whole(numbers_of(contents[0])[0], wanted.most)
    numbers = [numbers_of(content)[1:].reshape(1 + m + most, width) for content in contents]
    found = np.concatenate(numbers, axis=1)[:, :rank]
    s, V, p = found[0].copy(), np.ascontiguousarray(found[1 : 1 + m]), np.ascontiguousarray(found[1 + m :][:d])
    if not work.leads:

        def accepted() -> None:
            expect = partial(space.expect_answer, work.put(V), s, p, ritz, wanted.range(ritz.s), wanted.tolerance)
            once_in_process(work.memo, "accepted", (space, *contents), expect)

        yield Local("acceptance", accepted)
    return V, s, p


def _block(plan: SessionPlan, number: int) -> tuple[str, slice]:
    """What follows the name of a message or a sum with a block of an answer, and the columns of that block."""
    width = answer_width(plan)
    return f" {number + 1}" if by_share(plan) else "", slice(number * width, (number + 1) * width)


def certified(work: Work, own: OwnSide, found: tuple[Float, Float, Array], power: int) -> Script:
    """The larger of both residuals, relative to s_1, from sums of their own, and ``X_i^T U``.

    Beyond its bound nothing is released.
    """
    (U, s, vectors), plan = found, work.plan
    image: Float = yield Local("products", lambda: own.image(vectors))
    there: Array = yield Local("directions", lambda: own.transposed_times(work.put(U)))
    rest, product = squares(there - scaled(vectors, s)), to_numpy(there)
    width, words, largest = answer_width(plan), (word_step(plan), work.masks.each), 0.0
    for number in range(blocks_of_answer(plan, len(s))):
        name, part = _block(plan, number)
        total: Float = yield from short_sum(f"images{name}", filled(image[:, part], width), power, work.own, *words)
        left: Float = yield from wide_sum_of_floats(f"remainders{name}", filled(rest[None, part], width)[0], work.own)
        values = s[part]
        images = np.linalg.norm(total[:, : len(values)] - U[:, part] * values, axis=0)
        largest = max(largest, images.max(initial=0.0), math.sqrt(max(left[: len(values)].max(initial=0.0), 0.0)))
    if not len(s):
        return 0.0, product
    residual = float(largest / s[0])
    if not residual <= most_residual(plan.m, first_width(plan), tolerance_of(plan)):
        raise VerificationFailed("the residual of the singular vectors is beyond its bound")
    return residual, product


def most_residual(m: int, b: int, tolerance: float) -> float:
    """What the iteration ends at, and what columns and directions below rounding, which are left out, may hold."""
    return 2.0 * tolerance + 64.0 * EPS * b + 128.0 * EPS * math.sqrt(m)
