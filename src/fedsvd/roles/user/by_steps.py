"""The family ``steps`` at a user: the top of the joint matrix by sums of products with a few directions at a time.

Every user holds the same directions K and images Z, and at home its own rows of the orthonormal columns W
(``linalg.golub_kahan``; here X_i is (m, n_i), so that W has a row for each of this user's columns). A step makes a
block orthonormal over all users by sums of products, opens its image ``sum_i X_i W_i`` in short words, and user 1 sends
what follows: roots, new directions, the next block, and when to stop. The others test it before they use it. Blocks
have public widths; columns that are not needed go as zeros, so that the CSP sees the number of steps and no width.
"""

import math
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np

from fedsvd.linalg.backend import EPS, to_numpy
from fedsvd.linalg.columns import Columns
from fedsvd.linalg.golub_kahan import Space, refused, start_block
from fedsvd.linalg.joint_blocks import Block, least_column
from fedsvd.linalg.leading import Ritz
from fedsvd.linalg.tall import combined, inner, less, scaled, squares
from fedsvd.linalg.verdicts import Outlook, Search, Verdict, Wanted, decided, expect_verdict
from fedsvd.linalg.widen import unit
from fedsvd.protocol.directions import (
    CROSS,
    ROOT,
    USUAL_PASSES,
    direction_bits,
    first_width,
    kept_by_restart,
    later_width,
    most_directions,
    most_steps,
    reach,
    restarts_after,
    tolerance_of,
    word_step,
)
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import share_in
from fedsvd.roles.user.checks import Checked, joint_trace
from fedsvd.roles.user.earlier_steps import Found, Rotation, Steps, agreed_steps, more_normals, start_normals
from fedsvd.roles.user.opening import Opened, orthogonality_of
from fedsvd.roles.user.own_products import OwnSide, own_side
from fedsvd.roles.user.requests import Common, Local, Script
from fedsvd.roles.user.shared import once_in_process
from fedsvd.roles.user.statistics import Prepared, in_data_units, lengths
from fedsvd.roles.user.step_bytes import Restart, Sizes, filled, packed_root, read_root
from fedsvd.roles.user.steps_answer import Searched, answered, certified, not_converged
from fedsvd.roles.user.sums import NORM_WIDTH, SPECTRUM_WIDTH, short_sum, total_sum, wide_sum_of_floats
from fedsvd.roles.user.work import Work
from fedsvd.types import Array, Float

_MARGIN = 1.02  # of the longest row: what noise of 500 users takes from its square


def open_by_steps(work: Work, prepared: Prepared) -> Script:
    """U and S of the joint matrix, and this user's own vectors, by steps."""
    plan, F1 = work.plan, prepared.F1
    longest, norm = yield Local("lengths", lambda: lengths(work, prepared))
    (length,) = yield from total_sum(plan, "length", np.array([longest]), work.own, NORM_WIDTH)
    trace: float = yield from joint_trace(work, norm, unit(F1))
    wanted = _wanted(plan, trace)
    power = math.frexp(_MARGIN * min(F1, math.sqrt(max(length, 0.0))))[1]

    def started() -> Space:
        return Space(work.put(start_block(start_normals(plan, first_width(plan)))), wanted.tolerance)

    space = once_in_process(work.memo, "start", (plan.digest.encode(), work.device), started)
    steps: Steps = yield from agreed_steps(work, prepared, space)
    own = yield Local("lengths", lambda: own_side(work, steps.prepared.A_i))
    own.columns, space, s1, passes = steps.W, steps.space, steps.s1, steps.passes
    search, said, outlook = steps.search, steps.said, Outlook()
    for step in count(steps.resumed):
        kept, number = yield from _orthonormal_block(work, space, own, s1, step)
        passes.append(number)
        search = search.seen(space.block.shape[1], kept.shape[1]) if said is Verdict.AFRESH else search
        own_image: Float = yield Local("products", partial(own.image, kept))
        width = first_width(plan) if step == 0 else later_width(plan)
        sent_words = word_step(plan), work.masks.each
        opened: Float = yield from short_sum(f"step {step}", filled(own_image, width), power, work.own, *sent_words)
        own.add(kept)
        Z = np.ascontiguousarray(opened[:, : kept.shape[1]])
        space = yield Local("ritz values", partial(_grown, work, space, Z))
        ritz: Ritz | None = None
        due = search.due(space.count, wanted.least) or restarts_after(plan, step) or _is_last(plan, space, step)
        if due or (work.leads and step >= search.until and outlook.ends(step, wanted.tolerance)):
            exactly = kept_by_restart(plan) if restarts_after(plan, step) else plan.planned_rank - wanted.least
            ritz = yield Local("ritz values", partial(_ritz, work, space, exactly))
            outlook = outlook.after(step, ritz.residual(wanted.count(ritz.s)))
            report_residual(work, step, ritz, wanted)
        if due and ritz is not None:  # what all users know: user 1 may look more often
            s1, search = ritz.top, search.at(space.count)
        sent: tuple[Float, Float]
        said, space, ritz, sent = yield from _decide(work, (search, step, wanted), space, ritz, s1)
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
        ritz = yield Local("ritz values", partial(_ritz, work, space, plan.planned_rank))
    if said is Verdict.INVARIANT:
        if wanted.range(ritz.s)[0] > wanted.most:
            raise not_converged(plan, space.seen, step, ritz, wanted)
        wanted = replace(wanted, tolerance=math.inf)
    U, s, p = yield from answered(work, space, ritz, wanted)
    vectors = combined(own.W, p)
    residual, product = yield from certified(work, own, (U, s, vectors), power)
    found = Searched(tuple(passes), space.seen, search.starts * first_width(plan), tolerance_of(plan))
    energy = in_data_units(trace, prepared.E)
    opens = direction_bits(plan) * plan.m * space.seen
    checked = Checked(found, residual, trace, opens)
    released = np.ldexp(s, prepared.E)
    vectors, product = to_numpy(vectors), np.ldexp(product, prepared.E)
    return Opened(U, released, len(s), residual, orthogonality_of(U), checked, energy, product, vectors)


def _wanted(plan: SessionPlan, trace: float) -> Wanted:
    """What is searched for, where this is the sum of all squares."""
    share = share_in(plan.components_by)
    return Wanted(plan.planned_rank, 0.0 if share is None else share * trace, tolerance_of(plan))


def report_residual(work: Work, step: int, ritz: Ritz, wanted: Wanted) -> None:
    """How far the search is, in digits of the residual, where all roles are in one process.

    Elsewhere the CSP sees progress. It may know how many steps there were, and nothing of how they converged.
    """
    residual = ritz.residual(wanted.count(ritz.s))
    if work.progress is None or work.memo is None or not 0.0 < residual < 1.0:
        return
    done = min(100, round(100.0 * math.log(residual) / math.log(wanted.tolerance)))
    work.progress(f"step {step + 1}, residual {residual:.0e}", done, 100)


def _grown(work: Work, space: Space, Z: Float) -> Space:
    """The space with these images."""
    found: Space = once_in_process(work.memo, "grown", (space, Z), lambda: space.added(work.put(Z)))
    return found


def _ritz(work: Work, space: Space, count: int = 0) -> Ritz:
    """Ritz values of the space; at least ``count`` in all digits, whatever the residual, where that is not 0."""
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
        if done and number >= USUAL_PASSES:
            return W, number
        block.take(root)
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


def _is_last(plan: SessionPlan, space: Space, step: int) -> bool:
    """Whether no step may follow, so that the search is over with what is known now."""
    return step == most_steps(plan) or space.seen >= most_directions(plan)


def _decide(work: Work, at: tuple[Search, int, Wanted], space: Space, ritz: Ritz | None, s1: float) -> Script:
    """What user 1 says after a step, the space that goes on with it, Ritz values, and the directions of both."""
    plan, (search, step, wanted) = work.plan, at
    sizes, held, later = Sizes.of(plan, step), space.reservoir.shape[1], later_width(plan)
    left = most_directions(plan) - space.seen  # directions that may still be opened
    most = min(later, max(left, 1))  # in one block
    leads = ritz if step >= search.until else None  # a search that is not over goes on with what was found last

    def made() -> bytes:
        found = decided(search, step, space, ritz, wanted) is Verdict.FOUND
        N = space.block[:, :0] if found else space.propose_directions(s1)
        larger = space.kept(N)
        said = decided(search, step, larger, ritz, wanted)
        c = np.zeros((0, 0))
        if said is Verdict.GO_ON:
            r = plan.planned_rank if leads is None else wanted.count(leads.s)
            c = larger.propose_mixture(leads, r, wanted.tolerance, most)
        return sizes.packed(said, to_numpy(N), c)

    content: bytes = yield Common(f"verdict {step}", made)
    said, sent, c = sizes.read(content, held)
    N = once_in_process(work.memo, "sent", (content, work.device), lambda: work.put(sent))
    if ritz is None and not work.leads and said in (Verdict.FOUND, Verdict.AFRESH):  # user 1 may have looked alone
        ritz = yield Local("ritz values", partial(_ritz, work, space, plan.planned_rank - wanted.least))

    def accept() -> None:
        larger = space.kept(N)
        if said is not Verdict.FOUND:
            space.expect_directions(N, s1)
        expect_verdict(said, search, step, larger, ritz, wanted)
        if said is Verdict.GO_ON:
            larger.expect_mixture(c, most)

    if not work.leads:
        yield Local("acceptance", lambda: once_in_process(work.memo, "accepted", (space, content), accept))
    if said in (Verdict.FOUND, Verdict.INVARIANT):
        return said, space, ritz, (sent, c)
    if step == most_steps(plan) or left < (1 if said is Verdict.GO_ON else later):
        last = ritz or (yield Local("ritz values", partial(_ritz, work, space)))
        raise not_converged(plan, space.seen, step, last, wanted)

    def onward() -> Space:
        larger = space.kept(N)
        if said is Verdict.GO_ON:
            return larger.onward(c)
        return larger.afresh(work.put(more_normals(plan, search.starts)))

    return said, once_in_process(work.memo, "next", (space, content), onward), ritz, (sent, c)


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
