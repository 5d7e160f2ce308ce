"""Names are spelt one way, and a fingerprint is compared whole."""

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError
from fedsvd.identity.names import (
    Identity,
    KitRole,
    Name,
    federation_fingerprint,
    grouped,
    key_fingerprint,
    parse_uri,
    request_fingerprint,
    ungrouped,
)

FEDERATION = "0123456789abcdef" * 2
IDS = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?", fullmatch=True)


@settings(max_examples=50)
@given(role=st.sampled_from(KitRole), party_id=IDS)
def test_a_name_is_its_uri(role, party_id):
    name = Name(FEDERATION, role, party_id)
    assert name.uri == f"fedsvd://{FEDERATION}/{role.value}/{party_id}"
    assert parse_uri(name.uri) == name
    assert str(name) == f"{role.value}/{party_id}"


@pytest.mark.parametrize(
    "party_id",
    ["", ".", "..", ".a", "a.", "-a", "a/b", "a b", "a\n", "a\x00", "ä", "a" * 65, "a%2fb", "a?b", "a#b", "a:b", '"'],
)
def test_what_could_be_read_as_something_else_is_no_id(party_id):
    with pytest.raises(ConfigError):
        Name(FEDERATION, KitRole.PARTY, party_id)
    with pytest.raises(ConfigError):
        parse_uri(f"fedsvd://{FEDERATION}/party/{party_id}")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        f"https://{FEDERATION}/party/a",
        f"fedsvd:/{FEDERATION}/party/a",
        f"fedsvd://{FEDERATION}/operator/a",
        f"fedsvd://{FEDERATION}/PARTY/a",
        f"fedsvd://{FEDERATION.upper()}/party/a",
        f"fedsvd://{FEDERATION[1:]}/party/a",
        f"fedsvd://{FEDERATION}/party",
        f"fedsvd://{FEDERATION}",
        f"fedsvd://{FEDERATION}/party/a/b",
    ],
)
def test_other_uris_name_nobody(uri):
    with pytest.raises(ConfigError):
        parse_uri(uri)


def test_fingerprints_are_sha256_of_what_they_stand_for_each_with_its_length():
    def digest(*parts: bytes) -> str:
        return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()

    tls, key = b"a TLS key", bytes(range(32))
    assert key_fingerprint(key) == digest(b"fedsvd/key/1", key)
    assert request_fingerprint(tls, key) == digest(b"fedsvd/request/1", tls, key)
    assert federation_fingerprint(tls, FEDERATION) == digest(b"fedsvd/federation/1", tls, FEDERATION.encode())
    assert Identity(FEDERATION, KitRole.PARTY, "a", key).fingerprint == key_fingerprint(key)


def test_a_fingerprint_is_read_aloud_in_sixteen_groups_of_four():
    fingerprint = key_fingerprint(bytes(32))
    assert re.fullmatch(r"([0-9a-f]{4} ){15}[0-9a-f]{4}", grouped(fingerprint))
    for written in (grouped(fingerprint), grouped(fingerprint).upper(), grouped(fingerprint).replace(" ", ":")):
        assert ungrouped(f" {written}\n") == fingerprint


@pytest.mark.parametrize("text", ["", "abcd", "0" * 63, "0" * 65, "g" * 64, grouped("0" * 64)[:-5]])
def test_part_of_a_fingerprint_is_not_one(text):
    with pytest.raises(ConfigError):
        ungrouped(text)
