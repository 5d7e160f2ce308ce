"""Steps 7 and 9: what users say to all other users, and how they agree on what they saw.

Group-sealed messages go from one user to all others through the CSP, under keys that follow from the users' seed: one
key for each message, so that no nonce repeats. They prove that *some user* wrote them; messages of one sender open in
the order in which it sent them.

The *digest* covers every total that all users hold and every answer of the CSP, in order, under a key of the users, so
that the CSP cannot test a guess against it. Users compare it after each answer, before anything is computed from that,
and before anything is released: a CSP that shows users different things is found when digests differ (``SplitView``),
whatever their data. Were a split answer checked first, the way in which a session stops would answer a question about
the one user that got another copy. The *certificate body* names plan, roster, data commitments, digest and checks; all
users sign it.
"""

import hashlib
import json
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fedsvd.errors import NotSealed, SplitView, UnexpectedMessage
from fedsvd.protocol import relayed
from fedsvd.protocol.matching import sealed_parts
from fedsvd.protocol.messages import Factors, Gathered, Solution
from fedsvd.protocol.openings import opened_in
from fedsvd.protocol.parties import CSP, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.shared import Memo, once_for, once_in_process, verify_once
from fedsvd.sealing.seal import open_sealed, seal
from fedsvd.sealing.sign import SigningKey, framed, sign, verify
from fedsvd.types import Float, Ring

FORMAT = "fedsvd-certificate/3"
PURPOSE = "certificate"
_DIGEST = 32
_NO_FILES = bytes(_DIGEST)  # in place of a commitment: this user writes no files of this session
_SHORT = 1 << 10  # bytes of a sealed message: a digest, commitments, a signature
_SEAL = 64  # bytes that a seal and the length in front of the content add, at most


@dataclass(frozen=True)
class Agreement:
    """What all users signed, by name of the party; the CSP's signature is empty where the plan pins no key of it."""

    body: bytes
    signatures: dict[str, bytes]
    opens: dict[str, bytes] = field(default_factory=dict)  # salts of the commitments to our files, for our own folder

    @property
    def order(self) -> str:
        """What was proved of the order of vectors, in words."""
        return str(json.loads(self.body).get("order", ""))


@dataclass(frozen=True)
class Roots:
    """Roots of the hash trees over the files of a result: all of a user's, and those that hold what all share."""

    own: bytes = b""
    shared: bytes = b""


def committed_root(kind: str, salt: bytes, root: bytes) -> bytes:
    """What a certificate has in place of a root, so that it says nothing of results to those without the salt."""
    return hashlib.sha256(framed(b"fedsvd/results/1", kind.encode(), salt, root)).digest()


class Group:
    """One user's end of the messages between all users, and its running digest of the session."""

    def __init__(
        self, me: Party, plan: SessionPlan, users_seed: Seed, identity: SigningKey, memo: Memo | None = None
    ) -> None:
        self._me = me
        self._memo = memo
        self._plan = plan
        self._seed = users_seed
        self._identity = identity
        self._waiting: dict[Party, deque[bytes]] = {party: deque() for party in plan.users if party != me}
        self._session = framed(plan.session.encode(), plan.digest.encode())
        self._unread: dict[Party, None] = {}  # whose messages wait
        # Users of one process that were dealt other seeds, or have other plans, open messages by themselves.
        self._opened_as = users_seed.derive("memo").reveal() + self._session
        self._received: dict[str, dict[Party, bytes]] = {}
        self._most_waiting = 4 + relayed.comparisons(plan) + relayed.most_parts(plan) + sealed_parts(plan)
        self._transcript = hashlib.sha256(users_seed.derive("release").reveal() + plan.digest.encode())
        self.bits = 0  # that users opened of each other's records; in the certificate
        self.order = ""  # what was proved of the order of vectors, in words; in the certificate
        self._commitment: bytes | None = None
        self._commitments: tuple[bytes, ...] | None = None
        self.played: list[tuple[str, int]] = []  # sums by name and numbers, as they were played
        self._opens: dict[str, bytes] = {}
        self._body = self._signature = b""  # once we have signed
        self._results: dict[Party, tuple[bytes, bytes]] = {me: (_NO_FILES, _NO_FILES)}

    def __repr__(self) -> str:
        return f"Group({self._me})"

    # --- data commitments -----------------------------------------------------------------------------------------

    @property
    def committed(self) -> bool:
        """Whether we have committed to our data in this session."""
        return self._commitment is not None

    def commit(self, commitment: bytes) -> None:
        """Our commitment to our data, which goes up with our first share."""
        self._commitment = commitment

    def read_commitments(self, commitments: tuple[bytes, ...]) -> None:
        """Take in all users' commitments with the first total; ours must be among them, in its place."""
        if self._commitments is not None:
            if commitments:
                raise UnexpectedMessage("data commitments after the first total")
            return
        fits = len(commitments) == self._plan.k and all(len(item) == 32 for item in commitments)
        if not fits or commitments[self._me.index - 1] != self._commitment:
            raise SplitView("the CSP relayed another data commitment for us")
        self._commitments = commitments

    def take_commitments(self) -> None:
        """Take in the commitments that all other users sealed to the group, where no sum carries them."""
        heard = {self._me: self._commitment or b"", **self._received["committing"]}
        self.read_commitments(tuple(heard[party] for party in self._plan.users))

    # --- files of the results -------------------------------------------------------------------------------------

    def commit_results(self, roots: Roots, own: Seed) -> None:
        """Commit to the files of our result; what opens the part that all share is the users', and not the CSP's."""
        self._opens = {"own": own.derive("results").reveal(), "shared": self._seed.derive("results").reveal()}
        pair = ((kind, getattr(roots, kind)) for kind in ("own", "shared"))
        made = [committed_root(kind, self._opens[kind], root) for kind, root in pair]
        self._results[self._me] = made[0], made[1]

    def agreeing(self) -> bytes:
        """What we show all others before we sign: the digest of what we saw, and our commitments to our files."""
        return self.digest() + b"".join(self._results[self._me])

    def take_agreeing(self) -> None:
        """Take in what the others showed: their digests are ours, or nothing is signed; their files are theirs."""
        shown = self._received["agreeing"]
        for party, content in shown.items():
            if len(content) != 3 * _DIGEST:
                raise UnexpectedMessage(f"a digest of another length from {party}")
            self._results[party] = content[_DIGEST : 2 * _DIGEST], content[2 * _DIGEST :]
            shown[party] = content[:_DIGEST]
        self.expect_equal_digests("agreeing")

    # --- the digest -----------------------------------------------------------------------------------------------

    def witness(self, name: str, content: bytes | Ring | Float) -> None:
        """Add something that all users hold to the digest."""
        # Users of one process that saw the same until now, and see the same, hash it once.
        if isinstance(content, bytes) and len(content) > _SHORT and self._memo is not None:
            saw = self._transcript.digest(), name.encode()
            self._transcript = once_in_process(
                self._memo, "digest", (*saw, content), lambda: self._with(framed(name.encode(), content))
            ).copy()
        elif isinstance(content, np.ndarray):
            before = f"digest {self._transcript.hexdigest()} {name}"
            hashed = once_for(self._memo, content, before, self._plan.k, lambda: self._with_array(name, content))
            self._transcript = hashed.copy()
        else:
            self._transcript.update(framed(name.encode(), content))

    def _with_array(self, name: str, content: Ring | Float) -> "hashlib._Hash":
        head = f"{content.dtype.str}{content.shape}".encode()
        return self._with(framed(name.encode(), head), np.ascontiguousarray(content).data)

    def _with(self, *parts: Any) -> "hashlib._Hash":
        transcript = self._transcript.copy()
        for part in parts:
            transcript.update(part)
        return transcript

    def witness_answer(self, message: Factors | Solution) -> None:
        """Add an answer of the CSP to the digest, as received."""
        for name, value in vars(message).items():
            if name != "plan" and value is not None:
                self.witness(name, value if isinstance(value, np.ndarray) else repr(value).encode())

    def digest(self) -> bytes:
        """The digest so far, 32 bytes."""
        return self._transcript.digest()

    # --- group-sealed messages ------------------------------------------------------------------------------------

    def sealed(self, purpose: str, content: bytes) -> list[bytes]:
        """The content for all other users, in parts, each under a key of its own."""
        whole = len(content).to_bytes(8, "big") + content
        parts = [whole[start : start + relayed.PART] for start in range(0, len(whole), relayed.PART)]
        messages = []
        for number, part in enumerate(parts):
            messages.append(seal(*self._lock(self._me, purpose, number), part, self._context(self._me, purpose)))
        return messages

    def receive(self, origin: Party, sealed: bytes) -> None:
        """Put a message aside until its turn; more than the plan has is refused."""
        waiting = self._waiting.get(origin)
        if waiting is None or len(waiting) >= self._most_waiting or len(sealed) > relayed.PART + _SEAL:
            raise UnexpectedMessage(f"a message to all users from {origin} that the plan does not have")
        waiting.append(sealed)
        self._unread[origin] = None

    def receive_round(self, message: Gathered, purpose: str) -> None:
        """Accept the messages of all users in one round; only plans with many users gather them."""
        if not relayed.gathers(self._plan) or tuple(origin for origin, _ in message.sealed) != self._plan.users:
            raise UnexpectedMessage("a round of messages that does not list the plan's users")
        if self._memo is None or self._unread:
            self._put_aside(message)
            return
        # Users of one process that get the same round, under the same seed, open each message of it once.
        known: dict[Party, bytes] = once_for(
            self._memo, message, f"round {purpose} {self._opened_as.hex()}", self._plan.k, dict
        )
        if len(known) < self._plan.k:
            self._put_aside(message, known)
            known |= self._opened_now(purpose)
        self._received.setdefault(purpose, {}).update(known)
        self._received[purpose].pop(self._me, None)

    def _put_aside(self, message: Gathered, known: Collection[Party] = ()) -> None:
        for origin, sealed in message.sealed:
            if origin not in known and origin != self._me:
                self.receive(origin, sealed)

    def taken(self, origin: Party, count: int) -> list[bytes]:
        """The next messages of this sender that are sealed to us alone, still sealed."""
        taken = [self._waiting[origin].popleft() for _ in range(count)]
        self._read(origin)
        return taken

    def waiting(self, origin: Party) -> int:
        """How many messages of this sender have not been opened."""
        return len(self._waiting[origin])

    def opened(self, origin: Party, purpose: str, most: int) -> bytes | None:
        """The next content of this sender, once all of its parts are here; None until then."""
        waiting = self._waiting[origin]
        if not waiting:
            return None
        first = self._open(origin, purpose, 0, waiting[0])
        length = int.from_bytes(first[:8], "big")
        if len(first) < 8 or length > most:
            raise UnexpectedMessage(f"a message {purpose!r} of another length from {origin}")
        count = -(-(8 + length) // relayed.PART)
        if len(waiting) < count:
            return None
        parts = [first, *(self._open(origin, purpose, number, waiting[number]) for number in range(1, count))]
        for _ in range(count):
            waiting.popleft()
        self._read(origin)
        content = b"".join(parts)[8:]
        if len(content) != length:
            raise UnexpectedMessage(f"a message {purpose!r} of another length from {origin}")
        return content

    def _read(self, origin: Party) -> None:
        if not self._waiting[origin]:
            self._unread.pop(origin, None)

    def _open(self, origin: Party, purpose: str, number: int, sealed: bytes) -> bytes:
        """A part of a message that all users of one process get, opened once: any short one, and the last long one."""
        made, what = partial(self._opened_part, origin, purpose, number, sealed), f"{origin} {purpose} {number} "
        if self._memo is None:
            return made()
        if len(sealed) > _SHORT:
            last: bytes = once_in_process(self._memo, "part", (self._opened_as, what.encode(), sealed), made)
            return last
        key = b"".join((self._opened_as, what.encode(), sealed))
        found: bytes | None = self._memo.get(key)
        if found is None:
            found = self._memo[key] = made()
        return found

    def _opened_part(self, origin: Party, purpose: str, number: int, sealed: bytes) -> bytes:
        return open_sealed(*self._lock(origin, purpose, number), sealed, self._context(origin, purpose))

    def _lock(self, sender: Party, purpose: str, number: int) -> tuple[Seed, int]:
        return self._seed.derive("sealed", sender.index, purpose, number), number

    def _context(self, sender: Party, purpose: str) -> bytes:
        return self._session + framed(sender.name.encode(), purpose.encode())

    # --- agreement ------------------------------------------------------------------------------------------------

    def received_from_all(self, purpose: str) -> bool:
        """Whether every other user's message of this purpose is here."""
        found = self._received.setdefault(purpose, {})
        found |= self._opened_now(purpose)
        return len(found) == len(self._waiting)

    def _opened_now(self, purpose: str) -> dict[Party, bytes]:
        """What messages of this purpose that wait, and whose parts are all here, have in them."""
        found = self._received.get(purpose, {})
        waiting = [party for party in self._unread if party not in found]
        opened = ((party, self.opened(party, purpose, 3 * _DIGEST)) for party in waiting)
        return {party: content for party, content in opened if content is not None}

    def expect_equal_digests(self, purpose: str) -> None:
        """Raise ``SplitView`` unless every user saw what we saw, up to this message of theirs and of ours."""
        own = self.digest()
        if any(digest != own for digest in self._received[purpose].values()):
            raise SplitView(
                "users saw different totals or answers in this session",
                "nothing is released; stop and ask the operator of the CSP",
            )

    def came_to(self, result: Any) -> None:
        """What the certificate says of a result: the order of vectors as far as it was proved, and the opened bits."""
        checked = getattr(result, "checked", None)
        self.order = "" if checked is None else checked.order.text
        counted = getattr(result, "bits", 0.0) if checked is None else checked.bits
        self.bits = opened_in(self._plan, self.played, counted)

    def body(self) -> bytes:
        """What all users sign, in canonical JSON."""
        plan = self._plan
        content = {
            "format": FORMAT,
            "protocol": plan.protocol,
            "session": plan.session,
            "plan": plan.digest,
            "task": plan.task,
            "scheme": plan.scheme,
            "mode": plan.mode,
            "identities": list(plan.identities[: plan.k]),
            "csp_identity": plan.csp_identity,
            "commitments": [item.hex() for item in self._commitments or ()],
            "release": self.digest().hex(),
            "bits": self.bits,
            "order": self.order,
            "sums": [f"{name}: {numbers}" for name, numbers in self.played],
            "files": [self._results[party][0].hex() for party in plan.users],
            "shared_files": [self._results[party][1].hex() for party in plan.users],
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    def signature(self) -> bytes:
        """Our signature of the body, which stays as it is from here on."""
        self._body = self.body()
        self._signature = sign(self._identity, PURPOSE, self._body)
        return self._signature

    def expect_signatures(self) -> None:
        """Raise ``SplitView`` unless every user signed the body that we have."""
        body, memo = self._body, self._memo
        digest = hashlib.sha256(body).digest()
        for party, signature in self._received["signing"].items():
            try:
                verify_once(memo, self._plan.identity(party), PURPOSE, body, signature, digest)
            except NotSealed:
                raise SplitView(f"{party} did not sign the certificate that we hold") from None

    def certificate_digest(self) -> bytes:
        """SHA-256 of the body that we signed."""
        return hashlib.sha256(self._body).digest()

    def agreement(self, countersignature: bytes) -> Agreement:
        """The body with all signatures; that of the CSP is verified where the plan pins its key."""
        body = self._body
        if self._plan.csp_identity:
            key = bytes.fromhex(self._plan.csp_identity)
            verify(key, PURPOSE, hashlib.sha256(body).digest(), countersignature)
        elif countersignature:
            raise UnexpectedMessage("a signature of the CSP, of whom the plan pins no key")
        signatures = {party.name: signature for party, signature in self._received["signing"].items()}
        signatures[self._me.name] = self._signature
        if countersignature:
            signatures[CSP.name] = countersignature
        return Agreement(body, dict(sorted(signatures.items())), self._opens)
