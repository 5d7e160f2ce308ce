"""What block masks leave in plain sight (C4): every tile's singular values, empty tiles, and the order of the records.

``P_a X_ab Q_b`` has the singular values of ``X_ab``. So a tile of zeros is a tile of zeros, and windows whose records
are alike have spectra that are alike: clustering them finds where a sorted table changes.
"""

import numpy as np
from numpy.typing import NDArray

from fedsvd.audit.attacks.unmix import Cuts
from fedsvd.types import Float

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
