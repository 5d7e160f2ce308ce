"""Adversary test 6: what a user can derive from the results themselves (C12), and that the guard refuses each case.

The attacker is a party: it has its own table, what the plan says, and what it holds at the end. No mask can help here.
"""

import itertools

import numpy as np
import pytest
from tests.adversary.scores import gap
from tests.adversary.watch import columns, watched

from fedsvd.data.open import open_source
from fedsvd.errors import ReleaseRefused
from fedsvd.protocol.release import Policy, record_fingerprints, rerun_findings
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.runtime.federation import run_study
from fedsvd.runtime.party_data import PartyData
from fedsvd.runtime.planning import Study

HORIZONTAL = {"split": Split.HORIZONTAL}


def refused(parts, task=Task.SVD, **study):
    """The rules for which the default policy, enforced, refuses this study."""
    parties = [PartyData(open_source(np.ascontiguousarray(part))) for part in parts]
    split = study.pop("split", Split.VERTICAL)
    with pytest.raises(ReleaseRefused) as refusal:
        run_study(Study(task, split, **study), parties, policy=Policy(enforce=True))
    return {rule for rule in ("parties", "records", "components", "task") if f" {rule}: " in refusal.value.fault}


def others_gram(held, own):
    """U S^2 U^T less one's own Gram matrix."""
    return (held.U * held.sigma**2) @ held.U.T - own @ own.T


def test_with_two_parties_u_and_s_give_the_partners_gram_matrix_and_this_is_stated():
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((200, 15)), rng.standard_normal((150, 15))]
    attacker = watched(parts, **HORIZONTAL).parties[0]
    assert gap(others_gram(attacker, parts[0].T), parts[1].T @ parts[1]) < 1e-12
    assert refused(parts, **HORIZONTAL) == {"parties"}


def test_with_three_parties_they_give_the_sum_of_the_others_and_this_is_stated():
    rng = np.random.default_rng(2)
    parts = [rng.standard_normal((120 + i, 15)) for i in range(3)]
    attacker = watched(parts, **HORIZONTAL).parties[2]
    assert gap(others_gram(attacker, parts[2].T), sum(D.T @ D for D in parts[:2])) < 1e-12


def test_a_partner_of_one_record_is_read_up_to_its_sign():
    rng = np.random.default_rng(3)
    parts = [rng.standard_normal((200, 15)), 3.0 + rng.standard_normal((1, 15))]
    attacker = watched(parts, **HORIZONTAL).parties[0]
    strengths, directions = np.linalg.eigh(others_gram(attacker, parts[0].T))
    record = np.sqrt(strengths[-1]) * directions[:, -1]
    assert min(gap(record, parts[1][0]), gap(-record, parts[1][0])) < 1e-10
    assert refused(parts, **HORIZONTAL) == {"parties", "records"}


def binary_columns(U):
    """Every vector of zeros and ones in the span of U, but for none at all: a few rows decide all the others."""
    r = U.shape[1]
    rows = np.sort(pivots(U, r))
    lift = U @ np.linalg.inv(U[rows])
    guesses = np.array(list(itertools.product((0.0, 1.0), repeat=r)))[1:]
    spanned = guesses @ lift.T
    return spanned[np.abs(spanned - np.rint(np.clip(spanned, 0, 1))).max(axis=1) < 1e-8]


def pivots(U, r):
    """r rows of U that are far from dependent."""
    left, picked = U.copy(), []
    for _ in range(r):
        row = int(np.argmax(np.einsum("ij,ij->i", left, left)))
        direction = left[row] / np.linalg.norm(left[row])
        left = left - np.outer(left @ direction, direction)
        picked.append(row)
    return np.array(picked)


def test_a_binary_column_is_found_in_the_span_of_u_even_among_three_parties():
    """Nobody's own table is needed for it: U alone tells, so it does not matter which party looks."""
    rng = np.random.default_rng(4)
    flag = (rng.random(300) < 0.3).astype(float)
    parts = [rng.standard_normal((300, 5)), rng.standard_normal((300, 4)), flag[:, None]]
    attacker = watched(parts).parties[0]
    (found,) = binary_columns(attacker.U)
    assert np.array_equal(np.rint(found), flag)
    assert refused(parts) == {"records"}


def test_two_runs_that_differ_by_one_record_give_that_record():
    rng = np.random.default_rng(5)
    parts = [rng.standard_normal((150, 20)) + 1.0 for _ in range(3)]
    before = watched(parts, random_state=1, **HORIZONTAL).parties[0]
    more = [parts[0], np.concatenate((parts[1], rng.standard_normal((1, 20)))), parts[2]]
    after = watched(more, random_state=2, **HORIZONTAL).parties[0]
    nothing = np.zeros((20, 1))
    strengths, directions = np.linalg.eigh(others_gram(after, nothing) - others_gram(before, nothing))
    record = np.sqrt(strengths[-1]) * directions[:, -1]
    assert min(gap(record, more[1][-1]), gap(-record, more[1][-1])) < 1e-9

    key = Seed(bytes(range(32)))  # stays with party 2
    kept, now = record_fingerprints(parts[1], key), record_fingerprints(more[1], key)
    (finding,) = rerun_findings([kept], now, Policy())
    assert finding.below
    assert finding.text.startswith("1 of your records changed")


def test_with_two_parties_the_joint_mean_gives_the_partners_mean_and_this_is_stated():
    rng = np.random.default_rng(6)
    parts = [rng.standard_normal((30, 6)), 5.0 + rng.standard_normal((50, 6))]
    attacker = watched(parts, Task.PCA, components=2, **HORIZONTAL).parties[0]
    partner = (80 * attacker.mean - parts[0].sum(axis=0)) / 50
    np.testing.assert_allclose(partner, parts[1].mean(axis=0), rtol=1e-12)


def test_with_two_parties_the_label_holder_gets_the_partners_partial_scores_and_this_is_stated():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((80, 6))
    y = X @ rng.standard_normal((6, 1)) + rng.standard_normal((80, 1))
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)
    study = {"targets": 1, "label_user": 1, "release": release}
    outcome = watched(columns(X, (2, 4)), Task.LR, labels=[y, None], **study)
    attacker, partner = outcome.parties
    derived = attacker.fitted - attacker.intercept - X[:, :2] @ attacker.coefficients.T
    np.testing.assert_allclose(derived, X[:, 2:] @ partner.coefficients.T, atol=1e-10)


def gram_from_components(U, own):
    """The partner's Gram matrix from U_r and one's own data alone, when the partner has fewer records than r.

    G U = U S^2 leaves r numbers open in ``G_2 U = U S^2 - G_1 U``. What lies outside U is known, and spans the rows of
    all of it, so the open numbers are those that keep the rest of it in that span.
    """
    r = U.shape[1]
    beyond = np.linalg.svd(U)[0][:, r:]
    G = own @ own.T
    outside, inside = -beyond.T @ G @ U, -U.T @ G @ U
    np.fill_diagonal(inside, 0.0)
    rank = np.linalg.matrix_rank(outside, tol=1e-9 * np.linalg.norm(G))
    spanned = np.linalg.svd(outside)[2][:rank]
    free = np.eye(r) - spanned.T @ spanned
    inside -= np.diag(np.einsum("ij,ij->i", inside @ free, free) / np.einsum("ij,ij->i", free, free))
    times_U = U @ inside + beyond @ outside
    return times_U @ np.linalg.pinv(inside, rcond=1e-9, hermitian=True) @ times_U.T


def test_components_alone_give_the_gram_matrix_of_a_partner_with_fewer_records_than_components():
    """No spectrum is released here, ten records are enough for U_r: yet it counts as a full output, and is refused."""
    rng = np.random.default_rng(8)
    parts = [rng.standard_normal((200, 40)), 5.0 + rng.standard_normal((12, 40))]
    study = {"components": 16, **HORIZONTAL}
    attacker = watched(parts, Task.PCA, **study).parties[0]
    assert attacker.sigma is None
    centred = [(D - attacker.mean).T for D in parts]
    assert gap(gram_from_components(attacker.U, centred[0]), centred[1] @ centred[1].T) < 1e-10
    assert refused(parts, Task.PCA, **study) == {"parties", "records"}


def test_a_few_components_leave_the_rest_of_the_partners_gram_matrix_open_and_are_allowed():
    """The top directions are known but for r numbers, and this is stated; of the others the attack has nothing."""
    rng = np.random.default_rng(9)
    parts = [rng.standard_normal((200, 40)), rng.standard_normal((150, 40))]
    attacker = watched(parts, Task.PCA, components=5, **HORIZONTAL).parties[0]
    own, true = ((D - attacker.mean).T @ (D - attacker.mean) for D in parts)
    U = attacker.U
    beyond = np.linalg.svd(U)[0][:, 5:]
    assert gap(-beyond.T @ own @ U, beyond.T @ true @ U) < 1e-10
    assert gap(gram_from_components(U, (parts[0] - attacker.mean).T), true) > 0.5
    parties = [PartyData(open_source(D)) for D in parts]
    run_study(Study(Task.PCA, components=5), parties, policy=Policy(enforce=True))
