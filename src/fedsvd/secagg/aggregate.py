"""The CSP's side of secure aggregation: add up k padded shares, and the pads are gone (eq. 4 of the paper).

Addition modulo 2^64 has no rounding and no order, so shares are added as they come. Fewer than k of them are
uniform noise, and are never handed out as a result. This file knows neither pads nor keys, and must not: it is
all of ``secagg`` that the CSP runs, with ``fixed_point`` and ``batches``.
"""

from collections.abc import Callable

import numpy as np

from fedsvd.errors import ConfigError, LocalProtocolError, RepeatedShare, ShapeError
from fedsvd.linalg.device import Device
from fedsvd.linalg.ring128 import add as add_there
from fedsvd.secagg.sums import TAG_WORDS, SumKind
from fedsvd.secagg.words128 import HALVES, add_into
from fedsvd.types import Array, Each, Ring

_TOGETHER = 1 << 18  # words that one thread adds at a time


class RunningSum:
    """The sum of one batch's shares so far, one from each of the users 1 .. k; a refused share changes nothing."""

    def __init__(self, shape: tuple[int, ...], k: int, device: Device | None = None, each: Each | None = None) -> None:
        if k < 2:
            raise ConfigError(f"secure aggregation needs k >= 2 users, got {k}", "invite another user")
        self._k = k
        self._received: set[int] = set()
        self._shape, self._device, self._each = shape, device, each or map
        self._sum: Array = np.empty(shape, np.uint64) if device is None else None

    def add(self, user: int, share: Ring) -> None:
        """Add ``user``'s share; a second one is refused, for it would put two plaintexts under one pad."""
        if user not in range(1, self._k + 1):
            raise LocalProtocolError(f"no user {user} among users 1 .. {self._k}", "count users from 1 to k")
        if user in self._received:
            raise RepeatedShare(f"user {user} sent a second share of this batch", "start a new session")
        _expect_words(f"the share of user {user}", share, self._shape)
        if self._device is not None:
            moved = self._device.put(share.view(np.int64))  # signed words wrap around alike
            self._sum = moved if self._sum is None else self._together(moved)
        elif self._received:
            self._accumulate(share)
        else:
            self._in_parts(lambda part: np.copyto(self._sum[part], share[part]))
        self._received.add(int(user))

    def _together(self, moved: Array) -> Array:
        """The sum so far and one more share, on the device."""
        return self._sum + moved

    def _accumulate(self, share: Ring) -> None:
        # uint64 wraps around: the ring Z_2^64 is the point.
        self._in_parts(lambda part: np.add(self._sum[part], share[part], out=self._sum[part]))

    def _in_parts(self, work: Callable[[slice], object]) -> None:
        """Rows by rows, in as many threads as there are."""
        rows = max(1, _TOGETHER * self._shape[0] // max(1, self._sum.size))

        def part(start: int) -> None:
            work(slice(start, start + rows))

        for _ in self._each(part, range(0, self._shape[0], rows)):
            pass

    @property
    def complete(self) -> bool:
        """Whether all k shares are in."""
        return len(self._received) == self._k

    def has(self, user: int) -> bool:
        """Whether this user's share is in."""
        return user in self._received

    @property
    def missing(self) -> tuple[int, ...]:
        """The users whose share is not in yet, in order."""
        return tuple(user for user in range(1, self._k + 1) if user not in self._received)

    def total(self) -> Array:
        """The sum of all k shares: read-only unsigned words, or signed ones on the device."""
        if not self.complete:
            raise LocalProtocolError(
                f"{len(self.missing)} of {self._k} shares are missing; first, user {self.missing[0]}'s",
                "wait for all users, or end the session",
            )
        if self._device is not None:
            return self._sum
        whole = self._sum.view()
        whole.flags.writeable = False
        return whole

    def taken(self) -> Array:
        """The same, handed over to be written over: this sum is at its end."""
        self.total()
        words, self._sum = self._sum, None
        return words

    def __repr__(self) -> str:
        return f"RunningSum(shape={self._shape}, received={len(self._received)} of {self._k})"


class WordSum(RunningSum):
    """The sum of one batch's shares in Z_2^128, or a wider ring: words of shape (length, halves), nothing else."""

    def __init__(self, length: int, k: int, halves: int = HALVES, device: Device | None = None) -> None:
        super().__init__((length, halves), k, device)

    def _together(self, moved: Array) -> Array:
        return add_there(self._sum, moved)

    def _accumulate(self, share: Ring) -> None:
        add_into(self._sum, share)

    def __repr__(self) -> str:
        return f"WordSum(shape={self._shape}, received={len(self._received)} of {self._k})"


class _TagSum(RunningSum):
    """The sum of tags, modulo 2^192."""

    def __init__(self, k: int) -> None:
        super().__init__((TAG_WORDS,), k)

    def _accumulate(self, share: Ring) -> None:
        add_into(self._sum.reshape(1, TAG_WORDS), share.reshape(1, TAG_WORDS))


class TaggedSum:
    """The running total of one batch of a users-only sum with its tag; both are uniform to the CSP."""

    def __init__(self, kind: SumKind, length: int, k: int) -> None:
        single = kind in (SumKind.WIDE, SumKind.SHORT)  # words of 64 bits, without carries between them
        self._payload = RunningSum((length, kind.columns), k) if single else WordSum(length, k, kind.columns)
        self._tag = _TagSum(k)

    def add(self, user: int, payload: Ring, tag: Ring) -> None:
        """Add ``user``'s share; a second one is refused, and a refused share changes nothing."""
        _expect_words(f"the tag of user {user}", tag, (TAG_WORDS,))
        self._payload.add(user, payload)
        self._tag.add(user, tag)

    @property
    def complete(self) -> bool:
        """Whether all k shares are in."""
        return self._payload.complete

    def has(self, user: int) -> bool:
        """Whether this user's share is in."""
        return self._payload.has(user)

    @property
    def missing(self) -> tuple[int, ...]:
        """The users whose share is not in yet, in order."""
        return self._payload.missing

    def total(self) -> tuple[Ring, Ring]:
        """The sums of payloads and of tags, read-only."""
        return self._payload.total(), self._tag.total()

    def __repr__(self) -> str:
        return f"TaggedSum({self._payload!r})"


def _expect_words(name: str, words: Ring, shape: tuple[int, ...]) -> None:
    if words.shape != shape or words.dtype != np.uint64:
        raise ShapeError(f"{name} has shape {words.shape} of {words.dtype}, expected {shape} of uint64")
