"""A tag is the sum of key times integer, exactly; Python's integers are the witness."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ShapeError
from fedsvd.secagg.sums import MOST_WORDS, tag_value, tag_words
from fedsvd.secagg.tagged import tag
from fedsvd.secagg.words128 import add_into, from_integers, to_integers

keys = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**64 - 1, 2**63])


def exact(integers, alpha, bits):
    return sum(int(a) * x for a, x in zip(alpha, integers, strict=True)) % 2**bits


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([(1, 128), (2, 192), (2, 128), (1, 64)]))
def test_a_tag_is_what_python_integers_give(data, law):
    halves, bits = law
    most = 2 ** (64 * halves - 1)
    integers = st.integers(-most, most - 1) | st.sampled_from([0, 1, -1, most - 1, -most])
    pairs = data.draw(st.lists(st.tuples(integers, keys), max_size=40))
    values, alpha = [value for value, _ in pairs], np.array([key for _, key in pairs], np.uint64)
    assert tag(from_integers(values, halves), alpha, bits) == exact(values, alpha, bits)


@pytest.mark.parametrize("word", [2**64 - 1, 2**63 - 1], ids=["all ones", "the largest"])
def test_the_longest_batch_of_the_largest_limbs_has_no_rounding(word):
    words = np.full((MOST_WORDS, 2), 2**64 - 1, np.uint64)
    words[:, 1] = word
    alpha = np.full(MOST_WORDS, 2**64 - 1, np.uint64)
    x = to_integers(words[:1])[0]
    assert tag(words, alpha, 192) == MOST_WORDS * x * (2**64 - 1) % 2**192
    digits = words.reshape(-1, 1)[:MOST_WORDS]
    assert tag(digits, alpha, 128) == exact(to_integers(digits), alpha, 128)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-(2**126), 2**126 - 1)] * 2, keys), min_size=1, max_size=30))
def test_tags_of_shares_add_up_to_the_tag_of_the_total(rows):
    a, b = (from_integers([row[i] for row in rows]) for i in (0, 1))
    alpha = np.array([row[2] for row in rows], np.uint64)
    parts = (tag(a, alpha, 192) + tag(b, alpha, 192)) % 2**192
    assert tag(add_into(a, b), alpha, 192) == parts


def test_a_tag_reads_arrays_in_any_layout():
    rng = np.random.default_rng(1)
    words, alpha = rng.integers(0, 2**64, (9000, 2), np.uint64), rng.integers(0, 2**64, 9000, np.uint64)
    expected = exact(to_integers(words), alpha, 192)
    assert tag(np.asfortranarray(words), alpha, 192) == expected
    assert tag(np.repeat(words, 2, axis=0)[::2], np.repeat(alpha, 2)[::2], 192) == expected


@given(st.integers(0, 2**192 - 1))
def test_a_tag_survives_its_three_words(value):
    assert tag_words(value).shape == (3,)
    assert tag_value(tag_words(value)) == value


def test_keys_that_do_not_fit_are_refused():
    two = np.zeros((2, 2), np.uint64)
    for integers, alpha in ((two, two[:1, 0]), (two[0], two[0]), (two, two)):
        with pytest.raises(ShapeError):
            tag(integers, alpha, 192)
    with pytest.raises(ShapeError):
        tag(np.zeros((MOST_WORDS + 1, 2), np.uint64), np.zeros(MOST_WORDS + 1, np.uint64), 192)
