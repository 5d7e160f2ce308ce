"""Attacks with a referee who knows the truth: sessions of plain arrays, scores as the paper has them, true orders."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.optimize

from fedsvd.audit.attacks.alternating import Unmasked
from fedsvd.audit.attacks.outputs import others_gram, own_part
from fedsvd.audit.attacks.score import DRAWS, gap, matched, p_value, unit
from fedsvd.audit.attacks.unmix import Cuts
from fedsvd.audit.attacks.view import Recorded, UserView, record
from fedsvd.data.open import open_source
from fedsvd.linalg.windows import Form
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study
from fedsvd.types import Float


def record_tables(
    tables: Sequence[Float],
    task: Task = Task.SVD,
    split: Split = Split.HORIZONTAL,
    *,
    random_state: int = 0,
    forms: tuple[Form, Form] | None = None,
    **study: Any,
) -> Recorded:
    """A study of plain arrays, recorded: samples in rows, one table for each party."""
    parties = [PartyData(open_source(np.ascontiguousarray(table))) for table in tables]
    return record(Study(task, split, **study), parties, random_state, forms)


def as_published(found: Float, true: Float) -> float:
    """The paper's score: the largest signed correlation over all pairs of columns, and of rows; the mean of both."""
    return (largest_signed(found, true) + largest_signed(found.T, true.T)) / 2.0


def largest_signed(found: Float, true: Float) -> float:
    """The largest signed correlation over all pairs of rows, in panels so that all pairs need not fit in memory."""
    F, T = unit(found), unit(true)
    panel = max(1, (1 << 22) // max(len(T), 1))
    return max(float((F[at : at + panel] @ T.T).max()) for at in range(0, len(F), panel))


def published_baseline(true: Float, seed: int = 0) -> float:
    """What the paper calls "random values": uniform noise of the same shape, scored like an attack."""
    return as_published(np.random.default_rng(seed).random(true.shape), true)


def beyond_rotation(found: Float, true: Float, draws: int = DRAWS, seed: int = 0) -> tuple[float, float]:
    """The matched score and its p-value when the Gram matrix is known: the null is the true rows, rotated at random."""
    rng = np.random.default_rng(seed)
    observed = matched(found, true)
    null = [matched(np.linalg.qr(rng.standard_normal((len(true), len(true))))[0] @ true, true) for _ in range(draws)]
    return observed, p_value(observed, np.array(null))


def up_to_signs(found: Float, true: Float) -> float:
    """The same for matrices whose columns may each come with the other sign."""
    signs = np.where(np.einsum("ij,ij->j", found, true) < 0, -1.0, 1.0)
    return gap(found * signs, true)


def pooled_gram(views: Sequence[UserView]) -> Float:
    """The Gram matrices of those who do not pool, summed: results of one of the pool, less the own ones of the pool."""
    found = others_gram(views[0])
    for view in views[1:]:
        own = own_part(view)
        found -= own @ own.T
    return found


def aligned(estimate: Unmasked, P: Sequence[Float], Q: Sequence[Float], cuts: Cuts) -> Float:
    """The referee's: the estimate with rows and columns in their true order and signs, inside each block.

    ``P`` and ``Q`` are the blocks of the true masks, ``Y = P X Q``. Entries are left as found.
    """
    rows = [_order(W @ P_a) for W, P_a in zip(estimate.left, P, strict=True)]
    columns = [_order(W @ Q_a.T) for W, Q_a in zip(estimate.right, Q, strict=True)]
    Z = np.empty_like(estimate.found)
    for (order, signs), block in zip(rows, cuts.rows, strict=True):
        Z[block] = signs[:, None] * estimate.found[block][order]
    found = Z.copy()
    for (order, signs), block in zip(columns, cuts.columns, strict=True):
        Z[:, block] = signs * found[:, block][:, order]
    return Z


def _order(T: Float) -> tuple[np.ndarray, Float]:
    """For each true row, which found row is its best match one to one, and with which sign."""
    found, true = scipy.optimize.linear_sum_assignment(-np.abs(T))
    order = np.empty(len(T), dtype=np.intp)
    order[true] = found
    return order, np.where(T[order, np.arange(len(T))] < 0.0, -1.0, 1.0)
