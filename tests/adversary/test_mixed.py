"""Mixed models: a random effect of a site, and points that would show one group."""

from typing import ClassVar

import numpy as np
import pytest

from fedsvd.data.open import open_source
from fedsvd.errors import NotConverged
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import mixed
from fedsvd.statistics.newton_requests import Asked
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
ABOUT = ModelPlan(Family.MIXED, "identity", digits=Digits.TABLE, beside=("subject",))


def visits(rows=(120, 90, 100), each=5, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 2)) for n in rows]
    person = [np.arange(n) // each for n in rows]
    y = [
        own @ [0.5, -0.3] + rng.normal(size=len(own))[p] + rng.normal(size=len(own))
        for own, p in zip(X, person, strict=True)
    ]
    return X, [np.column_stack(pair) for pair in zip(y, person, strict=True)]


def planned(X, labels):
    """The plan that the product makes of these tables, and the parties."""
    parties = [PartyData(open_source(own), y) for own, y in zip(X, labels, strict=True)]
    return plan_for(Study(Task.MIXED, targets=2, glm=ABOUT), parties, Seed(bytes(32)))[0].plan, parties


def asked_of(X, labels):
    plan, parties = planned(X, labels)
    judged = Policy(openings="any")  # how many bits are opened is judged apart
    return [{each.rule for each in home_findings(plan, party, judged)} for party in parties]


def test_a_random_effect_of_a_site_asks_everywhere():
    X, labels = visits()
    for site, own in enumerate(labels):
        own[:, 1] = site
    assert all("own clusters" in found for found in asked_of(X, labels))
    X, labels = visits()
    assert not any("own clusters" in found for found in asked_of(X, labels))


def test_approvals_say_what_is_learned_of_groups():
    plan, _ = planned(*visits())
    said = " ".join(what_each_role_learns(plan))
    assert "how many groups there are" in said
    assert "the predictions of its random effects stay there" in said


class Recording(mixed.MixedHome):
    """A user at whose points one group stands out from the third one on."""

    asked: ClassVar[list[tuple[str, float]]] = []

    def stands_out(self, at):
        return super().stands_out(at) or len([name for name, _ in self.asked if name == "tilt"]) >= 2

    def values(self, asked: Asked):
        found = super().values(asked)
        if asked.of == "tilt":
            self.asked.append(("tilt", float(np.abs(found).max())))
        return found


def test_a_point_at_which_a_group_stands_out_gets_nothing_new(monkeypatch):
    X, labels = visits()
    Recording.asked.clear()
    monkeypatch.setattr(mixed, "MixedHome", Recording)
    federation = Federation(X, Task.MIXED, Split.HORIZONTAL, labels=labels, glm=ABOUT)
    with pytest.raises(Exception, match=r"a party does not sum its rows at|singular"):
        federation.run()
    sent = [size for _, size in Recording.asked]
    assert all(size > 0.0 for size in sent[:2])
    assert all(size == 0.0 for size in sent[2:])


class Less(mixed.MixedHome):
    """A user that sends its part of the opened matrix with a false sign, and several times, in one direction."""

    lied = False

    def values(self, asked: Asked):
        found = super().values(asked)
        if asked.of == "tilt" and not self.lied:
            self.lied, found = True, found.copy()
            found[[*zip(*np.triu_indices(3), strict=True)].index((1, 1))] *= -4.0
        return found


@pytest.mark.parametrize("honest", [True, False])
def test_an_opened_matrix_that_is_less_than_the_own_one_is_refused(monkeypatch, honest):
    """By its inverse all users weight their groups: one with less than a user's own in some direction is false."""
    X, labels = visits(rows=(220, 40, 50))
    made = mixed.MixedHome

    def home(work, about, random):
        return made(work, about, random) if honest or work.i != 1 else Less(work, about, random)

    monkeypatch.setattr(mixed, "MixedHome", home)
    federation = Federation(X, Task.MIXED, Split.HORIZONTAL, labels=labels, glm=ABOUT)
    if honest:
        assert federation.run()[0].models[0].clusters == 62
        return
    with pytest.raises(NotConverged):
        federation.run()
