"""Q_i as a user holds it, and eq. 6 of the paper: user i recovers Vt_i through the CSP under a blind R_i.

    [Q_i^T]^R = Q_i^T R_i,    [Vt_i]^R = Vt' [Q_i^T]^R,    Vt_i = [Vt_i]^R R_i^-1

R_i is block-diagonal, one block for each of the user's slices of Q, so every product stays blockwise. It is Haar
here: a uniform R_i has condition numbers near 1e5 and leaks ``Q^T 1``. No R_i helps against the real leak (C1): the
column space of [Q_i^T]^R is that of Q_i^T, which hands the CSP the share P X_i Q_i of every user.
"""

from collections.abc import Mapping

from fedsvd.linalg.householder import Reflectors
from fedsvd.masks.orthogonal import orthogonal
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float

Slices = Mapping[int, Float]
"""Q_iw, (own columns, width of the block), by the number of the block; none where the user has no column."""


def draw_blind(slices: Slices, seed: Seed) -> dict[int, Reflectors]:
    """A fresh R_i: one Haar block to each slice."""
    return {w: orthogonal(len(Q_iw), Keystream(seed.derive("blind", w))) for w, Q_iw in slices.items()}


def blind(slices: Slices, R_i: Mapping[int, Reflectors]) -> tuple[Float, ...]:
    """``[Q_i^T]^R``, block by block: (width of the block, own columns)."""
    return tuple(R_i[w].right(Q_iw.T) for w, Q_iw in slices.items())


def unblind(blinded: tuple[Float, ...], R_i: Mapping[int, Reflectors]) -> list[Float]:
    """``[Vt_i]^R R_i^-1``, block by block: user i's own Vt_i, (r, own columns)."""
    return [R_iw.right_t(block) for block, R_iw in zip(blinded, R_i.values(), strict=True)]
