"""Step 3: means and scales across users, exactly, by users-only sums; then A_i, centred and scaled.

With compression, centring costs one cheap sum and no pass: the factor of ``[1, (X_i - shift)^T]`` carries the local
mean. Without it a pass for the means comes first.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.compress.centre import first_mean, row_energy, to_joint_mean, to_unit_variance, unit_scales
from fedsvd.linalg.backend import namespace, to_numpy
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.requests import Local, Script, Sum
from fedsvd.roles.user.work import Dense, Streamed, Work, finite
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Centred:
    """A_i about the joint mean; ``scales`` are the joint deviations where unit variance was asked for."""

    A_i: Operand
    mean: Float
    energy: Float
    scales: Float | None = None


def centred(work: Work, energies: bool = False) -> Script:
    """A_i about the joint mean, with the joint energy of every row when asked for."""
    n = work.plan.n
    if work.plan.compress:
        count, first = yield Local("first mean", lambda: first_mean(work.source))
        total = yield Sum("shift", np.append(count * first, count))
        shift = total[:-1] / total[-1]
        reduced = yield Local("compress", lambda: work.reduce(shift))
        total = yield Sum("mean", work.n_i * (reduced.mean_i - shift))
        mean = shift + total / n
        A_i: Operand = Dense(to_joint_mean(reduced, mean))
    else:
        own = yield Local("means", lambda: _row_sums(work))
        total = yield Sum("mean", own)
        mean = total / n
        A_i = Streamed(work.source, mean, device=work.device)
    if not energies:
        return Centred(A_i, mean, np.zeros(0))
    own = yield Local("variances", lambda: _energy(work, A_i))
    energy = yield Sum("energy", own)
    return Centred(A_i, mean, energy)


def uncentred(work: Work) -> Script:
    """A_i as it is, with the joint energy of every row."""
    if work.plan.compress:
        reduced = yield Local("compress", work.reduce)
        A_i: Operand = Dense(reduced.L_i)
    else:
        A_i = Streamed(work.source, device=work.device)
    own = yield Local("variances", lambda: _energy(work, A_i))
    energy = yield Sum("energy", own)
    return Centred(A_i, np.zeros(work.source.shape[0]), energy)


def scaled(work: Work, about: Centred) -> Centred:
    """The same with every row at unit variance; rows without variance are zero, and stay reported in ``scales``."""
    scales = unit_scales(about.energy, work.plan.n, about.mean)
    if isinstance(about.A_i, Dense):
        A_i: Operand = Dense(to_unit_variance(about.A_i.A_i, scales))
    else:
        inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
        A_i = Streamed(work.source, about.mean, inverse, work.device)
    return Centred(A_i, about.mean, about.energy, scales)


def _row_sums(work: Work) -> Float:
    sums = np.zeros(work.source.shape[0])
    if work.plan.by_rows:
        for part, X in work.row_panels("means"):
            sums[part] = X.sum(axis=1)
        return sums
    for _, X in work.panels("means"):
        sums += to_numpy(namespace(X).sum(X, axis=1))
    return sums


def _energy(work: Work, A_i: Operand) -> Float:
    with np.errstate(over="ignore"):
        if isinstance(A_i, Dense):
            energy = row_energy(A_i.A_i)
        else:
            energy = np.zeros(work.source.shape[0])
            if work.plan.by_rows:
                for part, _ in work.row_panels("variances"):
                    energy[part] = row_energy(A_i.rows(part.start, part.stop))
            else:
                for part, _ in work.panels("variances"):
                    energy += row_energy(A_i.columns(part.start, part.stop))
    finite(energy)
    return energy
