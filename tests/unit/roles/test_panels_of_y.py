"""The panels a user uploads are ``c P A_i T_i Q_i``, whichever way they are computed."""

import gc
import weakref

import numpy as np
import pytest
from tests import explicit
from tests.tolerances import product

from fedsvd.linalg.windows import Form
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item, Scheme, Split, Task, Trust
from fedsvd.roles.user.masking import Masks
from fedsvd.roles.user.work import Dense
from fedsvd.types import SessionId

COUNTS = (6, 11)
GROUP, OWN = explicit.seed(1), explicit.seed(2)


def plan(m, *, task=Task.SVD, scheme=Scheme.MASK, memory=1 << 30, window=65_536, targets=0):
    return SessionPlan(
        session=SessionId("a session"),
        task=task,
        split=Split.VERTICAL,
        scheme=scheme,
        trust=Trust.PEERS,
        m=m,
        counts=COUNTS,
        release=(Item.COMPONENTS, Item.SPECTRUM, Item.OWN_PART),
        targets=targets,
        label_user=1,
        left=Form.MIXING,
        right=Form.HAAR,
        block=5,
        memory=memory,
        window=window,
    )


def masks_of(agreed, i):
    return Masks(agreed, i, GROUP, OWN)


def right_side(masks):
    """``T_i Q_i``, (w_i, N), from explicit matrices."""
    T_i = masks.rotation(0).explicit()
    own = explicit.split(np.eye(sum(COUNTS)), COUNTS)[masks.i].T
    return T_i @ own @ explicit.right(masks.Q)


def close(found, expected):
    assert np.abs(found - expected).max() <= product(40, 4) * np.linalg.norm(expected)


@pytest.mark.parametrize("i", [0, 1])
@pytest.mark.parametrize(
    ("m", "memory", "written_out"),
    [(40, 1 << 30, True), (40, 8, False), (7, 1 << 30, False)],  # tall; without room; too short for it to pay
)
def test_a_column_panel_is_the_masked_share(i, m, memory, written_out):
    masks = masks_of(plan(m, memory=memory), i)
    A_i = np.random.default_rng(i).normal(size=(m, COUNTS[i]))
    assert (masks.written_out is not None) is written_out
    expected = masks.c * explicit.left(masks.P) @ A_i @ right_side(masks)
    close(masks.column_panel(Dense(A_i), 0), expected)


@pytest.mark.parametrize("memory", [1 << 30, 8])
def test_a_row_panel_is_the_masked_share_with_its_labels(memory):
    agreed = plan(40, task=Task.LR, memory=memory, window=25, targets=2)
    masks = masks_of(agreed, 1)
    rng = np.random.default_rng(3)
    A_i, y_i = rng.normal(size=(40, COUNTS[1])), rng.normal(size=(40, 2))
    P = explicit.left(masks.P)
    expected = masks.c * np.hstack((P @ A_i @ right_side(masks), P @ y_i))
    found = [masks.row_panel(A_i[rows], y_i[rows], w) for w, rows in enumerate(agreed.left_windows)]
    assert len(found) == 2
    close(np.vstack(found), expected)


@pytest.mark.parametrize("memory", [1 << 30, 8])
def test_coefficients_come_back_through_the_same_masks(memory):
    masks = masks_of(plan(40, task=Task.LR, memory=memory, targets=2), 0)
    w_masked = np.random.default_rng(4).normal(size=(sum(COUNTS), 2))
    close(masks.own_part(w_masked), right_side(masks) @ w_masked)


def test_an_aligned_share_meets_the_own_rotation_alone():
    masks = masks_of(plan(40, scheme=Scheme.ALIGNED), 1)
    A_i = np.random.default_rng(5).normal(size=(40, COUNTS[1]))
    assert masks.written_out is None
    close(masks.column_panel(Dense(A_i), 0), masks.c * explicit.left(masks.P) @ A_i @ masks.rotation(0).explicit())


def test_by_rows_no_window_of_the_left_mask_is_kept():
    agreed = plan(40, task=Task.LR, window=25, targets=1)
    masks = masks_of(agreed, 0)
    first = weakref.ref(masks.P.window(0))
    gc.collect()
    assert first() is None


def test_by_columns_the_left_mask_is_drawn_once():
    P = masks_of(plan(40, window=25), 0).P
    assert P.window(0) is P.window(0)
