"""The roles of the paper's scheme, each a script of the messages it sends and waits for.

    1  the TA draws P and Q, deals P's seed and Q_i to user i, and goes offline
    2  users mask, ``Y_i = P X_i Q_i``, and the CSP adds up ``X' = sum Y_i`` in mini-batches under pairwise pads (eq. 4)
    3  the CSP factorises ``X' = U' S V'^T``
    4  users take P off, ``U = P^T U'`` (Theorem 1), and recover V_i under a blind (eq. 6)

For a regression the CSP solves ``X' w' = P y`` instead, with y under P alone, and ``w_i = Q_i w'`` (section 4).

Secure aggregation adds whole numbers: entries become words of 64 bits in a unit that follows from the joint norm,
which the users add up first. The CSP sees it as well; it is in the singular values. A message has a kind and arrays,
and nothing else of it is counted.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.secagg import fixed_point, wide
from fedsvd.secagg.aggregate import RunningSum
from fedsvd.secagg.keys import pad_keys
from fedsvd.secagg.pads import PadsOnce, pad
from fedsvd.types import Digest, Float, Ring, SessionId
from fedsvd_lab.published.blind import Slices, blind, draw_blind, unblind
from fedsvd_lab.published.block_masks import LeftBlocks, RightBlocks
from fedsvd_lab.published.provider import Factors, Folded, Kept, Solution, Storage
from fedsvd_lab.published.setting import Setting

TA, CSP = "ta", "csp"
Arrays = tuple[NDArray[Any], ...]
_SESSION, _PLAN = SessionId("published"), Digest("published")
_PANEL = 1 << 22  # numbers of a pass over the data


@dataclass(frozen=True, repr=False)
class Send:
    """A message to one role."""

    to: str
    kind: str
    arrays: Arrays = ()


@dataclass(frozen=True)
class Receive:
    """Wait for a message of this kind from this role; its arrays come back."""

    sender: str
    kind: str


Script = Generator[Send | Receive, Arrays, Any]


def user_name(i: int) -> str:
    """User i, from 1."""
    return f"user-{i}"


# --- step 1 -----------------------------------------------------------------------------------------------------------


def masks_of(setting: Setting, seed: Seed) -> tuple[LeftBlocks, RightBlocks]:
    """P and Q as the TA draws them (Algorithms 1 and 2)."""
    P = LeftBlocks(setting.m, seed.derive("P"), setting.block)
    return P, RightBlocks(setting.widths, seed.derive("Q"), setting.block, keep=setting.dense)


def trusted_authority(setting: Setting, seed: Seed) -> Script:
    """Deal the masks: P as the seed it follows from, Q_i as slices, one for each block in which user i has columns."""
    P, Q = masks_of(setting, seed)
    dealt = P.window(0).explicit() if setting.dense else _bytes(P.seed.reveal())
    for i in range(1, setting.k + 1):
        slices = tuple(np.array(Q.rows(w, i - 1)) for w in setting.held(i))
        yield Send(user_name(i), "masks", (dealt, *slices))


def _bytes(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, np.uint8)


@dataclass(frozen=True, repr=False)
class Delivered:
    """P as a matrix, which the TA delivers where masks have no blocks."""

    P: Float

    def left(self, X: Float) -> Float:
        """``P X``."""
        return self.P @ X

    def left_t(self, X: Float) -> Float:
        """``P^T X``."""
        return self.P.T @ X

    def window(self, w: int) -> "Delivered":
        """Its one block."""
        return self


def _dealt(setting: Setting, i: int, arrays: Arrays) -> tuple[LeftBlocks | Delivered, dict[int, Float]]:
    first, *slices = arrays
    held = dict(zip(setting.held(i), slices, strict=True))
    if setting.dense:
        return Delivered(first), held
    return LeftBlocks(setting.m, Seed(first.tobytes()), setting.block), held


# --- users ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Held:
    """What a user ends with: U, S and Vt_i, or w_i."""

    U: Float | None = None
    sigma: Float | None = None
    Vt_i: Float | None = None
    w: Float | None = None

    @property
    def coefficients(self) -> Float:
        """w_i of a regression, (columns, targets)."""
        assert self.w is not None
        return self.w


@dataclass(frozen=True, repr=False)
class Own:
    """A user's data: X_i, with the column of ones where it appends it, and y where it holds the labels."""

    setting: Setting
    i: int
    source: MatrixSource
    y: Float | None = None

    @property
    def _ones(self) -> int:
        return self.setting.widths[self.i - 1] - self.source.shape[1]

    def columns(self, place: slice) -> Float:
        """These columns of A_i."""
        own = self.source.shape[1]
        inside = self.source.columns(place.start, min(place.stop, own)) if place.start < own else None
        if place.stop <= own and inside is not None:
            return inside
        ones = np.ones((self.setting.m, place.stop - max(place.start, own)))
        return ones if inside is None else np.concatenate((inside, ones), axis=1)

    def rows(self, place: slice) -> Float:
        """These rows of A_i."""
        inside = self.source.rows(place.start, place.stop)
        return np.concatenate((inside, np.ones((len(inside), self._ones))), axis=1) if self._ones else inside

    def labels(self, place: slice) -> Float:
        """These rows of y, or zeros at the users who do not have it."""
        zeros = np.zeros((place.stop - place.start, self.setting.targets))
        return zeros if self.y is None else self.y[place]

    def squares(self) -> Float:
        """The squared norms of A_i and y_i."""
        of_y = 0.0 if self.y is None else float(np.sum(self.y**2))
        panels = self.source.panels(1, max(1, _PANEL // self.setting.m))
        return np.array([math.fsum(float(np.vdot(X, X)) for X in panels) + self.setting.m * self._ones, of_y])


def user(setting: Setting, own: Own, secret: Seed) -> Script:
    """Steps 1, 2 and 4 at user i."""
    P, slices = _dealt(setting, own.i, (yield Receive(TA, "masks")))
    mine, once = AgreementKey(secret.derive("key")), PadsOnce()
    yield Send(CSP, "key", (_bytes(mine.public),))
    publics = dict(enumerate((key.tobytes() for key in (yield Receive(CSP, "keys"))), start=1))
    keys = pad_keys(mine, own.i, publics, _SESSION, _PLAN)

    yield Send(CSP, "norms", (pad(wide.encode(own.squares()), keys, "norms", 0, once),))
    (squares,) = yield Receive(CSP, "norms")
    panel, made = -1, np.empty((0, 0))
    for number, batch in enumerate(setting.batches):
        yield Receive(CSP, "next")
        if batch.panel != panel:
            panel, made = batch.panel, np.empty((0, 0))  # before the next is made
            made = _masked(setting, own, P, slices, panel)
        words = _words(setting, made[batch.rows], squares)
        yield Send(CSP, "share", (pad(words, keys, "upload", number, once),))
    del made, words

    if setting.solves:
        (w_masked,) = yield Receive(CSP, "solution")
        own_rows = [Q_iw @ w_masked[setting.right[w].outputs] for w, Q_iw in slices.items()]
        return Held(w=np.concatenate(own_rows))
    U_masked, sigma = yield Receive(CSP, "factors")
    U, Vt_i = P.left_t(U_masked), None
    if setting.recovers:
        R_i = draw_blind(slices, secret.derive("R"))
        yield Send(CSP, "blinded", blind(slices, R_i))
        Vt_i = np.concatenate(unblind((yield Receive(CSP, "own part")), R_i), axis=1)
    return Held(U, sigma, Vt_i)


def _masked(setting: Setting, own: Own, P: LeftBlocks | Delivered, slices: Slices, panel: int) -> Float:
    """A panel of Y_i: a block of columns, or of rows with P y next to them; all of it where shares are whole."""
    if setting.solves:
        places = range(len(setting.left)) if setting.whole else (panel,)
        return np.concatenate([_rows(setting, own, P, slices, w) for w in places])
    blocks = range(len(setting.right)) if setting.whole else (panel,)
    made: Float = np.zeros((setting.m, sum(setting.right[w].width for w in blocks)))
    start = setting.right[blocks[0]].outputs.start
    for w in blocks:
        if w in slices:
            outputs, A_iw = setting.right[w].outputs, own.columns(setting.own(own.i, w))
            made[:, outputs.start - start : outputs.stop - start] = P.left(A_iw) @ slices[w]
    return made


def _rows(setting: Setting, own: Own, P: LeftBlocks | Delivered, slices: Slices, w: int) -> Float:
    """``P_w [A_i Q_i, y_i]`` of the rows that block w of P mixes."""
    place = setting.left[w]
    A = own.rows(place)
    masked: Float = np.zeros((len(A), setting.N + setting.targets))
    for v, Q_iv in slices.items():
        masked[:, setting.right[v].outputs] = A[:, setting.own(own.i, v)] @ Q_iv
    masked[:, setting.N :] = own.labels(place)
    under_both: Float = P.window(w).left(masked)
    return under_both


def exponents(setting: Setting, squares: Float) -> tuple[int, int]:
    """Fractional bits of the words of X' and of y', from the joint squared norms."""
    rows, columns = setting.smallest
    sides = ((math.sqrt(squares[0]), columns), (math.sqrt(squares[1]), 1))
    found = [fixed_point.exponent(fixed_point.bound(1.001, norm, rows, side)) for norm, side in sides]
    return found[0], found[1]


def _words(setting: Setting, Y: Float, squares: Float) -> Ring:
    of_X, of_y = exponents(setting, squares)
    words = np.empty(Y.shape, np.uint64)
    matrix = Y.shape[1] - setting.targets
    words[:, :matrix] = fixed_point.encode(np.ascontiguousarray(Y[:, :matrix]), of_X)
    if setting.targets:
        words[:, matrix:] = fixed_point.encode(np.ascontiguousarray(Y[:, matrix:]), of_y)
    return words


# --- the CSP ----------------------------------------------------------------------------------------------------------


def service_provider(
    setting: Setting, storage: Storage, watch: Callable[[int, Float], None] = lambda panel, Y: None
) -> Script:
    """Steps 2 and 3; ``watch`` is shown every panel of X' as the CSP sees it. It ends with the residual it verified."""
    users = [user_name(i) for i in range(1, setting.k + 1)]
    keys = []
    for name in users:
        keys.append((yield Receive(name, "key"))[0])
    for name in users:
        yield Send(name, "keys", tuple(keys))
    norms = RunningSum((2, wide.WORDS), setting.k)
    for i, name in enumerate(users, start=1):
        norms.add(i, (yield Receive(name, "norms"))[0])
    squares = wide.decode(norms.total())
    for name in users:
        yield Send(name, "norms", (squares,))

    collector = Folded(setting) if setting.solves else Kept(setting, storage)
    panel: Float = np.empty((0, 0))
    for batch in setting.batches:
        for name in users:
            yield Send(name, "next")
        total = RunningSum(batch.shape, setting.k)
        for i, name in enumerate(users, start=1):
            total.add(i, (yield Receive(name, "share"))[0])
        part = _decoded(setting, total.taken(), squares)
        if batch.rows.start == 0:
            panel = part if batch.last else np.empty(setting.panels[batch.panel])
        if not (batch.last and batch.rows.start == 0):
            panel[batch.rows] = part
        if batch.last:
            watch(batch.panel, panel)
            collector.take(batch.panel, panel)
    del panel, part, total
    if isinstance(collector, Folded):
        return (yield from _solved(collector.solve(), users))
    return (yield from _factorised(setting, collector.factorise(), users))


def _decoded(setting: Setting, total: Ring, squares: Float) -> Float:
    of_X, of_y = exponents(setting, squares)
    matrix = total.shape[1] - setting.targets
    Y = np.empty(total.shape)
    Y[:, :matrix] = fixed_point.decode(np.ascontiguousarray(total[:, :matrix]), of_X)
    if setting.targets:
        Y[:, matrix:] = fixed_point.decode(np.ascontiguousarray(total[:, matrix:]), of_y)
    return Y


def _solved(found: Solution, users: list[str]) -> Script:
    for name in users:
        yield Send(name, "solution", (found.w,))
    return found.residual


def _factorised(setting: Setting, found: Factors, users: list[str]) -> Script:
    for name in users:
        yield Send(name, "factors", (found.U, found.sigma))
    if setting.recovers:
        for i, name in enumerate(users, start=1):
            blinded = yield Receive(name, "blinded")
            held = zip(setting.held(i), blinded, strict=True)
            products = tuple(found.rows(setting.right[w].outputs) @ block for w, block in held)
            yield Send(name, "own part", products)
    if found.store is not None:
        found.store.close()
    return found.residual
