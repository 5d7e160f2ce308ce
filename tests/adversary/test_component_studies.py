"""What canonical correlations, parallel analysis and regression on components show beyond an SVD, and what they do not.

Attackers have what a plan releases to a party, with that party's own data; or the recorded view of the CSP.
"""

import numpy as np
import pytest
from tests.adversary.opened import Opened, signed, square
from tests.adversary.watch import csp_view, watched
from tests.tolerances import assert_close, digits_lost

from fedsvd import FederatedCCA, FederatedPCA, FederatedPCR, FederatedSVD, Simulation
from fedsvd.audit.attacks.view import X_masked
from fedsvd.errors import ReleaseRefused
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.steps import FINE_STEP
from fedsvd.protocol.tasks import PERMUTED_TABLES, Item, Split, Task
from fedsvd.secagg import words128
from fedsvd.secagg.words128 import to_integers
from fedsvd.tasks.declared import declared
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def drawn(widths=(4, 3), n=120, seed=2):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 2))
    return [common @ rng.normal(size=(2, w)) + rng.normal(size=(n, w)) + 5.0 for w in widths]


def fitted(tables, **options):
    return FederatedCCA(ids="trust", **options).fit(tables)


def partners_scores(cca, own):
    """What party 1 computes: the common variables are in the middle between both parties' scores."""
    return np.sqrt(2.0) * cca.U_ * cca.singular_values_ - own.scores_


def enforced(estimator, *data):
    with pytest.raises(ReleaseRefused) as refusal:
        estimator.set_params(federation=Simulation(policy=Policy(enforce=True))).fit(*data)
    return {rule for rule in ("parties", "records", "freedom", "mode") if f" {rule}: " in refusal.value.fault}


def test_one_of_two_parties_computes_the_others_canonical_scores_and_this_is_stated():
    tables = drawn()
    cca = fitted(tables, n_components=2)
    found = partners_scores(cca, cca.parties_[0])
    assert_close(found, cca.parties_[1].scores_, digits_lost(3))
    assert "parties" in enforced(FederatedCCA(2, ids="trust"), tables)


def test_with_all_variables_the_space_of_the_others_columns_is_known_and_this_is_stated():
    """As after an SVD: who knows as many rows of a column as it has free numbers computes all of its rows."""
    tables = drawn()
    cca = fitted(tables)
    space = np.column_stack((np.ones(120), partners_scores(cca, cca.parties_[0])))
    known = [3, 17, 40, 99]
    for column in tables[1].T:
        guess = space @ np.linalg.solve(space[known], column[known])
        assert_close(guess, column, digits_lost(6))


def test_a_single_column_is_known_but_for_its_mean_and_scale_and_this_is_stated():
    tables = drawn((4, 1))
    cca = fitted(tables)
    found = partners_scores(cca, cca.parties_[0])[:, 0]
    assert_close(abs(np.corrcoef(found, tables[1][:, 0])[0, 1]), 1.0, digits_lost(3))
    assert {"parties", "records"} <= enforced(FederatedCCA(1, ids="trust"), tables)


def test_orthonormal_bases_show_no_more_than_the_data_would_and_hide_what_is_within_the_space():
    """Any other table with the same space gives the partner the same numbers; an SVD tells them apart."""
    X, Y = drawn()
    other = Y @ np.array([[2.0, 1.0, 0.0], [0.0, 0.1, 3.0], [1.0, 0.0, 40.0]]) - 9.0
    one, two = fitted([X, Y]), fitted([X, other])
    assert_close(one.correlations_, two.correlations_, digits_lost(3))
    signs = np.sign(np.sum(one.U_ * two.U_, axis=0))
    assert_close(one.U_, two.U_ * signs, digits_lost(4))
    assert_close(np.abs(one.parties_[0].weights_), np.abs(two.parties_[0].weights_), digits_lost(4))
    svds = [FederatedSVD(split="vertical", ids="trust").fit([X, table]) for table in (Y, other)]
    grams = [svd.U_ * svd.singular_values_**2 @ svd.U_.T - X @ X.T for svd in svds]
    for gram, table in zip(grams, (Y, other), strict=True):
        assert_close(gram, table @ table.T, digits_lost(4))  # what an SVD gives away, and CCA does not


def test_several_parties_see_only_the_sum_of_the_others_scores():
    tables = drawn((4, 3, 2))
    cca = fitted(tables)
    # Scores of several parties are Q_i V_i s, and U s the sum of Q_i V_i.
    others = cca.U_ * cca.singular_values_**2 - cca.parties_[0].scores_
    assert_close(others, cca.parties_[1].scores_ + cca.parties_[2].scores_, digits_lost(3))


def test_the_csp_reads_the_correlations_for_it_knows_their_scale_and_this_is_stated():
    tables = drawn()
    outcome = watched(tables, Task.CCA)
    squares = np.linalg.svd(X_masked(outcome.plan, csp_view(outcome)), compute_uv=False) ** 2
    found = squares[:3] * 7 / squares.sum() - 1.0  # all ranks together are 7, if no column depends on others
    expected = outcome.parties[0].sigma ** 2 - 1.0
    assert_close(found, expected, digits_lost(3))


def test_in_mode_a_one_variable_gives_the_space_of_all_the_others_columns_and_this_is_stated(monkeypatch):
    """User 1 of two subtracts its own projection from the opened sum: a 0/1 column of user 2 lies in what is left."""
    X, Y = drawn(n=40)
    Y[:, 0] = Y[:, 0] > 5.0
    opened = Opened(monkeypatch)
    federation = opened.run([X, Y], Task.CCA, split=Split.VERTICAL, components=1, scheme="sum", mode="A")
    G = square([signed(word) for word in to_integers(opened.totals["gram 0"])], 40).astype(float)
    own = np.linalg.qr(X - X.mean(axis=0))[0]
    left = G * 7.0 / np.trace(G) - own @ own.T  # all ranks together are 7
    values, vectors = np.linalg.eigh(left)
    space = np.column_stack((np.ones(40), vectors[:, -3:]))
    assert_close(values[-3:], 1.0, digits_lost(4))
    known = [3, 17, 20, 33]  # rows in which user 1 knows the column
    assert np.array_equal(np.rint(space @ np.linalg.solve(space[known], Y[known, 0])), Y[:, 0])
    lines = "\n".join(what_each_role_learns(federation.plan))
    assert "the sum of the projections on their columns (40 x 40)" in lines
    assert "Party 2 has 3 columns, and the other can compute the space that they span" in lines
    assert "the CSP learns the first" not in lines


# --- parallel analysis ------------------------------------------------------------------------------------------------


def partners_grams(monkeypatch, parts):
    """The other party's permuted Gram matrices, as user 1 of two computes them: the totals less its own share."""
    opened = Opened(monkeypatch)
    release = (*declared(Task.PCA).released, Item.SPECTRUM)
    federation = Federation(parts, Task.PCA, Split.HORIZONTAL, components_by="parallel", release=release)
    federation.run()
    m = parts[0].shape[1]
    total, own = (
        words128.to_numbers(words, FINE_STEP) for words in (opened.totals["permuted 0"], opened.own[1, "permuted"])
    )
    grams = np.empty((PERMUTED_TABLES, m, m))
    rows, columns = np.triu_indices(m)
    grams[:, rows, columns] = grams[:, columns, rows] = (total - own).reshape(PERMUTED_TABLES, -1)
    return grams


def test_permuted_gram_matrices_of_three_records_give_their_values_away_and_this_is_stated(monkeypatch):
    """Three numbers with known mean and variance have one angle; permuted products show sums and differences of two."""
    rng = np.random.default_rng(8)
    parts = [rng.normal(size=(40, 2)), rng.normal(size=(3, 2))]
    grams = partners_grams(monkeypatch, parts)
    mean = np.concatenate(parts).mean(axis=0)
    values = parts[1] - mean
    scale = grams[0, 0, 0] / np.sum(values[:, 0] ** 2)  # a power of two that all users know
    own_mean = values.mean(axis=0)  # party 1 has it: the joint mean less its own rows
    radius = np.sqrt((np.array([grams[0, 0, 0], grams[0, 1, 1]]) / scale - 3 * own_mean**2) * 2 / 3)
    cosines = (grams[:, 0, 1] / scale - 3 * own_mean.prod()) / (1.5 * radius.prod())
    seen = np.unique(np.round(cosines, 9))
    assert len(seen) > 3  # of six
    angles = [
        sign * np.arccos(np.clip(c, -1, 1)) + 2 * np.pi * j / 3 for c in seen for sign in (1, -1) for j in range(3)
    ]
    guesses = [
        np.sort(own_mean[0] + radius[0] * np.cos((a + b) / 2 + 2 * np.pi * np.arange(3) / 3))
        for a in angles
        for b in angles
    ]
    distinct = np.unique(np.round(guesses, 6), axis=0)
    assert len(distinct) < 60
    assert np.min(np.abs(np.array(guesses) - np.sort(values[:, 0])).max(axis=1)) < digits_lost(10)


def test_a_party_with_few_records_is_refused_parallel_analysis_and_the_finding_says_why():
    rng = np.random.default_rng(8)
    parts = [rng.normal(size=(n, 3)) for n in (200, 200, 5)]
    with pytest.raises(ReleaseRefused, match="permuted columns can give the values of each column away"):
        FederatedPCA("parallel", federation=Simulation(policy=Policy(enforce=True))).fit(parts)


def test_permuted_gram_matrices_carry_nothing_of_which_values_stood_together(monkeypatch):
    """Two tables with the same columns in other orders have the same law; here, the same mean of many off-diagonals."""
    rng = np.random.default_rng(9)
    first = rng.normal(size=(150, 1)) @ np.ones((1, 2)) + 0.1 * rng.normal(size=(150, 2))
    shuffled = np.column_stack((first[:, 0], rng.permutation(first[:, 1])))
    found = []
    for table in (first, shuffled):
        grams = partners_grams(monkeypatch, [rng.normal(size=(150, 2)), table])
        found.append(grams[:, 0, 1] / np.sqrt(grams[:, 0, 0] * grams[:, 1, 1]))
    for correlations in found:
        assert np.abs(correlations).max() < 5 / np.sqrt(150)
    assert abs(np.corrcoef(first.T)[0, 1]) > 0.9


# --- regression on components -----------------------------------------------------------------------------------------


def test_a_regression_on_components_asks_for_consent_to_the_joint_gram_matrix():
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(150, 4)) for _ in range(3)]
    labels = [part.sum(axis=1) for part in parts]
    assert enforced(FederatedPCR(2), parts, labels) == {"mode"}
    FederatedPCR(2, federation=Simulation(policy=Policy(enforce=True, consent_to_gram=True))).fit(parts, labels)
    assert enforced(FederatedPCR(2), parts[:2], labels[:2]) == {"mode", "parties"}
