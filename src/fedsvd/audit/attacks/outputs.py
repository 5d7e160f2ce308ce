"""What a curious user derives from results alone (C12): no CSP, no mask, only U, S and its own data.

``U S^2 U^T`` is the sum of all users' Gram matrices, and one's own is known. With two users what is left is the
partner's: ``G = X_2 X_2^T``. Any factor L of it is the partner's records turned by one rotation, ``X_2 = L O``, and
records are far from Gaussian: independent component analysis finds O, and whole numbers pin it down.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.audit.attacks.alternating import WholeNumbers, rounded
from fedsvd.audit.attacks.unmix import fast_ica, polar, unit_rows, whitening
from fedsvd.audit.attacks.view import UserView
from fedsvd.protocol.tasks import Own
from fedsvd.statistics.cca import basis
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Candidates:
    """Prior knowledge: records, as columns of m features, each of which may or may not have taken part."""

    X: Float


def others_gram(view: UserView) -> Float:
    """The sum of the others' Gram matrices, (m, m): ``U S^2 U^T`` less one's own; the partner's where k = 2.

    Of a PCA with its spectrum: the same of centred data, about the joint mean.
    """
    held, own = view.held, own_part(view)
    found: Float = (held.U * held.sigma**2) @ held.U.T - own @ own.T
    return found


def own_part(view: UserView) -> Float:
    """One's own X_i as the study took it: of a PCA about the joint mean, and scaled; of CCA an orthonormal basis."""
    held, own = view.held, view.X_own
    if view.plan.own is Own.VARIATES:
        return basis(own).Q
    if getattr(held, "mean", None) is not None:
        own = own - held.mean[:, None]
    scales = getattr(held, "scales", None)
    if scales is not None:
        own = own * np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0.0)[:, None]
    return own


def others_scores(view: UserView) -> Float:
    """The sum of the others' canonical scores, (m, r), from U, s and one's own; with two users the partner's."""
    held = view.held
    weight = np.sqrt(2.0) * held.sigma if view.plan.k == 2 else held.sigma**2
    found: Float = held.U * weight - held.scores
    return found


def others_mean(view: UserView) -> Float:
    """The mean of all records but one's own, (m,): the joint mean is released by a PCA, and counts are public."""
    n, own = view.plan.n, view.X_own
    total: Float = n * view.held.mean - own.sum(axis=1)
    mean: Float = total / (n - own.shape[1])
    return mean


def single_record(gram: Float) -> Float:
    """The one record behind a Gram matrix of rank one, up to its sign."""
    strengths, directions = np.linalg.eigh(gram)
    record: Float = np.sqrt(max(strengths[-1], 0.0)) * directions[:, -1]
    return record


def difference(before: UserView, after: UserView) -> Float:
    """The record that the second of two runs has and the first has not, up to its sign: whichever party brought it."""
    first, second = ((view.held.U * view.held.sigma**2) @ view.held.U.T for view in (before, after))
    return single_record(second - first)


def records_from_gram(gram: Float, count: int, known: WholeNumbers | None = None, seed: int = 0) -> Float:
    """The ``count`` records behind a Gram matrix, (m, count), up to their order: ICA, then whole numbers if they are.

    Signs are turned to the positive, as for ratings, counts and pixels.
    """
    strengths, directions = np.linalg.eigh(gram)
    r = min(count, int(np.count_nonzero(strengths > 1e-9 * strengths[-1])))
    L = directions[:, -r:] * np.sqrt(strengths[-r:])
    K = whitening(L.T)
    rng = np.random.default_rng(seed)
    W = fast_ica(K @ (L.T - L.T.mean(axis=1, keepdims=True)), rng) @ K
    W = polar(unit_rows(np.concatenate((W, rng.standard_normal((r - len(W), r))))))
    found = L @ W.T
    W *= np.where((found * found * found).sum(axis=0) < 0.0, -1.0, 1.0)[:, None]
    for step in range(0 if known is None else known.passes):
        assert known is not None
        D = rounded(L @ W.T, known.most, 2.0 if step < known.cautious else 1.0)
        before, W = W, polar(D.T @ L)
        if step > known.cautious and np.abs(W - before).max() < 1e-12:
            break
    records: Float = L @ W.T
    return records


def gram_from_components(U: Float, own: Float) -> Float:
    """The partner's Gram matrix from U_r and one's own data alone, when the partner has fewer records than r.

    G U = U S^2 leaves r numbers open in ``G_2 U = U S^2 - G_1 U``. What lies outside U is known, and spans the rows of
    all of it, so the open numbers are those for which the rest of it stays in that span.
    """
    r = U.shape[1]
    beyond = np.linalg.svd(U)[0][:, r:]
    G = own @ own.T
    outside, inside = -beyond.T @ G @ U, -U.T @ G @ U
    np.fill_diagonal(inside, 0.0)
    rank = np.linalg.matrix_rank(outside, tol=1e-9 * np.linalg.norm(G))
    spanned = np.linalg.svd(outside)[2][:rank]
    free = np.eye(r) - spanned.T @ spanned
    inside -= np.diag(np.einsum("ij,ij->i", inside @ free, free) / np.einsum("ij,ij->i", free, free))
    times_U = U @ inside + beyond @ outside
    return times_U @ np.linalg.pinv(inside, rcond=1e-9, hermitian=True) @ times_U.T


def membership(view: UserView, known: Candidates) -> Float:
    """How much each candidate looks like one who took part; larger is likelier.

    With S, the leverage ``x^T (X X^T)^+ x``: at most 1 for every record of X, of any size for others. A
    candidate outside the span of U is certain not to have taken part. Without S, the part of x outside U_r counts.
    """
    held = view.held
    X = known.X if getattr(held, "mean", None) is None else known.X - held.mean[:, None]
    inside = held.U.T @ X
    size = np.linalg.norm(X, axis=0)
    outside = np.linalg.norm(X - held.U @ inside, axis=0) / np.where(size > 0.0, size, 1.0)  # zero lies in every span
    unlike: Float = outside
    if getattr(held, "sigma", None) is not None:
        leverage = np.sum((inside / held.sigma[:, None]) ** 2, axis=0)
        unlike = leverage + 1e6 * np.where(outside > 1e-6, outside, 0.0)
    return -unlike
