"""Made-up ratings: sparse test data with the outline of MovieLens, made panel by panel from a seed.

    synthetic-ratings://6000x40000?density=0.0025&seed=1            whole stars, 1 to 5
    synthetic-ratings://6000x40000?density=0.0025&seed=1&half=1     half stars, 0.5 to 5
    synthetic-ratings://6000x40000?seed=1&columns=0:20000           one party's columns; rows=... likewise
    synthetic-ratings://6000x40000?seed=1&groups=60                 users of 60 groups with tastes of their own

Rows are users, columns are items. Whether user u rated item i is a coin whose chance is the product of the user's
activity (log-normal) and the item's popularity (Zipf's law, shifted as in MovieLens, over items in random order); the
rating is a mean of 3.5 with a leaning of the user, a quality of the item and noise, rounded. Expected, not exact, is
the share ``density`` of all places. With groups a user's chances are multiplied by its group's taste for each item,
log-normal: such tables have about that many directions above their noise, as counts of cells of several types do.
Every place is a function of seed, u and i (``hashed_normals.py``).
"""

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd.data.address import Address
from fedsvd.data.hashed_normals import LANES, fields, normals, stream_key
from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.sparse import SparseBase, TransposedSparse
from fedsvd.errors import ConfigError
from fedsvd.types import Digest, Float

SCHEME = "synthetic-ratings://"
_KEYS = ("seed", "density", "half", "groups", "rows", "columns")
_SHIFT = 0.01  # of the items; without it Zipf's first items would be rated many times over by every user
_CHUNK = 1 << 20  # places looked at together


class RatingsSource(SparseBase):
    """The matrix of one ``synthetic-ratings://`` address."""

    def __init__(self, text: str) -> None:
        address = Address(text, SCHEME, _KEYS)
        self._users, self._items = address.shape
        self._address = address
        self._seed, self._density = address.whole("seed", 0), address.number("density", 0.0025)
        if not 0 < self._density <= 0.5:
            raise ConfigError(f"{text}: density is {self._density:g}", "above 0 and at most 0.5")
        self._groups = address.whole("groups", 0)
        self._steps = 2 if address.whole("half", 0) else 1  # to a star
        self._rows, self._columns = address.run("rows", self._users), address.run("columns", self._items)
        shape = self._rows[1] - self._rows[0], self._columns[1] - self._columns[0]
        super().__init__(shape, np.dtype(np.float64))

    def __repr__(self) -> str:
        return f"RatingsSource({self.description})"

    @property
    def made_up(self) -> bool:
        return True

    @property
    def T(self) -> MatrixSource:
        """The transposed matrix, sparse as well."""
        return TransposedSparse(self)

    @property
    def description(self) -> str:
        """The address with every choice spelt out: equal descriptions, equal matrices."""
        return self._address.canonical()

    def fingerprint(self) -> Digest:
        """SHA-256 of the description."""
        return Digest(hashlib.sha256(b"fedsvd/synthetic-ratings/1\x00" + self.description.encode()).hexdigest())

    def inspect(self) -> None:
        """Nothing to find: every entry is a rating or zero."""

    def sparse_rows(self, start: int, stop: int) -> Any:
        """Rows ``start .. stop-1`` as a float64 ``csr_array``."""
        self._expect_run("rows", start, stop, self.shape[0])
        return self._rated((start, stop), (0, self.shape[1]))

    def sparse_columns(self, start: int, stop: int) -> Any:
        """Columns ``start .. stop-1`` as a float64 ``csc_array``."""
        self._expect_run("columns", start, stop, self.shape[1])
        return scipy.sparse.csc_array(self._rated((0, self.shape[0]), (start, stop)))

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        (r0, r1, own_rows), (c0, c1, own_columns) = _hull(rows), _hull(columns)
        dense: NDArray[Any] = self._rated((r0, r1), (c0, c1)).toarray()
        dense = dense if own_rows is None else dense[own_rows]
        return dense if own_columns is None else dense[:, own_columns]

    # --- making ---------------------------------------------------------------------------------------------------

    def _draws(self, purpose: str, count: int) -> Float:
        drawn: Float = normals(stream_key(self._seed, purpose), (0, 1), (0, count), count)[0]
        return drawn

    @cached_property
    def _popularity(self) -> Float:
        """Every item's share of the ratings, times the number of items; its mean is 1."""
        rank = np.argsort(np.argsort(self._draws("order", self._items), kind="stable"), kind="stable")
        share = 1.0 / (rank + 1 + _SHIFT * self._items)
        popularity: Float = share / share.mean()
        return popularity

    @cached_property
    def _activity(self) -> Float:
        """Every user's number of ratings, relative to the mean."""
        activity = np.exp(0.8 * self._draws("activity", self._users))
        relative: Float = activity / activity.mean()
        return relative

    @cached_property
    def _leanings(self) -> tuple[Float, Float]:
        return 0.4 * self._draws("leaning", self._users), 0.5 * self._draws("quality", self._items)

    @cached_property
    def _tastes(self) -> Float:
        """Every group's taste for every item, (groups, items), relative to that of all."""
        key, span = stream_key(self._seed, "tastes"), (0, self._items)
        tastes = np.exp(normals(key, (0, self._groups), span, self._items))
        relative: Float = tastes / tastes.mean(axis=0)
        return relative

    def _chances(self, users: tuple[int, int], items: tuple[int, int]) -> Float:
        """Of a rating, for these users and items, or for all of these users alike."""
        chance: Float = self._density * self._popularity[slice(*items)] * 65536.0
        if not self._groups:
            return chance
        group = np.arange(*users) % self._groups
        return chance * self._tastes[group, slice(*items)]

    def _rated(self, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
        """The ratings in these rows and columns, as a ``csr_array``."""
        first, last = columns[0] + self._columns[0], columns[1] + self._columns[0]
        step = max(1, _CHUNK // (last - first))
        parts = []
        for start in range(rows[0] + self._rows[0], rows[1] + self._rows[0], step):
            stop = min(start + step, rows[1] + self._rows[0])
            parts.append(self._block((start, stop), (first, last)))
        return scipy.sparse.csr_array(scipy.sparse.vstack(parts, format="csr")) if len(parts) > 1 else parts[0]

    def _block(self, users: tuple[int, int], items: tuple[int, int]) -> Any:
        groups = items[0] // LANES, -(-items[1] // LANES)
        coins = fields(stream_key(self._seed, "coins"), users, groups, -(-self._items // LANES))
        coins = coins[:, items[0] - LANES * groups[0] :][:, : items[1] - items[0]]
        chance = self._chances(users, items)
        user, item = np.nonzero(coins < np.minimum(self._activity[slice(*users), None] * chance, 65535.0))
        leaning, quality = self._leanings
        # The coin is spent; what remains of a place's own chance is its two numbers, hashed once more.
        noise = _noise(stream_key(self._seed, "noise"), user + users[0], item + items[0])
        stars = 3.5 + leaning[user + users[0]] + quality[item + items[0]] + noise
        ratings = np.clip(np.rint(stars * self._steps), 1, 5 * self._steps) / self._steps
        shape = users[1] - users[0], items[1] - items[0]
        return scipy.sparse.csr_array((ratings, (user, item)), shape=shape)


def _noise(key: int, user: NDArray[np.intp], item: NDArray[np.intp]) -> Float:
    """About N(0, 0.9^2), one number per place: four uniform bytes of a hash, added up."""
    with np.errstate(over="ignore"):
        words = user.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + item.astype(np.uint64) + np.uint64(key)
        for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
            words ^= words >> np.uint64(29)
            words *= np.uint64(factor)
        words ^= words >> np.uint64(32)
    uniforms = (words.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :4].sum(axis=1) + 2.0) / 256.0
    noise: Float = 0.9 * (uniforms - 2.0) * np.sqrt(3.0)
    return noise


def _hull(index: Index) -> tuple[int, int, NDArray[np.intp] | None]:
    """The run that holds these positions, and where in it they are; None where they are all of it."""
    if isinstance(index, slice):
        return int(index.start), int(index.stop), None
    low = int(index.min())
    return low, int(index.max()) + 1, index - low
