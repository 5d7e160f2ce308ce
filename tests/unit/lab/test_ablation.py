"""The paper's optimisations change what a study costs, never what it finds (section 3.4, and its ablation)."""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.storage.block_store import Access
from fedsvd_lab.experiments import ablation
from fedsvd_lab.experiments.ablation import VARIANTS, Offload, Starved, measure
from fedsvd_lab.published.play import play
from fedsvd_lab.published.provider import stored_in

M, N = 24, 90
SWITCHES = [
    {"dense": True, "whole": True},
    {"dense": True},
    {"whole": True},
    {},
    {"whole": True, "memory": 8 * 6 * M * M},
]


def joint():
    rng = np.random.default_rng(1)
    return rng.normal(size=(M, N)) * np.logspace(0, -4, M)[:, None]


def played(tmp_path, **switches):
    return play(np.split(joint(), [40], axis=1), b=10, storage=stored_in(tmp_path), **switches)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_no_optimisation_changes_the_result(switches, tmp_path):
    found = played(tmp_path, **switches).users
    Vt = np.hstack([own.Vt_i for own in found])
    assert_close(found[0].U * found[0].sigma @ Vt, joint(), digits_lost(3))
    assert_close(Vt @ Vt.T, np.eye(M), digits_lost(4))


def test_without_block_masks_p_and_q_travel_as_whole_matrices(tmp_path):
    dense, blocks = played(tmp_path, dense=True), played(tmp_path)
    assert dense.bytes_by_link["ta", "user-2"] == 8 * (50 * N + M * M)
    assert blocks.bytes_by_link["ta", "user-2"] < 8 * 50 * 20
    assert len(dense.setting.left) == len(dense.setting.right) == 1


def test_without_mini_batches_a_share_is_one_message(tmp_path):
    whole, cut = played(tmp_path, whole=True, memory=8 * 6 * M * M), played(tmp_path, memory=8 * 6 * M * M)
    assert [batch.shape for batch in whole.setting.batches] == [(M, N)]
    assert len(cut.setting.batches) > len(cut.setting.right)
    assert whole.rounds < cut.rounds
    assert whole.bytes_total == cut.bytes_total


@pytest.mark.parametrize("access", list(Access))
def test_a_store_without_a_cache_forgets_nothing(access, tmp_path):
    A = np.random.default_rng(0).normal(size=(60, 80))
    with Starved(A.shape, access, tmp_path, 4000) as store:
        for start in range(0, 80, 20):
            store.write(slice(0, 60), slice(start, start + 20), A[:, start : start + 20])
        np.testing.assert_array_equal(np.hstack([panel for _, panel in store.panels(1, 16)]), A)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_can_be_measured(name):
    variant = VARIANTS[name]
    measured = measure(variant, 40, 200, 1 << 20, 20)
    assert measured.residual <= digits_lost(4)
    assert measured.bytes > (8 * (200**2 + 2 * 40**2) if not variant.block_masks else 0)
    assert (variant.offload is Offload.NONE) == (name in ("none", "1", "1+2"))


def test_the_paper_saves_what_its_page_says():
    none = ablation.Measured("none", 1, 1, 1000, 10.0, 8.0, 100, 0.0)
    all_three = ablation.Measured("1+2+3", 1, 1, 250, 2.0, 2.0, 10, 0.0)
    assert all_three.saved(none) == {"bytes": 0.75, "seconds": 0.8, "cpu_seconds": 0.75, "memory": 0.9}
