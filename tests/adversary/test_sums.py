"""What a user learns from users-only sums: the totals, which it is meant to, and differences between them.

The attacker is user 1, with the totals it reads in its own session.
"""

import numpy as np
import pytest
from tests.adversary.scores import uniform_bytes
from tests.adversary.watch import columns, watched
from tests.tolerances import ACCEPTED

from fedsvd.protocol.tasks import Item, Task
from fedsvd.roles.user.sums import SumsOfUser


@pytest.fixture
def read_by_user_1(monkeypatch):
    """Name to total, as user 1 reads it."""
    read, opened = {}, SumsOfUser.open

    def noted(self, planned, *rest):
        found = opened(self, planned, *rest)
        if self._keys.user == 1:
            read[planned.name] = found
        return found

    monkeypatch.setattr(SumsOfUser, "open", noted)
    return read


@pytest.mark.parametrize("size", [1.0, 30_000.0])
def test_the_bound_on_scores_says_their_size_within_a_class_of_sixteen_bits_and_no_more(read_by_user_1, size):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((80, 6))
    y = size * X @ rng.uniform(1.0, 2.0, size=(6, 1))
    study = {"targets": 1, "label_user": 2, "release": (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)}
    watched(columns(X, (2, 4)), Task.LR, labels=[None, y], **study)
    low = read_by_user_1["score bound"][:, 0]
    reached = np.flatnonzero(low)
    assert -1088 + 16 * reached[-1] == (0 if size == 1.0 else 16)  # the scores of either size lie in one class
    assert list(reached) == list(range(len(reached)))
    # Where the class is reached the halves are random, and do not say by how many users, or how far.
    assert uniform_bytes(low[reached]) > ACCEPTED
    assert "scores" not in read_by_user_1
