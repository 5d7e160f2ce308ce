"""What the CSP reads from data under the paper's own masks: four attacks, each with its correction (C1, C4, C8, C10).

A column of ones and bare labels (C8, C10). Such a column has the same norm in every row block, and P preserves norms:
with ``q`` the direction of that column among the window's, ``|Y_a q|^2`` is the size of block a for every a, which is
linear in ``q q^T``. Labels as ``P y`` have their norm in every block: for labels 0 and 1 that is the number of ones.

Tiles (C4). Block masks leave every tile's singular values, empty tiles and the order of the records in plain sight.
``P_a X_ab Q_b`` has the singular values of ``X_ab``. So a tile of zeros is a tile of zeros, and windows whose records
are alike have spectra that are alike: clustering them finds where a sorted table changes.

Known plaintext, for a CSP that knows some of the data beforehand. Under block masks ``Y_ab = P_a X_ab Q_b``. A CSP that
knows the b columns behind one window (or the rows behind one block) compares the singular vectors of both sides: they
differ by P_a, Q and a sign for each vector. Q is the same for all row blocks, so two of them fix the signs, then Q,
then every P_a: all of P. One known tile gives P_a and Q_b up to those signs. Under haar and mixing masks no tile of Y
belongs to a tile of X, and the same arithmetic gives noise.

Equation 6 undoes secure aggregation (C1). For V the paper's users send ``Q_i^T R_i``. Whatever R_i is, the column space
of that is the column space of Q_i^T, and ``X' Q_i^T Q_i`` is user i's own share: the CSP projects the sum and has what
aggregation was to hide.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.audit.attacks.unmix import Cuts, polar
from fedsvd.errors import ConfigError
from fedsvd.types import Float
from fedsvd_lab.published.play import Seen


def constant_direction(Y: Float, blocks: Sequence[slice]) -> Float:
    """P 1 up to sign and scale, from the columns of Y, (rows, width), among which it is mixed."""
    width = Y.shape[1]
    upper = np.triu_indices(width)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    equations = np.array([(Y[rows].T @ Y[rows])[upper] * twice for rows in blocks])
    answers = np.array([float(rows.stop - rows.start) for rows in blocks])
    outer = np.zeros((width, width))
    outer[upper] = np.linalg.lstsq(equations, answers, rcond=None)[0]
    strengths, directions = np.linalg.eigh(outer + np.triu(outer, 1).T)
    found: Float = Y @ directions[:, np.argmax(np.abs(strengths))]
    return found


def cosine(found: Float, true: Float) -> float:
    """|cos| of the angle between two vectors."""
    return abs(float(found @ true)) / float(np.linalg.norm(found) * np.linalg.norm(true))


def label_counts(y_masked: Float, blocks: Sequence[slice]) -> Float:
    """How many labels of 0 and 1 are 1 in every row block, from ``c P y``, but for one factor common to all blocks."""
    return np.array([float(np.sum(y_masked[rows] ** 2)) for rows in blocks])


_EMPTY = 1e-9
_KEPT = 8  # singular values of a tile that the clustering looks at


def tile_spectra(Y: Float, cuts: Cuts) -> Float:
    """The singular values of every tile, (row blocks, column blocks, widest), padded with zeros."""
    widest = max(block.stop - block.start for side in (cuts.rows, cuts.columns) for block in side)
    found = np.zeros((len(cuts.rows), len(cuts.columns), widest))
    for a, rows in enumerate(cuts.rows):
        for b, columns in enumerate(cuts.columns):
            values = np.linalg.svd(Y[rows, columns], compute_uv=False)
            found[a, b, : len(values)] = values
    return found


def empty_tiles(Y: Float, cuts: Cuts) -> NDArray[np.bool_]:
    """Which tiles hold nothing but zeros, (row blocks, column blocks)."""
    norms = np.array([[np.linalg.norm(Y[rows, columns]) for columns in cuts.columns] for rows in cuts.rows])
    return norms < _EMPTY * max(float(norms.max(initial=0.0)), 1e-300)


def alike_windows(Y: Float, cuts: Cuts, groups: int) -> NDArray[np.intp]:
    """Column windows put into ``groups`` by the spectra of their tiles: a sorted table's labels, window by window."""
    from sklearn.cluster import AgglomerativeClustering

    spectra = tile_spectra(Y, cuts)[:, :, :_KEPT]
    features = spectra.transpose(1, 0, 2).reshape(len(cuts.columns), -1)
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    features = np.divide(features, norms, out=np.zeros_like(features), where=norms > 0.0)
    found: NDArray[np.intp] = AgglomerativeClustering(min(groups, len(features))).fit_predict(features)
    return found


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
    """``(P_a U, V^T Q_b)`` for the tile's own singular vectors U, V: both masks but for one sign for each vector."""
    U, _, Vt = np.linalg.svd(Y[cuts.rows[known.a], cuts.columns[known.b]], full_matrices=False)
    return U, Vt


def share_of(seen: Seen, i: int) -> Float:
    """User i's masked share ``P X_i Q_i`` from what the CSP saw, block by block; no prior knowledge is needed."""
    if i not in seen.blinded:
        raise ConfigError("no one sent a blinded mask in this study", "set own_part: eq. 6 sends them")
    share = np.zeros_like(seen.Y)
    for w, block in zip(seen.setting.held(i), seen.blinded[i], strict=True):
        basis, outputs = np.linalg.qr(block)[0], seen.setting.right[w].outputs
        share[:, outputs] = seen.Y[:, outputs] @ basis @ basis.T
    return share
