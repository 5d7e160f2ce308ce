"""Each attack succeeds on a case built for it, on what a party really saw of a session."""

import math

import numpy as np
import pytest
import scipy.optimize
from sklearn.metrics import roc_auc_score
from tests.tolerances import ACCEPTED, REJECTED_BY_FEW, digits_lost
from tests.unit.lab.ratings import ratings

from fedsvd.audit.attacks.alternating import WholeNumbers, alternating_ica
from fedsvd.audit.attacks.binary import binary_columns
from fedsvd.audit.attacks.collusion import csp_and_user
from fedsvd.audit.attacks.opened import columns_from_gram, joint_gram, reduced
from fedsvd.audit.attacks.outputs import Candidates, membership, others_gram, records_from_gram
from fedsvd.audit.attacks.score import correlations, exact_entries, gap
from fedsvd.audit.attacks.unmix import Cuts
from fedsvd.errors import ConfigError
from fedsvd.linalg.windows import Form
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd_lab.attacks.calibration import calibrate
from fedsvd_lab.attacks.ica_table import Subject, ica_table, referee, seen_of
from fedsvd_lab.attacks.referee import pooled_gram, record_tables


def test_the_referee_knows_the_masks_of_a_recorded_run():
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((40, 10)), rng.standard_normal((30, 10))]
    run = record_tables(parts, scheme="mask")
    for i, D_i in enumerate(parts):
        A_i = csp_and_user(run.csp, run.masks[0], i)
        assert gap(A_i @ A_i.T, D_i.T @ D_i) < digits_lost(3)


def test_in_mode_b_p_and_c_of_a_user_open_the_joint_gram_matrix():
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((40, 10)), rng.standard_normal((30, 10))]
    run = record_tables(parts, components=2)
    G, true = joint_gram(run.csp, run.masks[0]), sum(D_i.T @ D_i for D_i in parts)
    assert gap(G / np.linalg.norm(G), true / np.linalg.norm(true)) < digits_lost(3)
    assert math.frexp(np.trace(true) / np.trace(G))[0] == pytest.approx(0.5, rel=digits_lost(3))  # a power of two


def test_what_the_csp_of_mode_a_opens_cannot_be_asked_for():
    run = record_tables([np.eye(4), np.ones((3, 4))])
    with pytest.raises(ConfigError):
        _ = run.csp.Y


@pytest.mark.parametrize(("m", "widths", "found"), [(6, 2, 2), (12, 7, 7), (12, 75, 0)])
def test_lattice_reduction_reads_all_columns_where_there_are_fewer_than_rows(m, widths, found):
    rng = np.random.default_rng(m + widths)
    Z = rng.integers(-(2**40), 2**40, (m, widths)).astype(object)
    columns = columns_from_gram((Z @ Z.T).tolist())
    true = {tuple(sign * column) for column in Z.T for sign in (1, -1)}
    assert len(columns) == found
    assert {tuple(column) for column in columns} <= true


def test_lattice_reduction_leaves_a_basis_of_the_same_determinant():
    """Hand-computed: (1, 1, 1), (-1, 0, 2), (3, 5, 6) reduce to vectors of squared lengths 1, 2, 5 or shorter."""
    B = np.array([[1, 1, 1], [-1, 0, 2], [3, 5, 6]], dtype=object)
    lengths = sorted(length for length, _ in reduced((B @ B.T).tolist()))
    assert lengths[0] == 1
    assert math.prod(lengths) >= 9  # Hadamard: the determinant is 3
    assert lengths[-1] <= 5


def test_the_lab_may_ask_for_a_form_of_mask_that_the_plan_would_not_choose():
    run = record_tables([np.eye(20), np.eye(20)], scheme="mask", forms=(Form.MIXING, Form.MIXING))
    assert (run.plan.left, run.plan.right) == (Form.MIXING, Form.MIXING)
    with pytest.raises(ConfigError, match="one form of mask"):
        record_tables([np.eye(20), np.eye(20)], scheme="sum", forms=(Form.MIXING, Form.MIXING))


def test_the_alternating_attack_reads_ratings_through_block_masks_and_nothing_through_ours():
    D = ratings(96, 180, seed=2)
    read = {}
    for seed in range(4, 9):  # at this size it ends with 50 to 100 % of the ratings, by the masks it meets
        run = seen_of(D, "blocks", 12, seed)
        cuts = Cuts.of_width(run.Y.shape, 12)
        estimate = alternating_ica(run.Y, cuts, WholeNumbers())
        ordered = referee(run, estimate, cuts)
        read[seed] = exact_entries(np.clip(ordered, 0, 5), D)[0]
    assert max(read.values()) > 0.9
    for seed in range(5):
        run = seen_of(D, "mask", 12, seed)
        found = alternating_ica(run.Y, Cuts.of_width(run.Y.shape, 12), WholeNumbers(passes=30)).found.T
        assert exact_entries(found, D)[0] < exact_entries(run.Y.T, D)[0] + 0.05
        assert referee(run, estimate, cuts) is None


def test_a_user_with_u_and_s_alone_rebuilds_most_of_its_partners_ratings():
    parts = [ratings(150, 400, seed=3), ratings(40, 400, density=0.05, seed=4)]
    view = record_tables(parts).user(1, parts[0].T)
    found = records_from_gram(others_gram(view), 40, WholeNumbers()).T
    table = correlations(found, parts[1])
    rows, places = scipy.optimize.linear_sum_assignment(-table)
    rebuilt = np.empty_like(parts[1])
    rebuilt[places] = found[rows]
    assert (table[rows, places] > 0.95).mean() > 0.9
    assert exact_entries(rebuilt, parts[1])[0] > 0.9


def test_two_users_of_three_have_the_gram_matrix_of_the_third():
    rng = np.random.default_rng(5)
    parts = [rng.standard_normal((30, 8)) for _ in range(3)]
    run = record_tables(parts)
    pool = [run.user(i, parts[i - 1].T) for i in (1, 2)]
    assert gap(pooled_gram(pool), parts[2].T @ parts[2]) < digits_lost(4)


def test_so_have_they_after_a_pca_with_its_spectrum():
    rng = np.random.default_rng(6)
    parts = [3.0 + rng.standard_normal((30, 6)) for _ in range(3)]
    release = (Item.COMPONENTS, Item.MEAN, Item.SPECTRUM, Item.OWN_PART)
    run = record_tables(parts, Task.PCA, components=6, release=release)
    pool = [run.user(i, parts[i - 1].T) for i in (1, 2)]
    third = parts[2] - np.concatenate(parts).mean(axis=0)
    assert gap(pooled_gram(pool), third.T @ third) < digits_lost(6)


@pytest.mark.parametrize("components", [8, 30], ids=["every-choice", "by-ica"])
def test_planted_binary_columns_are_found_in_the_span_of_u(components):
    rng = np.random.default_rng(7)
    planted = (rng.random((400, 2)) < [0.2, 0.4]).astype(float)
    parts = [rng.standard_normal((400, components - 3)), np.column_stack((planted, rng.standard_normal(400)))]
    held = record_tables(parts, split=Split.VERTICAL).parties[0]
    found = binary_columns(held.U)
    for column in planted.T:
        assert any(np.array_equal(column, each) for each in found)
    assert len(found) == 2


def test_no_binary_column_is_found_where_there_is_none():
    rng = np.random.default_rng(8)
    for components in (6, 20):
        U = np.linalg.qr(rng.standard_normal((300, components)))[0]
        assert not len(binary_columns(U))


@pytest.mark.parametrize("task", [Task.SVD, Task.PCA])
def test_who_took_part_shows_in_components_of_few_records(task):
    rng = np.random.default_rng(9)
    parts = [rng.standard_normal((25, 80)) for _ in range(2)]
    strangers = rng.standard_normal((25, 80))
    study = {"components": 25} if task is Task.PCA else {}
    view = record_tables(parts, task, **study).user(1, parts[0].T)
    likely = membership(view, Candidates(np.concatenate((parts[1], strangers)).T))
    assert roc_auc_score([1] * 25 + [0] * 25, likely) > (0.99 if task is Task.SVD else 0.8)


def test_of_many_records_membership_does_not_show_in_a_few_components():
    rng = np.random.default_rng(10)
    parts = [rng.standard_normal((400, 10)) for _ in range(2)]
    view = record_tables(parts, Task.PCA, components=2).user(1, parts[0].T)
    likely = membership(view, Candidates(np.concatenate((parts[1], rng.standard_normal((400, 10)))).T))
    assert abs(roc_auc_score([1] * 400 + [0] * 400, likely) - 0.5) < 0.08


def test_p_values_over_many_runs_are_uniform_for_opened_sums_and_not_for_block_masks():
    D = ratings(40, 50, seed=11)
    D = D[:, np.argsort(-np.count_nonzero(D, axis=0))]  # popular ones first, as tables often come
    tables = np.array_split(D, 2)
    found = calibrate("ratings", tables, "sum", b=10, repeats=20, draws=29)
    assert min(found.uniform.values()) > ACCEPTED
    assert not found.leaks
    assert set(found.p) == {"records"}
    # Mixing masks over sides as short as these are Haar matrices: nothing is claimed of the form.
    assert calibrate("ratings", tables, "mask", b=10, repeats=1, draws=9).record()["repeats"] == 0
    found = calibrate("ratings", tables, "blocks", b=10, repeats=20, draws=39)
    assert min(found.uniform.values()) < REJECTED_BY_FEW
    assert found.leaks
    assert found.record()["repeats"] == 20


def test_the_table_has_the_papers_rows_and_ours():
    told = []
    rows = ica_table(
        Subject("wine", ratings(30, 12, density=0.4), whole=True),
        widths=(6, 12),
        repeats=1,
        report=lambda what, done, total: told.append(what),
    )
    attacks = {(row.scheme, row.attack) for row in rows}
    assert ("-", "random values") in attacks
    for scheme in ("blocks", "sum", "mask"):
        assert {(scheme, "masked, no attack"), (scheme, "alternating"), (scheme, "whitened, one side")} <= attacks
    assert {row.b for row in rows if row.attack == "ICA(b)"} == {6, 12}
    assert rows[0].published == 0.49313
    assert len(told) == len(rows) - 1
    assert all(0.0 < row.p <= 1.0 and 0.0 <= row.matched <= 1.0 for row in rows)
