"""The graph of pads: the same at all users, regular, and connected among honest users as often as is promised."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from fedsvd.errors import ConfigError
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.secagg.keys import PadKeys, pad_keys
from fedsvd.secagg.neighbours import colluding, cut, degree, neighbours

ORDER = Seed(b"\x51" * 32)


def matrix(k, order=ORDER):
    """Who shares pads with whom, as each of the k users finds it."""
    A = np.zeros((k, k), bool)
    for user in range(1, k + 1):
        A[user - 1, np.array(neighbours(k, user, order)) - 1] = True
    return A


def circulant(k, d):
    apart = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    return (apart > 0) & (np.minimum(apart, k - apart) <= d // 2)


def parts_without(A, left):
    """Into how many parts the users fall who are not in ``left``."""
    stay = np.setdiff1d(np.arange(len(A)), left)
    return connected_components(A[np.ix_(stay, stay)], directed=False)[0]


@pytest.mark.parametrize("k", [2, 3, 16, 17, 18, 19, 47, 48, 100, 500])
def test_all_users_derive_one_regular_graph_of_as_many_neighbours_as_the_degree(k):
    A = matrix(k)
    assert np.array_equal(A, A.T)
    assert not A.diagonal().any()
    assert set(A.sum(axis=1)) == {degree(k)}


def test_up_to_17_users_all_pairs_share_pads():
    assert [degree(k) for k in range(2, 19)] == [*range(1, 17), 16]
    assert [colluding(k) for k in (2, 3, 16, 17, 18)] == [0, 1, 14, 15, 15]


def test_degrees_are_those_that_were_computed_by_hand():
    """With d <= t = k / 3: 2^40 k (k - d + 1) / 2 C(k - d, t - d) / C(k, t), by logarithms of factorials."""
    from scipy.special import gammaln

    def log2_cut(k, d):
        t = k // 3
        choose = lambda n, r: gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1)  # noqa: E731
        return np.log2(k * (k - d + 1) / 2) + (choose(k - d, t - d) - choose(k, t)) / np.log(2)

    for k in (60, 100, 200, 500, 1000):
        assert log2_cut(k, degree(k)) < -40 < log2_cut(k, degree(k) - 2)
    assert [degree(k) for k in (50, 60, 100, 200, 500, 1000)] == [18, 20, 26, 30, 34, 36]


@pytest.mark.parametrize(("k", "d"), [(7, 2), (8, 4), (10, 4), (10, 6)])
def test_the_bound_holds_for_every_set_of_colluding_users_of_small_circles(k, d):
    A = circulant(k, d)
    for t in range(k - 1):
        sets = list(itertools.combinations(range(k), t))
        separated = sum(parts_without(A, np.array(left, int)) > 1 for left in sets)
        assert Fraction(separated, len(sets)) <= cut(k, d, t)
        assert separated == 0 or t >= d, "fewer than d never separate the others"


def test_the_bound_is_not_idle():
    """Of 2 neighbours each, two users that are not next to each other separate the rest: 1 - 2 / (k - 1)."""
    A, k = circulant(8, 2), 8
    separated = sum(parts_without(A, np.array(left)) > 1 for left in itertools.combinations(range(k), 2))
    assert separated == 28 - 8
    assert cut(8, 2, 2) == 1


def test_no_choice_of_fewer_users_than_neighbours_separates_two_others_and_as_many_do():
    """The best choice against a circle: two runs of d / 2, anywhere. One user less, and all others stay together."""
    k, A = 48, matrix(48)
    circle = [0]
    while len(circle) < k:  # the order on the circle, found from the graph: next is who shares the most neighbours
        free = [user for user in np.flatnonzero(A[circle[-1]]) if user not in circle]
        circle.append(max(free, key=lambda user: (A[circle[-1]] & A[user]).sum()))
    places, h = np.array(circle), degree(k) // 2
    for start in range(h + 1, k - h):
        runs = np.concatenate((places[:h], places[start : start + h]))
        assert parts_without(A, runs) == 2
        for spared in range(0, 2 * h, 5):
            assert parts_without(A, np.delete(runs, spared)) == 1


def test_a_third_of_the_users_chosen_before_the_order_leave_the_others_connected():
    for k in (18, 50, 60, 200):
        left = np.arange(k // 3)
        for trial in range(20):
            assert parts_without(matrix(k, Seed(bytes([trial]) * 32)), left) == 1


def test_another_order_is_another_graph_and_every_place_is_as_likely():
    assert not np.array_equal(matrix(48), matrix(48, Seed(b"\x52" * 32)))
    k, trials = 48, 400
    met = sum(2 in neighbours(k, 1, ORDER.derive("trial", trial)) for trial in range(trials))
    expected = trials * degree(k) / (k - 1)
    assert abs(met - expected) < 7 * np.sqrt(expected)  # the order is seeded: this is one number


@pytest.mark.parametrize("user", [0, 19])
def test_a_user_who_is_none_of_them_has_no_neighbours(user):
    with pytest.raises(ConfigError, match="count users from 1"):
        neighbours(18, user, ORDER)


def test_keys_are_agreed_with_neighbours_alone_and_both_ends_hold_the_same():
    mine = {user: AgreementKey(Seed(bytes([user]) * 32)) for user in range(1, 20)}
    publics = {user: key.public for user, key in mine.items()}
    keys = {user: pad_keys(mine[user], user, publics, "s", "p", ORDER) for user in mine}
    assert all(len(own.peers) == 16 and own.k == 19 for own in keys.values())
    assert all(keys[i].seed(j) == keys[j].seed(i) for i in keys for j in keys[i].peers)


def test_a_user_with_fewer_pads_than_the_graph_has_is_refused():
    seeds = {peer: Seed(bytes([peer]) * 32) for peer in range(2, 18)}
    PadKeys(1, seeds, 18)
    del seeds[2]
    with pytest.raises(ConfigError, match="needs seeds for 16 other users"):
        PadKeys(1, seeds, 18)
