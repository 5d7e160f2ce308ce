"""The cost model follows what sessions do: its table has the labels of their local work, in their order, no others."""

import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from tests.protocol.cases import CASES, H, V, pca, tall

import fedsvd.cost.labels as labels_of_cost
from fedsvd.cost.labels import CSP as CSP_WORK
from fedsvd.cost.labels import USER, work_of_csp, work_of_user
from fedsvd.cost.traffic import Expected, full_rank
from fedsvd.cost.users import User
from fedsvd.errors import PrivacyWarning
from fedsvd.protocol.machine import Compute, Machine
from fedsvd.protocol.parties import CSP, Party
from fedsvd.protocol.steps import listed
from fedsvd.protocol.tasks import Check, Task
from fedsvd.testing.federation import Federation

BETWEEN = ("computing", "sealing", "seeding")
"""The script between two requests, a sealed message, and what every session begins with."""


def searched(scheme: str) -> Federation:
    """So flat a spectrum that the space outside of two components is searched."""
    flat = np.random.default_rng(4).normal(size=(90, 36))
    return Federation(np.array_split(flat, 2), Task.PCA, H, components=2, scheme=scheme)


def solved() -> Federation:
    """Long enough rows, ill-conditioned, that solved columns are kept, of which right vectors are made."""
    rng = np.random.default_rng(4)
    left = np.linalg.qr(rng.normal(size=(4, 4)))[0] * np.logspace(0, -4, 4)
    return Federation(list(left @ rng.normal(size=(2, 4, 60))), Task.SVD, V)


PLAYED = CASES | {
    "svd of long rows": solved,
    "svd of a tall matrix, verified": lambda: tall(check=Check.ALL),
    "pca under masks, of unit variance": lambda: pca(scheme="mask", unit_variance=True),
    "pca whose order is searched": lambda: searched("sum"),
    "pca under masks whose order is searched": lambda: searched("mask"),
}


def played(federation: Federation) -> dict[Party, list[str]]:
    """The labels of what each role of a session computes, in order."""
    labels: dict[Party, list[str]] = {}
    assemble = federation.assemble

    def watch(machine: Machine) -> None:
        def noted(follow):
            def followed(*arrived):
                effects = follow(*arrived)
                found = labels.setdefault(machine.me, [])
                found += [effect.label for effect in effects if isinstance(effect, Compute)]
                return effects

            return followed

        machine.receive, machine.computed = noted(machine.receive), noted(machine.computed)

    def assembled():
        session = assemble()
        for machine in session.machines:
            watch(machine)
        return session

    federation.assemble = assembled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        federation.run()
    return labels


def first_places(labels: Iterable[str], left_out: Iterable[str]) -> list[str]:
    """Each label once, where it comes first."""
    return [label for label in dict.fromkeys(labels) if label not in left_out]


def expected_of(federation: Federation) -> Expected:
    """What the data of a session decided: whether right singular vectors were corrected, and the rank."""
    spectrum = getattr(next(iter(federation.released.values())), "sigma", None)
    ill = spectrum is None or bool(spectrum[0] > 16 * spectrum[-1])
    return Expected(full_rank(federation.plan), float(ill))


@pytest.mark.parametrize("name", PLAYED)
def test_the_model_has_the_labels_of_a_session_in_its_order(name):
    federation = PLAYED[name]()
    labels = played(federation)
    plan, expected = federation.plan, expected_of(federation)
    # Sums, and what user 1 decides, are computed under their names; in a repetition with the number of the round.
    steps = {name for step in listed(plan.steps) for name in (step.name, step.name.rstrip(" 0123456789"))}
    for i, party in enumerate(plan.users):
        walked = [work for work in work_of_user(User(plan, i, expected)) if isinstance(work, str)]
        assert first_places(walked, (*steps, *BETWEEN)) == first_places(labels[party], (*steps, *BETWEEN))
    assert first_places(work_of_csp(plan), ("summing",)) == first_places(labels.get(CSP, []), ())


def test_every_entry_of_the_table_is_work_of_some_session():
    used, under_masks, at_csp = set(), set(), set()
    for made in PLAYED.values():
        plan = made().assemble().plan
        for expected in (Expected(full_rank(plan), 0.0), Expected(full_rank(plan), 1.0)):
            for i in range(plan.k):
                walked = {work for work in work_of_user(User(plan, i, expected)) if isinstance(work, str)}
                (used if plan.compress else under_masks).update(walked)
            at_csp |= set(work_of_csp(plan))
    assert used == {label for label, (in_sums, _) in USER.items() if in_sums is not None}
    assert under_masks == {label for label, (_, masked) in USER.items() if masked is not None}
    assert at_csp == set(CSP_WORK)


def test_the_cost_model_asks_for_no_task():
    files = sorted(Path(labels_of_cost.__file__).parent.glob("*.py"))
    asked = [file.name for file in files if re.search(r"\.task\b|\bTask\b", file.read_text(encoding="utf-8"))]
    assert len(files) > 5
    assert not asked
