"""What an earlier session of the same job found by steps, and where this one goes on (specification, section 13).

Each user writes what every step gave into a file of its own: what was opened and what user 1 sent, which are the same
at all users, and its own rows of W, as confidential as its data. W is not computed anew from the directions: columns
that are small before they are scaled would lose the digits by which they are orthonormal.

A session begins with user 1's digests of its last two steps, and all users say whether one of them does not have these.
A user that was killed between two steps has one step less than the others. Where no file is the same at all users the
search starts again, with the block that every session of the job starts with: it opens nothing that is new.

Before a file is used, products of the data with a random combination of all directions are compared with those that W
has: a table that changed anywhere since does not pass.
"""

import hashlib
import math
import struct
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, replace

import numpy as np

from fedsvd.linalg import backend
from fedsvd.linalg.backend import EPS, matmul
from fedsvd.linalg.columns import Columns
from fedsvd.linalg.golub_kahan import Space
from fedsvd.linalg.tall import combined
from fedsvd.linalg.verdicts import Search, Verdict
from fedsvd.protocol.directions import (
    CHECKPOINT,
    HELD,
    first_width,
    later_width,
    restarts_after,
    start_width,
)
from fedsvd.protocol.plan import SessionPlan
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.own_products import own_side
from fedsvd.roles.user.requests import Common, Local, Script
from fedsvd.roles.user.statistics import Prepared
from fedsvd.roles.user.sums import any_of
from fedsvd.roles.user.work import Streamed, Work
from fedsvd.storage.record_file import RecordFile
from fedsvd.types import Float

_DOMAIN = b"fedsvd/steps/2\x00"
_OFFERED = struct.Struct("<q32s32s")
_SAME = 2.0**12  # by how many eps s_1 products of the same data may differ, of which rounding is far below


Rotation = tuple[Float, Float, Float]  # p, y and g of a restart


@dataclass(frozen=True, repr=False)
class Found:
    """What one step gave."""

    Z: Float  # opened: images of the block
    N: Float  # of user 1: new directions
    c: Float  # of user 1: the next block
    passes: int
    W: Float  # this user's own rows
    s1: float  # this user's largest Ritz value
    said: Verdict  # of user 1
    search: Search  # after it
    rotation: Rotation | None = None  # of user 1, where the basis started again


@dataclass(frozen=True, repr=False)
class _Units:
    """What stands between the data and A_i: the same at all users, and to the last bit in all sessions of a search."""

    search: bytes  # digest
    E: int
    power: int
    rows: tuple[Float, Float, Float]  # means, what is below their last digits, and scales; empty where there is none

    def packed(self) -> bytes:
        return _DOMAIN + self.search + struct.pack("<qq", self.E, self.power) + b"".join(map(_packed, self.rows))

    def on(self, A_i: Streamed) -> Streamed:
        """A_i by these numbers instead of those of this session, which have other noise in their last digit."""
        mean, rest, inverse = (row if row.size else None for row in self.rows)
        own = A_i.own_mean if rest is None else None
        return replace(A_i, mean=mean, rest=rest, inverse=inverse, power=self.power, own_mean=own)


@dataclass(repr=False)
class Steps:
    """The steps that are there so far: of an earlier session, and of this one."""

    prepared: Prepared
    space: Space
    W: Columns
    s1: float
    search: Search
    said: Verdict = Verdict.AFRESH  # how the next block came about
    passes: list[int] = field(default_factory=list)
    resumed: int = 0  # how many are of an earlier session
    file: RecordFile | None = None

    def take(self, found: Found) -> None:
        """One step more."""
        if self.file is not None:
            self.file.append((_shared(found), struct.pack("<d", found.s1), _packed(found.W)))


def start_normals(plan: SessionPlan, count: int) -> Float:
    """(m, count) normals that follow from the plan's shapes: every session of a job starts with the same ones.

    So does another study of the same tables, and one with more components has those of the others among its own. They
    are public: no party may gain by their choice, and none can make it.
    """
    drawn = Keystream.of(Seed(_hashed(*_matrix(plan))), "start").normal((count, plan.m))
    return np.ascontiguousarray(drawn.T)


def more_normals(plan: SessionPlan, searches: int) -> Float:
    """Normals of one search more than there were."""
    later = later_width(plan)
    return start_normals(plan, first_width(plan) + later * searches)[:, -later:]


def first_search(plan: SessionPlan) -> Search:
    """Before the first step."""
    return Search(first_width(plan), start_width(plan))


def _matrix(plan: SessionPlan) -> tuple[object, ...]:
    """What is known of the joint matrix before a session."""
    return plan.split, plan.m, plan.counts, plan.centre, plan.unit_variance, plan.column_names


def _search(plan: SessionPlan) -> bytes:
    """A digest of what all sessions of a search have in common."""
    return _hashed(plan.task, plan.planned_rank, plan.components_by, plan.digits, *_matrix(plan))


def _hashed(*values: object) -> bytes:
    return hashlib.sha256(_DOMAIN + repr(tuple(map(str, values))).encode()).digest()


def agreed_steps(work: Work, prepared: Prepared, start: Space) -> Script:
    """Where this session begins: behind the last step that all users have, or with the start block."""
    file, A_i = work.search, prepared.A_i
    nothing = Columns(work.n_i, None if work.device is None else work.device.like)
    fresh = Steps(prepared, start, nothing, prepared.F1, first_search(work.plan))
    held = _Held.none(start, nothing)
    if file is not None and isinstance(A_i, Streamed):
        units = _units(work.plan, prepared.E, A_i)
        held = yield Local("directions", lambda: _read(work, prepared, file, _Held.none(start, nothing)))
        fresh = replace(fresh, file=file)
    content: bytes = yield Common(CHECKPOINT, held.offered)
    number, *digests = _OFFERED.unpack(content)
    missing = np.array([not held.has(number - back, digest) for back, digest in enumerate(digests)])
    lacks = yield from any_of(HELD, missing, work.own)
    count = 0 if lacks.all() else number - int(np.argmin(lacks))
    if count:
        return held.after(count, fresh)
    if fresh.file is not None:
        fresh.file.begin(units.packed())
    return fresh


@dataclass(frozen=True, repr=False)
class _Held:
    """The steps of a file, each with what follows from it."""

    digests: list[bytes]  # after each step, of what is the same at all users
    found: list[Found]
    spaces: list[Space]
    columns: list[Columns]
    prepared: Prepared | None = None

    @classmethod
    def none(cls, start: Space, nothing: Columns) -> "_Held":
        return cls([bytes(32)], [], [start], [nothing])

    def offered(self) -> bytes:
        """User 1's message: how many steps it has, and the digests of the last two."""
        count = len(self.found)
        return _OFFERED.pack(count, self.digests[count], self.digests[max(count - 1, 0)])

    def has(self, count: int, digest: bytes) -> bool:
        return 0 < count <= len(self.found) and self.digests[count] == digest

    def after(self, count: int, fresh: Steps) -> Steps:
        """The search behind this number of steps."""
        assert self.prepared is not None
        assert fresh.file is not None
        fresh.file.cut(1 + count)
        passes = [found.passes for found in self.found[:count]]
        last = self.found[count - 1]
        state = self.spaces[count], self.columns[count], last.s1, last.search, last.said
        return Steps(self.prepared, *state, passes, count, fresh.file)


def _units(plan: SessionPlan, E: int, A_i: Streamed) -> _Units:
    rows = tuple(np.zeros(0) if row is None else row for row in (A_i.mean, A_i.rest, A_i.inverse))
    return _Units(_search(plan), E, A_i.power, (rows[0], rows[1], rows[2]))


def _read(work: Work, prepared: Prepared, file: RecordFile, nothing: _Held) -> _Held:
    """The steps of a file as far as they are whole; none where they are of another job or of other data."""
    records = file.read()
    units = _read_units(records[0], work.plan.m) if records else None
    A_i = prepared.A_i
    assert isinstance(A_i, Streamed)
    if units is None or (units.search, units.E) != (_search(work.plan), prepared.E):
        return nothing
    found = list(map(_read_step, records[1:]))
    if not _fit(found, work, nothing.spaces[0].block.shape[1]):
        return nothing
    digest = hashlib.sha256(records[0]).digest()
    held = replace(nothing, digests=[digest], found=found, prepared=replace(prepared, A_i=units.on(A_i)))
    for step in found:
        space = held.spaces[-1].added(work.put(step.Z))
        space = space.kept(work.put(step.N))
        space = _onward(work, space, step)
        columns = held.columns[-1].with_more(work.put(step.W))
        if step.rotation is not None:
            space, columns = space.restarted(*step.rotation), Columns.of(combined(columns.all, step.rotation[0]))
        held.spaces.append(space)
        held.columns.append(columns)
        digest = hashlib.sha256(digest + _shared(step)).digest()
        held.digests.append(digest)
    return (
        held
        if not found or _of_same_data(work, held, units.on(A_i))
        else _Held.none(nothing.spaces[0], nothing.columns[0])
    )


def _onward(work: Work, space: Space, step: Found) -> Space:
    if step.said is Verdict.GO_ON:
        return space.onward(step.c)
    return space.afresh(work.put(more_normals(work.plan, step.search.starts - 1)))


def _fit(found: Iterable[Found], work: Work, width: int) -> bool:
    """Whether the shapes are those of this search: hashes show damage, and another version may write other things."""
    m, reservoir, images, later = work.plan.m, 0, 0, later_width(work.plan)
    for number, step in enumerate(found):
        kept = step.W.shape[1]
        reservoir, images = reservoir + step.N.shape[1], images + kept
        if kept > width or step.W.shape[0] != work.n_i or step.Z.shape != (m, kept) or step.N.shape[0] != m:
            return False
        if step.said is Verdict.GO_ON and step.c.shape[0] != reservoir:
            return False
        width = step.c.shape[1] if step.said is Verdict.GO_ON else later
        reservoir += 0 if step.said is Verdict.GO_ON else later
        if (step.rotation is not None) != restarts_after(work.plan, number):
            return False
        if step.rotation is not None:
            p, y, g = step.rotation
            if (len(p), len(g)) != (images, reservoir) or p.shape[1] != y.shape[1]:
                return False
            images, reservoir = p.shape[1], width + g.shape[1]
    return True


def _of_same_data(work: Work, held: _Held, A_i: Streamed) -> bool:
    """Whether ``X_i^T K g = W_i (Z^T K) g`` for a random g: it holds for the data that W_i was made of."""
    space, W, s1 = held.spaces[-1], held.columns[-1].all, held.found[-1].s1
    g = Keystream.of(work.own, "checkpoint").normal((space.count, 1))
    g /= np.linalg.norm(g)
    known = combined(W, matmul(space.products, g))
    product = own_side(work, A_i).transposed_times(space.combination(g))
    return bool(backend.norm(product - known) <= _SAME * EPS * math.sqrt(work.plan.m) * s1)


# --- records ----------------------------------------------------------------------------------------------------------


def _packed(A: Float) -> bytes:
    A = np.atleast_2d(A)
    return struct.pack("<QQ", *A.shape) + np.ascontiguousarray(A, "<f8").tobytes()


def _shared(found: Found) -> bytes:
    """What is the same at all users."""
    search, rotation = astuple(found.search), found.rotation or ()
    numbers = struct.pack("<q7q2q", found.passes, *map(int, search), int(found.said), len(rotation))
    return numbers + b"".join(map(_packed, (found.Z, found.N, found.c, *rotation)))


class _Reader:
    """Arrays and numbers from the front of a record."""

    def __init__(self, record: bytes) -> None:
        self._left = memoryview(record)

    def numbers(self, form: str) -> tuple[float, ...]:
        size = struct.calcsize(form)
        values, self._left = struct.unpack(form, self._left[:size]), self._left[size:]
        return values

    def array(self) -> Float:
        rows, columns = map(int, self.numbers("<QQ"))
        size = 8 * rows * columns
        values, self._left = np.frombuffer(self._left[:size], "<f8"), self._left[size:]
        return values.reshape(rows, columns).astype(np.float64)


def _read_step(record: bytes) -> Found:
    reader = _Reader(record)
    passes, *counts, said, rotated = map(int, reader.numbers("<q7q2q"))
    Z, N, c, *rotation = (reader.array() for _ in range(3 + rotated))
    (s1,) = reader.numbers("<d")
    width, wanted, starts, length, until, lost, computed = counts
    search = Search(width, wanted, starts, length, until, bool(lost), computed)
    turned = (rotation[0], rotation[1], rotation[2]) if rotated else None
    return Found(Z, N, c, passes, reader.array(), float(s1), Verdict(said), search, turned)


def _read_units(record: bytes, m: int) -> _Units | None:
    head = len(_DOMAIN) + 32
    if not record.startswith(_DOMAIN):
        return None
    reader = _Reader(record[head:])
    E, power = map(int, reader.numbers("<qq"))
    mean, rest, inverse = (reader.array().ravel() for _ in range(3))
    if any(row.size not in (0, m) for row in (mean, rest, inverse)):
        return None
    return _Units(record[len(_DOMAIN) : head], E, power, (mean, rest, inverse))
