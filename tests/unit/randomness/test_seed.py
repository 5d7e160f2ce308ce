"""Seeds keep their bytes to themselves and are never the same for two purposes."""

import copy
import hmac
import os
import pickle
from types import SimpleNamespace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError
from fedsvd.randomness import seed as seed_module
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.randomness.seed import Seed

CANARY = b"a canary of exactly thirty-two b"
LABELS = st.lists(st.one_of(st.text(max_size=6), st.integers()), max_size=4)


@pytest.mark.parametrize("size", [0, 1, 16, 31, 33, 64])
def test_a_seed_has_32_bytes_and_the_error_does_not_show_them(size):
    with pytest.raises(ConfigError, match=f"32 bytes, got {size}") as caught:
        Seed(b"\xaa" * size)
    assert "aa" not in str(caught.value)
    assert "\\xaa" not in repr(caught.value)


def test_a_seed_returns_its_bytes_only_through_reveal():
    seed = Seed(CANARY)
    assert seed.reveal() == CANARY
    for text in (repr(seed), str(seed), f"{seed}", repr([seed]), repr({"seed": seed})):
        assert "canary" not in text
        assert CANARY.hex() not in text
        assert "redacted" in text


def test_a_seed_does_not_follow_a_buffer_that_changes_later():
    buffer = bytearray(32)
    seed = Seed(buffer)
    buffer[0] = 1
    assert seed.reveal() == bytes(32)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_seed_cannot_be_pickled(protocol):
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(Seed(CANARY), protocol)


def test_a_seed_cannot_be_copied_hashed_or_given_attributes():
    seed = Seed(CANARY)
    for forbidden in (copy.copy, copy.deepcopy, hash):
        with pytest.raises(TypeError):
            forbidden(seed)
    with pytest.raises(AttributeError):
        seed.note = "x"
    assert not hasattr(seed, "__dict__")


def test_equality_is_equality_of_bytes():
    assert Seed(CANARY) == Seed(CANARY)
    for position in (0, 15, 31):
        other = bytearray(CANARY)
        other[position] ^= 1
        assert Seed(CANARY) != Seed(bytes(other))
    assert Seed(CANARY) != CANARY


def test_equality_takes_the_same_time_wherever_seeds_differ(monkeypatch):
    compared = []

    def compare_digest(a, b):
        compared.append((a, b))
        return hmac.compare_digest(a, b)

    monkeypatch.setattr(seed_module, "hmac", SimpleNamespace(compare_digest=compare_digest))
    assert Seed(CANARY) != Seed(bytes(32))
    assert compared == [(CANARY, bytes(32))]


@settings(max_examples=300, deadline=None)
@given(first=LABELS, second=LABELS)
def test_different_labels_give_different_seeds(first, second):
    assume(first != second)
    seed = Seed(CANARY)
    assert seed.derive(*first) != seed.derive(*second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a", "b"), ("ab",)),
        (("a", "b"), ("b", "a")),
        ((1,), ("1",)),
        (("",), ()),
        (("", ""), ("",)),
        ((1, 2), (12,)),
        (("i\0\0\0\x011",), (1,)),  # a label that looks like the encoding of another
        (("a", "s\0\0\0\x01b"), ("a", "b")),
    ],
)
def test_labels_that_look_alike_do_not_collide(first, second):
    seed = Seed(CANARY)
    assert seed.derive(*first) != seed.derive(*second)


@settings(max_examples=50, deadline=None)
@given(secret=st.binary(min_size=32, max_size=32), labels=LABELS)
def test_derivation_is_a_function_and_never_the_seed_itself(secret, labels):
    assert Seed(secret).derive(*labels) == Seed(secret).derive(*labels)
    assert Seed(secret).derive(*labels) != Seed(secret)


def test_chained_derivation_differs_from_one_with_both_labels():
    seed = Seed(CANARY)
    assert seed.derive("a").derive("b") != seed.derive("a", "b")


def test_fresh_seeds_differ_and_come_from_the_operating_system(monkeypatch):
    assert Seed.fresh() != Seed.fresh()
    monkeypatch.setattr(os, "urandom", lambda count: b"\x07" * count)
    assert Seed.fresh() == Seed(b"\x07" * 32)


@pytest.mark.parametrize("count", [0, 1, 32, 1000])
def test_entropy_has_the_size_asked_for(count):
    assert len(fresh_bytes(count)) == count


def test_the_zero_seed_is_not_special():
    zero = Seed(bytes(32))
    derived = zero.derive("left").reveal()
    assert derived != bytes(32)
    assert len(set(derived)) > 16
    assert zero.derive("left") != zero.derive("right")
