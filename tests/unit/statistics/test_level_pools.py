"""Levels that are joined because some are rare: small counts whose answer is found by hand."""

import numpy as np
import pytest

from fedsvd.statistics.level_pools import membership, objections, order_of_joining, places_shown

LEAST = 5


def test_the_rarest_of_the_others_is_joined_first_and_without_counts_the_last():
    rare = np.array([False, True, False, False])
    assert order_of_joining(rare, np.array([[9.0, 1.0], [2.0, 0.0], [8.0, 8.0], [6.0, 0.0]])) == [3, 0, 2]
    assert order_of_joining(rare, None) == [3, 2, 0]


def test_a_party_objects_while_what_is_joined_has_one_to_four_records_of_the_others_in_any_group():
    rare = np.array([False, True, True])
    others = np.array([[9.0, 1.0], [2.0, 0.0], [1.0, 0.0]])  # joined: 3, 0; then 12, 1
    assert objections(rare, [0], others, LEAST).tolist() == [True, True, False]
    others[0, 1] = 6.0
    assert objections(rare, [0], others, LEAST).tolist() == [True, False, False]
    assert objections(np.array([True]), [], np.array([[3.0]]), LEAST).tolist() == [True]


@pytest.mark.parametrize(
    ("rare", "order", "failed", "places"),
    [
        ([0, 0, 0], [2, 1, 0], [0, 0, 0], ((0,), (1,), (2,))),
        ([0, 1, 1], [0], [0, 0, 0], ((0,), (1, 2))),
        ([0, 1, 0], [2, 0], [1, 0, 0], ((0,), (1, 2))),
        ([0, 1, 0], [2, 0], [1, 1, 1], ((0, 1, 2),)),
        ([1], [], [1], ((0,),)),
    ],
    ids=["none is rare", "two are joined", "with the next", "all", "one alone"],
)
def test_as_few_further_levels_are_joined_as_no_party_objects_to(rare, order, failed, places):
    flags, objected = np.array(rare, bool), np.array(failed, bool)
    assert places_shown(flags, order, objected) == places


def test_counts_of_what_is_shown_are_sums_of_counts_of_levels():
    member = membership(((1,), (0, 2)), 3)
    assert (member @ np.array([[3.0, 1.0], [10.0, 20.0], [4.0, 0.0]])).tolist() == [[10.0, 20.0], [7.0, 1.0]]
