"""Components until a share of the variance is reached, by steps: as many as the whole spectrum gives."""

from collections import Counter

import numpy as np
import pytest
from tests.protocol.test_steps_resumed import interrupted, resumed
from tests.tolerances import SEVEN_DIGITS, VALUES_BAR, assert_close, assert_same_vectors

from fedsvd import FederatedPCA, FederatedPCR, Masks, Simulation
from fedsvd.cost.traffic import Expected, traffic
from fedsvd.errors import NotConverged
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy, findings
from fedsvd.protocol.directions import answer_width, most_directions
from fedsvd.protocol.messages import SumShare, size
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
RELEASE = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
STEPS = {"masks": Masks("steps"), "federation": Simulation(verbose=0)}


def table(n=1500, m=120, factors=40, seed=1):
    rng = np.random.default_rng(seed)
    spread = np.logspace(1, 0, factors)
    return (rng.normal(size=(n, factors)) * spread) @ rng.normal(size=(factors, m)) + rng.normal(size=(n, m)) + 3.0


def session(X, share, k=3, **asked):
    parts = np.array_split(X, k)
    return Federation(parts, Task.PCA, Split.HORIZONTAL, scheme="steps", components_by=share, release=RELEASE, **asked)


def spectrum(X):
    return np.linalg.svd(X - X.mean(axis=0), full_matrices=False)


def held_by(s, share):
    """The fewest of these values that hold more than a share of all squares."""
    return 1 + int(np.count_nonzero(np.cumsum(s**2) <= share * np.sum(s**2)))


@pytest.mark.parametrize("share", ["0.3", "0.9", "0.97"])
def test_components_are_those_of_the_whole_spectrum(share):
    """From one block of an answer to two: 3, 17 and 26 components in blocks of 24."""
    X = table()
    federation = session(X, share)
    results = federation.run()
    U, s, Vt = spectrum(X)
    r = held_by(s, float(share))
    assert results[0].choice.count == r == len(results[0].sigma)
    assert (r > answer_width(federation.plan)) == (share == "0.97")
    assert_close(results[0].sigma, s[:r], VALUES_BAR, s[0])
    assert_same_vectors(results[0].U.T, Vt[:r], s)
    scores = np.concatenate([np.asarray(found.scores_i) for found in results])
    assert_same_vectors((scores / s[:r]).T, U[:, :r].T, s)
    assert results[0].checked.order.directions <= most_directions(federation.plan)


def test_estimators_find_what_the_sum_family_finds():
    X = table()
    y = X[:, :5].sum(axis=1) + np.random.default_rng(2).normal(size=len(X))
    parts, labels = np.array_split(X, 3), np.array_split(y, 3)
    found, summed = (
        FederatedPCA(0.9, release_spectrum=True, masks=masks, federation=Simulation(verbose=0)).fit(parts)
        for masks in (Masks("steps"), Masks("sum"))
    )
    assert found.n_components_ == summed.n_components_ == found.choice_.count
    assert_close(found.explained_variance_ratio_, summed.explained_variance_ratio_, VALUES_BAR)
    assert not hasattr(found, "left_out_singular_values_")
    assert len(summed.left_out_singular_values_) == 120 - summed.n_components_
    regressions = [
        FederatedPCR(0.9, **how).fit(parts, labels) for how in (STEPS, {"federation": Simulation(verbose=0)})
    ]
    assert regressions[0].n_components_ == regressions[1].n_components_ == found.n_components_
    assert_close(regressions[0].coef_, regressions[1].coef_, SEVEN_DIGITS, np.abs(regressions[1].coef_).max())


def test_a_share_that_takes_more_components_than_may_be_found_ends_without_a_result():
    """Noise: half of the variance is in some forty of 120 components, and 300 records outside allow 37 directions."""
    X = np.random.default_rng(3).normal(size=(450, 120))
    with pytest.raises(NotConverged, match=r"37 directions .* 18 components or fewer that hold 0\.5 of the variance"):
        session(X, "0.5").run()


def test_a_share_that_is_held_before_its_components_have_their_digits_is_said_to_be():
    """Four of six factors hold 0.8 of the variance, and 264 records outside allow 33 directions, two steps."""
    X = table(396, 500, 6)
    s = spectrum(X)[1]
    assert held_by(s, 0.8) <= 6
    with pytest.raises(NotConverged, match=r"33 directions in 2 steps hold 0\.8 of the variance, and the residual is"):
        session(X, "0.8").run()


def test_bytes_of_a_share_are_as_planned():
    federation = session(table(), "0.97")
    results = federation.run()
    sent = Counter()
    for origin, to, message in federation.sent:
        sent[origin, to] += size(message)
    order = results[0].checked.order
    expected = Expected(119, passes=order.passes, answers=-(-results[0].choice.count // answer_width(federation.plan)))
    assert traffic(federation.plan, expected)[0] == sent


def test_the_csp_sees_blocks_of_components_and_not_their_number_and_this_is_stated():
    """11 and 17 components are one block of 24, 26 are two."""
    names = []
    for share in ("0.75", "0.9", "0.97"):
        federation = session(table(), share)
        results = federation.run()
        ends = {
            (m.name, m.payload.shape)
            for _, m in federation.views.of(CSP, SumShare)
            if m.name[:6] in ("images", "remain")
        }
        names.append((results[0].choice.count, ends))
    assert names[0][0] < names[1][0] < 24 < names[2][0]
    assert names[0][1] == names[1][1] != names[2][1]
    learned = what_each_role_learns(federation.plan)
    assert any("how many blocks of 24 components were found" in text for text in learned)


def test_no_owner_is_asked_about_the_directions_of_a_share():
    """Eight records outside of the largest party for each direction: no rule on directions has anything to say."""
    plan = session(table(), "0.9").assemble().plan
    assert most_directions(plan) == 120
    assert not [finding for finding in findings(plan, Policy()) if finding.rule == "directions"]


def test_a_search_for_a_share_goes_on_where_it_was_killed(tmp_path):
    X = table()
    asked = {"components": None, "components_by": "0.9"}
    interrupted(X, tmp_path, "step 2", **asked)
    results, played = resumed(X, tmp_path, **asked)
    _, s, Vt = spectrum(X)
    r = held_by(s, 0.9)
    assert played[0] == 2
    assert_close(results[0].sigma, s[:r], VALUES_BAR, s[0])
    assert_same_vectors(results[0].U.T, Vt[:r], s)
