"""Every message that one party may send to another, as frozen values; and a record of who received what.

A field that carries a matrix has its symbol and its kind of protection in its name: *masked* is under P and Q, *padded*
under pairwise pads, *blinded* under R_i. Every message carries the digest of the plan it belongs to. All links end at
the CSP: what users and the TA say to each other is sealed end to end and relayed.

``Views`` is what each party saw: the record that adversary tests and the audit work on, and nothing beyond it.
"""

from dataclasses import dataclass, field, fields
from typing import TypeVar

import numpy as np

from fedsvd.protocol.parties import Party
from fedsvd.types import Digest, Float, Ring

ID_WORDS = 4
"""Words of the keyed hash of a column of row ids."""


@dataclass(frozen=True, repr=False, eq=False)
class Message:
    """What all messages have; ``repr`` names shapes, never entries."""

    plan: Digest

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={_shown(getattr(self, f.name))}" for f in fields(self) if f.name != "plan")
        return f"{type(self).__name__}({shown})"


@dataclass(frozen=True, repr=False, eq=False)
class Begin(Message):
    """From the runtime to a role: the session starts."""


@dataclass(frozen=True, repr=False, eq=False)
class KeyOffer(Message):
    """A session's X25519 public key, signed by the identity the plan pins (step 1); the dealer's commitment."""

    public: bytes
    commitment: bytes
    signature: bytes


@dataclass(frozen=True, repr=False, eq=False)
class KeyBook(Message):
    """All offers, relayed by the CSP: party, public key, commitment, signature."""

    offers: tuple[tuple[Party, bytes, bytes, bytes], ...]


@dataclass(frozen=True, repr=False, eq=False)
class Relay(Message):
    """A sealed message on its way to ``to``, one party or all other users."""

    to: Party
    sealed: bytes


@dataclass(frozen=True, repr=False, eq=False)
class Relayed(Message):
    """A sealed message from ``origin``."""

    origin: Party
    sealed: bytes


@dataclass(frozen=True, repr=False, eq=False)
class Gathered(Message):
    """One round of sealed messages to all users, of every user; where there are many of them."""

    sealed: tuple[tuple[Party, bytes], ...]


@dataclass(frozen=True, repr=False, eq=False)
class RowIds(Message):
    """One keyed hash of all row ids, in order; the key is the users'."""

    hashed: Ring  # ID_WORDS words


@dataclass(frozen=True, repr=False, eq=False)
class RowsAgree(Message):
    """All users hold the same rows in the same order."""


@dataclass(frozen=True, repr=False, eq=False)
class IdHashes(Message):
    """One batch of a set of ids to be matched: keyed hashes, whose key is the users', or points that all blinded."""

    batch: int
    hashed: Ring  # (rows, 2), or (rows, 4) for points


@dataclass(frozen=True, repr=False, eq=False)
class CommonRows(Message):
    """One batch of the places, in the set this user sent, of records that all users have; empty places behind them."""

    batch: int
    places: Ring  # (rows,)


@dataclass(frozen=True, repr=False, eq=False)
class SumShare(Message):
    """One user's padded share of one batch of a sum, with its tag; the first of a session commits to its data."""

    name: str
    batch: int
    payload: Ring
    tag: Ring
    commitment: bytes = b""


@dataclass(frozen=True, repr=False, eq=False)
class SumReply(Message):
    """The total of one batch and of its tags, still under the users' own pad; with the first, all commitments."""

    name: str
    batch: int
    payload: Ring
    tag: Ring
    commitments: tuple[bytes, ...] = ()


@dataclass(frozen=True, repr=False, eq=False)
class Ready(Message):
    """This user can answer batch requests."""


@dataclass(frozen=True, repr=False, eq=False)
class BatchRequest(Message):
    """The CSP wants this batch."""

    batch: int


@dataclass(frozen=True, repr=False, eq=False)
class PaddedBatch(Message):
    """Padded words: rows of the share G_i (sum family), or masked rows of one panel of Y_i (eq. 4)."""

    batch: int
    payload: Ring


@dataclass(frozen=True, repr=False, eq=False)
class Factors(Message):
    """U' and, where the plan releases it, S' (step 6); what was verified of them."""

    U_masked: Float
    sigma_scaled: Float | None
    residual: float
    orthogonality: float


@dataclass(frozen=True, repr=False, eq=False)
class RowsRequest(Message):
    """A user wants the rows of U' in this panel, where U' is too long for one message."""

    panel: int


@dataclass(frozen=True, repr=False, eq=False)
class FactorRows(Message):
    """One panel's rows of U'."""

    panel: int
    U_masked: Float


@dataclass(frozen=True, repr=False, eq=False)
class Solution(Message):
    """w' of a regression, a basis of the null space when rank is lost, and what was verified."""

    w_masked: Float
    null_masked: Float
    rank: int
    residual: float


@dataclass(frozen=True, repr=False, eq=False)
class Challenge(Message):
    """Padded rows of ``P [e_i, ..., h_i + z_i]``: what a solution on split columns is checked with (step 7)."""

    batch: int
    payload: Ring


@dataclass(frozen=True, repr=False, eq=False)
class Product(Message):
    """The products of all columns of a challenge with each other, for the label holder alone."""

    products: Float


@dataclass(frozen=True, repr=False, eq=False)
class Finished(Message):
    """This user holds its result, and the certificate it has signed has this digest."""

    certificate: bytes = b""


@dataclass(frozen=True, repr=False, eq=False)
class Countersigned(Message):
    """The CSP's signature of the certificate that all users signed; empty where the plan pins no identity of it."""

    signature: bytes = b""


@dataclass(frozen=True, repr=False, eq=False)
class Aborted(Message):
    """The session is over at the sender: which code, in which state. Nothing in it depends on data."""

    code: str
    stage: str


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} {value.shape}>"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, tuple):
        return f"<{len(value)} items>"
    if isinstance(value, str | int | Party):
        return str(value)
    return f"<{type(value).__name__}>"


def size(message: Message) -> int:
    """The bytes a message's content takes on a wire, headers apart."""
    return sum(map(_bytes, vars(message).values()))


def _bytes(value: object) -> int:
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, tuple):
        return sum(_bytes(item) for item in value)
    return 8 if isinstance(value, int | float | Party) else 0


M = TypeVar("M", bound=Message)


@dataclass
class Views:
    """Messages received, by receiver, in the order in which they came: (sender, message)."""

    received: dict[Party, list[tuple[Party, Message]]] = field(default_factory=dict)

    def record(self, receiver: Party, sender: Party, message: Message) -> None:
        self.received.setdefault(receiver, []).append((sender, message))

    def of(self, receiver: Party, kind: type[M]) -> list[tuple[Party, M]]:
        """What a party received of one kind."""
        return [(sender, found) for sender, found in self.received.get(receiver, []) if isinstance(found, kind)]

    def kinds(self, receiver: Party) -> set[type[Message]]:
        """The kinds of message a party received."""
        return {type(message) for _, message in self.received.get(receiver, [])}
