"""The paper's optimisations change what a study costs, never what it finds (section 3.4, and its ablation)."""

from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.cost.estimate import predict
from fedsvd.errors import ConfigError
from fedsvd.linalg.block_diagonal import Written
from fedsvd.protocol.messages import PaddedBatch, Relayed
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Split, Task
from fedsvd.storage.block_store import Access
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation
from fedsvd.types import SessionId
from fedsvd_lab.experiments import ablation
from fedsvd_lab.experiments.ablation import VARIANTS, Offload, Starved, measure
from fedsvd_lab.experiments.unoptimised_plan import unoptimised

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")

M, N = 24, 90
SWITCHES = [
    {"dense_masks": True, "whole_shares": True},
    {"dense_masks": True},
    {"whole_shares": True},
    {},
    {"whole_shares": True, "memory": 8 * 6 * M * M},
]


def joint():
    rng = np.random.default_rng(1)
    return rng.normal(size=(M, N)) * np.logspace(0, -4, M)[:, None]


def federation(tmp_path, memory=None, **switches):
    tables = np.split(joint(), [40], axis=1)
    asked = {"scheme": "paper", "block_size": 10, "memory": memory}
    return Federation(tables, scratch=tmp_path, revise=partial(unoptimised, **switches), **asked)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_no_optimisation_changes_the_result(switches, tmp_path):
    made = federation(tmp_path, **switches)
    found = made.run()
    Vt = np.hstack([own.Vt_i for own in found])
    assert_close(found[0].U * found[0].sigma @ Vt, joint(), digits_lost(3))
    assert_close(Vt @ Vt.T, np.eye(M), digits_lost(4))
    assert predict(made.plan).bytes_by_link == made.certificate.bytes_by_link


def test_without_block_masks_p_and_q_travel_as_whole_matrices(tmp_path):
    dense, blocks = federation(tmp_path, dense_masks=True), federation(tmp_path)
    dense.run(), blocks.run()
    letters = [dense.views.of(user(2), Relayed)[0][1], blocks.views.of(user(2), Relayed)[0][1]]
    assert len(letters[0].sealed) > 8 * (50 * N + M * M)
    assert len(letters[1].sealed) < 8 * 50 * 20
    assert len(dense.plan.left_windows) == len(dense.plan.right_windows) == 1


def test_without_mini_batches_a_share_is_one_message(tmp_path):
    made = federation(tmp_path, whole_shares=True, memory=8 * 6 * M * M)
    made.run()
    assert [batch.payload.shape for _, batch in made.views.of(CSP, PaddedBatch)] == [(M, N)] * 2


@pytest.mark.parametrize("switch", ["dense_masks", "whole_shares"])
@pytest.mark.parametrize("asked", [{"task": Task.SVD, "scheme": "mask"}, {"task": Task.LR, "scheme": "paper"}])
def test_the_switches_are_the_papers_alone(switch, asked):
    study = Study(**asked, split=Split.VERTICAL, targets=int(asked["task"] is Task.LR), label_user=1)
    plan = plan_study(study, M, (40, 50), SessionId("s")).plan
    with pytest.raises(ConfigError, match="ablation"):
        unoptimised(plan, **{switch: True})


@pytest.mark.parametrize("switch", ["dense_masks", "whole_shares"])
def test_a_plan_without_an_optimisation_has_a_digest_of_its_own(switch):
    plan = plan_study(Study(Task.SVD, Split.VERTICAL, scheme="paper"), M, (40, 50), SessionId("s")).plan
    assert unoptimised(plan) is plan
    without = unoptimised(plan, **{switch: True})
    assert without.digest != plan.digest
    assert without.digest != replace(without, **{switch: False}).digest
    assert not {"dense_masks", "whole_shares"} & set(asdict(plan))


def test_a_matrix_written_out_multiplies_from_both_sides():
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    X, mask = np.arange(10.0).reshape(5, 2), Written(Q)
    np.testing.assert_array_equal(mask.left(X), Q @ X)
    np.testing.assert_array_equal(mask.left_t(X), Q.T @ X)
    np.testing.assert_array_equal(mask.right(X.T), X.T @ Q)
    np.testing.assert_array_equal(mask.right_t(X.T), X.T @ Q.T)
    assert mask.n == 5


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
