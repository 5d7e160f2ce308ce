"""What the attackers of this folder may use: the recorded view of one party, and the plan, which is public.

What reads a view (``X_masked`` and its kin) and the attacks are in ``fedsvd.audit.attacks``. ``Truth`` is for the
referee, never for the attacker: it copies shares before they are padded, and the masks users hold, so that a test
can say whether an attack was right.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedsvd.audit.attacks.view import CspView, UserView
from fedsvd.data.open import open_source
from fedsvd.policy.rules import Policy
from fedsvd.protocol.messages import KeyOffer, Message, PaddedBatch, SumShare, Views
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task
from fedsvd.protocol.upload import batches
from fedsvd.roles.user import seeding, sums
from fedsvd.secagg import fixed_point
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import Outcome, run_study
from fedsvd.studies.study import Study
from fedsvd.types import Float, Ring

WORDS = 2.0**64


def columns(X: Float, widths: Sequence[int]) -> list[Float]:
    """X cut into the users' X_i."""
    return np.split(X, np.cumsum(widths)[:-1], axis=1)


def watched(parts: Sequence[Float], task: Task = Task.SVD, *, random_state: int | None = 1, **study: Any) -> Outcome:
    """A recorded run on these X_i (columns split), or D_i (``split=Split.HORIZONTAL``); warnings are read elsewhere."""
    split, labels = study.pop("split", Split.VERTICAL), study.pop("labels", None)
    ids = study.pop("ids", [None] * len(parts))
    given = labels or [None] * len(parts)
    parties = [
        PartyData(open_source(np.ascontiguousarray(part)), labels=y, ids=rows)
        for part, y, rows in zip(parts, given, ids, strict=True)
    ]
    plan = Study(task, split, **study)
    return run_study(plan, parties, random_state=random_state, record=True, policy=Policy.permissive())


def seen_by_csp(outcome: Outcome) -> CspView:
    """The same as the lab's attacks take it."""
    return CspView(outcome.plan, csp_view(outcome))


def seen_by_user(outcome: Outcome, index: int, X_own: Float) -> UserView:
    """What user ``index`` holds at the end, with its own X_i."""
    return UserView(outcome.plan, index, X_own, outcome.parties[index - 1])


def csp_view(outcome: Outcome) -> Views:
    """The CSP's view alone; asking it for another party's finds nothing."""
    assert outcome.views is not None
    return Views({CSP: outcome.views.received[CSP]})


def view_of(outcome: Outcome, party: Any) -> Views:
    """One party's view alone."""
    assert outcome.views is not None
    return Views({party: outcome.views.received[party]})


def payloads(view: Views) -> list[Ring]:
    """Every padded payload the CSP heard, batches and sums, user by user."""
    said = [*view.of(CSP, PaddedBatch), *view.of(CSP, SumShare)]
    return [message.payload for _, message in said]


def public_keys(view: Views) -> set[bytes]:
    """The session keys the CSP relayed."""
    return {offer.public for _, offer in view.of(CSP, KeyOffer)}


def arrays(message: Message) -> list[np.ndarray[Any, Any]]:
    """Every array a message carries, however deep."""
    found: list[np.ndarray[Any, Any]] = []
    waiting = list(vars(message).values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, np.ndarray):
            found.append(value)
        elif isinstance(value, tuple | list):
            waiting += value
    return found


def in_data_units(shown: Float, true: Float) -> Float:
    """What the CSP sees in a unit that it is not told, a power of two, in the units of the data: the referee's."""
    scale = np.linalg.norm(true) / np.linalg.norm(shown)
    return shown * 2.0 ** np.floor(np.log2(scale) + 1e-9)


def G_masked(outcome: Outcome) -> Float:
    """The joint Gram matrix as the CSP opens it (mode B), in units of F^2: added up and read a second time here."""
    return gram_of(outcome.plan.M, integers(csp_view(outcome), outcome.plan))


def gram_of(m: int, upper: list[int]) -> Float:
    """The symmetric matrix of an upper triangle by rows, in units of 2^-126."""
    G = np.zeros((m, m))
    G[np.triu_indices(m)] = [number / 2**126 for number in upper]
    return G + np.triu(G, 1).T


def integers(view: Views, plan: SessionPlan) -> list[int]:
    """The words of the joint Gram matrix, added up over all users, as signed integers."""
    batches: dict[int, list[int]] = {}
    for _, message in view.of(CSP, PaddedBatch):
        words = [int(low) + (int(high) << 64) for low, high in message.payload]
        held = batches.setdefault(message.batch, [0] * len(words))
        batches[message.batch] = [(one + other) % 2**128 for one, other in zip(held, words, strict=True)]
    return [(word + 2**127) % 2**128 - 2**127 for number in sorted(batches) for word in batches[number]]


@dataclass
class Recording:
    """Pads that are put on slab by slab, and what each slab was before."""

    pads: Any
    bare: dict[tuple[int, str, int], Ring]
    place: tuple[int, str, int]

    def onto(self, part: Ring, start: int) -> None:
        assert part.base is not None  # the batch, of which this is a run of words
        words = self.bare.setdefault(self.place, np.zeros(part.base.shape, np.uint64))
        words.reshape(-1)[start : start + part.size] = part
        self.pads.onto(part, start)


class Truth:
    """What the referee knows: shares before padding, (user, stream, batch) to words, and each user's masks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bare: dict[tuple[int, str, int], Ring] = {}
        self.masks: dict[int, Any] = {}
        pad, claimed, masks = sums.pad, sums.claimed, seeding.Masks

        def copied(payload: Ring, keys: Any, stream: str, batch: int, *rest: Any, **more: Any) -> Ring:
            self.bare[keys.user, stream, batch] = payload.copy()
            return pad(payload, keys, stream, batch, *rest, **more)

        def kept(plan: SessionPlan, i: int, *rest: Any) -> Any:
            self.masks[i + 1] = masks(plan, i, *rest)
            return self.masks[i + 1]

        def recorded(keys: Any, stream: str, batch: int, *rest: Any, **more: Any) -> Recording:
            self.bare.pop((keys.user, stream, batch), None)  # of an earlier study
            return Recording(claimed(keys, stream, batch, *rest, **more), self.bare, (keys.user, stream, batch))

        monkeypatch.setattr(sums, "pad", copied)
        monkeypatch.setattr(sums, "claimed", recorded)
        monkeypatch.setattr(seeding, "Masks", kept)

    def share(self, outcome: Outcome, i: int) -> Float:
        """Y_i = c P A_i Q_i in the unit of the words, before anything was added to it; labels left out."""
        plan = outcome.plan
        panels = [np.zeros(shape, np.uint64) for shape in plan.panels]
        for number, batch in enumerate(batches(plan)):
            panels[batch.panel][batch.rows] = self.bare[i, "upload", number]
        joint = np.concatenate(panels, axis=0 if plan.by_rows else 1).astype(np.int64).astype(np.float64)
        return joint[:, : plan.N] * 2.0**-fixed_point.BITS
