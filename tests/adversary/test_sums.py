"""What a user learns from users-only sums: the totals, which it is meant to, and differences between them.

The attacker is user 1, with the totals it reads in its own session.
"""

import numpy as np
import pytest
from tests.adversary.watch import columns, csp_view, watched
from tests.tolerances import digits_lost

from fedsvd.compress import centre
from fedsvd.lab.attacks.score import gap
from fedsvd.lab.attacks.view import X_masked
from fedsvd.protocol.release import Policy, findings
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.roles.user.sums import UsersOnly
from fedsvd.runtime import planning

FIRST = 4096  # columns whose mean makes the provisional shift


@pytest.fixture
def read_by_user_1(monkeypatch):
    """Name to total, as user 1 reads it."""
    read, total = {}, UsersOnly.total

    def noted(self, request, padded):
        found = total(self, request, padded)
        if self._keys.user == 1:
            read[request.name] = found
        return found

    monkeypatch.setattr(UsersOnly, "total", noted)
    return read


@pytest.fixture(scope="module")
def tables():
    """Three parties; the third has one record more than make the provisional shift."""
    rng = np.random.default_rng(1)
    scale, place = np.array([1.0, 50.0, 1e-3, 4.0]), np.array([0.3, 1e4, 2.0, -7.0])
    return [scale * rng.standard_normal((n_i, 4)) + place for n_i in (50, 60, FIRST + 1)], scale


def last_record(tables, read):
    """The sum of all records less those behind the shift: what is left is the third party's last one."""
    outcome = watched(tables, Task.PCA, split=Split.HORIZONTAL, components=2)
    assert outcome.plan.compress
    return outcome.plan.n * outcome.parties[0].mean - read["shift"][:-1]


def test_the_provisional_shift_does_not_give_away_the_records_after_the_first_chunk(tables, read_by_user_1):
    parts, scale = tables
    missed = np.abs(last_record(parts, read_by_user_1) - parts[2][-1]) / scale
    assert missed.min() > 10.0  # standard deviations; a guess without any sum would miss by one


def test_exact_it_would(tables, read_by_user_1, monkeypatch):
    """The rounding undone: user 1 reads one record of another party, whole."""
    monkeypatch.setattr(centre, "_rounded", lambda mean, deviation: mean)
    parts, scale = tables
    assert (np.abs(last_record(parts, read_by_user_1) - parts[2][-1]) < digits_lost(10) * scale).all()


def test_the_bound_on_scores_says_their_size_within_a_factor_of_two_and_no_more(read_by_user_1):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((80, 6))
    y = X @ rng.standard_normal((6, 1))
    study = {"targets": 1, "label_user": 2, "release": (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)}
    watched(columns(X, (2, 4)), Task.LR, labels=[None, y], **study)
    mantissa, _ = np.frexp(read_by_user_1["score norm"] - np.exp2(np.arange(-60, 61)))  # less our own power of two
    assert (mantissa == 0.5).any()
    assert "scores" not in read_by_user_1


def test_a_window_that_holds_one_partys_columns_alone_shows_their_spectrum_and_the_guard_finds_it(monkeypatch):
    """A partner with fewer columns than there are windows is missing from some of them."""
    monkeypatch.setattr(planning, "HAAR_RIGHT_LIMIT", 1)
    X = np.random.default_rng(3).standard_normal((30, 1200)) * np.geomspace(1, 5, 1200)
    outcome = watched(columns(X, (1199, 1)), scheme="mask", window=602)
    plan = outcome.plan
    assert [own.stop - own.start for own in plan.right_windows[0].columns] == [599, 0]
    window = plan.right_windows[0]
    shown = np.linalg.svd(X_masked(plan, csp_view(outcome))[:, window.outputs], compute_uv=False)
    own = np.linalg.svd(X[:, window.columns[0]], compute_uv=False)
    assert gap(shown / shown[0], own / own[0]) < digits_lost(7)
    found = {finding.rule: finding for finding in findings(plan, Policy())}
    assert found["windows"].below
    assert found["windows"].text.startswith("1 of 2 windows")
