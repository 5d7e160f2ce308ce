"""Batches and what the CSP retains follow from shapes and the memory budget alone."""

import numpy as np
import pytest

from fedsvd.linalg.windows import Form
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Scheme, Split, Task, Trust
from fedsvd.protocol.upload import Retention, batches, folds, retention
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
