"""SVD and LSA at a user: U, S for all, Vt_i for its owner (steps 2 to 4 of the paper).

``Vt_i = S^-1 U^T X_i`` needs no message, unlike eq. 6. It loses orthogonality like eps S_1 / S_r, so where that
matters one users-only sum ``sum_i Vt_i Vt_i^T = C C^T`` gives the correction ``Vt_i <- C^-1 Vt_i``, and all users'
parts together are orthonormal again to rounding.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.errors import NumericalError
from fedsvd.linalg import backend
from fedsvd.linalg.dense_svd import rank
from fedsvd.masks import blind
from fedsvd.masks.remove import unscale
from fedsvd.protocol.messages import Factors
from fedsvd.protocol.tasks import Item
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.requests import Local, Recover, Script, Signs, Sum
from fedsvd.roles.user.upload import left_vectors, upload
from fedsvd.roles.user.work import Dense, Streamed, Work, joint_norm
from fedsvd.types import Float

# Below this ratio S_1 / S_r, S^-1 U^T X_i is orthonormal to 16 eps as it is, and the sum is spared.
_WELL_CONDITIONED = 16.0


@dataclass(frozen=True, repr=False)
class FactorsResult:
    """What a user holds after SVD or LSA: U (m, r), sigma (r,), its own Vt_i (r, n_i) where released."""

    U: Float
    sigma: Float
    Vt_i: Float | None
    rank: int
    residual: float
    orthogonality: float

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
    Vt_i = None
    if work.plan.releases(Item.OWN_PART):
        if work.plan.published:
            Vt_i = _signed((yield from _recovered(work)), signs)
        else:
            Vt_i = yield from _own_right_vectors(work, U, sigma)
    # Already cut at the rank, but for full_matrices.
    found = rank(sigma, work.plan.m, work.plan.n) if work.plan.full_matrices else len(sigma)
    return FactorsResult(U, sigma, Vt_i, found, factors.residual, factors.orthogonality)


def _signed(Vt_i: Float, signs: Float) -> Float:
    """Rows of Vt_i with the signs of their columns of U; with ``full_matrices`` one of the two has more of them."""
    paired = min(len(signs), len(Vt_i))
    Vt_i[:paired] *= signs[:paired, None]
    return Vt_i


def _operand(work: Work) -> Operand:
    if work.plan.compress and work.n_i > work.source.shape[0]:
        return Dense(work.reduce().L_i)
    return Streamed(work.source, device=work.device)


def _own_right_vectors(work: Work, U: Float, sigma: Float) -> Script:
    Vt_i: Float = yield Local("right vectors", lambda: right_vectors(work, U, sigma))
    r = len(sigma)
    if r == 0 or sigma[0] <= _WELL_CONDITIONED * sigma[-1]:
        return Vt_i
    upper = np.triu_indices(r)
    own: Float = yield Local("orthogonality", lambda: backend.gram(Vt_i)[upper])
    # Entries of V^T V are at most 1, those of one user's part too, but for the rounding that is to be repaired.
    total = yield Sum("orthogonality", own, bound=2.0)
    G = np.zeros((r, r))
    G[upper] = total
    C_t = backend.cholesky(G + np.triu(G, 1).T)
    if C_t is None:
        raise NumericalError("the right singular vectors lost their independence", "ask for fewer components")
    return (yield Local("correction", lambda: backend.solve_triangular(C_t, Vt_i, transposed=True)))


def right_vectors(work: Work, U: Float, sigma: Float) -> Float:
    """``S^-1 U^T X_i``, in one pass over the data."""
    if work.plan.by_rows:
        Vt_i = np.zeros((len(sigma), work.n_i))
        for part, X in work.row_panels("right vectors"):
            Vt_i += backend.to_numpy(work.put((U[part] / sigma).T) @ X)
        return Vt_i
    W = work.put((U / sigma).T)
    Vt_i = np.empty((len(sigma), work.n_i))
    for part, X in work.panels("right vectors"):
        if work.device is None:
            np.matmul(W, X, out=Vt_i[:, part])
        else:
            Vt_i[:, part] = backend.to_numpy(W @ X)
    return Vt_i


def _recovered(work: Work) -> Script:
    """Eq. 6 of the paper, leak and all (C1): Vt_i under a blind, through the CSP."""
    R_i = blind.draw_blind(work.masks.Q, work.i, work.own.derive("R"))
    answer = yield Recover(blind.blind(work.masks.Q, work.i, R_i))
    return blind.unblind(answer, R_i)
