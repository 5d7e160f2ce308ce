"""The family ``steps`` at a user: the top of the joint matrix by sums of products with a few directions at a time.

Every user holds the same directions K and images Z, and at home its own rows of the orthonormal columns W
(``linalg.golub_kahan``; here X_i is (m, n_i), so that W has a row for each of this user's columns). A step makes a
block orthonormal over all users by sums of products, opens its image ``sum_i X_i W_i`` in short words, and user 1 sends
what follows: roots, new directions, the next block, and when to stop. The others test it before they use it. Blocks
have public widths; columns that are not needed go as zeros, so that the CSP sees the number of steps and no width.
"""

import math
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from fedsvd.errors import NotConverged, VerificationFailed
from fedsvd.linalg.backend import EPS, to_numpy
from fedsvd.linalg.columns import Columns
from fedsvd.linalg.golub_kahan import TOLERANCE, Space, refused, start_block
from fedsvd.linalg.joint_blocks import Block, least_column
from fedsvd.linalg.leading import Ritz
from fedsvd.linalg.signs import signs_of
from fedsvd.linalg.tall import combined, inner, less, scaled, squares
from fedsvd.linalg.verdicts import Search, Verdict, decided, expect_verdict
from fedsvd.linalg.widen import unit
from fedsvd.protocol.directions import (
    CROSS,
    DIRECTION_BITS,
    ROOT,
    USUAL_PASSES,
    first_width,
    kept_by_restart,
    later_width,
    most_directions,
    most_steps,
    reach,
    restarts_after,
    widest_basis,
)
from fedsvd.roles.user.checks import Checked, joint_trace
from fedsvd.roles.user.earlier_steps import Found, Rotation, Steps, agreed_steps, more_normals, start_normals
from fedsvd.roles.user.opening import Opened, orthogonality_of
from fedsvd.roles.user.own_products import OwnSide, own_side
from fedsvd.roles.user.requests import Common, Local, Script
from fedsvd.roles.user.shared import once_in_process
from fedsvd.roles.user.statistics import Prepared, in_data_units, lengths
from fedsvd.roles.user.step_bytes import Restart, Sizes, below, filled, numbers_of, packed, packed_root, read_root
from fedsvd.roles.user.sums import NORM_WIDTH, SPECTRUM_WIDTH, short_sum, total_sum, wide_sum_of_floats
from fedsvd.roles.user.work import Work
from fedsvd.types import Array, Float

_MARGIN = 1.02  # of the longest row: what noise of 500 users takes from its square


@dataclass(frozen=True)
class Searched:
    """How far the order of the vectors was searched for, which is all that is said of it."""

    passes: tuple[int, ...]  # of each block
    directions: int
    start: int

    @property
    def text(self) -> str:
        """In words, for the certificate."""
        return (
            f"found in {len(self.passes)} steps, {self.directions} directions, from {self.start} random ones; that no "
            "other direction holds more is not shown"
        )

    def record(self) -> dict[str, Any]:
        """The same as plain values, for a manifest."""
        return {"steps": len(self.passes), "directions": self.directions, "passes": list(self.passes)}


def open_by_steps(work: Work, prepared: Prepared) -> Script:
    """U and S of the joint matrix, and this user's own vectors, by steps."""
    plan, F1 = work.plan, prepared.F1
    longest, norm = yield Local("lengths", lambda: lengths(work, prepared))
    (length,) = yield from total_sum(plan, "length", np.array([longest]), work.own, NORM_WIDTH)
    trace: float = yield from joint_trace(work, norm, unit(F1))
    power = math.frexp(_MARGIN * min(F1, math.sqrt(max(length, 0.0))))[1]
    normals = start_normals(plan, first_width(plan))
    space = once_in_process(work.memo, "start", (normals, work.device), lambda: Space(work.put(start_block(normals))))
    steps: Steps = yield from agreed_steps(work, prepared, space)
    own = yield Local("lengths", lambda: own_side(work, steps.prepared.A_i))
    own.columns, space, s1, passes = steps.W, steps.space, steps.s1, steps.passes
    search, said = steps.search, steps.said
    for step in count(steps.resumed):
        kept, number = yield from _orthonormal_block(work, space, own, s1, step)
        passes.append(number)
        search = search.seen(space.block.shape[1], kept.shape[1]) if said is Verdict.AFRESH else search
        own_image: Float = yield Local("products", partial(own.image, kept))
        width = first_width(plan) if step == 0 else later_width(plan)
        opened: Float = yield from short_sum(f"step {step}", filled(own_image, width), power, work.own)
        own.add(kept)
        Z = np.ascontiguousarray(opened[:, : kept.shape[1]])
        space = yield Local("ritz values", partial(_grown, work, space, Z))
        ritz: Ritz | None = None
        if search.due(space.count) or restarts_after(plan, step):
            least = kept_by_restart(plan) if restarts_after(plan, step) else 0
            ritz = yield Local("ritz values", partial(_ritz, work, space, least))
            s1, search = ritz.top, search.at(space.count)
            report_residual(work, step, ritz.residual)
        sent: tuple[Float, Float]
        said, space, sent = yield from _decide(work, (search, step), space, ritz, s1)
        if said in (Verdict.FOUND, Verdict.INVARIANT):
            break
        search = search.afresh(step) if said is Verdict.AFRESH else search
        rotation: Rotation | None = None
        if ritz is not None and restarts_after(plan, step):
            space, rotation = yield from _restarted(work, space, ritz, step)
            own.columns = Columns.of(combined(own.W, rotation[0]))
            search = search.at(space.count)
        if steps.file is not None:  # own columns are long, and a device would wait for them
            steps.take(Found(Z, *sent, number, to_numpy(kept), s1, said, search, rotation))
    if ritz is None:
        ritz = yield Local("ritz values", partial(_ritz, work, space))
    U, s, p = yield from _answer(work, space, ritz, said)
    vectors = combined(own.W, p)
    residual, product = yield from _certified(work, own, (U, s, vectors), power)
    found = Searched(tuple(passes), space.seen, search.starts * first_width(plan))
    energy = in_data_units(trace, prepared.E)
    opens = DIRECTION_BITS * plan.m * space.seen
    checked = Checked(found, residual, trace, opens)
    released = np.ldexp(s, prepared.E)
    vectors, product = to_numpy(vectors), np.ldexp(product, prepared.E)
    return Opened(U, released, len(s), residual, orthogonality_of(U), checked, energy, product, vectors)


def report_residual(work: Work, step: int, residual: float) -> None:
    """How far the search is, in digits of the residual, where all roles are in one process.

    Elsewhere progress is told to the CSP, which may know how many steps there were, and nothing of how they converged.
    """
    if work.progress is None or work.memo is None or not 0.0 < residual < 1.0:
        return
    done = min(100, round(100.0 * math.log(residual) / math.log(TOLERANCE)))
    work.progress(f"step {step + 1}, residual {residual:.0e}", done, 100)


def _grown(work: Work, space: Space, Z: Float) -> Space:
    """The space with these images."""
    found: Space = once_in_process(work.memo, "grown", (space, Z), lambda: space.added(work.put(Z)))
    return found


def _ritz(work: Work, space: Space, count: int = 0) -> Ritz:
    """Ritz values of the space, at least this number of them."""
    ritz = partial(space.ritz, work.plan.planned_rank, work.plan.n, count)
    found: Ritz = once_in_process(work.memo, "ritz values", (space,), ritz)
    return found


# --- one step ---------------------------------------------------------------------------------------------------------


def _orthonormal_block(work: Work, space: Space, own: OwnSide, s1: float, step: int) -> Script:
    """This user's rows of the next columns of W, orthonormal over all users and to those before them; and passes."""
    plan, Q = work.plan, space.block
    width = first_width(plan) if step == 0 else later_width(plan)
    before = reach(plan, step) - width
    W: Array = yield Local("directions", lambda: _outside(work, space, own, own.transposed_times(Q)))
    energies = yield from wide_sum_of_floats(f"energies {step}", filled(squares(W)[None], width)[0], work.own)
    block = Block(energies[: W.shape[1]], least_column(s1, Q.shape[1]))
    W = scaled(W, block.scale)
    for number, (cross, root_name) in enumerate(zip(CROSS, ROOT, strict=True), start=1):
        C: Float = yield from _cross(work, f"{cross} {step}", own.W, W, before, width)

        def made(C: Float = C) -> bytes:
            return packed_root(block.done(C), block.propose(C), width)

        content: bytes = yield Common(f"{root_name} {step}", made)
        done, root = read_root(content, W.shape[1], width)
        if not work.leads:
            block.expect(C, root, done)
        W = combined(W if done else less(W, own.W, C[: own.W.shape[1]]), root)
        block.take(root)
        if done and number >= USUAL_PASSES:
            return W, number
    raise refused()


def _outside(work: Work, space: Space, own: OwnSide, W: Array) -> Array:
    """W less what earlier columns have of it, which follows from opened numbers; what is rounding is left to a pass."""
    H = once_in_process(work.memo, "before", (space,), space.before)
    large = np.flatnonzero(np.abs(H).max(axis=1, initial=0.0) > EPS * np.abs(H).max(initial=0.0))
    return less(W, own.W[:, large[0] :], H[large[0] :]) if large.size else W


def _cross(work: Work, name: str, before: Array, W: Array, reach: int, width: int) -> Script:
    """``[W_before W]^T W`` of all users, (d + b, b), as a sum of the planned length."""
    d, b = before.shape[1], W.shape[1]
    own = np.zeros((reach + width, width))
    own[:d, :b] = inner(before, W)
    own[reach : reach + b, :b] = inner(W, W)
    total: Float = yield from total_sum(work.plan, name, own, work.own, SPECTRUM_WIDTH)
    return np.concatenate((total[:d, :b], total[reach : reach + b, :b]))


def _decide(work: Work, at: tuple[Search, int], space: Space, ritz: Ritz | None, s1: float) -> Script:
    """What user 1 says after a step, the space that goes on with it, and the directions of both."""
    plan, r, (search, step) = work.plan, work.plan.planned_rank, at
    sizes, held, later = Sizes.of(plan, step), space.reservoir.shape[1], later_width(plan)
    wanted = ritz if step >= search.until else None  # a search that is not over goes on with what was found last

    def made() -> bytes:
        found = decided(search, step, space, ritz, r, TOLERANCE) is Verdict.FOUND
        N = space.block[:, :0] if found else space.propose_directions(s1)
        larger = space.kept(N)
        said = decided(search, step, larger, ritz, r, TOLERANCE)
        c = np.zeros((0, 0))
        if said is Verdict.GO_ON:
            c = larger.propose_mixture(wanted, r, TOLERANCE, later)
        return sizes.packed(said, to_numpy(N), c)

    content: bytes = yield Common(f"verdict {step}", made)
    said, sent, c = sizes.read(content, held)
    N = once_in_process(work.memo, "sent", (content, work.device), lambda: work.put(sent))

    def accept() -> None:
        larger = space.kept(N)
        if said is not Verdict.FOUND:
            space.expect_directions(N, s1)
        expect_verdict(said, search, step, larger, ritz, r, TOLERANCE)
        if said is Verdict.GO_ON:
            larger.expect_mixture(c, later)

    if not work.leads:
        yield Local("acceptance", lambda: once_in_process(work.memo, "accepted", (space, content), accept))
    if said in (Verdict.FOUND, Verdict.INVARIANT):
        return said, space, (sent, c)
    columns = c.shape[1] if said is Verdict.GO_ON else later
    if step == most_steps(plan) or space.seen + columns > most_directions(plan):
        last = ritz or (yield Local("ritz values", partial(_ritz, work, space)))
        raise NotConverged(
            f"{space.seen} directions in {step + 1} steps, and the residual is {last.residual:.1e}",
            "ask for another number of components: one after which the singular values fall",
        )

    def onward() -> Space:
        larger = space.kept(N)
        if said is Verdict.GO_ON:
            return larger.onward(c)
        return larger.afresh(work.put(more_normals(plan, search.starts)))

    return said, once_in_process(work.memo, "next", (space, content), onward), (sent, c)


def _restarted(work: Work, space: Space, ritz: Ritz, step: int) -> Script:
    """The space of user 1's leading vectors alone, and what it sent."""
    most, sizes = kept_by_restart(work.plan), Restart.of(work.plan)
    content: bytes = yield Common(f"restart {step}", lambda: sizes.packed(*space.propose_restart(ritz, most)))
    p, y, g = sizes.read(content, space.images, space.count, space.reservoir.shape[1])
    if not work.leads:
        expect = partial(space.expect_restart, p, y, g, ritz, most)
        yield Local("acceptance", lambda: once_in_process(work.memo, "accepted restart", (space, content), expect))
    found = once_in_process(work.memo, "restarted", (space, content), partial(space.restarted, p, y, g))
    return found, (p, y, g)


def _answer(work: Work, space: Space, ritz: Ritz, said: Verdict) -> Script:
    """User 1's vectors, values and p, tested by the others on their own Ritz values."""
    m, r, d, most = work.plan.m, work.plan.planned_rank, space.images, widest_basis(work.plan)

    def made() -> bytes:
        found, s, p = space.answer(ritz, r)
        V = to_numpy(found)
        signs = np.asarray(signs_of(V))
        return packed(filled(s[None], r), filled(V * signs, r), filled(below(p * signs, most), r))

    content: bytes = yield Common("answer", made)
    numbers = numbers_of(content)
    s, V, p = numbers[:r], numbers[r : r + m * r].reshape(m, r), numbers[r + m * r :].reshape(most, r)
    rank = int(np.count_nonzero(s))
    s, V, p = s[:rank].copy(), np.ascontiguousarray(V[:, :rank]), np.ascontiguousarray(p[:d, :rank])
    if not work.leads:
        tolerance = TOLERANCE if said is Verdict.FOUND else math.inf

        def accepted() -> None:
            expect = partial(space.expect_answer, work.put(V), s, p, ritz, r, tolerance)
            once_in_process(work.memo, "accepted", (space, content), expect)

        yield Local("acceptance", accepted)
    return V, s, p


def _certified(work: Work, own: OwnSide, found: tuple[Float, Float, Array], power: int) -> Script:
    """The larger of both residuals, relative to s_1, from sums of their own, and ``X_i^T U``.

    Beyond its bound nothing is released.
    """
    (U, s, vectors), plan, r = found, work.plan, work.plan.planned_rank
    image: Float = yield Local("products", lambda: own.image(vectors))
    total: Float = yield from short_sum("images", filled(image, r), power, work.own)
    there: Array = yield Local("directions", lambda: own.transposed_times(work.put(U)))
    rest, product = squares(there - scaled(vectors, s)), to_numpy(there)
    left: Float = yield from wide_sum_of_floats("remainders", filled(rest[None], r)[0], work.own)
    if not len(s):
        return 0.0, product
    images = np.linalg.norm(total[:, : len(s)] - U * s, axis=0).max()
    remainders = math.sqrt(max(float(left[: len(s)].max()), 0.0))
    residual = float(max(images, remainders) / s[0])
    if not residual <= most_residual(plan.m, first_width(plan)):
        raise VerificationFailed("the residual of the singular vectors is beyond its bound", "nothing is released")
    return residual, product


def most_residual(m: int, b: int) -> float:
    """What the iteration ends at, and what columns and directions below rounding, which are left out, may hold."""
    return 2.0 * TOLERANCE + 64.0 * EPS * b + 128.0 * EPS * math.sqrt(m)
