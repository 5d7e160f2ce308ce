"""Eq. 6: user i gets its own Vt_i back through the CSP, under a blind that is orthogonal and its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import explicit, tolerances
from tests.explicit import FORMS, seed

from fedsvd.errors import ShapeError
from fedsvd.linalg.windows import Form
from fedsvd.masks.blind import blind, draw_blind, unblind
from fedsvd.masks.right import RightMask

WIDTHS = (7, 1, 12, 3)


def answered(Vt_masked, Q, Qt_i_blinded):
    """What the CSP sends back: ``Vt' [Q_i^T]^R``, block by block."""
    return tuple(
        None if block is None else Vt_masked[:, window.outputs] @ block
        for window, block in zip(Q.windows, Qt_i_blinded, strict=True)
    )


@settings(max_examples=40)
@given(
    form=st.sampled_from(FORMS),
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    b=st.integers(1, 7),
)
def test_each_user_recovers_its_own_columns_exactly(form, widths, b):
    Q = RightMask(form, widths, seed(1), b=b)
    Vt = np.random.default_rng(2).normal(size=(4, sum(widths)))
    Vt_masked = Vt @ explicit.right(Q)
    for i, Vt_i in enumerate(explicit.split(Vt, widths)):
        R_i = draw_blind(Q, i, seed(10 + i))
        back = unblind(answered(Vt_masked, Q, blind(Q, i, R_i)), R_i)
        np.testing.assert_allclose(back, Vt_i, rtol=0, atol=tolerances.product(sum(widths), 8) * np.linalg.norm(Vt, 2))


def test_it_works_in_the_library_of_the_masks(library):
    Q = RightMask(Form.BLOCKS, WIDTHS, seed(1), b=4, on=library.array([0.0]))
    Vt = np.random.default_rng(2).normal(size=(4, 23))
    Vt_masked = library.array(Vt @ explicit.right(RightMask(Form.BLOCKS, WIDTHS, seed(1), b=4)))
    R_i = draw_blind(Q, 2, seed(3))
    back = library.numpy(unblind(answered(Vt_masked, Q, blind(Q, 2, R_i)), R_i))
    np.testing.assert_allclose(back, Vt[:, 8:20], rtol=0, atol=tolerances.product(23, 8) * np.linalg.norm(Vt, 2))


@pytest.mark.parametrize("form", FORMS)
def test_the_blind_is_orthogonal_and_has_the_size_of_each_slice(form):
    Q = RightMask(form, WIDTHS, seed(1), b=4)
    for i in range(4):
        for window, block in zip(Q.windows, draw_blind(Q, i, seed(2)).blocks, strict=True):
            size = window.columns[i].stop - window.columns[i].start
            if size == 0:
                assert block is None
                continue
            dense = block.explicit()
            assert dense.shape == (size, size)
            assert np.abs(dense.T @ dense - np.eye(size)).max() < tolerances.ORTHOGONAL_BAR


def test_blinds_differ_between_windows_and_between_seeds():
    Q = RightMask(Form.BLOCKS, (24,), seed(1), b=8)
    blocks = [block.explicit() for number in (2, 3) for block in draw_blind(Q, 0, seed(number)).blocks]
    assert len(blocks) == 6
    for j, block in enumerate(blocks):
        assert all(np.abs(block - other).max() > 0.1 for other in blocks[:j])


def test_the_blinded_slice_is_the_slice_times_the_blind():
    Q = RightMask(Form.BLOCKS, WIDTHS, seed(1), b=4)
    R_i = draw_blind(Q, 2, seed(2))
    for w, (block, R_iw) in enumerate(zip(blind(Q, 2, R_i), R_i.blocks, strict=True)):
        if block is not None:
            tolerances.assert_close(block, Q.rows(w, 2).T @ R_iw.explicit(), tolerances.digits_lost(2))


def test_a_blind_of_another_mask_is_refused_and_shows_no_number():
    few, many = (RightMask(Form.BLOCKS, WIDTHS, seed(1), b=b) for b in (12, 4))
    R_i = draw_blind(few, 0, seed(2))
    with pytest.raises(ShapeError, match="1 blocks"):
        blind(many, 0, R_i)
    assert repr(R_i) == "Blind(blocks=1)"
