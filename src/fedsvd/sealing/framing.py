"""What agree, sign and seal share: an unambiguous way to join byte strings, and the one refusal.

Law of this file: a failure to open or to verify tells a peer nothing but that it failed. There is one error
with one text for a wrong key, a flipped bit, a replay, a short message and a bad point alike.
"""

from fedsvd.errors import NotSealed


def framed(*parts: bytes) -> bytes:
    """The parts joined, each after its length, so that no two different lists give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def refusal() -> NotSealed:
    """The one error of this package; it carries no detail, for a detail would be an oracle."""
    return NotSealed(
        "a key, seal or signature does not verify",
        "start a new session; if it happens again, compare certificate fingerprints with the sender",
    )
