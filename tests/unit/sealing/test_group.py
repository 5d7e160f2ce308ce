"""A message to the group opens for every user, as what it was sealed for, and no key seals two of them."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, LocalProtocolError, NotSealed
from fedsvd.randomness.seed import Seed
from fedsvd.sealing import group
from fedsvd.sealing.group import OVERHEAD, GroupSealer, in_parts, open_from_group, seal_to_group

USERS = Seed(bytes(range(32)))
ABOUT = {"session": "s", "plan": "p", "sender": 1, "purpose": "factors", "number": 0}


@settings(max_examples=50, deadline=None)
@given(plaintext=st.binary(), sender=st.integers(1, 500), purpose=st.text(min_size=1), number=st.integers(0, 2**40))
def test_what_was_sealed_opens_for_every_holder_of_the_users_seed(plaintext, sender, purpose, number):
    about = {**ABOUT, "sender": sender, "purpose": purpose, "number": number}
    sealed = seal_to_group(USERS, plaintext, **about)
    assert open_from_group(Seed(USERS.reveal()), sealed, **about) == plaintext
    assert len(sealed) == len(plaintext) + OVERHEAD


@pytest.mark.parametrize(
    "other", [{"session": "t"}, {"plan": "q"}, {"sender": 2}, {"purpose": "signs"}, {"number": 1}], ids=str
)
def test_a_message_opens_as_nothing_but_what_it_was_sealed_for(other):
    sealed = seal_to_group(USERS, b"U and S", **ABOUT)
    with pytest.raises(NotSealed):
        open_from_group(USERS, sealed, **{**ABOUT, **other})


def test_a_changed_bit_or_another_seed_is_refused():
    sealed = seal_to_group(USERS, b"U and S", **ABOUT)
    with pytest.raises(NotSealed):
        open_from_group(Seed(bytes(32)), sealed, **ABOUT)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(NotSealed):
            open_from_group(USERS, bytes(changed), **ABOUT)


def test_the_key_and_the_associated_data_are_the_specification_s():
    """Opened by hand: AES-256-GCM, nonce zero, everything authenticated with its length before it."""

    def framed(*parts):
        return b"".join(len(part).to_bytes(8, "big") + part for part in parts)

    sealed = seal_to_group(USERS, b"U and S", **{**ABOUT, "sender": 3, "number": 2})
    key = USERS.derive("sealed", 3, "factors", 2).reveal()
    header = b"\x01" + bytes(8)
    associated = framed(b"s", b"p", (3).to_bytes(8, "big"), b"factors", (2).to_bytes(8, "big"))
    assert sealed[:9] == header
    opened = AESGCM(key).decrypt(bytes(12), sealed[9:], framed(b"fedsvd/seal/1", header, associated))
    assert opened == b"U and S"


def test_no_key_seals_two_messages(monkeypatch):
    keys, seal = [], group.seal

    def noted(key, number, plaintext, associated):
        keys.append((key.reveal(), number))
        return seal(key, number, plaintext, associated)

    monkeypatch.setattr(group, "seal", noted)
    for sender in (1, 2):
        sealer = GroupSealer(USERS, "s", "p", sender)
        for purpose in ("factors", "digest", "certificate"):
            for number in range(3):
                sealer.seal(purpose, b"x", number)
    assert len({key for key, _ in keys}) == len(keys) == 18


def test_a_second_message_for_one_purpose_and_number_is_refused():
    sealer = GroupSealer(USERS, "s", "p", 1)
    first = sealer.seal("signs", b"++-")
    with pytest.raises(LocalProtocolError, match="already sealed"):
        sealer.seal("signs", b"+++")
    assert open_from_group(USERS, first, **{**ABOUT, "purpose": "signs"}) == b"++-"
    sealer.seal("signs", b"+++", number=1)


def test_a_long_message_travels_in_parts(monkeypatch):
    monkeypatch.setattr(group, "PART", 10)
    for size in (0, 1, 10, 11, 35):
        message = bytes(range(size))
        parts = in_parts(message)
        assert b"".join(parts) == message
        assert len(parts) == max(1, -(-size // 10))
    with pytest.raises(ConfigError, match="in parts"):
        seal_to_group(USERS, bytes(11), **ABOUT)


@pytest.mark.parametrize(
    "wrong", [{"session": ""}, {"plan": ""}, {"sender": 0}, {"purpose": ""}, {"number": -1}], ids=str
)
def test_a_message_without_its_place_is_refused(wrong):
    with pytest.raises(ConfigError):
        seal_to_group(USERS, b"", **{**ABOUT, **wrong})
