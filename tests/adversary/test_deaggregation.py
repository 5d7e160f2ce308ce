"""Adversary test 3: does any message undo secure aggregation?

In the paper's scheme eq. 6 does: the column space of ``Q_i^T R_i`` is that of ``Q_i^T`` whatever R_i is, and projecting
X' on it leaves user i's share (C1). No message of the other schemes says anything about one user's mask.
"""

import numpy as np
import pytest
from tests.adversary.scores import uniform_bytes
from tests.adversary.watch import Truth, arrays, columns, csp_view, watched
from tests.tolerances import ACCEPTED, digits_lost

from fedsvd.audit.attacks.score import gap
from fedsvd.errors import ConfigError
from fedsvd.protocol.messages import (
    Challenge,
    Finished,
    KeyOffer,
    PaddedBatch,
    Ready,
    Relay,
    RowIds,
    SumShare,
)
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Split, Task
from fedsvd_lab.attacks.block_masks import share_of
from fedsvd_lab.published.play import play

M, WIDTHS, B = 30, (13, 1, 28), 7
IDS = np.arange(M)


@pytest.fixture
def truth(monkeypatch):
    return Truth(monkeypatch)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(2).standard_normal((M, sum(WIDTHS)))


def test_eq_6_hands_the_csp_every_users_share_in_the_papers_scheme(X):
    played = play(columns(X, WIDTHS), b=B, record=True)
    for i in (1, 2, 3):
        assert gap(share_of(played.seen, i), masked_share(played, columns(X, WIDTHS)[i - 1], i)) < digits_lost(6)


def masked_share(played, X_i, i):
    """P X_i Q_i, which the referee knows."""
    P, Q = played.masks
    parts = [P.left(X_i[:, window.columns[i - 1]]) @ Q.rows(w, i - 1) for w, window in enumerate(Q.windows)]
    return np.concatenate(parts, axis=1)


def test_without_eq_6_there_is_nothing_to_project_on(X):
    with pytest.raises(ConfigError):
        share_of(play(columns(X, WIDTHS), b=B, own_part=False, record=True).seen, 1)


SCHEMES = [
    ("sum", Task.SVD, {}),
    ("mask", Task.SVD, {}),
    ("sum", Task.PCA, {"split": Split.HORIZONTAL, "components": 3, "unit_variance": True}),
    ("mask", Task.LR, {"targets": 1, "label_user": 3, "check_ids": True, "ids": [IDS] * 3}),
    ("mask", Task.SVD, {"check_ids": True, "ids": [IDS] * 3}),
]


@pytest.mark.parametrize("scheme, task, study", SCHEMES, ids=["-".join((s, t)) + str(len(k)) for s, t, k in SCHEMES])
def test_no_other_message_has_a_column_space_that_depends_on_one_users_mask(X, truth, scheme, task, study):
    """Over all message types: arrays are padded words, and the words of one user alone span nothing of its share."""
    parts = columns(X, WIDTHS)
    if task is Task.PCA:
        parts = [part.T for part in parts]
    labels = [None, None, X[:, :1]] if task is Task.LR else None
    outcome = watched(parts, task, scheme=scheme, labels=labels, **study)
    view, plan = csp_view(outcome), outcome.plan
    assert view.kinds(CSP) <= {KeyOffer, Relay, RowIds, SumShare, Ready, PaddedBatch, Challenge, Finished}
    words = {i: [] for i in (1, 2, 3)}
    for sender, message in view.received[CSP]:
        for array in arrays(message):
            assert array.dtype == np.uint64, f"{type(message).__name__} carries numbers that are not words of the ring"
            if not isinstance(message, RowIds):
                words[sender.index].append(array.ravel())
            if isinstance(message, PaddedBatch) and scheme == "mask":
                assert abs(overlap(array[:, : plan.N], truth.share(outcome, sender.index))) < 0.2
    for i in (1, 2, 3):
        assert uniform_bytes(np.concatenate(words[i])) > ACCEPTED


def overlap(payload, share):
    """The share of the true share's energy that lies in as many leading directions of the payload, less chance."""
    width = share.shape[1]
    rank = np.linalg.matrix_rank(share)
    if rank >= width:
        return 0.0
    directions = np.linalg.svd(payload.astype(np.int64).astype(float))[2][:rank]
    caught = np.linalg.norm(share @ directions.T) ** 2 / np.linalg.norm(share) ** 2
    return caught - rank / width


def test_the_overlap_of_a_bare_share_would_be_noticed(X, truth):
    """The check above can fail: a share without its pads has all of its energy in its own directions."""
    outcome = watched(columns(X, WIDTHS), scheme="mask")
    for i, rank in zip((1, 2, 3), WIDTHS, strict=True):
        bare, share = truth.bare[i, "upload", 0], truth.share(outcome, i)
        assert np.linalg.matrix_rank(share) == rank
        assert overlap(bare, share) > 1.0 - rank / sum(WIDTHS) - digits_lost(10)
