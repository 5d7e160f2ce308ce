"""Descriptions of sums are frozen, cut into batches that tags allow, and refused when they are not."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsvd.errors import ConfigError
from fedsvd.secagg.sums import MOST_WORDS, PlannedSum, SumKind, even_batches


@given(st.sampled_from(SumKind), st.integers(1, 10**8))
def test_even_batches_are_the_fewest_and_differ_by_one_number_at_most(kind, length):
    batches = even_batches(kind, length)
    assert sum(batches) == length
    assert max(batches) - min(batches) <= 1
    assert max(batches) <= kind.most
    assert len(batches) == -(-length // kind.most)


def test_the_digits_of_a_wide_batch_are_no_more_than_the_words_of_another():
    assert SumKind.WIDE.most * SumKind.WIDE.columns <= MOST_WORDS == 2**20


def test_a_description_gives_the_shape_of_every_payload():
    gram = PlannedSum("gram 1", SumKind.TOTAL, (600, 401), 126)
    assert gram.length == 1001
    assert [gram.shape(0), gram.shape(1)] == [(600, 2), (401, 2)]
    assert PlannedSum("mean", SumKind.WIDE, (20,), 1074).shape(0) == (20, 67)
    for batch in (-1, 2):
        with pytest.raises(ConfigError, match="2 batches"):
            gram.shape(batch)
    with pytest.raises(dataclasses.FrozenInstanceError):
        gram.name = "other"


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"batches": ()},
        {"batches": (0,)},
        {"batches": (5, -1)},
        {"batches": (2**20 + 1,)},
        {"receiver": 0},
    ],
)
def test_a_description_that_cannot_be_summed_is_refused(change):
    with pytest.raises(ConfigError):
        PlannedSum(**{"name": "norm", "kind": SumKind.TOTAL, "batches": (1,), "step": 100, **change})


def test_user_1_adds_the_group_pad_or_the_receiver():
    assert PlannedSum("norm", SumKind.TOTAL, (1,), 100).pads_group == 1
    assert PlannedSum("score", SumKind.TOTAL, (1,), 100, receiver=3).pads_group == 3
