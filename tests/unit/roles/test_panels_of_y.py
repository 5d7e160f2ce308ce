"""The panels a user uploads are rows of ``c P A_i T_i Q_i``, whichever way they are computed."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from tests import explicit
from tests.tolerances import product

from fedsvd.data.open import open_source
from fedsvd.errors import LocalProtocolError
from fedsvd.linalg.windows import Form
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item, Scheme, Split, Task, Trust
from fedsvd.roles.user import upload
from fedsvd.roles.user.masked_rows import RowsUnderP, Stacked
from fedsvd.roles.user.masking import Masks
from fedsvd.roles.user.upload import panels_of_operand
from fedsvd.roles.user.work import Dense, Streamed, Work
from fedsvd.secagg import fixed_point
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, claimed, pad
from fedsvd.storage.mapped_array import scratch_array
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

COUNTS = (6, 11)
GROUP, OWN = explicit.seed(1), explicit.seed(2)


def plan(m, *, task=Task.SVD, scheme=Scheme.MASK, memory=1 << 30, targets=0, **changes):
    return SessionPlan(
        session=SessionId("a session"),
        task=task,
        scheme=scheme,
        trust=Trust.PEERS,
        m=m,
        counts=COUNTS,
        release=(Item.COMPONENTS, Item.SPECTRUM, Item.OWN_PART),
        targets=targets,
        label_user=1,
        block=5,
        memory=memory,
        **declared(task).facts(changes.get("split", Split.VERTICAL)),
        **{"split": Split.VERTICAL, "left": Form.MIXING, "right": Form.HAAR, **changes},
    )


def work_of(agreed, i, scratch=None):
    masks = Masks(agreed, i, GROUP, OWN)
    source = open_source(np.random.default_rng(i).normal(size=(agreed.m, COUNTS[i])))
    allocate = np.empty if scratch is None else lambda shape: scratch_array(shape, agreed.memory // 2, scratch)
    return Work(agreed, i, source, masks, OWN, GROUP, allocate=allocate)


def right_side(masks):
    """``T_i Q_i``, (w_i, N), from explicit matrices."""
    own = explicit.split(np.eye(sum(COUNTS)), COUNTS)[masks.i].T
    return masks.T_i.explicit() @ own @ explicit.right(masks.Q)


def close(found, expected):
    assert np.abs(found - expected).max() <= product(40, 8) * np.linalg.norm(expected)


def uploaded(work, A_i):
    panels = panels_of_operand(work, A_i, 1.0)
    return [panels.panel(w) for w in range(len(work.plan.row_panels))]


# Forty rows of seventeen columns: written out; without memory for that; too short for it to pay.
@pytest.mark.parametrize("i", [0, 1])
@pytest.mark.parametrize(("m", "memory", "written_out"), [(40, 1 << 30, True), (40, 2100, False), (7, 1 << 30, False)])
@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("forms", [(Form.MIXING, Form.HAAR), (Form.HAAR, Form.MIXING)], ids=str)
def test_row_panels_put_together_are_the_masked_share(i, m, memory, written_out, split, forms, tmp_path):
    left, right = forms
    work = work_of(plan(m, memory=memory, split=split, left=left, right=right), i, tmp_path)
    masks, A_i = work.masks, Streamed(work.source)
    assert (masks.written_out is not None) is (written_out and right is Form.HAAR)
    expected = masks.c * explicit.left(masks.P) @ A_i.columns(0, COUNTS[i]) @ right_side(masks)
    found = uploaded(work, A_i)
    assert (len(found) > 1) is (memory < 1 << 30)
    close(np.vstack(found), expected)


@pytest.mark.parametrize("memory", [1 << 30, 2100])
def test_a_row_panel_has_its_labels_beside_it(memory, tmp_path):
    work = work_of(plan(40, task=Task.LR, memory=memory, targets=2), 1, tmp_path)
    masks, rng = work.masks, np.random.default_rng(3)
    A_i, y_i = rng.normal(size=(40, COUNTS[1])), rng.normal(size=(40, 2))
    P = explicit.left(masks.P)
    expected = masks.c * np.hstack((P @ A_i @ right_side(masks), P @ y_i))
    under = RowsUnderP(work, Stacked(work, Dense(A_i), y_i), COUNTS[1] + 2)
    close(np.vstack([masks.under_right(under.panel(w)) for w in range(len(work.plan.row_panels))]), expected)


@pytest.mark.parametrize("memory", [1 << 30, 2100])
def test_coefficients_come_back_through_the_same_masks(memory):
    masks = work_of(plan(40, task=Task.LR, memory=memory, targets=2), 0).masks
    w_masked = np.random.default_rng(4).normal(size=(sum(COUNTS), 2))
    close(masks.own_part(w_masked), right_side(masks) @ w_masked)


def test_after_the_last_panel_nothing_is_left_to_ask_for():
    work = work_of(plan(40), 0)
    panels = panels_of_operand(work, Streamed(work.source), 1.0)
    panels.panel(0)
    with pytest.raises(LocalProtocolError, match="after the last one"):
        panels.panel(0)
    assert not {"Q", "T_i", "written_out"} & set(vars(work.masks))


@pytest.mark.parametrize("forms", [(Form.MIXING, Form.MIXING), (Form.HAAR, Form.HAAR)], ids=str)
def test_memory_changes_no_word_of_a_mask(forms):
    """Two sides that memory holds whole, or a few columns of: P, Q and T_i are the same, bit for bit."""
    made = [
        Masks(plan(700, left=forms[0], right=forms[1], memory=memory), 1, GROUP, OWN) for memory in (1 << 30, 32 * 700)
    ]
    for draw in (
        lambda masks: masks.P.matrix.explicit(),
        lambda masks: masks.Q.matrix.explicit(),
        lambda masks: masks.T_i.explicit(),
    ):
        np.testing.assert_array_equal(*(draw(masks) for masks in made))
    assert len(made[1].plan.row_panels) > len(made[0].plan.row_panels) == 1


def in_threads(work, pieces):
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(work, pieces))


@pytest.mark.parametrize("each", [None, in_threads])
@pytest.mark.parametrize("left", [Form.MIXING, Form.HAAR])
def test_words_made_slab_by_slab_under_pads_are_those_of_the_panels(left, each, monkeypatch):
    """Decoded, without their pads, both are Y_i up to the last bits that are filled; and no pad is left out."""
    monkeypatch.setattr(upload, "SLAB", 17 * 12)  # a dozen rows
    agreed = plan(90, left=left)
    keys, f = PadKeys(1, {2: explicit.seed(7)}), fixed_point.exponent(64.0)
    total = []
    for _ in range(2):
        work = work_of(agreed, 0)
        work = replace(work, masks=replace(work.masks, each=each))
        total.append(upload.masked_upload(work, panels_of_operand(work, Streamed(work.source), 64.0)))
    fused, plain = total
    assert fused.padded is not None
    for number in range(fused.count):
        words = fused.padded(number, claimed(keys, "upload", number, PadsOnce()))
        unpadded = words - pad(np.zeros_like(words), keys, "upload", number, PadsOnce())
        expected = fixed_point.decode(plain.batch(number), f)
        close(fixed_point.decode(unpadded, f), expected)
        assert not np.any(words == unpadded)


def test_the_slabs_of_a_panel_are_all_its_rows_in_whole_blocks():
    work = work_of(plan(90), 0)
    under = RowsUnderP(work, Streamed(work.source), COUNTS[0])
    cut = under.slabs(0, 12)
    assert len(cut) > 1
    assert [row for part in cut for row in range(part.start, part.stop)] == list(range(90))
    assert {part.start for part in cut} <= set(work.masks.P.matrix.blocks[-1].starts)
