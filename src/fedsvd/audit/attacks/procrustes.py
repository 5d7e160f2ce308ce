"""Known plaintext: a CSP that knows some of the data beforehand.

Under block masks ``Y_ab = P_a X_ab Q_b``. Who knows the b columns behind one window (or the rows behind one block)
compares the singular vectors of both sides: they differ by P_a, Q and a sign for each vector. Q is the same for all row
blocks, so two of them fix the signs, then Q, then every P_a: all of P. One known tile gives P_a and Q_b up to those
signs. Under haar and mixing masks no tile of Y belongs to a tile of X, and the same arithmetic gives noise.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.audit.attacks.unmix import Cuts, polar
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class KnownColumns:
    """Prior knowledge: these columns of X, all rows of them, stand behind this window of Y's columns."""

    X: Float
    window: slice


@dataclass(frozen=True, repr=False)
class KnownTile:
    """Prior knowledge: this tile of X stands behind row block ``a`` and column block ``b``."""

    X: Float
    a: int
    b: int


def from_known_columns(Y: Float, cuts: Cuts, known: KnownColumns) -> Float:
    """``P^T Y``: the left mask taken off all parties' columns, with what one window of known columns gives away."""
    inside = slice(known.window.start, known.window.start + known.X.shape[1])
    mine = [np.linalg.svd(known.X[rows]) for rows in cuts.rows]
    theirs = [np.linalg.svd(Y[rows, inside]) for rows in cuts.rows]
    second = min(1, len(mine) - 1)
    alike = (mine[second][2] @ mine[0][2].T) * (theirs[second][2] @ theirs[0][2].T)
    signs = np.where(np.linalg.svd(alike)[2][0] < 0.0, -1.0, 1.0)
    Q = (mine[0][2].T * signs) @ theirs[0][2]
    blocks = [polar((Y[rows, inside] @ Q.T) @ np.linalg.pinv(known.X[rows])) for rows in cuts.rows]
    return np.concatenate([P_a.T @ Y[rows] for P_a, rows in zip(blocks, cuts.rows, strict=True)])


def from_known_rows(Y: Float, cuts: Cuts, known: KnownColumns) -> Float:
    """``Y Q^T`` from the rows behind one row block, given as columns of the transposed data."""
    return from_known_columns(Y.T, cuts.transposed, known).T


def from_known_tile(Y: Float, cuts: Cuts, known: KnownTile) -> tuple[Float, Float]:
    """``(P_a U, V^T Q_b)`` for the tile's own singular vectors U, V: both masks but for one sign to each vector."""
    U, _, Vt = np.linalg.svd(Y[cuts.rows[known.a], cuts.columns[known.b]], full_matrices=False)
    return U, Vt
