"""SVD and LSA at a user: U, S for all, Vt_i for its owner.

Vt_i is made locally (``right_vectors.py``); eq. 6, through the CSP, is for the paper's own scheme.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.errors import NumericalError
from fedsvd.linalg.dense_svd import rank
from fedsvd.masks import blind
from fedsvd.protocol.tasks import Item
from fedsvd.roles.user.checks import Checked
from fedsvd.roles.user.opening import Opened, open_factors, rest_in_zeros
from fedsvd.roles.user.requests import Recover, Script
from fedsvd.roles.user.right_vectors import Verified, own_vectors
from fedsvd.roles.user.statistics import Prepared, in_common_unit, uncentred, with_norm
from fedsvd.roles.user.upload import open_masked
from fedsvd.roles.user.work import Work
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class FactorsResult:
    """What a user holds after SVD or LSA: U (m, r), sigma (r,), its own Vt_i (r, n_i) where released."""

    U: Float
    sigma: Float
    Vt_i: Any  # an array, what its sink made of it, or None
    rank: int
    residual: float
    orthogonality: float
    verified: Verified | None = None  # what was measured of Vt_i
    checked: Checked | None = None  # what was verified of the CSP's answer
    total_energy: float | None = None  # the squared joint norm, where it is known

    def __repr__(self) -> str:
        return f"FactorsResult(U={self.U.shape}, rank={self.rank})"


def script(work: Work) -> Script:
    """Compress or mask, add up, open; agree on signs and orthogonality."""
    plan = work.plan
    prepared: Prepared = yield from in_common_unit(work, (yield from uncentred(work)))
    if prepared.zero:
        yield from rest_in_zeros(work, "bound", 8 * (plan.M + 1) * plan.planned_rank)
        return FactorsResult(np.zeros((plan.m, 0)), np.zeros(0), np.zeros((0, work.n_i)), 0, 0.0, 0.0)
    prepared = yield from with_norm(work, prepared)
    opened: Opened = yield from (open_factors if plan.compress else open_masked)(work, prepared)
    solved = prepared.solved
    del prepared  # what was compressed is as large as anything that follows
    U, sigma = opened.U, opened.sigma
    if sigma is None:
        raise NumericalError("an SVD releases its singular values", "list the spectrum in the release")
    Vt_i, verified = None, None
    if plan.releases(Item.OWN_PART):
        if plan.published:
            Vt_i = _signed((yield from _recovered(work)), opened.signs)
        else:
            own = yield from own_vectors(work, U, sigma, opened.product, solved)
            Vt_i, verified = own.Vt_i, own.verified
    # Already cut at the rank, but for full_matrices.
    found = rank(sigma, plan.m, plan.n) if plan.full_matrices else len(sigma)
    quality = opened.residual, opened.orthogonality
    return FactorsResult(U, sigma, Vt_i, found, *quality, verified, opened.checked, opened.total_energy)


def _signed(Vt_i: Float, signs: Float | None) -> Float:
    """Rows of Vt_i with the signs of their columns of U; with ``full_matrices`` one of the two has more of them."""
    if signs is None:
        return Vt_i
    paired = min(len(signs), len(Vt_i))
    Vt_i[:paired] *= signs[:paired, None]
    return Vt_i


def _recovered(work: Work) -> Script:
    """Eq. 6 of the paper, leak and all (C1): Vt_i under a blind, through the CSP."""
    R_i = blind.draw_blind(work.masks.Q, work.i, work.own.derive("R"))
    answer = yield Recover(blind.blind(work.masks.Q, work.i, R_i))
    return blind.unblind(answer, R_i)
