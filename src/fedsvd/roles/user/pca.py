"""PCA at a user: the mean and the components for all, its scores for each (section 4 of the paper, C9).

The paper's users hold normalised data; here nobody can centre alone, so step 3 comes first. The spectrum is released
only where the plan says so: with it, and two users, each could compute the other's Gram matrix (C12).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.errors import ConstantData
from fedsvd.linalg.backend import EPS, norm, to_numpy
from fedsvd.masks.remove import unscale
from fedsvd.protocol.messages import Factors
from fedsvd.protocol.tasks import Item
from fedsvd.roles.user.requests import Local, Script, Signs
from fedsvd.roles.user.right_vectors import InMemory, Keep, Nowhere
from fedsvd.roles.user.statistics import Centred, centred, scaled
from fedsvd.roles.user.upload import left_vectors, upload
from fedsvd.roles.user.work import Work, joint_norm
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class PCAResult:
    """What a user holds after PCA: mean (m,), U (m, r), own scores (n_i, r); the spectrum where released."""

    mean: Float
    U: Float
    sigma: Float | None
    scores_i: Any  # an array (n_i, r), what its keeper made of it, or None
    scales: Float | None
    total_energy: float  # sum of all squared centred entries, the users' own statistic
    rank: int
    residual: float
    orthogonality: float

    def __repr__(self) -> str:
        return f"PCAResult(U={self.U.shape}, rank={self.rank})"


def script(work: Work) -> Script:
    """Centre, mask, upload; take the masks off; agree on signs; score one's own data."""
    about: Centred = yield from centred(work, energies=work.plan.unit_variance)
    if work.plan.unit_variance:
        about = scaled(work, about)
    F = yield from joint_norm(work, about.A_i)
    _expect_variance(work, about, F)
    request, mean, scales = upload(work, about.A_i, F), about.mean, about.scales
    del about  # A_i, where it was compressed, is as large as anything that follows
    factors: Factors = yield request
    U = yield from left_vectors(work, factors)
    U *= yield Signs(U)
    sigma = None if factors.sigma_scaled is None else unscale(factors.sigma_scaled, work.masks.c)
    scores_i = None
    if work.plan.releases(Item.OWN_PART) and not isinstance(work.keep, Nowhere):
        scores_i = yield Local("scores", lambda: scores(work, mean, scales, U))
    quality = factors.residual, factors.orthogonality
    return PCAResult(mean, U, sigma, scores_i, scales, F * F, U.shape[1], *quality)


def _expect_variance(work: Work, about: Centred, F: float) -> None:
    """Refuse constant data before it is uploaded: its components would be rounding, or nothing at all."""
    rounding = 0.0 if work.plan.unit_variance else 8.0 * EPS * norm(about.mean) * work.plan.n**0.5
    if rounding >= F:
        raise ConstantData("no column of the joint table varies", "PCA needs a column that is not the same in all rows")


def scores(work: Work, mean: Float, scales: Float | None, U: Float) -> Any:
    """``(X_i - mean)^T U``, rows scaled first where unit variance was asked for; one pass over the data."""
    W = U if scales is None else U * _inverse(scales)[:, None]
    keep: Keep = work.keep or InMemory()
    keep.open(U.shape[1], work.n_i)
    if work.plan.by_rows:
        keep.put(_scores_by_rows(work, mean, W).T)
    else:
        W, centre = work.put(W), work.put(mean[:, None])
        for _, X in work.panels("scores"):
            # Centred before the product: with a large mean the difference of two products would cancel.
            keep.put(to_numpy((X - centre).T @ W).T)
    kept = keep.close()
    return kept.T if isinstance(kept, np.ndarray) else kept


def _scores_by_rows(work: Work, mean: Float, W: Float) -> Float:
    out = np.zeros((work.n_i, W.shape[1]))
    for part, X in work.row_panels("scores"):
        out += to_numpy((X - work.put(mean[part, None])).T @ work.put(W[part]))
    return out


def _inverse(scales: Float) -> Float:
    return np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
