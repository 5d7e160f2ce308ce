"""A signature holds for one key, one purpose and one message, and fails by raising."""

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, NotSealed
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.sign import SigningKey, sign, verify

ALICE, EVE = (SigningKey(Seed(bytes([n]) * 32)) for n in (1, 2))


@settings(max_examples=50, deadline=None)
@given(purpose=st.text(min_size=1), message=st.binary())
def test_what_was_signed_verifies(purpose, message):
    verify(ALICE.public, purpose, message, sign(ALICE, purpose, message))


@settings(max_examples=50, deadline=None)
@given(message=st.binary(min_size=1, max_size=64), data=st.data())
def test_one_flipped_bit_anywhere_is_refused(message, data):
    parts = [ALICE.public, message, sign(ALICE, "session key", message)]
    which = data.draw(st.integers(0, 2))
    bit = data.draw(st.integers(0, 8 * len(parts[which]) - 1))
    changed = bytearray(parts[which])
    changed[bit // 8] ^= 1 << bit % 8
    parts[which] = bytes(changed)
    public, message, signature = parts
    with pytest.raises(NotSealed):
        verify(public, "session key", message, signature)


def test_a_signature_for_one_purpose_is_worth_nothing_for_another():
    signature = sign(ALICE, "plan", b"bytes")
    with pytest.raises(NotSealed):
        verify(ALICE.public, "session key", b"bytes", signature)
    # Nor by moving a letter from the purpose into the message.
    with pytest.raises(NotSealed):
        verify(ALICE.public, "pla", b"nbytes", signature)


def test_another_signer_is_refused():
    with pytest.raises(NotSealed):
        verify(ALICE.public, "plan", b"bytes", sign(EVE, "plan", b"bytes"))


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(33), ALICE.public + b"\x00"])
@pytest.mark.parametrize("signature", [b"", bytes(64), bytes(65)])
def test_malformed_keys_and_signatures_get_the_one_refusal(public, signature):
    with pytest.raises(NotSealed) as refused:
        verify(public, "plan", b"bytes", signature)
    with pytest.raises(NotSealed) as forged:
        verify(EVE.public, "plan", b"bytes", sign(ALICE, "plan", b"bytes"))
    assert str(refused.value) == str(forged.value)


def test_a_signature_needs_a_purpose():
    with pytest.raises(ConfigError):
        sign(ALICE, "", b"bytes")


def test_a_signing_key_shows_and_copies_nothing():
    assert repr(ALICE) == "SigningKey(<redacted>)"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(ALICE)
