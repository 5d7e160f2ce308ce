"""The user: owns X_i; compresses, rotates, masks, pads, uploads, unmasks.

The table says what may be heard from whom in which state. What is asked of the others, and in which order, is the
task's script (``svd.py``, ``pca.py``, ``regression.py``); each step of a script stands for one state here.
"""

import hashlib
import hmac
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.errors import LocalProtocolError, NotSealed, UnexpectedMessage
from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.device import Device
from fedsvd.linalg.signs import signs_of
from fedsvd.protocol.effects import Compute, Effect, Finish, Send
from fedsvd.protocol.letters import SessionKeys, commitment, dealer
from fedsvd.protocol.machine import Machine, Step, Table, table
from fedsvd.protocol.messages import (
    BatchRequest,
    Begin,
    BlindedRightFactor,
    BlindedRightMask,
    Computed,
    FactorRows,
    Factors,
    Finished,
    KeyBook,
    MaskedBatch,
    Message,
    PaddedBatch,
    Ready,
    Relay,
    Relayed,
    RowIds,
    RowsAgree,
    RowsRequest,
    Solution,
    SumReply,
    SumShare,
)
from fedsvd.protocol.parties import CSP, TA, Party, Role, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Scheme
from fedsvd.protocol.upload import batches
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import pca, prediction, regression, svd
from fedsvd.roles.user.answers import expect_answer, expect_blinded, expect_rows
from fedsvd.roles.user.dealt import NOTHING, dealt_masks
from fedsvd.roles.user.encoding import encoded
from fedsvd.roles.user.masking import Masks
from fedsvd.roles.user.requests import Fetch, Local, Recover, Request, Script, Signs, Sum, Upload
from fedsvd.roles.user.sums import UsersOnly
from fedsvd.roles.user.work import Progress, Work, reported
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.secagg import fixed_point
from fedsvd.secagg.dither import least_filled
from fedsvd.secagg.keys import pad_keys
from fedsvd.secagg.pads import PadsOnce, pad
from fedsvd.types import Array, Float, Ring

_SCRIPTS = {"svd": svd.script, "lsa": svd.script, "pca": pca.script, "lr": regression.script}


class State(Enum):
    NEW = auto()
    KEYS = auto()
    SEEDING = auto()
    CHECKING = auto()
    COMPUTING = auto()
    SUMMING = auto()
    UPLOADING = auto()
    WAITING = auto()
    FETCHING = auto()
    RECOVERING = auto()
    SIGNING = auto()
    DONE = auto()
    ABORTED = auto()


_UNMASKED = {State.COMPUTING, State.RECOVERING, State.DONE}  # what may follow once the signs are known


@dataclass(frozen=True, repr=False)
class Inputs:
    """What a user brings to a session: its data, its identity, and its own 32 secret bytes."""

    source: MatrixSource  # X_i, (m, n_i)
    identity: SigningKey
    secret: Seed
    labels: Float | None = None
    ids: NDArray[Any] | None = None
    weights: tuple[Float, Float] | None = None
    extras: dict[str, Any] | None = None  # checkpoint, progress
    prekey: AgreementKey | None = None  # for the TA's letter, where a TA deals
    device: Device | None = None  # where this user computes; None for NumPy
    each: Each | None = None  # ``map`` over several threads, for pads of large payloads


class User(Machine):
    """User i in one session."""

    STATES = State

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        super().__init__(me, plan)
        self._inputs = inputs
        self._keys = SessionKeys(me, plan, inputs.secret, inputs.identity, inputs.prekey)
        self._own = inputs.secret.derive("own")
        self._once = PadsOnce()
        self._batches = batches(plan) if plan.task.value != "predict" else ()
        self._group: Seed | None = None
        self._script: Script | None = None
        self._request: Request | None = None
        self._next = 0  # the batch that may be asked for
        self._panel: tuple[int, Array] | None = None
        self._progress: Progress | None = (inputs.extras or {}).get("progress")
        # The paper's own scheme is there to be reproduced, as published, and not to be fast.
        self._device = None if plan.published else inputs.device
        self._early: Relayed | None = None  # user 1's signs, when it has fetched its U before us

    # --- keys and seeds -------------------------------------------------------------------------------------------

    def _on_begin(self, sender: Party, message: Begin) -> Step:
        """Step 1: offer our session key, signed; the dealer commits to the group seed with it."""
        if dealer(self.plan) == self.me:
            self._group = self._inputs.secret.derive("group")
            return State.KEYS, (Send(CSP, self._keys.offer(commitment(self._group))),)
        if dealer(self.plan) == TA:
            # It must have sealed to our own prekey, or we would wait for a letter to somebody else.
            self._keys.read_prekeys()
        return State.KEYS, (Send(CSP, self._keys.offer()),)

    def _on_keys(self, sender: Party, message: KeyBook) -> Step:
        """Check every key against the plan's identities; the dealer among us then seals the group seed to all."""
        self._keys.read(message)
        if self._group is None:
            return State.SEEDING, ()
        letters = tuple(
            Send(CSP, Relay(self.plan.digest, peer, self._keys.seal(peer, self._group.reveal())))
            for peer in self.plan.users
            if peer != self.me
        )
        state, effects = self._seeded(None)
        return state, letters + effects

    def _on_seed(self, sender: Party, message: Relayed) -> Step:
        """Step 2: the group seed, and in the paper's scheme our slices of Q, from the dealer alone."""
        if message.origin != dealer(self.plan):
            raise UnexpectedMessage(f"a letter from {message.origin} before the dealer's")
        letter = self._keys.open(message.origin, message.sealed)
        self._group = self._keys.open_group_seed(letter)
        return self._seeded(letter[32:] if self.plan.published else None)

    def _seeded(self, slices: bytes | None) -> Step:
        plan, i, inputs = self.plan, self.me.index - 1, self._inputs
        assert self._group is not None  # both callers have just set it
        users = {party.index: self._keys.publics[party.index] for party in plan.users}
        self._pads = pad_keys(self._keys.mine, self.me.index, users, plan.session, plan.digest)
        self._sums = UsersOnly(self._pads, self._group, self._own, self._once)
        extras = {"device": self._device, **(inputs.extras or {})}
        dealt = NOTHING if slices is None else dealt_masks(plan, i, slices, extras.get("allocate", np.empty))
        on = None if self._device is None else self._device.like
        masks = Masks(plan, i, self._group, self._own, dealt.Q, on, inputs.each, dealt.P)
        work = Work(plan, i, inputs.source, masks, self._own, inputs.labels, inputs.weights, **extras)
        self._script = prediction.script(work) if plan.task.value == "predict" else _SCRIPTS[plan.task.value](work)
        if plan.check_ids:
            return State.CHECKING, (Send(CSP, RowIds(plan.digest, self._hashed_ids())),)
        return self._go_on(None)

    def _hashed_ids(self) -> Ring:
        assert self._group is not None
        if self._inputs.ids is None:
            raise LocalProtocolError("the plan compares row ids, and this party has none", "name the id column")
        key = self._group.derive("row ids").reveal()
        digests = (hmac.new(key, str(row).encode(), hashlib.sha256).digest()[:8] for row in self._inputs.ids.tolist())
        return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)

    def _on_rows_agree(self, sender: Party, message: RowsAgree) -> Step:
        return self._go_on(None)

    # --- the script -----------------------------------------------------------------------------------------------

    def _go_on(self, answer: Any) -> Step:
        """Give the script its answer, and turn what it asks for next into a state and effects."""
        assert self._script is not None
        try:
            self._request = self._script.send(answer)
        except StopIteration as end:
            self._script = self._request = None
            return State.DONE, (Send(CSP, Finished(self.plan.digest)), Finish(end.value))
        return self._ask(self._request)

    def _ask(self, request: Request) -> Step:
        digest = self.plan.digest
        match request:
            case Local(label, work):
                return State.COMPUTING, (Compute(label, reported(self._progress, label, work)),)
            case Sum():
                effects: tuple[Effect, ...] = (Send(CSP, SumShare(digest, request.name, self._sums.share(request))),)
                if request.receiver in (None, self.me.index):
                    return State.SUMMING, effects
                state, more = self._go_on(None)  # the total is not ours to read
                return state, effects + more
            case Upload(_, bounds):
                self._exponents = (fixed_point.exponent(bounds[0]), fixed_point.exponent(bounds[1]))
                return State.UPLOADING, (Send(CSP, Ready(digest, self._exponents)),)
            case Fetch(panel):
                return State.FETCHING, (Send(CSP, RowsRequest(digest, panel)),)
            case Recover(Qt_i_blinded):
                return State.RECOVERING, (Send(CSP, BlindedRightMask(digest, Qt_i_blinded)),)
            case Signs(U):
                if self.me.index == 1:
                    return self._decide_signs(U)
                if self._early is not None:
                    return self._on_signs(CSP, self._early)
                return State.SIGNING, ()

    def _on_computed(self, sender: Party, message: Computed) -> Step:
        return self._go_on(message.value)

    def _on_sum(self, sender: Party, message: SumReply) -> Step:
        """Step 6: a users-only total, once its last pad is off."""
        request = self._request
        if not isinstance(request, Sum) or message.name != request.name:
            raise UnexpectedMessage(f"the sum {message.name!r} was not asked for")
        return self._go_on(self._sums.total(request, message.payload))

    # --- the upload -----------------------------------------------------------------------------------------------

    def _on_request(self, sender: Party, message: BatchRequest) -> Step:
        """Step 4: the next batch of Y_i, masked and padded; none twice, and none out of order."""
        if message.batch != self._next or message.batch >= len(self._batches):
            raise UnexpectedMessage(f"batch {message.batch} requested, {self._next} is next")
        self._next += 1
        last = self._next == len(self._batches)
        reply = Send(CSP, self._batch(message.batch))
        if self._progress is not None:
            self._progress("uploading", self._next, len(self._batches))
        if last:
            self._panel = None
        return State.WAITING if last else State.UPLOADING, (reply,)

    def _batch(self, number: int) -> Message:
        batch, request = self._batches[number], self._request
        if not isinstance(request, Upload):
            raise LocalProtocolError("no upload is under way")
        if self._panel is None or self._panel[0] != batch.panel:
            self._panel = None  # before the next is made: a panel is as large as the memory allows
            # Of many panels each is a part of the upload; a single one is most of it, and a stage by itself.
            told = self._progress if len(self.plan.panels) == 1 else None
            self._panel = batch.panel, reported(told, "masking", partial(request.panel, batch.panel))()
        Y = self._panel[1][batch.rows, :]
        matrix = Y.shape[1] - (self.plan.targets if self.plan.by_rows else 0)
        aligned = self.plan.scheme is Scheme.ALIGNED
        if aligned and matrix == Y.shape[1]:
            return MaskedBatch(self.plan.digest, number, np.ascontiguousarray(to_numpy(Y)))
        first = matrix if aligned else 0  # where padding begins
        least = least_filled(*self.plan.smallest_window, self.plan.certain_bound)
        parts = [
            (part, f, least if bound > 0 else 0)
            for part, f, bound in zip(
                (slice(first, matrix), slice(matrix, Y.shape[1])), self._exponents, request.bounds, strict=True
            )
        ]
        payload = encoded(Y, parts, self._own.derive("last bits", number), self._device, self._inputs.each)
        padded = pad(payload, self._pads, "upload", number, self._once, self._inputs.each)
        if aligned:
            return MaskedBatch(self.plan.digest, number, np.ascontiguousarray(to_numpy(Y[:, :matrix])), padded)
        return PaddedBatch(self.plan.digest, number, padded)

    def _on_answer(self, sender: Party, message: Factors | Solution) -> Step:
        """Step 5: what the CSP made of the sum, still under the masks."""
        expect_answer(self.plan, message)
        return self._go_on(message)

    def _on_rows(self, sender: Party, message: FactorRows) -> Step:
        request = self._request
        if not isinstance(request, Fetch):
            raise UnexpectedMessage("rows of U' that were not asked for")
        expect_rows(self.plan, request, message)
        return self._go_on(message.U_masked)

    def _on_blinded(self, sender: Party, message: BlindedRightFactor) -> Step:
        expect_blinded(self.plan, self.me.index - 1, message)
        return self._go_on(message.Vt_i_blinded)

    # --- signs ----------------------------------------------------------------------------------------------------

    def _decide_signs(self, U: Float) -> Step:
        """User 1 decides and tells the others, so that ties cannot split the users (ADR 0013)."""
        signs = signs_of(U)
        letter = np.packbits(signs < 0).tobytes()
        letters = tuple(
            Send(CSP, Relay(self.plan.digest, peer, self._keys.seal(peer, letter)))
            for peer in self.plan.users
            if peer != self.me
        )
        state, effects = self._go_on(signs)
        return state, letters + effects

    def _on_early_signs(self, sender: Party, message: Relayed) -> Step:
        """User 1 was quicker: its letter waits until we have our U."""
        if self.me.index == 1 or self._early is not None or message.origin != user(1):
            raise UnexpectedMessage(f"a letter from {message.origin} while U' is fetched")
        self._early = message
        return State.FETCHING, ()

    def _on_signs(self, sender: Party, message: Relayed) -> Step:
        request = self._request
        if message.origin != user(1) or not isinstance(request, Signs):
            raise UnexpectedMessage(f"signs from {message.origin}")
        letter = self._keys.open(message.origin, message.sealed)
        r = request.U.shape[1]
        if len(letter) != -(-r // 8):
            raise NotSealed("the letter of signs has another length")
        negative = np.unpackbits(np.frombuffer(letter, np.uint8), count=r)
        return self._go_on(1.0 - 2.0 * negative)

    TABLE: ClassVar[Table] = table(
        # state, what arrives, who may say it, handler, where it may lead
        (State.NEW, Begin, Role.USER, _on_begin, {State.KEYS}),
        (State.KEYS, KeyBook, Role.CSP, _on_keys, {State.SEEDING, State.CHECKING, State.COMPUTING}),
        (State.SEEDING, Relayed, Role.CSP, _on_seed, {State.CHECKING, State.COMPUTING}),
        (State.CHECKING, RowsAgree, Role.CSP, _on_rows_agree, {State.COMPUTING}),
        (State.COMPUTING, Computed, Role.USER, _on_computed, {State.COMPUTING, State.SUMMING, State.DONE}),
        (State.SUMMING, SumReply, Role.CSP, _on_sum, {State.COMPUTING, State.SUMMING, State.UPLOADING, State.DONE}),
        (State.UPLOADING, BatchRequest, Role.CSP, _on_request, {State.UPLOADING, State.WAITING}),
        (State.WAITING, Factors, Role.CSP, _on_answer, {State.FETCHING, State.SIGNING, *_UNMASKED}),
        (State.WAITING, Solution, Role.CSP, _on_answer, {State.COMPUTING, State.SUMMING, State.DONE}),
        (State.FETCHING, Relayed, Role.CSP, _on_early_signs, {State.FETCHING}),
        (State.FETCHING, FactorRows, Role.CSP, _on_rows, {State.FETCHING, State.SIGNING, *_UNMASKED}),
        (State.RECOVERING, BlindedRightFactor, Role.CSP, _on_blinded, {State.DONE}),
        (State.SIGNING, Relayed, Role.CSP, _on_signs, _UNMASKED),
    )
