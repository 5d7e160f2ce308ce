"""A sealed message opens once, in order, for the one party it was sealed to, and unchanged."""

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, LocalProtocolError, NotSealed
from fedsvd.randomness.seed import Seed
from fedsvd.sealing import seal as module
from fedsvd.sealing.seal import MAX_MESSAGES, Opener, Sealer, open_sealed, seal

KEY = Seed(bytes(range(32)))
OTHER = Seed(bytes(32))


@settings(max_examples=50, deadline=None)
@given(plaintext=st.binary(), associated=st.binary(), number=st.integers(0, MAX_MESSAGES - 1))
def test_what_was_sealed_opens(plaintext, associated, number):
    sealed = seal(KEY, number, plaintext, associated)
    assert open_sealed(KEY, number, sealed, associated) == plaintext
    assert len(sealed) == len(plaintext) + 25


@settings(max_examples=100, deadline=None)
@given(plaintext=st.binary(max_size=40), data=st.data())
def test_one_flipped_bit_anywhere_is_refused(plaintext, data):
    sealed = bytearray(seal(KEY, 7, plaintext, b"about"))
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(NotSealed):
        open_sealed(KEY, 7, bytes(sealed), b"about")


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(0, 34))
def test_a_truncated_message_is_refused(cut):
    with pytest.raises(NotSealed):
        open_sealed(KEY, 7, seal(KEY, 7, b"ten bytes.")[:cut])


WRONG = {
    "another key": lambda sealed: open_sealed(OTHER, 7, sealed, b"about"),
    "another number": lambda sealed: open_sealed(KEY, 8, sealed, b"about"),
    "a number that no message has": lambda sealed: open_sealed(KEY, -1, sealed, b"about"),
    "other associated bytes": lambda sealed: open_sealed(KEY, 7, sealed, b"abou"),
    "an extra byte": lambda sealed: open_sealed(KEY, 7, sealed + b"\x00", b"about"),
    "another version": lambda sealed: open_sealed(KEY, 7, b"\x02" + sealed[1:], b"about"),
    "nothing": lambda sealed: open_sealed(KEY, 7, b"", b"about"),
}


@pytest.mark.parametrize("attempt", WRONG.values(), ids=WRONG.keys())
def test_every_failure_is_the_one_refusal(attempt):
    with pytest.raises(NotSealed) as refused:
        attempt(seal(KEY, 7, b"secret", b"about"))
    assert str(refused.value) == (
        "FSVD-416: a key, seal or signature does not verify. Fix: start a new session; "
        "if it happens again, compare certificate fingerprints with the sender"
    )
    assert refused.value.__cause__ is None


def test_messages_open_in_order_and_a_replay_does_not():
    sealer, opener = Sealer(KEY, 1, 2), Opener(KEY, 1, 2)
    first, second, third = (sealer.seal(text) for text in (b"a", b"b", b"c"))
    assert opener.open(first) == b"a"
    for unexpected in (first, third):
        with pytest.raises(NotSealed):
            opener.open(unexpected)
    # The refusals changed nothing.
    assert [opener.open(second), opener.open(third)] == [b"b", b"c"]


def test_one_text_sealed_twice_never_looks_the_same():
    sealer = Sealer(KEY, 1, 2)
    sealed = [sealer.seal(b"the same") for _ in range(100)]
    assert len({message[:9] for message in sealed}) == len({message[9:] for message in sealed}) == 100


def test_the_two_directions_of_a_pair_share_no_key():
    there, back = Sealer(KEY, 1, 2).seal(bytes(64)), Sealer(KEY, 2, 1).seal(bytes(64))
    assert there[:9] == back[:9]
    assert there[9:] != back[9:]
    # A message reflected to its sender does not open.
    with pytest.raises(NotSealed):
        Opener(KEY, 2, 1).open(there)


def test_a_key_seals_a_bounded_number_of_messages():
    for number in (-1, MAX_MESSAGES):
        with pytest.raises(LocalProtocolError):
            seal(KEY, number, b"")


def test_a_message_too_long_is_refused_and_leaves_no_gap(monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    sealer, opener = Sealer(KEY, 1, 2), Opener(KEY, 1, 2)
    with pytest.raises(ConfigError):
        sealer.seal(bytes(11))
    assert opener.open(sealer.seal(bytes(10))) == bytes(10)


def test_nobody_seals_to_itself():
    for end in (Sealer, Opener):
        with pytest.raises(ConfigError):
            end(KEY, 1, 1)


def test_the_two_ends_show_and_copy_nothing():
    for end in (Sealer(KEY, 1, 2), Opener(KEY, 1, 2)):
        assert repr(end) == f"{type(end).__name__}(<redacted>)"
        for leak in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError):
                leak(end)
