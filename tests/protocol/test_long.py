"""A matrix long on both sides: X' in a store, its top r by block Krylov, sparse data dense one panel at a time."""

import numpy as np
import pytest
from scipy import sparse
from tests.tolerances import VALUES_BAR, assert_close, digits_lost

from fedsvd.data.sparse import SparseSource
from fedsvd.errors import StorageError
from fedsvd.protocol.machine import Compute, Send
from fedsvd.protocol.messages import BatchRequest
from fedsvd.protocol.tasks import Split, Task
from fedsvd.protocol.upload import Retention, batches, fits_whole, krylov_basis, krylov_block, krylov_start, retention
from fedsvd.roles.service_provider.collect import collector_for
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

M, WIDTHS, R = 700, (500, 420), 6
MEMORY = 18_000_000  # below four copies of X' and below six of a factor of either side

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


class Watched(SparseSource):
    """A sparse source that remembers how much of itself was made dense at once."""

    widest = 0

    def _cells(self, rows, columns):
        block = super()._cells(rows, columns)
        Watched.widest = max(Watched.widest, block.size)
        return block


@pytest.fixture
def parties(monkeypatch):
    monkeypatch.setattr(Watched, "widest", 0)
    return [PartyData(Watched(part)) for part in ratings()]


def ratings(m=M):
    rng = np.random.default_rng(4)
    parts = [sparse.random(m, width, 0.03, "csc", random_state=rng) for width in WIDTHS]
    for part in parts:
        part.data = np.ceil(5 * part.data)
    return parts


def study(**asked):
    return Study(Task.LSA, Split.VERTICAL, components=R, scheme="mask", memory=MEMORY, **asked)


def planned():
    return plan_study(study(), M, WIDTHS, SessionId("s")).plan


def test_the_top_of_a_long_matrix_is_that_of_the_joint_data(parties, tmp_path):
    found = run_study(study(), parties, scratch=tmp_path, random_state=1)
    assert retention(found.plan) is Retention.STORED
    assert not fits_whole(found.plan)
    U, s, Vt = np.linalg.svd(sparse.hstack(ratings()).toarray(), full_matrices=False)
    own = found.parties[0]
    assert_close(own.sigma, s[:R], VALUES_BAR)
    assert np.linalg.norm(own.U @ (own.U.T @ U[:, :R]) - U[:, :R]) <= digits_lost(6)
    V = np.hstack([party.Vt_i for party in found.parties]).T
    assert np.linalg.norm(V @ (V.T @ Vt[:R].T) - Vt[:R].T) <= digits_lost(6)
    assert found.certificate.residual <= digits_lost(6)


def test_sparse_data_is_made_dense_one_panel_at_a_time(monkeypatch, tmp_path):
    monkeypatch.setattr(Watched, "widest", 0)
    parties = [PartyData(Watched(part)) for part in ratings(1200)]
    small = Study(Task.LSA, Split.VERTICAL, components=R, scheme="mask", memory=12 * sum(WIDTHS) ** 2)
    plan = run_study(small, parties, scratch=tmp_path, random_state=1).plan
    assert 0 < Watched.widest <= plan.memory // (6 * 8)
    assert Watched.widest < 1200 * max(WIDTHS)


def test_the_next_batch_is_asked_for_before_a_panel_is_collected(parties, tmp_path, monkeypatch):
    """So that users mask while the CSP computes; one batch ahead and no more."""
    heard, said = ServiceProvider.receive, []

    def receive(self, sender, message):
        said.append(heard(self, sender, message))
        return said[-1]

    monkeypatch.setattr(ServiceProvider, "receive", receive)
    plan = run_study(study(), parties, scratch=tmp_path, random_state=1).plan
    *asking, last = [effects for effects in said if effects and _label(effects[-1]) == "aggregating"]
    assert len(asking) + 1 == len(batches(plan)) > 1
    for effects in asking:
        *requests, work = effects
        assert isinstance(work, Compute)
        assert all(isinstance(each, Send) and isinstance(each.message, BatchRequest) for each in requests)
        assert [each.to for each in requests] == list(plan.users)
    assert [type(each) for each in last] == [Compute]


def _label(effect):
    return effect.label if isinstance(effect, Compute) else None


def test_all_of_a_matrix_long_on_both_sides_is_refused_before_anything_is_said(parties, tmp_path):
    with pytest.raises(StorageError, match="does not fit a memory budget"):
        run_study(Study(Task.SVD, Split.VERTICAL, scheme="mask", memory=MEMORY), parties, scratch=tmp_path)


def test_without_a_scratch_folder_what_does_not_fit_is_an_error_with_a_fix():
    shapes = []

    def storage(shape, access, budget):
        shapes.append((shape, budget))
        raise StorageError("no space", "name a scratch folder")

    plan = planned()
    with pytest.raises(StorageError, match="name a scratch folder"):
        collector_for(plan, storage)
    assert shapes == [((M, sum(WIDTHS)), MEMORY // 2)]


def test_krylov_stays_within_its_share_of_the_memory():
    plan = planned()
    for r in (1, 40, 300):
        assert r <= krylov_start(plan, r)
        assert krylov_block(plan, r) <= krylov_start(plan, r)
        basis = krylov_basis(plan, r)
        assert basis >= r + 4 * krylov_block(plan, r)
        assert 3 * 8 * basis * (plan.M + plan.N) <= MEMORY or basis == r + 4 * krylov_block(plan, r)
