"""Whatever the CSP does to one message, a study ends right or stops with a code, and a stopped user has no result.

The CSP is honest but for one message, altered at random (``alterations.py``) to one user or in the same way to all; its
place is drawn by the kind of message first, so that rare ones are met as often as sums. A user that ends must hold what
it holds in the undisturbed session with the same seeds. What may differ is stated: the quality that the CSP reports of
its own work, and in mode B without a spectrum the order of the vectors (specification, step 7).
"""

import warnings
from collections import Counter
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from tests.adversary.alterations import Altered, Known, alter
from tests.tolerances import digits_lost

from fedsvd.errors import FedSVDError, PrivacyWarning
from fedsvd.protocol.messages import Aborted, Factors, Message, Solution
from fedsvd.protocol.parties import CSP, Party
from fedsvd.protocol.sums import null_space_sum
from fedsvd.protocol.tasks import Item, Mode, Split, Task, Trust
from fedsvd.testing.federation import Federation

REPORTED = ("residual", "orthogonality")  # by the CSP, of its own work, and called so
SPECTRAL = (Item.COMPONENTS, Item.MEAN, Item.SPECTRUM, Item.OWN_PART)


def rows(seed, *counts, m=4):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n_i, m)) * (1.0 + np.arange(m)) + 3.0 for n_i in counts]


def labelled(seed, *counts):
    tables = rows(seed, *counts)
    rng = np.random.default_rng(seed + 1)
    return {"tables": tables, "labels": [T @ np.arange(4.0) + rng.standard_normal(len(T)) for T in tables]}


def side_by_side(seed):
    """Split columns, more rows than columns."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((9, n_i)) * (1.0 + np.arange(n_i)) for n_i in (2, 3)]


def studies(seed):
    """Every task and mode, on tables that follow from a seed."""
    horizontal = {"split": Split.HORIZONTAL}
    ids = [np.arange(9)] * 2
    y = np.random.default_rng(seed + 2).standard_normal(9)
    weights = [(np.ones((n_i, 1)), np.array([0.5])) for n_i in (2, 3)]
    return {
        "svd, A": {"tables": rows(seed, 7, 5, 6), "task": Task.SVD, **horizontal},
        "svd, A, with an authority": {
            "tables": rows(seed, 7, 5),
            "task": Task.SVD,
            "trust": Trust.AUTHORITY,
            **horizontal,
        },
        "svd, B": {"tables": rows(seed, 7, 5, 6), "task": Task.SVD, "components": 2, **horizontal},
        "lsa, B, split columns": {
            "tables": [T.T.copy() for T in rows(seed, 7, 5)],
            "task": Task.LSA,
            "components": 2,
            "split": Split.VERTICAL,
            "ids": [np.arange(4)] * 2,
            "check_ids": True,
        },
        "pca, B": {"tables": rows(seed, 7, 5), "task": Task.PCA, "components": 2, **horizontal},
        "pca, B, with its spectrum": {
            "tables": rows(seed, 7, 5),
            "task": Task.PCA,
            "components": 2,
            "release": SPECTRAL,
            "unit_variance": True,
            **horizontal,
        },
        "pca, A": {"tables": rows(seed, 7, 5), "task": Task.PCA, "release": SPECTRAL, **horizontal},
        "regression, A": {**labelled(seed, 7, 5), "task": Task.LR, "mode": Mode.A, **horizontal},
        "regression, B": {**labelled(seed, 7, 5), "task": Task.LR, **horizontal},
        "ridge, B": {**labelled(seed, 7, 5), "task": Task.LR, "alpha": 0.5, **horizontal},
        "svd, masks": {"tables": side_by_side(seed), "task": Task.SVD, "ids": ids, "check_ids": True},
        "regression, masks": {"tables": side_by_side(seed), "task": Task.LR, "labels": [y, None]},
        "prediction": {
            "tables": side_by_side(seed),
            "task": Task.PREDICT,
            "labels": [y, None],
            "weights": weights,
        },
    }


def federation(study):
    study = dict(study)
    return Federation(study.pop("tables"), study.pop("task"), study.pop("split", Split.VERTICAL), **study)


class Liar:
    """The CSP's messages pass, but for the ``turn``-th to one user or, the same lie, to every user."""

    def __init__(
        self, session: Federation, victims: frozenset[Party], turn: int, elsewhere: list[Message], seed: int
    ) -> None:
        self.session = session
        self.victims = victims
        self.turn = turn
        self.elsewhere = elsewhere
        self.seed = seed
        self.heard: dict[Party, list[Message]] = {}
        self.done: list[Altered] = []

    def __call__(self, origin, to, message):
        if origin != CSP or isinstance(message, Aborted):
            return (message,)
        earlier = self.heard.setdefault(to, [])
        earlier.append(message)
        if to not in self.victims or len(earlier) != self.turn:
            return (message,)
        # The same numbers are drawn for every user, so that equal messages stay equal.
        known = Known([said for heard in self.heard.values() for said in heard][:-1], self.elsewhere)
        self.done.append(alter(message, known, np.random.default_rng(self.seed)))
        for lie in self.done[-1].messages:
            self.follow(lie)
        return self.done[-1].messages

    def follow(self, lie: Message) -> None:
        """The CSP goes along with what it said of a rank: it adds up the sum that users will send for it."""
        plan = self.session.plan
        if isinstance(lie, Solution) and 0 <= lie.rank < plan.N and (needed := null_space_sum(plan, lie.rank)):
            self.session.machines[CSP].planned[needed.name] = needed


def said_by_csp(session):
    """Its messages, by the party they went to."""
    said = {}
    for origin, to, message in session.sent:
        if origin == CSP:
            said.setdefault(to, []).append(message)
    return said


def numbers(result, under=""):
    """What a user holds, as arrays by name, those of nested tables too, but for what is reported by the CSP."""
    found = {}
    for field in fields(result):
        value, name = getattr(result, field.name), under + field.name
        if field.name in REPORTED or value is None:
            continue
        if is_dataclass(value):
            found |= numbers(value, f"{name}.")
            continue
        array = np.asarray(value)
        if array.dtype.kind in "fiub":
            found[name] = array.astype(np.float64)
    return found


def same(result, expected, order_is_open):
    found, true = numbers(result), numbers(expected)
    if found.keys() != true.keys():
        return False
    if order_is_open:
        # The eigenvectors are verified, their order is not: bring them into the undisturbed one.
        overlap = np.abs(found["U"].T @ true["U"])
        order = overlap.argmax(axis=0)
        if sorted(order) != list(range(len(order))):
            return False
        found["U"], found["scores_i"] = found["U"][:, order], found["scores_i"][:, order]
    return all(
        value.shape == true[name].shape
        and np.abs(value - true[name]).max(initial=0.0)
        <= digits_lost(7) * max(np.abs(true[name]).max(initial=0.0), 1.0)
        for name, value in found.items()
    )


class Victim:
    """A study, its undisturbed session, and its messages in a session with other seeds."""

    def __init__(self, name: str, session: Federation, other: Federation | None = None) -> None:
        self.name = name
        self.session = session
        self.expected = self.session.run()
        other = other or session.with_seed(bytes(32))
        other.run()
        self.elsewhere = [message for said in said_by_csp(other).values() for message in said]
        self.places: dict[type[Message], list[tuple[Party, int]]] = {}
        for to, said in said_by_csp(self.session).items():
            for turn, message in enumerate(said, start=1):
                self.places.setdefault(type(message), []).append((to, turn))

    @classmethod
    def of(cls, name: str, seed: int = 0) -> "Victim":
        """One of the studies above, and another table of its shape elsewhere."""
        other = studies(seed + 100)[name] | {"insecure_seed": bytes(32)}
        return cls(name, federation(studies(seed)[name]), federation(other))

    @property
    def order_is_open(self) -> bool:
        return self.name == "pca, B"

    def lied_to(self, seed: int):
        """One session with one alteration: what was altered, the code it stopped with or None, what was sent of it."""
        rng = np.random.default_rng(seed)
        kinds = list(self.places)
        weights = np.array([5.0 if kind in (Factors, Solution) else 1.0 for kind in kinds])
        places = self.places[kinds[int(rng.choice(len(kinds), p=weights / weights.sum()))]]
        to, turn = places[int(rng.integers(len(places)))]
        everyone = frozenset(self.session.plan.users)
        liar = Liar(self.session, everyone if rng.random() < 0.6 else frozenset({to}), turn, self.elsewhere, seed)
        code = None
        try:
            self.session.run(meddle=liar)
        except FedSVDError as error:
            code = error.code
        what = f"{self.name}: {liar.done[0].what}, to {len(liar.done)} (seed {seed})"
        self.expect_right(what, code)
        aborts = {(m.code, m.stage) for _, _, m in self.session.sent if isinstance(m, Aborted)}
        return what, code, aborts

    def expect_right(self, what, code):
        """Who has a result holds the right one; who stopped has none; and all have one where no user stopped."""
        released = self.session.released
        for party, expected in zip(self.session.plan.users, self.expected, strict=True):
            machine = self.session.machines[party]
            assert (party in released) == (machine.state.name == "DONE"), what
            if party in released:
                assert same(released[party], expected, self.order_is_open), what
        assert code is not None or len(released) == self.session.plan.k, what


def attacked(tries):
    """How many alterations of each study ended with which code."""
    warnings.simplefilter("ignore", PrivacyWarning)
    names = list(studies(0))
    victims = [Victim.of(name) for name in names]
    found: Counter[str | None] = Counter()
    for seed in range(tries):
        _, code, _ = victims[seed % len(victims)].lied_to(seed)
        found[code] += 1
    return found


def test_three_hundred_altered_messages_end_right_or_with_a_code():
    found = attacked(300)
    assert found.total() == 300
    # The test can fail: alterations are found in many ways, and hardly any is without effect.
    assert found[None] < 60
    assert {"FSVD-411", "FSVD-413", "FSVD-416", "FSVD-417", "FSVD-418"} <= set(found)


@pytest.mark.slow
def test_ten_thousand_altered_messages_end_right_or_with_a_code():
    found = attacked(10_000)
    assert found.total() == 10_000
    assert {"FSVD-305", "FSVD-411", "FSVD-413", "FSVD-416", "FSVD-417", "FSVD-418", "FSVD-419"} <= set(found)


@pytest.mark.parametrize("name", list(studies(0)))
def test_what_a_stopped_session_sends_is_the_same_whatever_the_data(name):
    """The same lie to two federations of equal shapes and unrelated data: equal codes, equal states, equal texts."""
    warnings.simplefilter("ignore", PrivacyWarning)
    victims = [Victim.of(name, seed) for seed in (0, 50)]
    for seed in range(6):
        told = [victim.lied_to(seed) for victim in victims]
        texts = [
            {party: str(machine.failure) for party, machine in victim.session.machines.items()} for victim in victims
        ]
        assert told[0][1:] == told[1][1:], told
        assert texts[0] == texts[1], told
