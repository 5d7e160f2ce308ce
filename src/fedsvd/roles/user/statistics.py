"""Step 3: means, the common unit, scales and the joint norm, exactly, by sums; then A_i, centred and scaled.

In the sum family centring costs one sum and no pass: the factor of ``[1, (X_i - s_i)^T]``, s_i this user's own shift,
carries the local mean as an exact pair ``s_i + delta_i``. In the mask family a pass for that pair, and for the rows'
deviations, comes first (``own_mean``). From ``bound`` on everything is in units of 2^E.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import add

import numpy as np

from fedsvd.compress.centre import at_offset, deviations, own_shift, row_energy, row_norms, scales_of
from fedsvd.compress.reduce import Reduced
from fedsvd.errors import ConstantData, FixedPointOverflow, NumericalError
from fedsvd.linalg import backend
from fedsvd.linalg.backend import EPS, namespace, to_numpy
from fedsvd.linalg.solved_columns import SolvedColumns
from fedsvd.protocol.directions import means_in_a_unit
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user.fixed_means import joint_mean
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.requests import SCALE_DOWN, SCALE_UP, Local, Script
from fedsvd.roles.user.shared import once_in_process
from fedsvd.roles.user.stored import stored_entries
from fedsvd.roles.user.streamed import NEAR_ZERO, powers_of_two
from fedsvd.roles.user.sums import NORM_WIDTH, bound_sum, total_sum, wide_sum, wide_sum_of_floats
from fedsvd.roles.user.work import Dense, Streamed, Work
from fedsvd.secagg import noise, wide
from fedsvd.types import Array, Float


@dataclass(frozen=True, repr=False)
class OwnMean:
    """This user's mean of every row as an exact pair, a shift of its own and the rest, and the rows' deviations."""

    shift: Float
    offset: Float
    deviation: Float

    @property
    def mean(self) -> Float:
        """To the nearest number."""
        return self.shift + self.offset

    def norm_about(self, mean: Float, rest: Float, n_i: int) -> float:
        """The norm of this user's n_i records about another mean, from what is known of each row."""
        off = self.shift - mean + self.offset - rest
        return math.sqrt(n_i) * math.hypot(backend.norm(self.deviation), backend.norm(off))

    def exact(self) -> list[int]:
        """``shift + offset`` in units of 2^-1074."""
        return list(map(add, wide.integers(self.shift), wide.integers(self.offset)))


def own_mean(work: Work) -> OwnMean:
    """One pass: sums and squares of every row, less its first entry, which saves the digits of a large mean.

    Of a sparse table what is stored is enough, unless its mean is far from zero.
    """
    rows, n_i = work.source.shape
    if (stored := stored_entries(work)) is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            offset = stored.sums() / n_i
            deviation = np.sqrt(stored.squares_about(offset) / n_i)
        if bool(np.all(np.abs(offset) <= NEAR_ZERO * deviation)):
            return OwnMean(np.zeros(rows), offset, deviation)
    shift, sums, squares = np.empty(rows), np.zeros(rows), np.zeros(rows)

    def of_rows(part: slice, X: Array) -> None:
        shift[part] = to_numpy(X[:, 0])
        with np.errstate(over="ignore", invalid="ignore"):  # a thread does not have its caller's
            sums[part], squares[part] = _moments(X - X[:, :1])

    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        if work.near:
            work.over_rows("means", rows, n_i, lambda part: of_rows(part, work.source.rows(part.start, part.stop)))
        elif work.plan.reads_rows:
            for part, X in work.row_panels("means"):
                of_rows(part, X)
        else:
            for part, X in work.panels("means"):
                if part.start == 0:
                    shift = np.array(to_numpy(X[:, 0]))
                more = _moments(X - work.put(shift[:, None]))
                sums, squares = sums + more[0], squares + more[1]
    if not np.isfinite(squares).all():
        raise beyond_squares()
    offset = sums / n_i
    deviation = np.sqrt(np.maximum(squares / n_i - offset**2, 0.0))
    # A spread that is all rounding counts as none.
    return OwnMean(shift, offset, np.where(deviation**2 > 8 * EPS * offset**2, deviation, 0.0))


def _moments(X: Array) -> tuple[Float, Float]:
    return to_numpy(namespace(X).sum(X, axis=1)), row_energy(X)


def beyond_squares() -> NumericalError:
    """The refusal of data whose squares leave the range of float64."""
    return NumericalError("the squared norm of a table leaves the range of float64", SCALE_DOWN)


def below_squares() -> NumericalError:
    """The refusal of a column that varies, and whose squares are below the range of float64."""
    return NumericalError("a column varies by too little for its squares to be in the range of float64", SCALE_UP)


def expect_squares(deviation: Float) -> None:
    """Refuse rows whose squares, which a table and a choice are made of, are below the range of float64."""
    if np.any((deviation > 0.0) & (deviation < _LEAST)):
        raise below_squares()


_LEAST = 2.0**-500
_USUAL = 2.0**-400, 2.0**400  # norms: squares of these are far from both ends of float64
_LIFT, _NOISE = 2.0**500, 2.0**-1000  # of norms, before they are squared; of sums of these squares
_MOST_EXPONENT = 507  # of a user's norm: squares of the norms of 500 users are then below 2^1024


@dataclass(frozen=True, repr=False)
class Prepared:
    """A_i in units of 2^E, about the joint mean where one was taken; F1 is the joint norm in these units.

    ``scales`` are what rows were divided by, in the data's own units: joint deviations, or powers of two.
    """

    A_i: Operand
    E: int = 0
    F1: float = 0.0
    mean: Float | None = None
    own: "OwnMean | None" = None  # this user's, where one was taken
    energy: Float | None = None  # of every row, all users together, in the data's own units squared
    scales: Float | None = None
    zero: bool = False  # all users' data is zero
    weight: float = 0.0  # of all records together: their number, or the sum of their weights
    log_weights: float = 0.0  # the sum of the logarithms of all weights
    solved: SolvedColumns | None = None  # of X_i, in the data's own units, where they were kept


def centred(work: Work) -> Script:
    """A_i about the joint mean, in the data's own units."""
    plan = work.plan
    if plan.compress:
        weight: JointWeight = yield from joint_weight(work)
        shift = yield Local("first mean", lambda: own_shift(work.source, work.device))
        reduced: Reduced = yield Local("compress", lambda: work.reduce(shift))
        _expect_squares(_size_of([reduced.L_i]))
        assert reduced.shift is not None
        assert reduced.offset_i is not None
        own = OwnMean(reduced.shift, reduced.offset_i, deviations(reduced))
        mean, offset = yield from _joint_mean(work, own, weight)
        work.opened_means(mean)
        A_i = Dense(at_offset(reduced, offset))
        return Prepared(A_i, mean=mean, own=own, weight=weight.total, log_weights=weight.logs)
    own = yield Local("means", lambda: own_mean(work))
    mean, rest = yield from _joint_mean_and_rest(work, own)
    work.opened_means(mean)
    about = Streamed(work.source, mean, device=work.device)
    # Deviations from the joint mean: a column that is zero here, and not elsewhere, has no digit to lose.
    if bool(np.all(np.abs(mean) <= NEAR_ZERO * np.hypot(own.deviation, own.mean - mean))):
        norm = own.norm_about(mean, np.zeros_like(mean), work.n_i)
        return Prepared(replace(about, norm=norm, own_mean=own.mean), mean=mean, own=own)
    # What float64 has no digits for in a large mean is taken off by itself.
    below = rest()
    return Prepared(replace(about, norm=own.norm_about(mean, below, work.n_i), rest=below), mean=mean, own=own)


def _joint_mean_and_rest(work: Work, own: OwnMean) -> Script:
    """The joint mean, and what makes the digits that are below its last one."""
    n = work.plan.n
    if means_in_a_unit(work.plan):
        nothing = np.zeros_like(own.shift)
        norm = own.norm_about(nothing, nothing, work.n_i)
        mean, rest = yield from joint_mean(work, norm, own.shift, own.offset, own.deviation)
        return mean, lambda: rest
    total = yield from _summed_means(work, own)
    mean = wide.rounded(total, n)

    def below() -> Float:
        return wide.rounded([joint - n * high for joint, high in zip(total, wide.integers(mean), strict=True)], n)

    return mean, below


def uncentred(work: Work) -> Script:
    """A_i as it is: the factor of the data, or the data."""
    if work.plan.compress:
        weight: JointWeight = yield from joint_weight(work)
        reduced: Reduced = yield Local("compress", work.reduce)
        A_i = Dense(reduced.L_i)
        return Prepared(A_i, weight=weight.total, log_weights=weight.logs, solved=reduced.solved)
    return Prepared(Streamed(work.source, device=work.device))


@dataclass(frozen=True, repr=False)
class JointWeight:
    """What a mean is divided by: the number of all records, or the sum of their weights, as an exact number."""

    units: int  # of 2^-1074
    total: float
    logs: float  # the sum of the logarithms of all weights


def joint_weight(work: Work) -> Script:
    """The sum of all records' weights, and of their logarithms: their number, where they have none."""
    if work.row_weights is None:
        return JointWeight(work.plan.n << wide.LOWEST, float(work.plan.n), 0.0)
    with np.errstate(divide="ignore"):
        logs = np.log(work.row_weights)
    # Where a weight is zero the likelihood of a row is not defined, and inference is refused before it comes here.
    own = np.array([math.fsum(work.row_weights), math.fsum(logs) if np.isfinite(logs).all() else 0.0])
    widths = [noise.value_width(value) for value in own.tolist()]
    weight, joint_logs = yield from wide_sum("weights", wide.integers(own), widths, work.own)
    return JointWeight(weight, float(wide.rounded([weight])[0]), float(wide.rounded([joint_logs])[0]))


def _joint_mean(work: Work, own: "OwnMean", weight: JointWeight) -> Script:
    """The joint mean, and ``mean_i - mean``, formed exactly and rounded once."""
    joint: list[int] = yield from _summed_means(work, own)
    W, fraction = divmod(weight.units, 1 << wide.LOWEST)
    if fraction:  # of weights; a number of records is whole, and numbers are then half as long
        W, joint = weight.units, [value << wide.LOWEST for value in joint]
    offset = wide.rounded([W * value - each for value, each in zip(own.exact(), joint, strict=True)], W)
    mean: Float = once_in_process(work.memo, f"mean of {W}", (joint,), lambda: wide.rounded(joint, W))
    return mean.copy(), offset


def _summed_means(work: Work, own: OwnMean) -> Script:
    """``sum_i n_i mean_i``, exact but for noise in last digits; n_i is the sum of own weights, where there are some."""
    n_i = work.n_i
    if work.row_weights is None:
        widths = noise.mean_widths(n_i, own.deviation, own.offset)
        return (yield from wide_sum("mean", [n_i * value for value in own.exact()], widths, work.own))
    weight = math.fsum(work.row_weights)
    widths = noise.mean_widths(1, weight * own.deviation, weight * own.offset)
    (units,) = wide.integers(np.array([weight]))
    return (yield from wide_sum("mean", [units * value >> wide.LOWEST for value in own.exact()], widths, work.own))


def in_common_unit(work: Work, prepared: Prepared) -> Script:
    """The same in units of 2^E, the least class of powers of two above every user's norm."""
    size: Size | None = yield Local("norm", lambda: _size(work, prepared.A_i))
    E = yield from bound_sum("bound", None if size is None else size[1], work.own)
    if E is None:
        return replace(prepared, zero=True)
    A_i = times_power(work, prepared.A_i, -E)
    if isinstance(A_i, Streamed):
        A_i = replace(A_i, norm=0.0 if size is None else math.ldexp(size[0], size[1] - E))
    return replace(prepared, A_i=A_i, E=E)


def joint_norms(work: Work, prepared: Prepared) -> Script:
    """The joint norm of every row, in units of 2^E; zero below 2^-1000 of them, or where the mean's noise explains it.

    A user whose own row is not zero there stops: to leave it out as a constant one would be a false result.
    What is added up are squares in units of 2^(2E - 1000): the largest is below 2^1000, and rows that are 2^-950 of it
    (a column in other units, labels around 1e-150) still have all their digits.
    """
    own = yield Local("variances", lambda: _energy(work, prepared.A_i))
    total = yield from wide_sum_of_floats("energy", own, work.own)
    norms: Float = np.where(total < _NOISE, 0.0, np.sqrt(np.maximum(total, 0.0)) / _LIFT)
    mean = 0.0 if prepared.mean is None else np.ldexp(np.abs(prepared.mean), -prepared.E)
    weight = prepared.weight or float(work.plan.n)
    last = 0.0 if prepared.mean is None else math.sqrt(weight) * noise.least_of_means(work.plan.k, weight, prepared.E)
    norms = np.where(norms <= last, 0.0, norms)
    if np.any((norms == 0.0) & (np.sqrt(own) > _LIFT * (8.0 * EPS * math.sqrt(work.n_i) * mean + last))):
        raise below_squares()
    return norms


def at_unit_variance(work: Work, prepared: Prepared, norms: Float) -> Prepared:
    """Every row divided by its joint deviation; rows without variance become zero, and stay so in ``scales``."""
    mean = np.ldexp(prepared.mean if prepared.mean is not None else np.zeros(len(norms)), -prepared.E)
    scales = scales_of(norms, work.plan.n, mean)
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
    # The joint norm is now at most sqrt(n m): a public unit, and no second sum for it.
    unit = math.ceil(math.log2(work.plan.n * work.plan.m) / 2)
    A_i = scaled_rows(work, prepared.A_i, np.ldexp(inverse, -unit))
    return replace(prepared, A_i=A_i, E=unit, scales=np.ldexp(scales, prepared.E))


def with_norm(work: Work, prepared: Prepared) -> Script:
    """The same with the joint norm F1, right to k 2^-18 by its noise."""
    known = prepared.A_i.norm if isinstance(prepared.A_i, Streamed) else None
    own = yield Local("norm", lambda: squared_norm(work, prepared.A_i) if known is None else known**2)
    (total,) = yield from total_sum(work.plan, "norm", np.array([own]), work.own, NORM_WIDTH)
    return replace(prepared, F1=math.sqrt(max(total, 0.0)))


def in_data_units(squared: float, E: int) -> float:
    """A squared norm in units of 2^2E as a float64 in the data's own units, or ``FixedPointOverflow``."""
    try:
        return math.ldexp(squared, 2 * E)
    except OverflowError:
        raise FixedPointOverflow(
            "the squared norm of the joint data is beyond what a float64 holds", SCALE_DOWN
        ) from None


def expect_variance(plan: SessionPlan, prepared: Prepared) -> None:
    """Refuse constant data before anything is opened: its components would be rounding, or nothing at all."""
    rounding = 0.0
    if prepared.mean is not None and prepared.scales is None:
        rounding = math.ldexp(8.0 * EPS * backend.norm(prepared.mean) * math.sqrt(plan.n), -prepared.E)
    varies = prepared.scales is None or bool(prepared.scales.any())
    if prepared.zero or not varies or rounding >= prepared.F1:
        raise ConstantData("no column of the joint table varies", "bring a column that is not the same in all rows")


# --- passes over A_i --------------------------------------------------------------------------------------------------


def times_power(work: Work, A_i: Operand, power: int) -> Operand:
    """A_i times 2^power, exactly but for underflow."""
    if isinstance(A_i, Streamed) and A_i.inverse is None:
        return replace(A_i, power=A_i.power + power, norm=None)
    return _scaled(work, A_i, *powers_of_two(power))


def scaled_rows(work: Work, A_i: Operand, factors: Float) -> Operand:
    """A_i with every row times its factor."""
    return _scaled(work, A_i, factors[:, None])


def _scaled(work: Work, A_i: Operand, *factors: float | Float) -> Operand:
    if isinstance(A_i, Dense):
        A = A_i.A_i
        for factor in factors:
            A = A * (work.put(factor) if isinstance(factor, np.ndarray) else factor)
        return Dense(A)
    assert isinstance(A_i, Streamed)
    inverse = np.ones(work.source.shape[0]) if A_i.inverse is None else A_i.inverse
    for factor in (*powers_of_two(A_i.power), *factors):
        inverse = inverse * np.ravel(factor)
    return replace(A_i, inverse=inverse, power=0, norm=None)


Size = tuple[float, int]  # a norm as ``frexp`` has it: squares of larger ones have no float64


def _size(work: Work, A_i: Operand) -> Size | None:
    """``||A_i||_F``, None for zero."""
    if isinstance(A_i, Streamed) and A_i.norm is not None:
        size = math.frexp(A_i.norm) if A_i.norm else None
    elif isinstance(A_i, Streamed) and A_i.mean is None and (stored := stored_entries(work)):
        size = _size_of(_ldexp(panel.data[None], A_i.power) for _, panel in stored)
    elif isinstance(A_i, Streamed) and A_i.at_once and A_i.mean is None and not A_i.power:
        places = work.long_panels(*work.source.shape)
        size = _size_of(work.source.rows(place.start, place.stop) for place in places)
    else:
        size = _size_of(panels_of(work, A_i))
    return _expect_squares(size)


def _expect_squares(size: Size | None) -> Size | None:
    if size is not None and not size[1] <= _MOST_EXPONENT:
        raise beyond_squares()
    return size


def _size_of(panels: Iterable[Array]) -> Size | None:
    """The norm of all panels together; powers are taken out before squares."""
    exponents, norms = [], []
    for panel in panels:
        plain, power = backend.norm(panel), 0
        if not _USUAL[0] < plain < _USUAL[1]:
            xp = namespace(panel)
            largest = max(float(xp.max(panel)), -float(xp.min(panel))) if panel.shape[0] and panel.shape[1] else 0.0
            if largest == 0.0:
                continue
            power = math.frexp(largest)[1]
            plain = backend.norm(_ldexp(panel, -power))
        norms.append(plain)
        exponents.append(power)
    if not norms:
        return None
    top = max(exponents)
    size = math.hypot(*(math.ldexp(norm, power - top) for norm, power in zip(norms, exponents, strict=True)))
    mantissa, power = math.frexp(size)
    return mantissa, top + power


def _ldexp(A: Array, power: int) -> Array:
    half = power // 2
    return A * math.ldexp(1.0, half) * math.ldexp(1.0, power - half)


def lengths(work: Work, prepared: Prepared) -> tuple[float, float]:
    """The squared norm of the longest row of A_i, and of all rows together, A_i in units of 2^E.

    Where this user's own means are known they say it, and nothing is read, unless deviations are differences of much
    larger squares: those of rows whose first entries are far out.
    """
    own, A_i = prepared.own, prepared.A_i
    if own is not None and isinstance(A_i, Streamed) and A_i.mean is not None:
        scale = np.ones(len(own.shift)) if A_i.inverse is None else A_i.inverse
        for factor in powers_of_two(A_i.power):
            scale = scale * factor
        if backend.norm((own.offset * scale)[None]) <= NEAR_ZERO * backend.norm((own.deviation * scale)[None]):
            off = own.shift - A_i.mean + own.offset - (0.0 if A_i.rest is None else A_i.rest)
            energy = work.n_i * np.square(np.hypot(own.deviation, off) * scale)
            return float(energy.max()), math.fsum(energy.tolist())
    energy = _energy(work, A_i) / _LIFT**2
    return float(energy.max()), math.fsum(energy.tolist())


def squared_norm(work: Work, A_i: Operand) -> float:
    """``||A_i||_F^2``, A_i in units of 2^E."""
    return math.fsum(backend.norm(panel) ** 2 for panel in panels_of(work, A_i))


def panels_of(work: Work, A_i: Operand) -> Iterable[Array]:
    """A_i in panels along the side by which it will go up, which is the one it is read along."""
    if isinstance(A_i, Dense):
        return [A_i.A_i]
    plan = work.plan
    width = work.n_i if isinstance(A_i, Streamed) else plan.widths[work.i]  # the latter with a ridge's columns
    length, across, read = (plan.M, width, A_i.rows) if plan.reads_rows else (width, plan.M, A_i.columns)
    step = work.panel(across)
    return (read(start, min(start + step, length)) for start in range(0, length, step))


def _energy(work: Work, A_i: Operand) -> Float:
    if isinstance(A_i, Dense):
        return _lifted(A_i.A_i)
    rows, n_i = work.source.shape
    energy = np.zeros(rows)
    if isinstance(A_i, Streamed) and A_i.rest is None and (stored := stored_entries(work)):
        scale = np.ones(rows) if A_i.inverse is None else A_i.inverse
        for factor in (*powers_of_two(A_i.power), _LIFT):
            scale = scale * factor
        return stored.squares_about(0.0 if A_i.mean is None else A_i.mean, scale)

    def of_rows(part: slice) -> None:
        energy[part] = _lifted(A_i.rows(part.start, part.stop))

    if work.near or work.plan.reads_rows:
        work.over_rows("variances", rows, n_i, of_rows)
        return energy
    for panel in panels_of(work, A_i):
        energy += _lifted(panel)
    return energy


def _lifted(A: Array) -> Float:
    """The squared norm of every row, in units of 2^-1000."""
    return np.square(row_norms(A) * _LIFT)
