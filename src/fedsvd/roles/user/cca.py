"""Canonical correlations at a user: an orthonormal basis of its own centred columns, then the SVD as it is.

    X_i - mean_i = Q_i R_i,    [Q_1 ... Q_k] = U diag(s) [V_1 ... V_k]

The basis is made at home and replaces the data in the session: what others could compute of X_i from an SVD, they can
compute of Q_i here, and no more (ADR 0034). Columns that are linearly dependent leave zero columns in the basis, so
that the plan does not show the rank; the sum of all ranks is the squared joint norm, which the release shows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.data.arrays import ArraySource
from fedsvd.errors import ConstantData
from fedsvd.roles.user import svd
from fedsvd.roles.user.checks import Checked
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.svd import FactorsResult
from fedsvd.roles.user.work import Work
from fedsvd.statistics.cca import Basis, basis, canonical_loadings, common_weights, pair_weights
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class CCAResult:
    """What a user holds after CCA: U (m, r) and s (r,), shared; weights and loadings of its own columns, own scores."""

    U: Float
    sigma: Float
    rank: int  # of the joint bases, at most r
    own_rank: int
    ranks: int  # of all users together
    column_means: Float  # of own columns
    weights: Float  # (n_i, r): own centred columns times these are the own scores
    scores: Float  # (m, r), of two users with unit norm, of more the prediction of U from own columns
    loadings: Float  # (n_i, r): correlations of own columns with the own scores
    residual: float
    orthogonality: float
    checked: Checked | None = None

    def __repr__(self) -> str:
        return f"CCAResult(U={self.U.shape}, weights={self.weights.shape})"


def script(work: Work) -> Script:
    """Orthonormalise at home; the SVD of the joined bases; weights of own columns from own right vectors."""
    own, centred = yield Local("orthonormalise", lambda: _basis(work))
    padded = np.zeros((work.plan.m, work.n_i))
    padded[:, : own.rank] = own.Q
    inner = replace(work, source=ArraySource(padded), checkpoint=None, spread=None)
    found: FactorsResult = yield from svd.script(inner)
    return (yield Local("weights", lambda: _result(work, own, centred, found)))


def _basis(work: Work) -> tuple[Basis, Float]:
    X = np.empty(work.source.shape)
    for part, panel in _rows(work):
        X[part] = panel
    own = basis(X)
    if not own.rank:
        raise ConstantData(
            "no column of this party varies", "bring a column that is not the same in all rows, or leave this party out"
        )
    X -= own.mean
    return own, X


def _rows(work: Work) -> Iterator[tuple[slice, Float]]:
    rows, width = work.source.shape
    step = work.panel(width)
    for start in range(0, rows, step):
        part = slice(start, min(start + step, rows))
        yield part, work.source.rows(part.start, part.stop)


def _result(work: Work, own: Basis, centred: Float, found: FactorsResult) -> CCAResult:
    count = len(found.sigma)
    Vt_i = np.asarray(found.Vt_i)[:, : own.rank]
    pair = work.plan.k == 2
    mine = pair_weights(own, Vt_i, count) if pair else common_weights(own, Vt_i, found.sigma, count)
    return CCAResult(
        U=found.U,
        sigma=found.sigma,
        rank=found.rank,
        own_rank=own.rank,
        ranks=round(found.total_energy or 0.0),
        column_means=own.mean,
        weights=mine.weights,
        scores=mine.scores,
        loadings=canonical_loadings(centred, mine.scores),
        residual=found.residual,
        orthogonality=found.orthogonality,
        checked=found.checked,
    )
