"""SVD and LSA at a user: U, S for all, Vt_i for its owner (steps 2 to 4 of the paper).

Vt_i is made at home (``right_vectors.py``); eq. 6, through the CSP, is for the paper's own scheme.
"""

from dataclasses import dataclass
from typing import Any

from fedsvd.errors import NumericalError
from fedsvd.linalg.dense_svd import rank
from fedsvd.masks import blind
from fedsvd.masks.remove import unscale
from fedsvd.protocol.messages import Factors
from fedsvd.protocol.tasks import Item
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.requests import Local, Recover, Script, Signs
from fedsvd.roles.user.right_vectors import Verified, own_vectors
from fedsvd.roles.user.upload import left_vectors, upload
from fedsvd.roles.user.work import Dense, Streamed, Work, joint_norm
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class FactorsResult:
    """What a user holds after SVD or LSA: U (m, r), sigma (r,), its own Vt_i (r, n_i) where released."""

    U: Float
    sigma: Float
    Vt_i: Any  # an array, what its keeper made of it, or None
    rank: int
    residual: float
    orthogonality: float
    verified: Verified | None = None  # what was measured of Vt_i

    def __repr__(self) -> str:
        return f"FactorsResult(U={self.U.shape}, rank={self.rank})"


def script(work: Work) -> Script:
    """Compress, mask, upload; take the masks off; agree on orthogonality and signs."""
    A_i: Operand = yield Local("compress", lambda: _operand(work))
    F = yield from joint_norm(work, A_i)
    request = upload(work, A_i, F)
    del A_i  # what was compressed is as large as anything that follows
    factors: Factors = yield request
    U = yield from left_vectors(work, factors)
    if factors.sigma_scaled is None:
        raise NumericalError("the CSP withheld the spectrum of an SVD")
    sigma = unscale(factors.sigma_scaled, work.masks.c)
    # Signs first: they are decided on U alone, and Vt_i follows U without another pass over it.
    signs = yield Signs(U)
    U *= signs
    Vt_i, verified = None, None
    if work.plan.releases(Item.OWN_PART):
        if work.plan.published:
            Vt_i = _signed((yield from _recovered(work)), signs)
        else:
            own = yield from own_vectors(work, U, sigma)
            Vt_i, verified = own.Vt_i, own.verified
    # Already cut at the rank, but for full_matrices.
    found = rank(sigma, work.plan.m, work.plan.n) if work.plan.full_matrices else len(sigma)
    return FactorsResult(U, sigma, Vt_i, found, factors.residual, factors.orthogonality, verified)


def _signed(Vt_i: Float, signs: Float) -> Float:
    """Rows of Vt_i with the signs of their columns of U; with ``full_matrices`` one of the two has more of them."""
    paired = min(len(signs), len(Vt_i))
    Vt_i[:paired] *= signs[:paired, None]
    return Vt_i


def _operand(work: Work) -> Operand:
    if work.plan.compress and work.n_i > work.source.shape[0]:
        return Dense(work.reduce().L_i)
    return Streamed(work.source, device=work.device)


def _recovered(work: Work) -> Script:
    """Eq. 6 of the paper, leak and all (C1): Vt_i under a blind, through the CSP."""
    R_i = blind.draw_blind(work.masks.Q, work.i, work.own.derive("R"))
    answer = yield Recover(blind.blind(work.masks.Q, work.i, R_i))
    return blind.unblind(answer, R_i)
