"""What a lying CSP may do to one message that it sends: any field, the message as a whole, or another one instead.

``alter`` draws an alteration from a seeded generator and says in words what it did. It is delivered as it comes out of
the wire format: what that cannot carry never reaches a role, and something else is drawn. Shapes, lengths, names,
parties and numbers that are not finite are free.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from fedsvd.errors import FedSVDError
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import CSP, TA, Party, user
from fedsvd.wire.codec import decode, encode

STRANGERS = (user(1), user(2), user(3), user(9), CSP, TA)


@dataclass(frozen=True)
class Altered:
    """What is delivered instead of a message, and what was done to it."""

    messages: tuple[Message, ...]
    what: str


@dataclass(frozen=True)
class Known:
    """What the CSP can send instead: all that it has sent so far, and what it sent in another session."""

    earlier: Sequence[Message]
    elsewhere: Sequence[Message]


def alter(message: Message, known: Known, rng: np.random.Generator) -> Altered:
    """Mostly one field, else the message as a whole."""
    while True:
        drawn = (_field if rng.random() < 0.7 else _whole)(message, known, rng)
        try:
            carried = tuple(decode(b"".join(encode(each))) for each in drawn.messages)
        except (FedSVDError, KeyError, TypeError, ValueError, AttributeError, struct.error):
            continue
        return Altered(carried, drawn.what)


def _whole(message: Message, known: Known, rng: np.random.Generator) -> Altered:
    kind = type(message).__name__
    alike = [said for said in known.earlier if type(said) is type(message)]
    foreign = [replace(said, plan=message.plan) for said in known.elsewhere if type(said) is type(message)]
    ways: dict[str, tuple[Message, ...]] = {"dropped": (), "repeated": (message, message)}
    if alike:
        other = alike[int(rng.integers(len(alike)))]
        ways |= {"another of its kind": (other,), "another first": (other, message)}
    if foreign:
        ways["one of another session"] = (foreign[int(rng.integers(len(foreign)))],)
    if known.earlier:
        ways["an earlier one again"] = (message, known.earlier[int(rng.integers(len(known.earlier)))])
    way = list(ways)[int(rng.integers(len(ways)))]
    return Altered(ways[way], f"{kind}: {way}")


def _field(message: Message, known: Known, rng: np.random.Generator) -> Altered:
    names = [field.name for field in fields(message)]
    weights = np.array([0.2 if name == "plan" else 1.0 for name in names])
    name = names[int(rng.choice(len(names), p=weights / weights.sum()))]
    value, what = changed(getattr(message, name), rng)
    return Altered((replace(message, **{name: value}),), f"{type(message).__name__}.{name}: {what}")


def changed(value: object, rng: np.random.Generator) -> tuple[object, str]:
    """Another value of the same kind."""
    match value:
        case np.ndarray() if value.dtype.kind == "f":
            return _pick(_floats(value, rng), rng)
        case np.ndarray():
            return _pick(_words(value, rng), rng)
        case bytes():
            return _pick(_bytes(value, rng), rng)
        case str():
            return _pick(
                {"another name": "norm" if value != "norm" else "gram", "empty": "", "longer": value + "0"}, rng
            )
        case int():
            ways = {"one more": value + 1, "one less": value - 1, "zero": 0, "huge": 2**62, "negative": -(2**40)}
            return _pick(ways, rng)
        case float():
            return _pick({"NaN": np.nan, "infinite": np.inf, "negative": -1.0, "twice": 2.0 * value + 1.0}, rng)
        case Party():
            return STRANGERS[int(rng.integers(len(STRANGERS)))], "another party"
        case tuple():
            return _items(value, rng)
        case _:
            return np.sort(rng.random(2))[::-1] / 4.0, "something where nothing was"


def _pick(ways: dict[str, object], rng: np.random.Generator) -> tuple[object, str]:
    what = list(ways)[int(rng.integers(len(ways)))]
    return ways[what], what


def _floats(A: np.ndarray, rng: np.random.Generator) -> dict[str, object]:
    ways: dict[str, object] = {
        "not there": None,
        "scaled": A * 2.0 ** rng.integers(-60, 60),
        "scaled a little": A * (1.0 + 10.0 ** -rng.integers(1, 12)),
        "negated": -A,
        "zero": np.zeros_like(A),
        "random": rng.standard_normal(A.shape),
        "one entry NaN": _with_entry(A, np.nan, rng),
        "one entry infinite": _with_entry(A, -np.inf, rng),
        "one entry moved": _with_entry(A, 10.0 ** rng.integers(-9, 300), rng),
        "one entry moved a little": A + _with_entry(np.zeros_like(A), 10.0 ** -rng.integers(1, 10), rng),
        "without its last row": A[:-1],
        "one row more": np.concatenate((A, A[-1:])) if A.ndim and len(A) else A,
        "flat": A.ravel(),
        "a number": np.array(0.5),
        "empty": np.zeros((0,) * A.ndim),
        "of three sides": A[..., None],
        "backwards": A[::-1],
    }
    if A.ndim == 2 and A.shape[1] >= 1 and len(A) >= 2:
        angle = 10.0 ** -rng.integers(0, 9)
        ways |= {
            "orthonormal and random": np.linalg.qr(rng.standard_normal(A.shape))[0],
            "a column negated": A * np.where(np.arange(A.shape[1]) == rng.integers(A.shape[1]), -1.0, 1.0),
            "a column zero": A * (np.arange(A.shape[1]) != rng.integers(A.shape[1])),
            "transposed": A.T,
        }
        if A.shape[1] >= 2:
            i, j = rng.permutation(A.shape[1])[:2]
            ways |= {
                "columns permuted": A[:, rng.permutation(A.shape[1])],
                "a column copied": _columns(A, i, A[:, j]),
                "two columns turned": _turned(A, i, j, angle),
                "without its last column": A[:, :-1],
                "wide": _columns(A, i, A[:, i] + A[:, j]),
            }
    return ways


def _words(A: np.ndarray, rng: np.random.Generator) -> dict[str, object]:
    one = np.zeros_like(A)
    if A.size:
        one.flat[int(rng.integers(A.size))] = 1
    return {
        "one more": A + one,
        "one less": A - one,
        "a power of two more": A + one * np.uint64(1 << int(rng.integers(64))),
        "2^63 more": A + one * np.uint64(1 << 63),
        "the number 2^61 - 1 more": A + one * np.uint64(2**61 - 1),
        "random": rng.integers(0, 2**64, A.shape, np.uint64),
        "one random": A + one * rng.integers(0, 2**64, 1, np.uint64),
        "all moved": A + rng.integers(0, 2**64, 1, np.uint64),
        "zero": np.zeros_like(A),
        "twice": A + A,
        "backwards": A[::-1],
        "without its last row": A[:-1],
        "one row more": np.concatenate((A, A[-1:])),
        "flat": A.ravel(),
        "empty": A[:0],
        "of float64": A.astype(np.float64),
        "of int64": A.view(np.int64),
    }


def _bytes(value: bytes, rng: np.random.Generator) -> dict[str, object]:
    flipped = bytearray(value or b"\0")
    flipped[int(rng.integers(len(flipped)))] ^= 1 << int(rng.integers(8))
    return {
        "one bit": bytes(flipped),
        "shorter": value[:-1],
        "longer": value + b"\0",
        "empty": b"",
        "random": rng.bytes(len(value) or 64),
    }


def _items(value: tuple[object, ...], rng: np.random.Generator) -> tuple[object, str]:
    if not value:
        return (rng.bytes(32),), "an item where none was"
    place = int(rng.integers(len(value)))
    item, what = changed(value[place], rng)
    ways: dict[str, object] = {
        "without its last item": value[:-1],
        "backwards": value[::-1],
        "an item twice": (*value, value[place]),
        "empty": (),
        f"an item {what}": (*value[:place], item, *value[place + 1 :]),
        f"an item of it {what}": (*value[:place], item, *value[place + 1 :]),
    }
    return _pick(ways, rng)


def _with_entry(A: np.ndarray, value: float, rng: np.random.Generator) -> np.ndarray:
    changed = A.copy()
    if changed.size:
        changed.flat[int(rng.integers(changed.size))] = value
    return changed


def _columns(A: np.ndarray, place: int, column: np.ndarray) -> np.ndarray:
    changed = A.copy()
    changed[:, place] = column
    return changed


def _turned(A: np.ndarray, i: int, j: int, angle: float) -> np.ndarray:
    changed = A.copy()
    changed[:, i] = np.cos(angle) * A[:, i] - np.sin(angle) * A[:, j]
    changed[:, j] = np.sin(angle) * A[:, i] + np.cos(angle) * A[:, j]
    return changed
