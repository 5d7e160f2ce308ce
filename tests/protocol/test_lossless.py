"""Theorem 1, end to end: whatever the matrix, the split and the scheme, the federation returns the SVD of X."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import ORTHONORMAL_BAR, VALUES_BAR, digits_lost

from fedsvd.protocol.messages import (
    Finished,
    KeyOffer,
    PaddedBatch,
    Ready,
    Relay,
    SumShare,
)
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Mode, Split, Task, Trust
from fedsvd.testing.federation import Federation, shuffled
from fedsvd.testing.strategies import joints

HEARD_BY_THE_CSP = {KeyOffer, Relay, SumShare, Ready, PaddedBatch, Finished}


@settings(max_examples=60)
@given(
    joint=joints(),
    split=st.sampled_from(Split),
    scheme=st.sampled_from(["auto", "sum", "mask"]),
    trust=st.sampled_from(Trust),
    order=st.integers(0, 9),
)
def test_each_user_recovers_its_own_part_and_nothing_is_lost(joint, split, scheme, trust, order):
    federation = Federation(joint.tables(split), Task.SVD, split, scheme=scheme, trust=trust)
    results = federation.run(shuffled(order))
    exact = np.linalg.svd(joint.X, compute_uv=False)
    top = exact[0]
    for X_i, found in zip(joint.parts, results, strict=True):
        assert np.linalg.norm(found.U * found.sigma @ found.Vt_i - X_i, 2) <= VALUES_BAR * top
        rank = found.rank
        assert np.abs(found.sigma - exact[:rank]).max(initial=0.0) <= VALUES_BAR * top
        assert np.all(exact[rank:] <= VALUES_BAR * top)
        assert np.abs(found.U.T @ found.U - np.eye(rank)).max(initial=0.0) <= ORTHONORMAL_BAR
    gram = sum(found.Vt_i @ found.Vt_i.T for found in results)
    assert np.abs(gram - np.eye(results[0].rank)).max(initial=0.0) <= ORTHONORMAL_BAR

    # The last lines are about privacy, not numbers: what the CSP may hear.
    assert federation.views.kinds(CSP) <= HEARD_BY_THE_CSP
    if federation.plan.mode is Mode.A:
        assert not {PaddedBatch, Ready} & federation.views.kinds(CSP)


@settings(max_examples=30)
@given(joint=joints(), alpha=st.sampled_from([0.0, 0.5]))
def test_a_vertical_regression_finds_the_least_squares_of_the_joint_table(joint, alpha):
    """The squared error is unique even where coefficients are not; it feels the condition number where it is zero."""
    X = joint.X / max(np.abs(joint.X).max(), 1e-300)
    parts = [X_i / max(np.abs(joint.X).max(), 1e-300) for X_i in joint.parts]
    y = np.random.default_rng(0).normal(size=len(X))
    labels = [y] + [None] * (len(parts) - 1)
    results = Federation(parts, Task.LR, Split.VERTICAL, labels=labels, alpha=alpha).run()
    w = np.hstack([result.coefficients for result in results])[0]
    centred = X - X.mean(axis=0)
    stacked = np.vstack((centred, np.sqrt(alpha) * np.eye(X.shape[1])))
    target = np.concatenate((y - y.mean(), np.zeros(len(stacked) - len(y))))
    exact = np.linalg.lstsq(stacked, target, rcond=digits_lost(4))[0]
    loss = np.linalg.norm(stacked @ w - target) - np.linalg.norm(stacked @ exact - target)
    sigma = np.linalg.svd(stacked, compute_uv=False)
    condition = sigma[0] / sigma[sigma > digits_lost(4) * sigma[0]].min() if sigma[0] else 1.0
    # Of one record nothing is left about its mean, so the labels themselves are the measure.
    assert loss <= VALUES_BAR * condition * np.linalg.norm(y)
