"""Adversary test 6: what a user can derive from the results themselves (C12), and that the guard refuses each case.

The attacker is a party: it has its own table, what the plan says, and what it holds at the end. No mask can help here.
"""

import numpy as np
import pytest
from tests.adversary.watch import columns, seen_by_user, watched
from tests.tolerances import assert_close, digits_lost

from fedsvd.audit.attacks.binary import binary_columns
from fedsvd.audit.attacks.outputs import difference, gram_from_components, others_gram, others_mean, single_record
from fedsvd.audit.attacks.score import gap
from fedsvd.data.open import open_source
from fedsvd.errors import ReleaseRefused
from fedsvd.policy.rules import Policy
from fedsvd.policy.table_memory import TableMemory
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study

HORIZONTAL = {"split": Split.HORIZONTAL}


def refused(parts, task=Task.SVD, **study):
    """The rules for which the default policy, enforced, refuses this study."""
    parties = [PartyData(open_source(np.ascontiguousarray(part))) for part in parts]
    split = study.pop("split", Split.VERTICAL)
    with pytest.raises(ReleaseRefused) as refusal:
        run_study(Study(task, split, **study), parties, policy=Policy(enforce=True))
    return {rule for rule in ("parties", "records", "components", "task") if f" {rule}: " in refusal.value.fault}


def test_with_two_parties_u_and_s_give_the_partners_gram_matrix_and_this_is_stated():
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((200, 15)), rng.standard_normal((150, 15))]
    attacker = seen_by_user(watched(parts, **HORIZONTAL), 1, parts[0].T)
    assert gap(others_gram(attacker), parts[1].T @ parts[1]) < digits_lost(4)
    assert refused(parts, **HORIZONTAL) == {"parties"}


def test_with_three_parties_they_give_the_sum_of_the_others_and_this_is_stated():
    rng = np.random.default_rng(2)
    parts = [rng.standard_normal((120 + i, 15)) for i in range(3)]
    attacker = seen_by_user(watched(parts, **HORIZONTAL), 3, parts[2].T)
    assert gap(others_gram(attacker), sum(D.T @ D for D in parts[:2])) < digits_lost(4)


def test_a_partner_of_one_record_is_read_up_to_its_sign():
    rng = np.random.default_rng(3)
    parts = [rng.standard_normal((200, 15)), 3.0 + rng.standard_normal((1, 15))]
    record = single_record(others_gram(seen_by_user(watched(parts, **HORIZONTAL), 1, parts[0].T)))
    assert min(gap(record, parts[1][0]), gap(-record, parts[1][0])) < digits_lost(6)
    assert refused(parts, **HORIZONTAL) == {"parties", "records"}


def test_a_binary_column_is_found_in_the_span_of_u_even_among_three_parties():
    """Nobody's own table is needed for it: U alone tells, so it does not matter which party looks."""
    rng = np.random.default_rng(4)
    flag = (rng.random(300) < 0.3).astype(float)
    parts = [rng.standard_normal((300, 5)), rng.standard_normal((300, 4)), flag[:, None]]
    attacker = watched(parts).parties[0]
    (found,) = binary_columns(attacker.U)
    assert np.array_equal(np.rint(found), flag)
    assert refused(parts) == {"records"}


def test_two_runs_that_differ_by_one_record_give_that_record(tmp_path):
    rng = np.random.default_rng(5)
    parts = [rng.standard_normal((150, 20)) + 1.0 for _ in range(3)]
    before = seen_by_user(watched(parts, random_state=1, **HORIZONTAL), 1, parts[0].T)
    more = [parts[0], np.concatenate((parts[1], rng.standard_normal((1, 20)))), parts[2]]
    after = seen_by_user(watched(more, random_state=2, **HORIZONTAL), 1, parts[0].T)
    record = difference(before, after)
    assert min(gap(record, more[1][-1]), gap(-record, more[1][-1])) < digits_lost(7)

    memory = TableMemory(tmp_path / "records")  # stays with party 2
    first = memory.recognised(open_source(parts[1]), (), Policy().least_count)
    memory.begin({"run": "aa", "roster": ["A", "B", "C"]}, first, np.arange(150))
    second = memory.recognised(open_source(more[1]), (), Policy().least_count)
    assert np.array_equal(second.rows(np.arange(151)).rows, np.arange(150)), "the new record waits"


def test_with_two_parties_the_joint_mean_gives_the_partners_mean_and_this_is_stated():
    rng = np.random.default_rng(6)
    parts = [rng.standard_normal((30, 6)), 5.0 + rng.standard_normal((50, 6))]
    attacker = seen_by_user(watched(parts, Task.PCA, components=2, **HORIZONTAL), 1, parts[0].T)
    assert_close(others_mean(attacker), parts[1].mean(axis=0), digits_lost(4))


def test_with_two_parties_the_label_holder_gets_the_partners_partial_scores_and_this_is_stated():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((80, 6))
    y = X @ rng.standard_normal((6, 1)) + rng.standard_normal((80, 1))
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)
    study = {"targets": 1, "label_user": 1, "release": release}
    outcome = watched(columns(X, (2, 4)), Task.LR, labels=[y, None], **study)
    attacker, partner = outcome.parties
    derived = attacker.fitted - attacker.intercept - X[:, :2] @ attacker.coefficients.T
    assert_close(derived, X[:, 2:] @ partner.coefficients.T, digits_lost(6))


def test_components_alone_give_the_gram_matrix_of_a_partner_with_fewer_records_than_components():
    """No spectrum is released here, ten records are enough for U_r: yet it counts as a full output, and is refused."""
    rng = np.random.default_rng(8)
    parts = [rng.standard_normal((200, 40)), 5.0 + rng.standard_normal((12, 40))]
    study = {"components": 16, **HORIZONTAL}
    attacker = watched(parts, Task.PCA, **study).parties[0]
    assert attacker.sigma is None
    centred = [(D - attacker.mean).T for D in parts]
    assert gap(gram_from_components(attacker.U, centred[0]), centred[1] @ centred[1].T) < digits_lost(6)
    assert refused(parts, Task.PCA, **study) == {"parties", "records"}


def test_a_few_components_leave_the_rest_of_the_partners_gram_matrix_open_and_are_allowed():
    """The top directions are known but for r numbers, and this is stated; of the others the attack has nothing."""
    rng = np.random.default_rng(9)
    parts = [rng.standard_normal((200, 40)), rng.standard_normal((150, 40))]
    attacker = watched(parts, Task.PCA, components=5, **HORIZONTAL).parties[0]
    own, true = ((D - attacker.mean).T @ (D - attacker.mean) for D in parts)
    U = attacker.U
    beyond = np.linalg.svd(U)[0][:, 5:]
    assert gap(-beyond.T @ own @ U, beyond.T @ true @ U) < digits_lost(6)
    assert gap(gram_from_components(U, (parts[0] - attacker.mean).T), true) > 0.5
    parties = [PartyData(open_source(D)) for D in parts]
    run_study(Study(Task.PCA, components=5), parties, policy=Policy(enforce=True))
