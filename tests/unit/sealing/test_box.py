"""Boxes for the holder of an Ed25519 key."""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedsvd.errors import NotSealed
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.box import agreement_public, open_box, seal_to
from fedsvd.sealing.sign import SigningKey


def seed(number):
    return Seed(hashlib.sha256(bytes([number])).digest())


ONE, OTHER = SigningKey(seed(1)), SigningKey(seed(2))


@pytest.mark.parametrize("number", range(20))
def test_the_twin_of_a_key_is_what_both_curves_give_for_one_secret(number):
    """RFC 8032 multiplies by the first half of SHA-512 of the secret; RFC 7748 clamps in the same way."""
    secret = hashlib.sha256(f"twin {number}".encode()).digest()
    signs = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    agrees = X25519PrivateKey.from_private_bytes(hashlib.sha512(secret).digest()[:32])
    assert agreement_public(signs) == agrees.public_key().public_bytes_raw()


def test_the_twin_of_the_base_point_is_nine():
    base = (4 * pow(5, -1, 2**255 - 19) % (2**255 - 19)).to_bytes(32, "little")  # RFC 8032: y = 4/5; RFC 7748: u = 9
    assert agreement_public(base) == (9).to_bytes(32, "little")


def test_a_box_opens_with_its_key_in_its_context():
    box = seal_to(ONE.public, seed(3), b"what all share", b"job 7")
    assert open_box(ONE, box, b"job 7") == b"what all share"
    assert seal_to(ONE.public, seed(4), b"what all share", b"job 7") != box


def test_a_box_does_not_open_with_another_key_in_another_context_or_altered():
    box = seal_to(ONE.public, seed(3), b"what all share", b"job 7")
    for key, given, context in (
        (OTHER, box, b"job 7"),
        (ONE, box, b"job 8"),
        (ONE, box[:-1], b"job 7"),
        (ONE, b"", b"job 7"),
        (ONE, bytes(32) + box[32:], b"job 7"),  # a point of low order
        *((ONE, box[:i] + bytes([box[i] ^ 1]) + box[i + 1 :], b"job 7") for i in range(0, len(box), 7)),
    ):
        with pytest.raises(NotSealed):
            open_box(key, given, context)


@pytest.mark.parametrize("key", [b"", bytes(31), (1).to_bytes(32, "little"), (2**255 - 19).to_bytes(32, "little")])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(NotSealed):
        seal_to(key, seed(3), b"what all share")
