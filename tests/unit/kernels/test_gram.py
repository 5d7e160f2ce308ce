"""Words of exact Gram matrices, tile by tile: what Python's integers say, compiled or not."""

import numpy as np
import pytest

from fedsvd.kernels import gram, library
from fedsvd.linalg.exact_gram import words_of

SHAPE = 5, 7, 11


@pytest.fixture
def sums():
    """Values at five points of polynomials of degree four whose coefficients are digits of up to 57 bits."""
    rng = np.random.default_rng(1)
    T = rng.integers(-(2**57), 2**57, SHAPE) >> rng.integers(0, 57, SHAPE)
    values = [T[0], T[4], T.sum(axis=0), T[0] - T[1] + T[2] - T[3] + T[4]]
    half = 16 * T[0] + 8 * T[1] + 4 * T[2] + 2 * T[3] + T[4]
    return np.stack([*values, half]), T


def integers(T):
    """``sum_d T_d 2^(84 - 21 d)`` in Python's integers, modulo 2^128, (rows, columns)."""
    entries = [[T[:, i, j].tolist() for j in range(SHAPE[2])] for i in range(SHAPE[1])]
    return [[wrapped(sum(t << 84 - 21 * d for d, t in enumerate(entry))) for entry in row] for row in entries]


def wrapped(value):
    return (value + 2**127) % 2**128 - 2**127


def signed(words):
    return [wrapped(int(low) + (int(high) << 64)) for low, high in words.reshape(-1, 2)]


def test_words_are_those_of_pythons_integers(sums):
    values, T = sums
    flat = [value for row in integers(T) for value in row]
    assert signed(words_of(values.copy())) == flat
    if library.compiled() is None:
        pytest.skip("no C compiler was there at the installation")
    out = np.zeros((SHAPE[1] * SHAPE[2], 2), np.uint64)
    places, skip = np.arange(SHAPE[1]) * SHAPE[2], np.zeros(SHAPE[1], np.int64)
    assert gram.words(values, places, skip, out)
    assert signed(out) == flat


def test_rows_may_go_anywhere_from_any_column_on(sums):
    if library.compiled() is None:
        pytest.skip("no C compiler was there at the installation")
    values, T = sums
    skip = np.arange(SHAPE[1], dtype=np.int64)
    lengths = SHAPE[2] - skip
    places = np.cumsum(lengths) - lengths - skip
    out = np.zeros((int(lengths.sum()), 2), np.uint64)
    assert gram.words(values, places, skip, out)
    assert signed(out) == [value for row, first in zip(integers(T), skip, strict=True) for value in row[first:]]


def test_whole_numbers_are_added_up(sums, way, monkeypatch):
    if way == "numpy":
        monkeypatch.setattr(gram, "compiled", lambda: None)
    total, numbers = np.full(1000, 5, np.int64), np.arange(1000) * 2.0**43 - 2.0**52
    gram.add_whole(total, numbers)
    assert total.tolist() == [5 + int(number) for number in numbers.tolist()]


def test_what_is_left_of_a_triangle_is_rounded_once(sums):
    if library.compiled() is None:
        pytest.skip("no C compiler was there at the installation")
    values, T = sums
    m, rng = 20, np.random.default_rng(2)
    G = rng.integers(0, 2**64, (m * (m + 1) // 2, 2), dtype=np.uint64)
    G[:, 1] = rng.integers(-(2**58), 2**58, len(G)).view(np.uint64)
    triangle = dict(zip(zip(*np.triu_indices(m), strict=True), signed(G), strict=True))
    rows, columns = rng.permutation(m)[: SHAPE[1]].astype(np.int64), rng.permutation(m)[: SHAPE[2]].astype(np.int64)
    out = np.zeros((SHAPE[1], 2 * SHAPE[2]))[:, : SHAPE[2]]
    for subtracted in (values, None):
        assert gram.left(subtracted, G, m, rows, columns, out)
        taken = integers(T) if subtracted is not None else np.zeros(SHAPE[1:], object).tolist()
        for i, a in enumerate(rows):
            for j, b in enumerate(columns):
                exact = wrapped(triangle[min(a, b), max(a, b)] - taken[i][j])
                assert out[i, j] == float(exact) * 2.0**-126  # Python rounds integers half to even


def test_without_a_compiler_the_caller_computes(sums, monkeypatch):
    monkeypatch.setattr(gram, "compiled", lambda: None)
    values, _ = sums
    none = np.zeros(0, np.int64)
    assert not gram.words(values, none, none, np.zeros((0, 2), np.uint64))
    assert not gram.left(values, np.zeros((1, 2), np.uint64), 1, none, none, np.zeros((1, 1)))
