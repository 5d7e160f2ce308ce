"""Batches and what the CSP retains follow from shapes and the memory budget alone."""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.data.open import open_source
from fedsvd.errors import StorageError
from fedsvd.linalg.windows import Form
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Scheme, Split, Task, Trust
from fedsvd.protocol.upload import Retention, batches, folds, retention
from fedsvd.studies.run import PartyData, run_study
from fedsvd.studies.study import Study
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

SMALL = 8 * 6 * 20 * 20  # holds a factor of 20 rows, not a matrix of 20 x 200


def plan(task=Task.SVD, scheme=Scheme.MASK, memory=1 << 30, right=Form.HAAR, **changes):
    return SessionPlan(
        session=SessionId("a session"),
        task=task,
        scheme=scheme,
        trust=Trust.PEERS,
        release=declared(task).released,
        right=right,
        memory=memory,
        **declared(task).facts(changes.get("split", Split.HORIZONTAL)),
        **{"split": Split.HORIZONTAL, "m": 20, "counts": (120, 80), **changes},
    )


@pytest.mark.parametrize("memory", [1 << 30, 100_000, 33_000])
def test_batches_cover_every_panel_once(memory):
    agreed = plan(memory=memory, right=Form.MIXING)
    covered = np.zeros((20, 200))
    for batch in batches(agreed):
        assert batch.width == 200
        covered[agreed.row_panels[batch.panel]][batch.rows] += 1
    assert (covered == 1).all()
    assert (len(agreed.panels) > 1) is (memory < 1 << 30)
    assert [batch.panel for batch in batches(agreed) if batch.last] == list(range(len(agreed.panels)))


def test_a_matrix_that_does_not_fit_is_folded_along_its_long_side_and_its_rows_are_stored_beside():
    tall = {"m": 200, "counts": (12, 8)}
    assert retention(plan(**tall)) is Retention.STORED
    assert retention(plan(**tall, memory=SMALL)) is Retention.BOTH
    # Not even the factor fits: its top, from a store.
    assert retention(plan(**tall, memory=SMALL - 1)) is Retention.STORED
    assert retention(plan(memory=SMALL)) is Retention.STORED  # wide: likewise


def test_a_regression_is_folded_whatever_fits():
    assert folds(plan(task=Task.LR, targets=1, split=Split.VERTICAL))


def test_the_papers_scheme_keeps_what_equation_6_asks_for():
    assert not folds(plan(scheme=Scheme.PAPER, memory=SMALL, right=Form.BLOCKS))


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_a_full_svd_in_the_papers_scheme_is_refused_where_not_even_its_factor_fits():
    table = np.random.default_rng(0).normal(size=(200, 20))
    parties = [PartyData(open_source(part)) for part in np.split(table, [120])]
    with pytest.raises(StorageError, match="does not fit a memory budget"):
        run_study(Study(Task.SVD, scheme="paper", memory=SMALL - 1), parties)


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_equation_6_is_answered_from_a_second_pass_where_x_does_not_fit(tmp_path):
    table = np.random.default_rng(0).normal(size=(200, 20)) * np.logspace(0, -6, 20)
    parties = [PartyData(open_source(part)) for part in np.split(table, [120])]
    study = Study(Task.SVD, scheme="paper", memory=SMALL, block_size=50)
    found = run_study(study, parties, scratch=tmp_path, random_state=0)
    assert retention(found.plan) is Retention.BOTH
    for part, own in zip(np.split(table, [120]), found.parties, strict=True):
        assert_close((own.U * own.sigma @ own.Vt_i).T, part, digits_lost(3))
    Vt = np.hstack([own.Vt_i for own in found.parties])
    assert_close(Vt @ Vt.T, np.eye(20), digits_lost(3))
