"""The package ``sealing`` against the standards' own vectors and a second, slow implementation of each.

The second implementations below are written from the standards in plain integers: X25519 (RFC 7748), Ed25519
(RFC 8032), HKDF-SHA256 (RFC 5869) and AES-GCM (NIST SP 800-38D, over single AES blocks). Each is checked on
the published vectors first, then our keys, signatures and seals are checked against it, byte for byte.
"""

import hashlib
import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey, pair_key, shared_secret
from fedsvd.sealing.seal import Sealer, open_sealed, seal
from fedsvd.sealing.sign import SigningKey, sign, verify

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def hexed(text):
    return bytes.fromhex(text)


def framed(*parts):
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def x25519(scalar, point):
    k = int.from_bytes(scalar, "little") & ~7 & (2**255 - 1) | 2**254
    u = int.from_bytes(point, "little") & (2**255 - 1)
    x2, z2, x3, z3 = 1, 0, u, 1
    for bit in reversed(range(255)):
        swap = k >> bit & 1
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        total, less = (x2 + z2) ** 2, (x2 - z2) ** 2
        da, cb = (x3 - z3) * (x2 + z2), (x3 + z3) * (x2 - z2)
        x3, z3 = (da + cb) ** 2 % P, u * (da - cb) ** 2 % P
        x2, z2 = total * less % P, (total - less) * (total + 121665 * (total - less)) % P
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, -1, P) % P).to_bytes(32, "little")


def edwards_add(a, b):
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2 % P
    return (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P


def edwards_times(k, point):
    out = (0, 1)
    while k:
        if k & 1:
            out = edwards_add(out, point)
        point, k = edwards_add(point, point), k >> 1
    return out


def base_point():
    y = 4 * pow(5, -1, P) % P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (x if x % 2 == 0 else P - x), y


def compressed(point):
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def ed25519(secret, message):
    digest = hashlib.sha512(secret).digest()
    a = int.from_bytes(digest[:32], "little") & ~7 & (2**255 - 1) & ~(1 << 255) | 2**254
    B = base_point()
    public = compressed(edwards_times(a, B))
    r = int.from_bytes(hashlib.sha512(digest[32:] + message).digest(), "little") % L
    R = compressed(edwards_times(r, B))
    h = int.from_bytes(hashlib.sha512(R + public + message).digest(), "little") % L
    return public, R + ((r + h * a) % L).to_bytes(32, "little")


def hkdf(ikm, salt, info, length):
    key, out, block = hmac.new(salt, ikm, hashlib.sha256).digest(), b"", b""
    while len(out) < length:
        block = hmac.new(key, block + info + bytes([len(out) // 32 + 1]), hashlib.sha256).digest()
        out += block
    return out[:length]


def ghash_times(x, y):
    z = 0
    for bit in reversed(range(128)):
        if x >> bit & 1:
            z ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return z


def gcm(key, nonce, plaintext, associated):
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update
    h = int.from_bytes(block(bytes(16)), "big")
    count = -(-len(plaintext) // 16)
    stream = b"".join(block(nonce + (i + 2).to_bytes(4, "big")) for i in range(count))
    body = bytes(a ^ b for a, b in zip(plaintext, stream, strict=False))
    lengths = (8 * len(associated)).to_bytes(8, "big") + (8 * len(body)).to_bytes(8, "big")
    padded = associated + bytes(-len(associated) % 16) + body + bytes(-len(body) % 16) + lengths
    s = 0
    for start in range(0, len(padded), 16):
        s = ghash_times(s ^ int.from_bytes(padded[start : start + 16], "big"), h)
    mask = int.from_bytes(block(nonce + (1).to_bytes(4, "big")), "big")
    return body + (s ^ mask).to_bytes(16, "big")


ALICE = hexed("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = hexed("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = hexed("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = hexed("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
SHARED = hexed("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")


def test_rfc_7748_section_5_2_scalar_multiplication():
    scalar = hexed("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = hexed("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    product = hexed("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")
    assert x25519(scalar, point) == product
    assert shared_secret(AgreementKey(Seed(scalar)), point).reveal() == product


def test_rfc_7748_section_6_1_diffie_hellman():
    alice, bob = AgreementKey(Seed(ALICE)), AgreementKey(Seed(BOB))
    assert (alice.public, bob.public) == (ALICE_PUBLIC, BOB_PUBLIC)
    assert shared_secret(alice, BOB_PUBLIC).reveal() == shared_secret(bob, ALICE_PUBLIC).reveal() == SHARED
    assert x25519(ALICE, BOB_PUBLIC) == SHARED


def test_random_agreements_equal_the_second_implementation():
    rng = np.random.default_rng(7748)
    for _ in range(5):
        mine, theirs = rng.bytes(32), rng.bytes(32)
        public = x25519(theirs, (9).to_bytes(32, "little"))
        assert AgreementKey(Seed(theirs)).public == public
        assert shared_secret(AgreementKey(Seed(mine)), public).reveal() == x25519(mine, public)


RFC_5869 = [
    # basic, longer inputs, empty salt and info (test cases 1, 2, 3)
    (
        b"\x0b" * 22,
        bytes(range(0x0D)),
        bytes(range(0xF0, 0xFA)),
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    ),
    (
        bytes(range(0x50)),
        bytes(range(0x60, 0xB0)),
        bytes(range(0xB0, 0x100)),
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
        "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
    ),
    (
        b"\x0b" * 22,
        b"",
        b"",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
    ),
]


@pytest.mark.parametrize(("ikm", "salt", "info", "okm"), RFC_5869)
def test_rfc_5869_hkdf_sha256(ikm, salt, info, okm):
    assert hkdf(ikm, salt, info, len(okm) // 2).hex() == okm


def test_a_pair_key_is_hkdf_of_the_shared_secret_with_session_plan_pair_and_both_public_keys():
    salt = framed(b"fedsvd/pair/1", b"session-9", b"digest-4")
    info = framed(b"pads", (1).to_bytes(8, "big"), (2).to_bytes(8, "big"), BOB_PUBLIC, ALICE_PUBLIC)
    names = {"session": "session-9", "plan": "digest-4", "purpose": "pads"}
    key = pair_key(AgreementKey(Seed(ALICE)), BOB_PUBLIC, me=2, them=1, **names)
    assert key.reveal() == hkdf(SHARED, salt, info, 32)
    assert key.reveal().hex() == "b8b852eccdd4c82a318e8821c3c82a147f1e11b2c4cb2e85ce126e7a898db5e9"


RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
]


@pytest.mark.parametrize(("secret", "public", "message", "signature"), RFC_8032)
def test_rfc_8032_ed25519(secret, public, message, signature):
    assert ed25519(hexed(secret), hexed(message)) == (hexed(public), hexed(signature))
    assert SigningKey(Seed(hexed(secret))).public == hexed(public)


@pytest.mark.parametrize("message", [b"", b"a session key", bytes(200)])
def test_a_signature_is_ed25519_of_domain_purpose_and_message(message):
    secret = hexed(RFC_8032[0][0])
    public, signature = ed25519(secret, framed(b"fedsvd/sign/1", b"session key", message))
    assert sign(SigningKey(Seed(secret)), "session key", message) == signature
    verify(public, "session key", message, signature)


NIST_KEY = hexed("feffe9928665731c6d6a8f9467308308" * 2)
NIST_TEXT = hexed(
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
)
NIST_GCM = [
    # AES-256 test cases 13, 14 and 16 of the GCM specification
    (bytes(32), bytes(12), b"", b"", "530f8afbc74536b9a963b4f1c4cb738b"),
    (bytes(32), bytes(12), bytes(16), b"", "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"),
    (
        NIST_KEY,
        hexed("cafebabefacedbaddecaf888"),
        NIST_TEXT,
        hexed("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
    ),
]


@pytest.mark.parametrize(("key", "nonce", "plaintext", "associated", "sealed"), NIST_GCM)
def test_nist_gcm_aes_256(key, nonce, plaintext, associated, sealed):
    assert gcm(key, nonce, plaintext, associated).hex() == sealed


@pytest.mark.parametrize("number", [0, 1, 2**32 - 1])
@pytest.mark.parametrize("plaintext", [b"", b"short", bytes(range(100))])
def test_a_seal_is_gcm_with_the_number_as_nonce_and_the_header_authenticated(number, plaintext):
    header = b"\x01" + number.to_bytes(8, "big")
    associated = framed(b"fedsvd/seal/1", header, b"about")
    expected = header + gcm(NIST_KEY, number.to_bytes(12, "big"), plaintext, associated)
    assert seal(Seed(NIST_KEY), number, plaintext, b"about") == expected
    assert open_sealed(Seed(NIST_KEY), number, expected, b"about") == plaintext


def test_a_sealer_uses_the_key_of_its_direction_and_counts_from_zero():
    pair = bytes(range(32))
    info = b"fedsvd/seed/1\x00" + b"s\0\0\0\x04seal" + b"i\0\0\0\x011" + b"i\0\0\0\x012" + b"\x01"
    key = hmac.new(pair, info, hashlib.sha256).digest()
    header = b"\x01" + bytes(8)
    body = gcm(key, bytes(12), b"group seed", framed(b"fedsvd/seal/1", header, b"plan"))
    sealed = Sealer(Seed(pair), 1, 2).seal(b"group seed", b"plan")
    assert sealed == header + body
    assert sealed.hex() == "0100000000000000006696e588535e0576dd962b6a584817801f570946abae88906b88"
