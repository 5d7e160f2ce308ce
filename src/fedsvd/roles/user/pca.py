"""PCA at a user: the mean and the components for all, its scores for each (section 4 of the paper, C9).

Where the plan has a rule for the number of components, all of U and S are released, and each user takes the first ones
at home by the same numbers; ``sigma`` and the scores are of these.

The paper's users hold normalised data; here no user can centre alone, so step 3 comes first. The spectrum is released
only where the plan says so: with it, and two users, each could compute the other's Gram matrix (C12).

Parallel analysis takes one more sum of Gram matrices, of columns permuted each by itself (``permuted_spectra``). In a
table whose columns are permuted nothing is left of what they have in common, so that its spectrum is that of noise with
the same columns. A user permutes at home, among its own records, by a stream of its own; users add up
``PERMUTED_TABLES`` Gram matrices of such tables, about the joint mean and scaled as the study scales, and open the
totals in mode A. Differences between the users' means survive, which a permutation of the joint table would not leave:
a component that only separates sites is not counted as one (ADR 0034).

A permuted Gram matrix is a reference, not a result: it is added up as float64 in the unit of the norm, with noise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.linalg import backend
from fedsvd.linalg.backend import matmul, to_numpy
from fedsvd.linalg.solved_columns import multiply
from fedsvd.linalg.widen import unit
from fedsvd.protocol.directions import by_share
from fedsvd.protocol.tasks import PERMUTED_TABLES, Item, Scheme
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.checks import Checked
from fedsvd.roles.user.opening import Opened
from fedsvd.roles.user.openings import opening_of
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.statistics import (
    OwnMean,
    Prepared,
    at_unit_variance,
    centred,
    expect_variance,
    in_common_unit,
    joint_norms,
    with_norm,
)
from fedsvd.roles.user.sums import NORM_WIDTH, from_upper_triangle, total_sum, upper_triangle
from fedsvd.roles.user.work import InMemory, Nowhere, Sink, Streamed, Work
from fedsvd.statistics.components import Choice, choose
from fedsvd.types import Float


def permuted_spectra(work: Work, centred: Streamed, F1: float, E: int) -> Script:
    """The singular values of each joint permuted table, (tables, m), in the data's own units; ``centred`` is A_i."""
    m, F = work.plan.m, unit(F1)
    own = yield Local("permuted", lambda: _own_grams(work, centred, F))
    total: Float = yield from total_sum(work.plan, "permuted", own, work.own, NORM_WIDTH)
    return (yield Local("permuted", lambda: np.stack([_values(packed, m, F, E) for packed in total])))


def _own_grams(work: Work, centred: Streamed, F: float) -> Float:
    """The upper triangles of this user's Gram matrices, (tables, m (m + 1) / 2), in units of F^2."""
    m, n_i = work.plan.m, work.n_i
    X = np.array(to_numpy(centred.columns(0, n_i))) / F
    stream = Keystream.of(work.own, "permuted columns")
    packed = np.empty((PERMUTED_TABLES, m * (m + 1) // 2))
    for table in range(PERMUTED_TABLES):
        permuted = np.stack([row[stream.permutation(n_i)] for row in X])
        packed[table] = upper_triangle(to_numpy(backend.gram(work.put(permuted))), m)
    return packed


def _values(packed: Float, m: int, F: float, E: int) -> Float:
    eigenvalues = np.linalg.eigvalsh(from_upper_triangle(packed, m))[::-1]
    values: Float = np.ldexp(np.sqrt(np.maximum(eigenvalues, 0.0)) * F, E)
    return values


@dataclass(frozen=True, repr=False)
class PCAResult:
    """What a user holds after PCA: mean (m,), U (m, r), own scores (n_i, r); the spectrum where released."""

    mean: Float
    U: Float
    sigma: Float | None
    scores_i: Any  # an array (n_i, r), what its sink made of it, or None
    scales: Float | None
    total_energy: float  # sum of all squared centred entries, where the spectrum is released, else 0
    rank: int
    residual: float
    orthogonality: float
    checked: Checked | None = None  # what was verified of the CSP's answer
    spectrum: Float | None = None  # all singular values that were released, where a rule takes some of them
    choice: Choice | None = None  # what the plan's rule made of them
    own: OwnMean | None = None  # this user's own mean

    def __repr__(self) -> str:
        return f"PCAResult(U={self.U.shape}, rank={self.rank})"


def standardised(work: Work) -> Script:
    """A_i about the joint mean, at unit variance where that was asked for, in a common unit; data that varies."""
    prepared: Prepared = yield from in_common_unit(work, (yield from centred(work)))
    if work.plan.unit_variance:
        norms = yield from joint_norms(work, prepared)
        prepared = at_unit_variance(work, prepared, norms)
    prepared = yield from with_norm(work, prepared)
    expect_variance(work.plan, prepared)
    return prepared


def script(work: Work) -> Script:
    """Centre, add up, open; agree on signs; score one's own data."""
    plan = work.plan
    prepared: Prepared = yield from standardised(work)
    mean, scales, F1, E = prepared.mean, prepared.scales, prepared.F1, prepared.E
    own = prepared.own
    opened: Opened = yield from opening_of(plan)(work, prepared)
    del prepared  # A_i, where it was compressed, is as large as anything that follows
    assert mean is not None
    spectrum = opened.sigma if plan.releases(Item.SPECTRUM) else None
    choice: Choice | None = None
    if by_share(plan):
        choice = Choice(plan.components_by, opened.rank)  # by steps no more than these are found
    elif plan.components_by and spectrum is not None:
        spectra = None
        if plan.permutes:
            inverse = np.ldexp(np.ones(plan.m) if scales is None else _inverse(scales), -E)
            centred_i = Streamed(work.source, mean, inverse, work.device)
            spectra = yield from permuted_spectra(work, centred_i, F1, E)
        spectrum = padded_spectrum(spectrum, min(plan.m, plan.n))
        choice = choose(plan.components_by, spectrum, plan.n, plan.m, spectra)
    taken = opened.rank if choice is None else min(choice.count, opened.rank)
    U, sigma = opened.U[:, :taken], None if spectrum is None else spectrum[:taken]
    scores_i = None
    if plan.releases(Item.OWN_PART) and not isinstance(work.sink, Nowhere):
        made = opened.product if plan.scheme is Scheme.STEPS else None  # it is in the certificate by steps
        scores_i = yield Local("scores", lambda: scores(work, mean, scales, U, made))
    total = 0.0 if spectrum is None or opened.total_energy is None else opened.total_energy
    return PCAResult(
        mean,
        U,
        sigma,
        scores_i,
        scales,
        total,
        taken,
        opened.residual,
        opened.orthogonality,
        opened.checked,
        None if choice is None or by_share(plan) else spectrum,
        choice,
        own,
    )


def padded_spectrum(sigma: Float, length: int) -> Float:
    """All singular values, with the zeros beyond the rank that a rule counts too."""
    return np.pad(sigma, (0, length - len(sigma)))


def scores(work: Work, mean: Float, scales: Float | None, U: Float, made: Float | None = None) -> Any:
    """``(X_i - mean)^T U``, rows scaled first where unit variance was asked for; one pass, where they are not made."""
    W = U if scales is None else U * _inverse(scales)[:, None]
    sink: Sink = work.sink or InMemory()
    sink.open(U.shape[1], work.n_i)
    if made is not None:
        sink.write(made[:, : U.shape[1]].T)
    elif work.plan.reads_rows:
        sink.write(_scores_by_rows(work, mean, W).T)
    else:
        _scores_by_columns(work, mean[:, None], W, sink)
    made = sink.close()
    return made.T if isinstance(made, np.ndarray) else made


def _scores_by_columns(work: Work, mean: Float, W: Float, sink: Sink) -> None:
    """Centred before the product: with a large mean the difference of two products would cancel."""
    if work.device is not None:
        W, mean = work.put(W), work.put(mean)
        for _, X in work.panels("scores"):
            sink.write(to_numpy(matmul((X - mean).T, W)).T)
        return
    for _, X in work.panels("scores", work.longest_panel):
        out = np.empty((W.shape[1], X.shape[1]))
        multiply(W.T, X, out, work.masks.each, mean)
        sink.write(out)


def _scores_by_rows(work: Work, mean: Float, W: Float) -> Float:
    out = np.zeros((work.n_i, W.shape[1]))
    for part, X in work.row_panels("scores"):
        out += to_numpy(matmul((X - work.put(mean[part, None])).T, work.put(W[part])))
    return out


def _inverse(scales: Float) -> Float:
    return np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
