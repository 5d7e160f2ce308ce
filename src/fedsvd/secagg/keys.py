"""The keys between users from which pads follow: one seed per pair, session and purpose (step 1, ADR 0007, 0092).

Users are counted from 1 to k, as in the paper, and every user's table of public keys includes its own: a table
that is off by one, or that the relaying CSP reordered, does not pass. The CSP holds none of this and never
imports this file.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NoReturn

from fedsvd.errors import ConfigError, LocalProtocolError
from fedsvd.randomness.keystream import ShortStreams
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey, pair_key
from fedsvd.secagg.neighbours import degree, neighbours
from fedsvd.types import Digest, SessionId

PADS = "pads"


class PadKeys:
    """User ``user``'s seeds, one for each of its neighbours among ``k`` users; frozen, and silent about them.

    Without ``k`` they are for every other user.
    """

    __slots__ = ("_seeds", "_streams", "k", "user")
    _seeds: Mapping[int, Seed]
    _streams: tuple[ShortStreams, ...] | None
    k: int
    user: int

    def __init__(self, user: int, seeds: Mapping[int, Seed], k: int | None = None) -> None:
        k, expected = (len(seeds) + 1, len(seeds)) if k is None else (k, degree(k))
        if k < 2:
            raise ConfigError("secure aggregation needs k >= 2 users, got 1", "invite another user")
        others = set(range(1, k + 1)) - {user}
        # A user with fewer pads than the graph has would be hidden by fewer users than it was promised.
        if user not in range(1, k + 1) or len(seeds) != expected or not others.issuperset(seeds):
            raise ConfigError(
                f"user {user} of {k} needs seeds for {expected} other users, got them for {sorted(seeds)}",
                "count users from 1 to k",
            )
        # Equal seeds would cancel inside one payload: with p_12 = p_23, user 2 sends its share bare.
        if len({seed.reveal() for seed in seeds.values()}) < len(seeds):
            raise ConfigError(f"user {user} shares one seed with two users", "deal a seed of its own to each pair")
        object.__setattr__(self, "user", int(user))
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "_streams", None)
        object.__setattr__(self, "_seeds", MappingProxyType({int(j): seeds[j] for j in sorted(seeds)}))

    def seed(self, peer: int) -> Seed:
        """The seed shared with user ``peer``, the same at both ends."""
        if peer not in self._seeds:
            raise LocalProtocolError(f"user {self.user} of {self.k} shares no seed with user {peer}")
        return self._seeds[peer]

    def streams(self) -> tuple[tuple[ShortStreams, ...], int]:
        """The short streams shared with each peer, and how many are of higher users: these come first."""
        upwards = [peer for peer in self._seeds if peer > self.user]
        if self._streams is None:
            downwards = [peer for peer in self._seeds if peer < self.user]
            made = tuple(ShortStreams(self._seeds[peer].derive("pad", "sums")) for peer in (*upwards, *downwards))
            object.__setattr__(self, "_streams", made)
        return self._streams or (), len(upwards)

    @property
    def peers(self) -> tuple[int, ...]:
        """The other users, in order."""
        return tuple(self._seeds)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("pad keys do not change")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("pad keys do not change")

    def __repr__(self) -> str:
        return f"PadKeys(user={self.user}, k={self.k}, <redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("pad keys are never pickled")


class AgreedHere:
    """Keys of pairs whose two users are of one process: the second takes what the first has agreed on.

    They are found by all that a key follows from, both public keys, session, plan and purpose, and only by a user that
    holds the private half of one of these. Between institutions each user agrees by itself.
    """

    def __init__(self) -> None:
        self._keys: dict[object, Seed] = {}

    def __repr__(self) -> str:
        return f"AgreedHere(waiting={len(self._keys)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys of pairs are never copied")

    def once(self, mine: AgreementKey, theirs: bytes, me: int, them: int, agree: Callable[[], Seed], *of: str) -> Seed:
        """What ``agree`` makes; for each user of a pair once."""
        key = (frozenset({(me, mine.public), (them, theirs)}), of)
        agreed = self._keys.pop(key, None)
        if agreed is None:
            agreed = self._keys[key] = agree()
        return agreed


def pair_keys(
    mine: AgreementKey,
    user: int,
    publics: Mapping[int, bytes],
    session: SessionId,
    plan: Digest,
    purpose: str,
    peers: Iterable[int] | None = None,
    here: AgreedHere | None = None,
) -> dict[int, Seed]:
    """User ``user``'s key for this purpose with each of ``peers``, or with every other user.

    ``publics`` holds the session's public keys of all users 1 .. k, one's own among them; the caller has
    verified their signatures.
    """
    if set(publics) != set(range(1, len(publics) + 1)):
        raise ConfigError(
            f"public keys of users 1 .. k are needed, got them for {sorted(publics)}", "count users from 1 to k"
        )
    if publics.get(user) != mine.public:
        raise LocalProtocolError(
            f"the public key listed for user {user} is not this user's", "count users from 1, or renew the session"
        )

    def agreed(peer: int) -> Seed:
        theirs = publics[peer]
        agree = partial(pair_key, mine, theirs, me=user, them=peer, session=session, plan=plan, purpose=purpose)
        return agree() if here is None else here.once(mine, theirs, user, peer, agree, session, plan, purpose)

    return {peer: agreed(peer) for peer in (peers or [other for other in publics if other != user])}


def pad_keys(
    mine: AgreementKey,
    user: int,
    publics: Mapping[int, bytes],
    session: SessionId,
    plan: Digest,
    order: Seed | None = None,
    here: AgreedHere | None = None,
) -> PadKeys:
    """User ``user``'s pad keys of this session, agreed with its neighbours in the graph of ``order``.

    Without an order every two users share pads.
    """
    if order is None:
        return PadKeys(user, pair_keys(mine, user, publics, session, plan, PADS, here=here))
    peers = neighbours(len(publics), user, order)
    return PadKeys(user, pair_keys(mine, user, publics, session, plan, PADS, peers, here), len(publics))
