"""Mixed models: a random effect of a site, variance ratios, and points or matrices that would show one group."""

from typing import ClassVar

import numpy as np
import pytest
from tests.adversary.steering import recording, steered
from tests.tolerances import DIGITS_ERRORS_BAR

from fedsvd.data.open import open_source
from fedsvd.errors import NotConverged
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import mixed
from fedsvd.statistics.mixed_covariance import Covariance
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


def planned(X, labels, about=ABOUT):
    """The plan that the product makes of these tables, and the parties."""
    parties = [PartyData(open_source(own), y) for own, y in zip(X, labels, strict=True)]
    return plan_for(Study(Task.MIXED, targets=2, glm=about), parties, Seed(bytes(32)))[0].plan, parties


def asked_of(X, labels):
    plan, parties = planned(X, labels)
    judged = Policy(openings="any")  # how many bits are opened is judged apart
    return [{each.rule for each in home_findings(plan, party, judged)} for party in parties]


def test_a_random_effect_of_a_site_is_refused_and_a_fixed_one_offered():
    X, labels = visits()
    assert not any("own clusters" in found for found in asked_of(X, labels))
    for site, own in enumerate(labels):
        own[:, 1] = site
    plan, parties = planned(X, labels)
    for party in parties:
        (found,) = [each for each in home_findings(plan, party, Policy(openings="any")) if each.rule == "own clusters"]
        assert found.below
        assert "as a fixed effect: y ~ age + site" in found.text
    X, labels = visits()
    labels[0][:, 1] %= 4
    plan, parties = planned(X, labels)
    first, *others = (home_findings(plan, party, Policy(openings="any")) for party in parties)
    assert [(each.rule, each.asks) for each in first if each.rule == "own clusters"] == [("own clusters", True)]
    assert not any(each.rule == "own clusters" for found in others for each in found)


def totals_of(points, matrices, sizes):
    """Least squares for ``X^T X`` and, for each size of group, the sum of ``t t^T`` over its groups, t their totals.

    With random intercepts ``A = (X^T X - sum m(n) t t^T) / s2`` at variances that all users know.
    """
    design = [[1.0 / s2, *(-g / (s2 + n * g) / s2 for n in sizes)] for s2, g in points]
    flat = np.array([matrix[np.triu_indices(len(matrix))] for matrix in matrices])
    scale = np.abs(design).max(axis=0)
    return np.linalg.lstsq(np.array(design) / scale, flat, rcond=None)[0] / scale[:, None]


def sites(seed=0):
    """Five sites of four columns, off centre and of different sizes, which all users know: each one a group."""
    rng = np.random.default_rng(seed)
    rows = (40, 70, 110, 160, 230)
    return rows, [rng.normal(size=(n, 4)) + rng.normal(size=4) for n in rows]


def at_ratios(X, ratios):
    """A in all digits, at residual variance 1 and these variances of a random intercept."""
    found = []
    for g in ratios:
        parts = [own.T @ own - g / (1.0 + len(own) * g) * np.outer(own.sum(axis=0), own.sum(axis=0)) for own in X]
        found.append(np.sum(parts, axis=0))
    return found


def test_sums_in_all_digits_at_a_few_variance_ratios_are_every_sites_totals():
    """Why ratios are not searched, and why a random effect of sites is refused: six matrices show five sites."""
    rows, X = sites()
    ratios = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
    found = totals_of([(1.0, g) for g in ratios], at_ratios(X, ratios), rows)
    for own, seen in zip(X, found[1:], strict=True):
        total = own.sum(axis=0)
        assert np.abs(np.sqrt(seen[0]) / np.abs(total[0]) - 1.0) < DIGITS_ERRORS_BAR
    about = ModelPlan(Family.MIXED, "identity", digits=Digits.TABLE, beside=("subject",))
    plan, _ = planned([own[:, :3] for own in X], [np.column_stack((own[:, 3], np.zeros(len(own)))) for own in X], about)
    numbers = 5 * (4 * 5 // 2)  # totals of products of three columns and the outcome
    assert numbers * 24 < expected_bits(plan)  # in 24 bits: fewer than one fit opens


def test_matrices_of_a_fit_do_not_show_the_totals_of_the_one_group_of_its_size(monkeypatch):
    """One person with 12 visits where all others have 3 or 4: variances of a fit are alike, and its digits few."""
    rng = np.random.default_rng(4)
    sizes = [np.append(rng.integers(3, 5, n), extra).astype(int) for n, extra in ((40, ()), (30, 12), (25, ()))]
    codes = [np.repeat(np.arange(len(own)), own) for own in sizes]
    X = [rng.normal(size=(len(own), 2)) + rng.normal(size=(len(own), 2))[own] for own in codes]
    noise = [rng.normal(size=len(own))[own] + rng.normal(size=len(own)) for own in codes]
    y = [own @ [0.5, -0.3] + more for own, more in zip(X, noise, strict=True)]
    labels = [np.column_stack(pair).astype(float) for pair in zip(y, codes, strict=True)]
    seen = []

    def see(request, answer):
        if request.of == "tilt":
            seen.append((request.at, answer.values))

    recording(monkeypatch, mixed, see)
    Federation(X, Task.MIXED, Split.HORIZONTAL, labels=labels, glm=ABOUT).run()
    ats, changes = zip(*seen[:: len(X)], strict=True)  # every user records the same
    points, centre = [tuple(at.beta[3:]) for at in ats], ats[0].centre[:2]
    opened = np.zeros((len(ats), 3, 3))
    opened[:, *np.triu_indices(3)] = np.cumsum(changes, axis=0)
    groups = [
        mixed.records(ABOUT, own, of, mixed.random_of(ABOUT)).at(ats[0])[0] for own, of in zip(X, labels, strict=True)
    ]
    rows = X[1][codes[1] == len(sizes[1]) - 1]
    total = np.concatenate(([len(rows)], (rows - centre).sum(axis=0)))
    truth = np.outer(total, total)[np.triu_indices(3)]

    def off(at, matrices):
        return np.abs(totals_of(at, matrices, (3, 4, 12))[3] - truth).max() / np.abs(truth).max()

    def exact(at):
        return [sum(own.slopes(Covariance(1).at(np.array(point)))[0] for own in groups) for point in at]

    apart = [(0.2, g) for g in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)]
    assert off(apart, exact(apart)) < DIGITS_ERRORS_BAR, "a search over ratios shows that person"
    assert off(points, exact(points)) > 1.0, "the points of a fit are too near to each other, in all digits too"
    assert off(points, opened) > 1000.0


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


def test_a_score_that_steers_to_negative_variances_shows_no_group(monkeypatch):
    """At ``g = -s2 / n`` the largest group alone would be most of the sums: long steps end inside of the cone."""
    X, labels = visits(rows=(220, 104, 96))
    for own in labels[1:]:
        own[:24, 1] = own[0, 1]  # one group of 24 visits, the others have five
    others = [mixed.records(ABOUT, own, y, mixed.random_of(ABOUT)) for own, y in zip(X[1:], labels[1:], strict=True)]
    federation = Federation(X, Task.MIXED, Split.HORIZONTAL, labels=labels, glm=ABOUT)
    aim = np.array([0.0, 0.5, -0.3, 0.5, -0.5 / 24 * 0.999])
    assert steered(monkeypatch, mixed, "MixedHome", aim, others, federation.run) < 0.8
