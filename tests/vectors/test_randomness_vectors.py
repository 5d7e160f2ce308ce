"""Known answers for seeds and keystreams, checked by a second implementation.

The second implementation is below, in plain Python: AES-256 from FIPS 197, counter mode from SP 800-38A,
HKDF-Expand from RFC 5869, the normal quantile from ``statistics``. It shares no library with the product and
is itself checked against the standards' own vectors first. ``randomness.json`` was written by it (run this
file to write it anew) and pins the streams: a seed must give the same masks in every later version.
"""

import hashlib
import hmac
import json
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from tests.tolerances import digits_lost

from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed

VECTORS = Path(__file__).with_name("randomness.json")
SEEDS = [bytes(32), b"\xff" * 32, bytes(range(32)), hashlib.sha256(b"fedsvd").digest()]
LABELS = [(), ("left",), ("left", "window", 3), ("a", "b"), ("ab",), (1,), ("1",), (-7, "ü"), (2**70,)]
POSITIONS = [0, 1, 2, 3, 255, 256, 511, 512, 2**21 - 1, 2**33 + 1, 2**64 + 5]


def _sbox() -> list[int]:
    """The AES S-box from its definition: inverse in GF(2^8), then the affine map."""
    powers, x = [], 1
    for _ in range(255):
        powers.append(x)
        x ^= _double(x)  # times 3, a generator
    box = [0x63]
    for value in range(1, 256):
        inverse = powers[-powers.index(value) % 255]
        rotations = [(inverse << shift | inverse >> (8 - shift)) & 0xFF for shift in range(5)]
        box.append(rotations[0] ^ rotations[1] ^ rotations[2] ^ rotations[3] ^ rotations[4] ^ 0x63)
    return box


def _double(x: int) -> int:
    return (x << 1) ^ (0x11B if x & 0x80 else 0)


SBOX = _sbox()


def _key_schedule(key: bytes) -> list[list[int]]:
    """The fifteen round keys of AES-256, sixteen bytes each."""
    words = [list(key[i : i + 4]) for i in range(0, 32, 4)]
    constant = 1
    for i in range(8, 60):
        word = words[-1]
        if i % 8 == 0:
            word = [SBOX[byte] for byte in word[1:] + word[:1]]
            word[0] ^= constant
            constant = _double(constant)
        elif i % 8 == 4:
            word = [SBOX[byte] for byte in word]
        words.append([a ^ b for a, b in zip(words[i - 8], word, strict=True)])
    return [[byte for word in words[i : i + 4] for byte in word] for i in range(0, 60, 4)]


def _mix(column: list[int]) -> list[int]:
    a, b, c, d = column
    return [
        _double(x) ^ _double(y) ^ y ^ z ^ w for x, y, z, w in ((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c))
    ]


def aes_256(key: bytes, block: bytes) -> bytes:
    """One block under AES-256."""
    first, *rounds = _key_schedule(key)
    state = [a ^ b for a, b in zip(block, first, strict=True)]
    for number, round_key in enumerate(rounds):
        # SubBytes and ShiftRows in one: byte (row, column) comes from column + row.
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if number < 13:
            state = [byte for i in range(0, 16, 4) for byte in _mix(state[i : i + 4])]
        state = [a ^ b for a, b in zip(state, round_key, strict=True)]
    return bytes(state)


def hkdf_expand(key: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand with SHA-256."""
    out = block = b""
    counter = 0
    while len(out) < length:
        counter += 1
        block = hmac.new(key, block + info + bytes([counter]), hashlib.sha256).digest()
        out += block
    return out[:length]


def derived(secret: bytes, labels: tuple[str | int, ...]) -> bytes:
    """A derived seed: domain, then each label as kind, four-byte length, text."""
    info = b"fedsvd/seed/1\0"
    for label in labels:
        text = str(label).encode("utf-8")
        info += (b"s" if isinstance(label, str) else b"i") + len(text).to_bytes(4, "big") + text
    return hkdf_expand(secret, info, 32)


def word_at(secret: bytes, position: int) -> int:
    """Word number ``position``: half ``position % 2`` of the counter block ``position // 2``."""
    block = aes_256(secret, (position // 2).to_bytes(16, "big"))
    return int.from_bytes(block[8 * (position % 2) :][:8], "little")


def vector(secret: bytes) -> dict[str, object]:
    """Everything that is pinned about one seed."""
    words = [word_at(secret, position) for position in range(16)]
    uniforms = [((word >> 12) + 0.5) / 2**52 for word in words]
    return {
        "seed": secret.hex(),
        "derived": [{"labels": list(labels), "seed": derived(secret, labels).hex()} for labels in LABELS],
        "words": [{"position": p, "word": f"{word_at(secret, p):016x}"} for p in POSITIONS],
        "normals": [NormalDist().inv_cdf(uniform).hex() for uniform in uniforms],
        "signs": "".join("-" if words[i // 64] >> i % 64 & 1 else "+" for i in range(100)),
        "permutation": sorted(range(16), key=words.__getitem__),
        "uniform_1_2": (1.0 + (words[0] >> 12) / 2**52).hex(),
    }


@pytest.fixture(scope="module", params=range(len(SEEDS)), ids=lambda i: f"seed {i}")
def pinned(request):
    return json.loads(VECTORS.read_text())[request.param]


@pytest.fixture
def seed(pinned):
    return Seed(bytes.fromhex(pinned["seed"]))


def test_the_second_aes_agrees_with_fips_197():
    key = bytes(range(32))
    assert aes_256(key, bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == "8ea2b7ca516745bfeafc49904b496089"


def test_the_second_aes_in_counter_mode_agrees_with_sp_800_38a():
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    counter = int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16)
    plain = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    stream = b"".join(aes_256(key, (counter + i).to_bytes(16, "big")) for i in range(4))
    assert bytes(a ^ b for a, b in zip(plain, stream, strict=True)).hex() == (
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )


def test_the_second_hkdf_agrees_with_rfc_5869():
    prk = bytes.fromhex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5")
    okm = hkdf_expand(prk, bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"), 42)
    assert okm.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")


def test_the_pinned_vectors_are_those_of_the_second_implementation():
    for stored, secret in zip(json.loads(VECTORS.read_text()), SEEDS, strict=True):
        computed = vector(secret)
        # The quantile goes through libm, whose last bit differs between machines; all else is integers.
        normals = [[float.fromhex(text) for text in row.pop("normals")] for row in (stored, computed)]
        np.testing.assert_allclose(*normals, rtol=digits_lost(2), atol=0)
        assert stored == computed


def test_seeds_derive_to_the_pinned_seeds(pinned, seed):
    for row in pinned["derived"]:
        assert seed.derive(*row["labels"]).reveal().hex() == row["seed"]


def test_the_stream_has_the_pinned_words_at_every_position(pinned, seed):
    for row in pinned["words"]:
        assert f"{Keystream(seed, row['position']).words(1)[0]:016x}" == row["word"]
    first_four = [row["word"] for row in pinned["words"][:4]]
    assert [f"{word:016x}" for word in Keystream(seed).words(4)] == first_four


def test_the_stream_runs_on_from_an_odd_position(pinned, seed):
    byte_stream = b"".join(aes_256(seed.reveal(), (255 + i).to_bytes(16, "big")) for i in range(3))
    words = Keystream(seed, 511).words(5)
    assert words.dtype == np.uint64
    assert words.astype("<u8").tobytes() == byte_stream[8:]


def test_normals_agree_with_the_pinned_ones(pinned, seed):
    expected = [float.fromhex(text) for text in pinned["normals"]]
    np.testing.assert_allclose(Keystream(seed).normal(16), expected, rtol=digits_lost(3), atol=0)
    np.testing.assert_allclose(Keystream(seed, 3).normal((2, 3)).ravel(), expected[3:9], rtol=digits_lost(3), atol=0)


def test_signs_permutation_and_uniform_are_the_pinned_ones(pinned, seed):
    signs = Keystream(seed).signs(100)
    assert signs.tolist() == [-1.0 if sign == "-" else 1.0 for sign in pinned["signs"]]
    assert Keystream(seed).permutation(16).tolist() == pinned["permutation"]
    assert Keystream(seed).uniform(1.0, 2.0).hex() == pinned["uniform_1_2"]


if __name__ == "__main__":
    VECTORS.write_text(json.dumps([vector(secret) for secret in SEEDS], indent=1, ensure_ascii=False) + "\n")
