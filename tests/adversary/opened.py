"""Views of sessions that open a Gram matrix: what the CSP adds up, what users open, and what a coalition subtracts.

``Opened`` runs sessions and records totals that users opened and the words of every share before it was padded. The
totals are what all users hold. Of the shares an attacker is given those of its own coalition; all others are the
referee's.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from fedsvd.protocol.messages import PaddedBatch
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Split, Task
from fedsvd.roles.user import opening, seeding
from fedsvd.roles.user.agreement import Group
from fedsvd.secagg.words128 import add_into, to_integers
from fedsvd.testing.federation import Federation

MODULUS = 2**128


def signed(value: int) -> int:
    """An integer modulo 2^128 as the signed number it stands for."""
    value %= MODULUS
    return value - MODULUS if value >= MODULUS // 2 else value


class _Recorded:
    """One user's end of the sums, of which the first batches of shares and of totals are recorded."""

    def __init__(self, opened: "Opened", user: int, sums: seeding.SumsOfUser) -> None:
        self._opened = opened
        self._user = user
        self._sums = sums
        self.padded = sums.padded
        self.opened_as = f"{sums.opened_as} {user}"  # every user opens by itself, and is recorded

    def share(self, planned, batch, payload):
        if batch == 0 and planned.name != "gram":
            self._opened.own[self._user, planned.name] = payload
        return self._sums.share(planned, batch, payload)

    def open(self, planned, batch, *words):
        total = self._sums.open(planned, batch, *words)
        if batch == 0:
            self._opened.received[self._user, planned.name] = np.array(total)
        return total


class Opened:
    """The last session's totals by name, shares of the Gram matrix and units by user, and numbers of other sums."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.totals: dict[str, np.ndarray] = {}
        self.slices: dict[int, object] = {}
        self.units: dict[int, object] = {}
        self.own: dict[tuple[int, str], np.ndarray] = {}
        self.received: dict[tuple[int, str], np.ndarray] = {}  # totals for one receiver
        witness, share, sums_of = Group.witness, opening.share, seeding.SumsOfUser

        def witnessed(group, name, content):
            if isinstance(content, np.ndarray):
                self.totals[name] = np.array(content)
            return witness(group, name, content)

        def shared(work, L_i, F1, common):
            made = share(work, L_i, F1, common)
            self.slices[work.i + 1], self.units[work.i + 1] = made, common
            return made

        def recorded(keys, *rest):
            return _Recorded(self, keys.user, sums_of(keys, *rest))

        monkeypatch.setattr(Group, "witness", witnessed)
        monkeypatch.setattr(opening, "share", shared)
        monkeypatch.setattr(seeding, "SumsOfUser", recorded)

    def run(self, tables: Sequence[np.ndarray], task: Task = Task.SVD, seed: int = 1, **study) -> Federation:
        split = study.pop("split", Split.HORIZONTAL)
        federation = Federation(tables, task, split, insecure_seed=seed.to_bytes(32, "big"), **study)
        federation.run()
        return federation

    def shared_integers(self, i: int) -> np.ndarray:
        """Z_i, user i's share on its grid, as Python integers."""
        first, last, one, other, _ = (part.astype(object) for part in self.slices[i].parts)
        S = [first, (one - other) / 2, last]  # the slices, of their polynomial at 0, infinity, 1 and -1
        whole = np.vectorize(int, otypes=[object])
        return whole(S[0]) * 2**42 + whole(S[1]) * 2**21 + whole(S[2])

    def gram_of(self, *users: int) -> list[int]:
        """The upper triangle of the sum of these users' exact Gram matrices."""
        m = self.shared_integers(users[0]).shape[0]
        total = sum(self.shared_integers(i) @ self.shared_integers(i).T for i in users)
        return [int(total[i, j]) for i in range(m) for j in range(i, m)]


def seen_by_csp(federation: Federation) -> list[int]:
    """Mode B: the sum of all users' padded words modulo 2^128, as the CSP reads it."""
    batches: dict[int, np.ndarray] = {}
    for _, message in federation.views.of(CSP, PaddedBatch):
        if message.batch not in batches:
            batches[message.batch] = np.zeros_like(message.payload)
        add_into(batches[message.batch], message.payload)
    return to_integers(np.concatenate([batches[number] for number in sorted(batches)]))


def square(triangle: Sequence[int], m: int) -> np.ndarray:
    """The symmetric matrix behind its upper triangle, of Python integers."""
    G = np.empty((m, m), dtype=object)
    for i, j, value in zip(*np.triu_indices(m), triangle, strict=True):
        G[i, j] = G[j, i] = value
    return G
