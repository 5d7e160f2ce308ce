"""Seeded damage to bytes: flipped bits, runs that are overwritten, cut out, put in or moved, ends that are missing."""

import io
import random
import zipfile

_EDGES = (0, 1, 0x7F, 0x80, 0xFF)


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The bytes after one to four changes; never the same bytes, unless there are none."""
    body = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        if not body:
            break
        _CHANGES[rng.randrange(len(_CHANGES))](body, rng)
    return bytes(body) if bytes(body) != content else content[:-1]


def damaged_inside(content: bytes, rng: random.Random) -> bytes:
    """A zip archive one member of which is damaged, while the archive itself is whole."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    victim = rng.choice(sorted(members))
    members[victim] = damaged(members[victim], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return out.getvalue()


def _flip(body: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 3, 16))):
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)


def _overwrite(body: bytearray, rng: random.Random) -> None:
    start, length = rng.randrange(len(body)), rng.choice((1, 2, 4, 8, 64))
    byte = rng.choice(_EDGES)
    body[start : start + length] = bytes([byte]) * len(body[start : start + length])


def _cut(body: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(body))
    del body[start : start + rng.choice((1, 5, 100, 5000))]


def _put(body: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(body))
    body[start:start] = rng.randbytes(rng.choice((1, 3, 40)))


def _move(body: bytearray, rng: random.Random) -> None:
    start, length = rng.randrange(len(body)), rng.choice((4, 32, 300))
    piece = bytes(body[start : start + length])
    del body[start : start + length]
    place = rng.randint(0, len(body))
    body[place:place] = piece


def _end(body: bytearray, rng: random.Random) -> None:
    del body[rng.randrange(len(body)) :]


def _header(body: bytearray, rng: random.Random) -> None:
    """Most of what a reader believes stands in the first bytes, or in the last."""
    edge = min(len(body), 256)
    place = rng.randrange(edge) if rng.random() < 0.5 else len(body) - 1 - rng.randrange(edge)
    body[place] = rng.choice((*_EDGES, rng.randrange(256)))


_CHANGES = (_flip, _overwrite, _cut, _put, _move, _end, _header, _header)
