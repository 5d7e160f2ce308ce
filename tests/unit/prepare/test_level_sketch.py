"""Sketches of levels: what all parties have comes out of their sum, and nothing of who has what."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedsvd.errors import DataError
from fedsvd.prepare import level_sketch
from fedsvd.prepare.level_sketch import Counted, digest_of

SECRET = bytes(range(32))


def digests(*levels):
    return [digest_of("g", level, SECRET) for level in levels]


def made_up(rng, parties, levels):
    """What each party holds: some of the levels, each a number of times."""
    every = digests(*(f"level {number}" for number in range(levels)))
    parts = []
    for _ in range(parties):
        held = rng.random(levels) < 0.6
        parts.append({digest: int(rng.integers(1, 1000)) for digest, has in zip(every, held, strict=True) if has})
    return parts


@pytest.mark.parametrize("parties, levels, capacity", [(1, 1, 2), (2, 5, 16), (3, 40, 64), (5, 256, 256), (500, 3, 4)])
def test_levels_holders_and_counts_come_out_of_the_sum(parties, levels, capacity):
    rng = np.random.default_rng(levels)
    parts = made_up(rng, parties, levels)
    found = level_sketch.read(np.sum([level_sketch.sketch(part, capacity) for part in parts], axis=0), capacity)
    every = sorted({digest for part in parts for digest in part})
    expected = [
        Counted(digest, sum(digest in part for part in parts), sum(part.get(digest, 0) for part in parts))
        for digest in every
    ]
    assert list(found) == expected


def test_a_sum_does_not_say_which_party_has_a_level():
    a, b = digests("a", "b")
    one = level_sketch.sketch({a: 3, b: 5}, 8) + level_sketch.sketch({a: 2}, 8)
    other = level_sketch.sketch({a: 1}, 8) + level_sketch.sketch({a: 4, b: 5}, 8)
    assert_array_equal(one, other)


def test_its_length_does_not_depend_on_the_levels():
    empty, full = level_sketch.sketch({}, 64), level_sketch.sketch(dict.fromkeys(digests(*"abcdef"), 1), 64)
    assert empty.shape == full.shape == (level_sketch.sketch_numbers(64),)
    assert level_sketch.texts({}, (), 64).shape == (level_sketch.text_numbers(64),)


def test_more_levels_than_it_has_space_for_are_refused():
    many = dict.fromkeys(digests(*map(str, range(400))), 1)
    with pytest.raises(DataError, match="more than 16 levels"):
        level_sketch.read(level_sketch.sketch(many, 16), 16)


def test_an_altered_sum_is_no_list_of_levels():
    total = level_sketch.sketch(dict.fromkeys(digests(*"abc"), 2), 16)
    total[np.flatnonzero(total)[0]] += 1
    with pytest.raises(DataError, match="levels"):
        level_sketch.read(total, 16)


def test_texts_of_any_language_are_added_up_by_their_holders():
    texts = dict(zip(digests(*"abc"), ("männlich", "女", "x" * 128), strict=True))
    order = [Counted(digest, holders, 9) for digest, holders in zip(texts, (1, 2, 3), strict=True)]
    first, second, third = texts
    held = [{first: texts[first], second: texts[second], third: texts[third]}, {second: texts[second]}, {}]
    held[1][third] = held[2][third] = texts[third]
    total = np.sum([level_sketch.texts(own, order, 8) for own in held], axis=0)
    assert level_sketch.read_texts(total, order, 8) == tuple(texts.values())


def test_what_no_sketch_holds_is_refused_before_it_is_made():
    with pytest.raises(DataError, match="300 levels, the study has space for 256"):
        level_sketch.expect_usable("g", map(str, range(300)), 256)
    with pytest.raises(DataError, match="1 levels of column 'g' are longer"):
        level_sketch.expect_usable("g", ["ä" * 65, "short"], 256)
