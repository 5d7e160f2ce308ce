"""What an attacker may use: the recorded view of a party, the plan, which is public, and what it brought itself.

``X_masked`` and its kin read messages and nothing else. They are written here a second time, from the protocol's
description, so that no attack leans on the code it attacks. ``record`` runs a study with all roles in this process and
records what each of them saw; the masks next to it are the referee's, who says whether an attack was right, and a
colluder's, who knows them (``collusion.py``). No other attack is given them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

import numpy as np

from fedsvd.engine.simulate import Simulation
from fedsvd.errors import ConfigError, FixedPointOverflow
from fedsvd.linalg.windows import Form
from fedsvd.protocol.messages import PaddedBatch, Views
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import GRAM_STEP
from fedsvd.protocol.tasks import Mode, Scheme, Trust
from fedsvd.protocol.upload import batches
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.masking import Masks
from fedsvd.secagg import fixed_point, words128
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import assemble
from fedsvd.studies.study import Study
from fedsvd.transport.loopback import Hub
from fedsvd.types import Float, Ring


@dataclass(frozen=True, repr=False)
class CspView:
    """What the CSP knows after a session: the plan and what it received.

    Uploads come in a unit, a power of two, that it is not sent; ``unit`` is the one it took, of the few there are.
    """

    plan: SessionPlan
    received: Views
    unit: float = 1.0

    @cached_property
    def Y(self) -> Float:
        """X' = c P A Q; labels next to or below it are left out. In mode B a factor of the Gram matrix that it
        opens."""
        if self.plan.mode is not None:
            values, vectors = np.linalg.eigh(opened_gram(self.plan, self.received))
            factor: Float = vectors * np.sqrt(np.maximum(values, 0.0))
            return factor
        joint = X_masked(self.plan, self.received) * self.unit
        return joint[: self.plan.masked_rows, : self.plan.N]

    @cached_property
    def y(self) -> Float:
        """The masked labels, (rows, targets), of a regression on split columns."""
        return X_masked(self.plan, self.received)[:, self.plan.N :]


@dataclass(frozen=True, repr=False)
class UserView:
    """What user ``index`` knows after a session: the plan, its own X_i, and what it holds at the end."""

    plan: SessionPlan
    index: int
    X_own: Float
    held: Any


@dataclass(frozen=True, repr=False)
class Recorded:
    """A finished session, and what each role saw of it; ``masks`` are the referee's and the colluders'."""

    plan: SessionPlan
    views: Views
    parties: tuple[Any, ...]
    masks: tuple[Masks, ...]

    @property
    def csp(self) -> CspView:
        """The CSP's view alone; asking it for another party's finds nothing."""
        return CspView(self.plan, Views({CSP: self.views.received[CSP]}), self._unit)

    @cached_property
    def _unit(self) -> float:
        """The power of two that uploads under masks are in: any user has it, and a CSP can try the few there are."""
        released = getattr(self.parties[0], "sigma", None)
        if self.plan.mode is not None or released is None or not len(released):
            return 1.0
        seen = np.linalg.svd(X_masked(self.plan, self.views), compute_uv=False)
        return float(2.0 ** np.rint(np.log2(self.masks[0].c * released[0] / seen[0])))

    def user(self, index: int, X_own: Float) -> UserView:
        """User ``index``'s; its own data is handed in because a role stores none."""
        return UserView(self.plan, index, X_own, self.parties[index - 1])


def record(
    study: Study, parties: Sequence[PartyData], random_state: int = 0, forms: tuple[Form, Form] | None = None
) -> Recorded:
    """Run a study in this process and record what every party saw. Secrets follow from a number: for attacks only.

    ``forms`` are those of P and Q in the mask family, in place of the plan's own.
    """
    root = Seed(sha256(f"INSECURE fedsvd lab {random_state}".encode()).digest())
    try:
        return _record(study, parties, root.derive("INSECURE", "first"), forms)
    except FixedPointOverflow:
        return _record(replace(study, certain_bound=True), parties, root.derive("INSECURE", "second"), forms)


def _record(study: Study, parties: Sequence[PartyData], secret: Seed, forms: tuple[Form, Form] | None) -> Recorded:
    session = assemble(study, parties, secret, revise=None if forms is None else partial(_with_forms, forms=forms))
    run = Simulation(session.machines, Hub(), record=True).run()
    plan = session.plan
    assert run.views is not None
    results = tuple(run.results[party] for party in plan.users)
    return Recorded(plan, run.views, results, tuple(_masks(plan, secret, i) for i in range(plan.k)))


def _with_forms(plan: SessionPlan, forms: tuple[Form, Form]) -> SessionPlan:
    if plan.scheme is not Scheme.MASK:
        raise ConfigError(f"scheme {str(plan.scheme)!r} has one form of mask", 'set scheme = "mask"')
    return replace(plan, left=forms[0], right=forms[1])


def _masks(plan: SessionPlan, secret: Seed, i: int) -> Masks:
    """User i's masks, derived again from the seeds of this run."""
    dealer = secret.derive("secret", "ta" if plan.trust is Trust.AUTHORITY else 1)
    return Masks(plan, i, dealer.derive("masks"), secret.derive("secret", i + 1).derive("own"))


def opened_words(plan: SessionPlan, received: Views) -> list[Ring]:
    """Mode B: the upper triangle of the sum of all users' exact Gram matrices, batch by batch, as words."""
    totals: dict[int, Ring] = {}
    for _, message in received.of(CSP, PaddedBatch):
        if message.batch not in totals:
            totals[message.batch] = np.zeros_like(message.payload)
        words128.add_into(totals[message.batch], message.payload)
    if plan.mode is not Mode.B or not totals:
        raise ConfigError("the CSP of this plan opens no Gram matrix", "in mode B it does")
    return [totals[number] for number in sorted(totals)]


def opened_gram(plan: SessionPlan, received: Views) -> Float:
    """Mode B: ``c^2 P G P^T`` (M, M) in the unit that the CSP does not know."""
    numbers = words128.to_numbers(np.concatenate(opened_words(plan, received)), GRAM_STEP)
    G = np.zeros((plan.M, plan.M))
    G[np.triu_indices(plan.M)] = numbers
    G += np.triu(G, 1).T
    return G


def X_masked(plan: SessionPlan, received: Views) -> Float:
    """The sum of all shares, read as signed fixed point in the unit that the CSP does not know."""
    panels = [np.zeros(shape, np.uint64) for shape in plan.panels]
    cut = batches(plan)
    for _, message in received.of(CSP, PaddedBatch):
        batch = cut[message.batch]
        panels[batch.panel][batch.rows] += message.payload
    joint = np.concatenate(panels, axis=0 if plan.by_rows else 1).astype(np.int64).astype(np.float64)
    return joint * 2.0**-fixed_point.BITS
