"""Eq. 6 of the paper: user i recovers Vt_i through the CSP under a blind R_i.

    [Q_i^T]^R = Q_i^T R_i,    [Vt_i]^R = Vt' [Q_i^T]^R,    Vt_i = [Vt_i]^R R_i^-1

R_i is block-diagonal, one block for each of the user's slices of Q, so every product stays blockwise. It is Haar
here: a uniform R_i has condition numbers near 1e5 and leaks ``Q^T 1``. No R_i helps against the real leak (C1): the
column space of [Q_i^T]^R is that of Q_i^T, which hands the CSP the share P X_i Q_i of every user. Only the ``paper``
scheme sends this message, with a warning; the others compute Vt_i locally.
"""

from dataclasses import dataclass

from fedsvd.errors import ShapeError
from fedsvd.linalg.backend import namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.masks.orthogonal import orthogonal
from fedsvd.masks.right import DealtRightMask, RightMask
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array


@dataclass(frozen=True, repr=False)
class Blind:
    """R_i, one Haar block to each slice of Q that user i holds; None where it holds no column of a window."""

    blocks: tuple[Orthogonal | None, ...]

    def __repr__(self) -> str:
        return f"Blind(blocks={len(self.blocks)})"


def draw_blind(Q: RightMask | DealtRightMask, i: int, seed: Seed) -> Blind:
    """A fresh R_i for user i's slices of Q."""
    sizes = [window.columns[i].stop - window.columns[i].start for window in Q.windows]
    return Blind(
        tuple(
            orthogonal(size, Keystream(seed.derive("blind", w)), Q.on) if size else None for w, size in enumerate(sizes)
        )
    )


def blind(Q: RightMask | DealtRightMask, i: int, R_i: Blind) -> tuple[Array | None, ...]:
    """``[Q_i^T]^R``, window by window: blocks (window width, own columns)."""
    if len(R_i.blocks) != len(Q.windows):
        raise ShapeError(f"R_i has {len(R_i.blocks)} blocks, Q has {len(Q.windows)} windows")
    blocks: list[Array | None] = []
    for w, R_iw in enumerate(R_i.blocks):
        if R_iw is None:
            blocks.append(None)
            continue
        Q_iw = Q.rows(w, i)
        blocks.append(R_iw.right(namespace(Q_iw).matrix_transpose(Q_iw)))
    return tuple(blocks)


def unblind(Vt_i_blinded: tuple[Array | None, ...], R_i: Blind) -> Array:
    """``[Vt_i]^R R_i^-1``: user i's own Vt_i, (r, n_i)."""
    parts = [
        R_iw.right_t(block)
        for block, R_iw in zip(Vt_i_blinded, R_i.blocks, strict=True)
        if block is not None and R_iw is not None
    ]
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=1)
