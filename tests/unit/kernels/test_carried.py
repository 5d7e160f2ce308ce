"""Words of two halves: compiled, they are those of NumPy bit for bit, at every edge of their ranges."""

import numpy as np
import pytest
from tests.unit.kernels.conftest import without

from fedsvd.errors import FixedPointOverflow, ShapeError
from fedsvd.kernels import carried, library
from fedsvd.secagg.tagged import tag
from fedsvd.secagg.words128 import (
    add_into,
    combine_rows,
    from_integers,
    subtract_into,
    to_integers,
    to_numbers,
    to_words,
)

EDGES = [0, 1, -1, 2**53 + 1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**64), 2**117 + 2**63, 2**127 - 1, -(2**127)]


def integers(count=3000):
    rng = np.random.default_rng(1)
    drawn = [int(a) << 64 | int(b) for a, b in rng.integers(0, 2**63, (count, 2))]
    return [
        *EDGES,
        *(
            (-1) ** i * (value >> int(s))
            for i, (value, s) in enumerate(zip(drawn, rng.integers(0, 128, count), strict=True))
        ),
    ]


def both(monkeypatch, work):
    """The same by the compiled passes and by NumPy."""
    if library.compiled() is None:
        pytest.skip("no C compiler was there at the installation")
    compiled = work()
    with monkeypatch.context() as patched:
        without(patched)
        return compiled, work()


def test_sums_numbers_and_tags_are_those_of_numpy(monkeypatch):
    words = from_integers(integers())
    other, keys = np.roll(words, 1, axis=0), np.roll(words, 5, axis=0)[:, 0].copy()

    def work():
        found = [add_into(words.copy(), other), subtract_into(words.copy(), other)]
        found += [to_numbers(words, power) for power in (-800, 0, 61, 100, 126)]
        return [*found, tag(words, keys, 192), tag(words[:, 1:].copy(), keys, 128)]

    for compiled, numpy in zip(*both(monkeypatch, work), strict=True):
        np.testing.assert_array_equal(compiled, numpy)


@pytest.mark.parametrize("halves", [1, 2, 3, 5])
def test_many_rows_are_added_and_subtracted_at_once_as_pythons_integers_are(monkeypatch, halves):
    rng = np.random.default_rng(halves)
    count, rows = 7, rng.integers(0, 2**64, (6, 7 * halves + 4), np.uint64)
    rows[:, :halves] = 2**64 - 1  # carries and borrows through all halves
    rows[0, halves : 2 * halves] = 0
    size = 2 ** (64 * halves)
    terms = [[value % size for value in to_integers(row[: count * halves].reshape(count, halves))] for row in rows]
    for plus in (0, 4, 6):
        total = from_integers(range(count), halves)
        signs = [1 if number < plus else -1 for number in range(6)]
        expected = [
            (at + sum(sign * row[at] for sign, row in zip(signs, terms, strict=True))) % size for at in range(count)
        ]
        for found in both(monkeypatch, lambda: combine_rows(total.copy(), rows[:, : count * halves], plus)):  # noqa: B023
            assert [value % size for value in to_integers(found)] == expected
    with pytest.raises(ShapeError, match="do not add up"):
        combine_rows(from_integers(range(count), halves), rows, 6)


@pytest.mark.parametrize("step", [0, 61, 100, 126])
def test_words_of_numbers_are_those_of_numpy(monkeypatch, step):
    rng = np.random.default_rng(2)
    size = np.ldexp(rng.standard_normal(4000), rng.integers(-1100, 120 - step, 4000))
    halves = np.ldexp(np.arange(-9.0, 10.0), -step - 1)  # between two words: the even one is taken
    values = np.concatenate((size, halves, [0.0, -0.0, 5e-324, 2.0 ** (125 - step), -(2.0 ** (125 - step))]))
    noise = rng.integers(-(2**63), 2**63, values.size)
    for compiled, numpy in zip(
        *both(monkeypatch, lambda: (to_words(values, step), to_words(values, step, noise=noise, terms=2))), strict=True
    ):
        np.testing.assert_array_equal(compiled, numpy)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 2.0**27, -(2.0**26) * 1.0001])
def test_what_is_beyond_is_refused_in_the_same_words(monkeypatch, wrong):
    def refused():
        with pytest.raises(FixedPointOverflow) as caught:
            to_words(np.array([1.0, wrong, 2.0]), 100)
        return str(caught.value)

    compiled, numpy = both(monkeypatch, refused)
    assert compiled == numpy


def test_arrays_with_gaps_and_other_halves_are_left_to_numpy():
    words = np.zeros((8, 3), np.uint64)
    assert not carried.combine(words, words.copy(), minus=False)
    assert not carried.combine(words[:, :2], words[:, 1:], minus=False)
    assert carried.tag(words, words[:, 0].copy()) is None
