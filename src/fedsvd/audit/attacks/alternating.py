"""The attack that breaks block masks (C4): whitened FastICA, alternated between the sides, then integer refinement.

The view is ``Y = P X Q`` with block-diagonal P and Q and known cuts. Un-mixing the rows leaves ``X Q`` up to order and
sign; the rows of that are mixed by Q, and so less far from Gaussian than those of X, but un-mixing the columns of what
was found, and then the rows again, brings out a little more each time. Where entries are known to be whole numbers in
a range, rounding gives a target for P and Q that is exact wherever it is right, and Procrustes against it converges.

What stays unknown is the order of rows inside a block and of columns inside a block, and signs where data has both.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsvd.audit.attacks.unmix import ITERATIONS, Cuts, apart, polar, unit_rows, unmixed_rows
from fedsvd.types import Float

Report = Callable[[str, int, int], None]
_SIGN_PASSES = 10


@dataclass(frozen=True)
class WholeNumbers:
    """Prior knowledge: entries are whole numbers from 0 to ``most``, mostly 0."""

    most: int = 5
    passes: int = 200  # at most; fewer where nothing changes any more
    cautious: int = 20  # of these, how many take an entry below 2 for a 0; later ones only below 1


@dataclass(frozen=True, repr=False)
class Unmasked:
    """An estimate of X up to order and sign: ``found = W_L Y W_R``, and the blocks of both."""

    found: Float
    left: tuple[Float, ...]
    right: tuple[Float, ...]


def alternate(
    Y: Float,
    cuts: Cuts,
    seed: int = 0,
    rounds: int | None = None,
    iterations: int = ITERATIONS,
    report: Report | None = None,
) -> Unmasked:
    """Rows, columns, rows, ... un-mixed in turn, each on what the other left; both sides made orthogonal at the end."""
    rng = np.random.default_rng(seed)
    rounds = rounds or (6 if max(rows.stop - rows.start for rows in cuts.rows) > 20 else 3)
    left = [np.eye(rows.stop - rows.start) for rows in cuts.rows]
    right = [np.eye(columns.stop - columns.start) for columns in cuts.columns]
    Z = Y
    for step in range(rounds):
        blocks, parts = (cuts.rows, left) if step % 2 == 0 else (cuts.columns, right)
        Z, more = unmixed_rows(Z if step % 2 == 0 else Z.T, blocks, rng, iterations)
        Z = Z if step % 2 == 0 else Z.T
        parts[:] = [W @ before for W, before in zip(more, parts, strict=True)]
        if report is not None:
            report("un-mixing", step + 1, rounds)
    return _signed(Y, cuts, [polar(unit_rows(W)) for W in left], [polar(unit_rows(W)) for W in right])


def refined(Y: Float, cuts: Cuts, start: Unmasked, known: WholeNumbers, report: Report | None = None) -> Unmasked:
    """The same with P and Q fitted, in turn, to what the estimate rounds to."""
    left, right = list(start.left), list(start.right)
    Yt, D = np.ascontiguousarray(Y.T), np.zeros(0)
    for step in range(known.passes):
        Y_right = apart(right, Yt, cuts.columns).T
        before, D = D, rounded(apart(left, Y_right, cuts.rows), known.most, 2.0 if step < known.cautious else 1.0)
        if step > known.cautious and np.array_equal(before, D):
            break
        left = [polar(D[rows] @ Y_right[rows].T) for rows in cuts.rows]
        Z_left = apart(left, Y, cuts.rows)
        right = [polar(D[:, columns].T @ Z_left[:, columns]) for columns in cuts.columns]
        if report is not None:
            report("refinement", step + 1, known.passes)
    return Unmasked(apart(right, apart(left, Y, cuts.rows).T, cuts.columns).T, tuple(left), tuple(right))


def alternating_ica(
    Y: Float, cuts: Cuts, known: WholeNumbers | None = None, seed: int = 0, report: Report | None = None
) -> Unmasked:
    """The whole attack: un-mixing, and refinement where entries are known to be whole numbers."""
    found = alternate(Y, cuts, seed, report=report)
    return found if known is None else refined(Y, cuts, found, known, report)


def _signed(Y: Float, cuts: Cuts, left: list[Float], right: list[Float]) -> Unmasked:
    """Signs turned so that rows and columns are skewed towards the positive, as counts, ratings and pixels are."""
    Z = apart(right, apart(left, Y, cuts.rows).T, cuts.columns).T
    rows, columns = np.ones(len(Z)), np.ones(Z.shape[1])
    for _ in range(_SIGN_PASSES):
        for signs, axis in ((rows, 1), (columns, 0)):
            turned = Z * rows[:, None] * columns
            signs *= np.where((turned * turned * turned).sum(axis=axis) < 0.0, -1.0, 1.0)
    left = [rows[block, None] * W for block, W in zip(cuts.rows, left, strict=True)]
    right = [columns[block, None] * W for block, W in zip(cuts.columns, right, strict=True)]
    return Unmasked(Z * rows[:, None] * columns, tuple(left), tuple(right))


def rounded(Z: Float, most: int, threshold: float) -> Float:
    """Whole numbers from 0 to ``most``; what is below the threshold is 0."""
    D = np.clip(np.rint(Z), 0.0, most)
    D[threshold > Z] = 0.0
    return D
