"""Known answers for words of Z_2^128 and for exact Gram matrices, checked by a second implementation.

The second implementation is below, in Python's integers and fractions: no slices, no halves, no rounding but one to the
grid. ``exact_gram.json`` was written by it (run this file to write it anew) and pins what parties send each other: a
word, the order of a triangle, the unit. Numbers are hexadecimal: float64 as ``float.hex``, words as 32 digits.
"""

import json
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.ring128 import from_ints, to_ints

from fedsvd.linalg import exact_gram, ring128

VECTORS = Path(__file__).with_name("exact_gram.json")
SHAPES = [(1, 1), (2, 3), (4, 2), (5, 7)]
BITS = [0, 1, 20, 52, 53, 54, 63, 64, 65, 85, 106, 116, 117, 118, 124, 125]


def word(value: int) -> str:
    return f"{value % 2**128:032x}"


def value_of(text: str) -> int:
    value = int(text, 16)
    return value - 2**128 if value >> 127 else value


def nearest(value: int) -> float:
    """The float64 next to an integer, half to even, from its bits."""
    size = abs(value)
    drop = max(0, size.bit_length() - 53)
    kept, rest, half = size >> drop, size & ((1 << drop) - 1), (1 << drop) >> 1
    kept += int(drop > 0 and (rest > half or (rest == half and kept & 1 == 1)))
    return (-1.0 if value < 0 else 1.0) * float(kept) * 2.0**drop


def gram(A: list[list[float]], D: list[list[int]]) -> list[int]:
    """The upper triangle by rows of ``Z Z^T`` for ``Z = round(2^63 A) + D``."""
    Z = [[round(Fraction(a) * 2**63) + d for a, d in zip(*rows, strict=True)] for rows in zip(A, D, strict=True)]
    return [sum(a * b for a, b in zip(Z[i], Z[j], strict=True)) for i in range(len(Z)) for j in range(i, len(Z))]


def written() -> dict[str, list[dict[str, object]]]:
    rng = random.Random(128)
    words = []
    for bits in BITS:
        for value in (1 << bits, -(1 << bits), rng.getrandbits(bits + 1), -rng.getrandbits(bits + 1)):
            words.append({"word": word(value), "integer": str(value), "float64": nearest(value).hex()})
    grams = []
    for m, q in SHAPES:
        A = [[rng.uniform(-0.5, 0.5) * 2.0 ** -rng.randrange(40) for _ in range(q)] for _ in range(m)]
        A[0][0] = -0.5
        D = [[rng.randrange(-999, 1000) for _ in range(q)] for _ in range(m)]
        triangle = [word(value) for value in gram(A, D)]
        grams.append({"A": [[a.hex() for a in row] for row in A], "D": D, "triangle": triangle})
    return {"words": words, "grams": grams}


@pytest.fixture(scope="module")
def vectors():
    return json.loads(VECTORS.read_text())


def test_the_second_implementation_gives_the_file(vectors):
    assert vectors == json.loads(json.dumps(written()))


def test_words_hold_the_integers_of_the_file(vectors):
    integers = [int(entry["integer"]) for entry in vectors["words"]]
    words = from_ints(integers)
    assert [f"{int(high):016x}{int(low):016x}" for low, high in words] == [entry["word"] for entry in vectors["words"]]
    assert to_ints(words) == integers


def test_words_round_to_the_numbers_of_the_file(vectors):
    words = from_ints(value_of(entry["word"]) for entry in vectors["words"])
    expected = [float.fromhex(entry["float64"]) for entry in vectors["words"]]
    np.testing.assert_array_equal(ring128.to_float(words), expected)


@pytest.mark.parametrize("shape", range(len(SHAPES)), ids=[f"{m} x {q}" for m, q in SHAPES])
def test_gram_matrices_are_those_of_the_file(vectors, shape):
    entry = vectors["grams"][shape]
    A = np.array([[float.fromhex(a) for a in row] for row in entry["A"]])
    words = exact_gram.sliced(A, np.array(entry["D"], np.float64)).rows(0, len(A))
    assert [word(value) for value in to_ints(words)] == entry["triangle"]


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(written(), indent=1) + "\n")
