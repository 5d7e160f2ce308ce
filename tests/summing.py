"""k users and a CSP in one process, for tests of secure sums: the product's shares, running totals and openings."""

import itertools
from dataclasses import dataclass, field

import numpy as np

from fedsvd.randomness.seed import Seed
from fedsvd.secagg.aggregate import TaggedSum
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce
from fedsvd.secagg.sums import PlannedSum, SumKind, even_batches
from fedsvd.secagg.tagged import SumSeeds, open_total, share

STEP = {SumKind.WIDE: 1074, SumKind.TOTAL: 100, SumKind.BOUND: 0, SumKind.SHARED: 0, SumKind.SHORT: 0}


def dealt(k, salt=0):
    """Pad keys of k users, one random seed per pair."""
    rng = np.random.default_rng((k, salt))
    seeds = {frozenset(pair): Seed(rng.bytes(32)) for pair in itertools.combinations(range(1, k + 1), 2)}
    users = range(1, k + 1)
    return {i: PadKeys(i, {j: seeds[frozenset((i, j))] for j in users if j != i}) for i in users}


def planned(kind, length, name="sum", receiver=None):
    return PlannedSum(name, kind, even_batches(kind, length), STEP[kind], receiver)


@dataclass
class Session:
    """One session of k users; ``salt`` makes another one of other seeds."""

    k: int
    salt: int = 0
    once: dict = field(init=False)

    def __post_init__(self):
        self.keys = dealt(self.k, self.salt)
        self.once = {user: PadsOnce() for user in self.keys}
        self.seeds = SumSeeds.of_users(Seed(np.random.default_rng((self.salt, 7)).bytes(32)))

    def shares(self, plan, payloads, batch=0):
        """(payload, tag) of every user, padded."""
        users = zip(self.keys.items(), payloads, strict=True)
        return [share(plan, batch, payload, keys, self.seeds, self.once[user]) for (user, keys), payload in users]

    def reply(self, plan, payloads, batch=0):
        """What an honest CSP answers."""
        running = TaggedSum(plan.kind, plan.batches[batch], self.k)
        for user, (payload, tag) in enumerate(self.shares(plan, payloads, batch), 1):
            running.add(user, payload, tag)
        return running.total()

    def opened(self, plan, payloads, batch=0):
        """The total as the users read it."""
        return open_total(plan, batch, *self.reply(plan, payloads, batch), self.seeds)
