"""Messages from one user to all users, which the CSP relays and cannot read (specification, 2.7): AES-256-GCM.

The key follows from the users' seed, the sender, the purpose and the number of the message, and is used for that
message alone: the law of this file is that no key seals two messages. Session, plan, sender, purpose and number are
authenticated with it. A message that opens proves that *some* user of this session wrote it, because all users hold
the seed; what must be attributed to one of them is signed too (``sign``).
"""

from fedsvd.errors import ConfigError, LocalProtocolError
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.framing import framed
from fedsvd.sealing.seal import open_sealed, seal
from fedsvd.types import Digest, SessionId

PART = 1 << 26  # bytes; a longer message travels in parts, each with its number
OVERHEAD = 25  # bytes that sealing adds: the header and the authenticator of ``seal``


def seal_to_group(
    users_seed: Seed,
    plaintext: bytes,
    *,
    session: SessionId,
    plan: Digest,
    sender: int,
    purpose: str,
    number: int = 0,
) -> bytes:
    """``plaintext``, sealed to all users: never call twice with one (seed, sender, purpose, number)."""
    if len(plaintext) > PART:
        raise ConfigError(f"a message to the group has at most {PART} bytes, got {len(plaintext)}", "send it in parts")
    associated = _associated(session, plan, sender, purpose, number)
    return seal(_key(users_seed, sender, purpose, number), 0, plaintext, associated)


def open_from_group(
    users_seed: Seed,
    sealed: bytes,
    *,
    session: SessionId,
    plan: Digest,
    sender: int,
    purpose: str,
    number: int = 0,
) -> bytes:
    """The plaintext, or ``NotSealed``: of another sender, purpose, number, session or plan it does not open."""
    associated = _associated(session, plan, sender, purpose, number)
    return open_sealed(_key(users_seed, sender, purpose, number), 0, sealed, associated)


def in_parts(message: bytes) -> tuple[bytes, ...]:
    """The message in parts that can be sealed, at least one; joined in order they are the message."""
    return tuple(message[start : start + PART] for start in range(0, max(1, len(message)), PART))


class GroupSealer:
    """The writing end of one user in one session: seals each (purpose, number) once."""

    def __init__(self, users_seed: Seed, session: SessionId, plan: Digest, sender: int) -> None:
        self._seed = users_seed
        self._session, self._plan, self._sender = session, plan, sender
        self._sealed: set[tuple[str, int]] = set()

    def seal(self, purpose: str, plaintext: bytes, number: int = 0) -> bytes:
        """``plaintext`` sealed to all users; a second message for one purpose and number is refused."""
        if (purpose, number) in self._sealed:
            raise LocalProtocolError(
                f"message {number} for {purpose!r} is already sealed", "re-send those bytes, or start a new session"
            )
        sealed = seal_to_group(
            self._seed,
            plaintext,
            session=self._session,
            plan=self._plan,
            sender=self._sender,
            purpose=purpose,
            number=number,
        )
        self._sealed.add((purpose, number))
        return sealed

    def __repr__(self) -> str:
        return f"GroupSealer(sender={self._sender}, <redacted>)"


def _key(users_seed: Seed, sender: int, purpose: str, number: int) -> Seed:
    return users_seed.derive("sealed", int(sender), purpose, int(number))


def _associated(session: SessionId, plan: Digest, sender: int, purpose: str, number: int) -> bytes:
    if not session or not plan or not purpose or sender < 1 or number < 0:
        raise ConfigError("a message to the group needs a session, a plan, a user, a purpose and a number >= 0")
    counted = (int(sender).to_bytes(8, "big"), purpose.encode(), int(number).to_bytes(8, "big"))
    return framed(session.encode(), plan.encode(), *counted)
