"""Seconds are work over the rates of a machine and its threads; the table, and memory of the sum family, in words."""

from dataclasses import fields, replace

import numpy as np
import pytest

from fedsvd.cost.estimate import masks_of, predict, table
from fedsvd.cost.kernels import proofs
from fedsvd.cost.rates import DEFAULT, Gains, Rates, Work
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Item, Split, Task, Trust
from fedsvd.protocol.upload import batches
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")

H, V = Split.HORIZONTAL, Split.VERTICAL
FACTORS = (Item.COMPONENTS, Item.SPECTRUM)


def planned(m, counts, **asked):
    return plan_study(Study(**asked), m, counts, SessionId("a session")).plan


def most_of_a_role(cost):
    """Bytes of the role that needs most, without what a transport holds."""
    return max(role.memory for role in cost.roles.values())


# --- time ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_regression_longer_than_the_budget_holds_a_column_of_is_predicted():
    rows, columns = 50_000_000, (500, 500)
    study = Study(Task.LR, V, targets=1, label_user=2)
    plan = plan_study(study, rows, columns, SessionId("s")).plan
    assert plan.memory < 3 * 8 * rows * 2
    cost = predict(plan)
    assert cost.bytes_total > 8 * rows * sum(columns)  # every share is at least as long as the data it hides
    assert max(role.memory for role in cost.roles.values()) < 2 * plan.memory


def test_seconds_are_work_over_rates():
    rates = {f.name: 2.0 * getattr(DEFAULT, f.name) for f in fields(Work)}
    plan = planned(1000, (5_000, 9_000), task=Task.SVD)
    slow, fast = predict(plan), predict(plan, Rates(**rates))
    for name, role in slow.roles.items():
        assert role.seconds == pytest.approx(2 * fast.roles[name].seconds)
    assert Rates(gemm=10.0, aes=4.0).seconds(Work(gemm=5.0, aes=8.0)) == pytest.approx(2.5)


def test_threads_gain_what_was_measured_and_nothing_else():
    machine = Rates(gemm=10.0, scalars=4.0, threads=8, gains=Gains(gemm=5.0))
    assert machine.seconds(Work(gemm=50.0, scalars=8.0)) == pytest.approx(7.0)
    assert machine.seconds(Work(gemm=50.0, scalars=8.0), 8) == pytest.approx(3.0)
    halves = machine.seconds(Work(gemm=50.0), 4)
    assert 5.0 / 5.0 < halves < 5.0 / 2.5  # fewer threads gain less, but each of them more


def test_half_of_the_work_of_ill_conditioned_data_is_counted_where_nothing_is_known():
    plan = planned(400, (20_000, 30_000), task=Task.SVD)
    even, unknown, ill = (predict(plan, well_conditioned=known).roles["user-1"] for known in (True, None, False))
    assert even.seconds < unknown.seconds < ill.seconds
    assert unknown.seconds == pytest.approx((even.seconds + ill.seconds) / 2)
    assert even.sent == unknown.sent == ill.sent


PLAN = planned(50, (500, 900, 2000), task=Task.PCA, trust=Trust.AUTHORITY)


def test_in_one_process_roles_take_turns_and_users_do_together_what_is_the_same_for_all():
    cost = predict(PLAN, replace(DEFAULT, cores=4, threads=4))
    assert set(cost.roles) == {"user-1", "user-2", "user-3", "csp", "ta"}
    every, alike = sum(role.seconds for role in cost.roles.values()), cost.roles["user-1"].once[0]
    # Mode B: the CSP alone factorises. Signatures and what all users saw are checked and hashed once.
    assert 0 < alike < 0.05 * every
    assert cost.seconds_on_one_machine == pytest.approx(every - 2 * alike)
    opened = predict(planned(50, (500, 900, 2000), task=Task.SVD))
    once = opened.roles["user-1"].once
    assert once == opened.roles["user-2"].once
    assert min(once) > 0
    every = sum(role.seconds for role in opened.roles.values())
    assert opened.seconds_on_one_machine == pytest.approx(every - 2 * once[0])
    assert opened.core_seconds_on_one_machine >= opened.seconds_on_one_machine


def test_steps_read_the_data_for_every_block_and_sparse_tables_by_what_is_stored():
    """Blocks of 13, 5 and 5 columns, and five vectors at the end: there and back, at eight more than the columns."""
    endless = {f.name: float("inf") for f in fields(Work)}
    machine, (m, counts) = Rates(**{**endless, "narrow": 1.0}), (1000, (20_000, 30_000))
    plan = planned(m, counts, task=Task.SVD, scheme="steps", components=5)
    passes = (2, 2, 2)
    dense = predict(plan, machine, passes=passes).roles["user-2"].seconds
    sparse = predict(plan, machine, passes=passes, stored=(0.01, 0.01)).roles["user-2"].seconds
    numbers, columns, vectors = m * counts[1], 13 + 5 + 5 + 5, 16 + 8 + 8 + 8  # a sparse table takes eight at a time
    assert dense - sparse == pytest.approx(2 * numbers * (columns + 4 * 8) - 2 * 0.01 * 2 * numbers * (vectors + 4 * 8))
    longer = predict(plan, machine, passes=(*passes, 2)).roles["user-2"].seconds
    assert longer - dense > 2 * numbers * (5 + 8)


def test_of_a_share_of_the_variance_the_vectors_of_one_message_are_multiplied_and_not_all_that_it_may_have():
    endless = {f.name: float("inf") for f in fields(Work)}
    machine, (m, counts) = Rates(**{**endless, "narrow": 1.0, "gemm": 1.0}), (1000, (20_000, 30_000))
    release = (*FACTORS, Item.MEAN, Item.OWN_PART)
    plan = planned(m, counts, task=Task.PCA, scheme="steps", components_by="0.5", release=release)
    assert plan.planned_rank > 10 * 24
    passes = predict(plan, machine, passes=(2,)).roles["user-2"].seconds
    there_and_back = 2 * m * counts[1] * (24 + 8)
    assert 2 * there_and_back < passes < 2.5 * there_and_back  # a block of 24, and as many vectors


@pytest.mark.parametrize(("width", "count"), [(520, 3_000), (520, 40_000), (100, 8_000), (40, 70_000)])
def test_proofs_that_a_gram_matrix_is_even_are_counted_as_often_as_they_are_made(width, count):
    factor = StreamingFactor(width)
    factor.update_columns(np.random.default_rng(count).standard_normal((width, count)))
    factor.factor()
    assert factor.route.cholesky == factor.route.householder == 0
    assert factor.route.gram == proofs(width, count)


def test_the_first_of_many_values_are_taken_to_be_far_apart_in_half_of_what_is_ill_conditioned():
    plan = planned(900, (5_000, 9_000), task=Task.SVD, components=8, scheme="sum")
    well, unknown, ill = (
        predict(plan, well_conditioned=known).roles["csp"].core_seconds for known in (True, None, False)
    )
    assert unknown - well == pytest.approx(0.25 * (ill - well))


def test_a_sum_that_all_open_is_hashed_once_in_a_process():
    endless = {f.name: float("inf") for f in fields(Work)}
    plan = planned(1000, (20_000, 30_000), task=Task.SVD, scheme="steps", components=5)
    cost = predict(plan, Rates(**{**endless, "hashed": 1.0}), passes=(2, 2))
    assert cost.roles["user-1"].seconds == cost.roles["user-2"].seconds == cost.seconds_on_one_machine
    assert cost.seconds_on_one_machine > 2 * 8 * 1000 * (13 + 5)  # images of both blocks, and what user 1 sends of them


def test_in_processes_as_many_users_work_at_a_time_as_there_are_cores():
    one, two, many = (predict(PLAN, replace(DEFAULT, cores=cores)) for cores in (1, 2, 64))
    every = sum(role.core_seconds for role in one.roles.values())
    users = [one.roles[f"user-{i}"].core_seconds for i in (1, 2, 3)]
    assert one.seconds_in_processes == pytest.approx(every)
    assert two.seconds_in_processes == pytest.approx(every - sum(users) + max(max(users), sum(users) / 2))
    assert many.seconds_in_processes == pytest.approx(every - sum(users) + max(users))
    assert one.seconds_side_by_side == pytest.approx(many.seconds_in_processes)


def test_processes_of_one_machine_share_its_threads():
    machine = replace(DEFAULT, cores=10, threads=10, gains=Gains(gemm=10.0, solve=10.0, svd=10.0))
    (role,) = (role for name, role in predict(PLAN, machine).roles.items() if name == "csp")
    assert role.seconds < role.shared_seconds < role.core_seconds  # two of ten threads, for each of five roles


def test_a_transport_holds_a_message_of_every_sender_and_one_on_its_way():
    plan = planned(20_000, (100, 100, 100), task=Task.SVD, split=V, memory=64 << 20)
    cost = predict(plan)
    batch = 8 * max(rows * columns for rows, columns in (each.shape for each in batches(plan)))
    assert 3 * batch <= cost.roles["csp"].buffers < 5 * batch
    assert batch <= cost.roles["user-1"].buffers < 3 * batch
    assert cost.memory == max(role.memory + role.buffers for role in cost.roles.values())


def test_a_link_adds_the_time_that_the_bytes_of_the_csp_take_on_it():
    without, over = predict(PLAN), predict(PLAN, link=1e6)
    assert without.seconds_on_links == 0.0
    through = sum(count for ends, count in over.bytes_by_link.items() if CSP in ends)
    assert over.seconds_on_links == pytest.approx(through / 1e6)
    assert over.seconds_side_by_side == pytest.approx(without.seconds_side_by_side + through / 1e6)
    assert over.seconds_on_one_machine == without.seconds_on_one_machine


def test_the_flops_of_a_long_svd_are_those_of_its_three_large_passes():
    m, n = 1000, 500_000
    role = predict(planned(m, (n, n), task=Task.SVD), well_conditioned=True).roles["user-1"]
    # Nothing else grows with n. A symmetric product of all columns, and one product for Vt_i.
    assert role.flops == pytest.approx(m * m * n + 2 * m * m * n, rel=0.1)


def test_what_a_role_says_and_hears_adds_up_to_its_links():
    cost = predict(planned(30, (40, 50), task=Task.SVD))
    assert cost.roles["csp"].sent == sum(count for (sender, _), count in cost.bytes_by_link.items() if sender == CSP)
    assert sum(role.sent for role in cost.roles.values()) == cost.bytes_total
    assert sum(role.received for role in cost.roles.values()) == cost.bytes_total


def test_the_table_has_a_line_for_each_role_and_one_for_users_alike():
    plan = planned(100, (5_000,) * 4 + (7,), task=Task.SVD)
    lines = table(plan, predict(plan))
    assert [line.role for line in lines] == ["user-1", "user-2 .. user-4 (3)", "user-5", "csp"]
    assert all(line.sends and line.receives and line.memory and line.time for line in lines)


def test_the_masks_are_named_with_who_opens_the_sum():
    assert masks_of(planned(1000, (9_000,) * 2, task=Task.SVD)) == "none, mode A: the parties open the sum"
    top = planned(1000, (9_000,) * 2, task=Task.SVD, components=9)
    assert masks_of(top) == "P haar (1000), mode B: the CSP opens the sum"
    masked = planned(1000, (300,) * 2, task=Task.SVD, scheme="mask")
    assert masks_of(masked) == "P haar (1000), Q haar (600)"


# --- the sum family ---------------------------------------------------------------------------------------------------


def test_a_user_sends_as_much_whatever_the_number_of_users_but_for_keys():
    sent = [predict(planned(200, (400,) * k, task=Task.SVD)).roles["user-2"].sent for k in (2, 10, 50)]
    assert max(sent) - min(sent) == 0


def test_a_share_takes_five_products_of_its_widened_factor():
    m, n_i = 1000, 20
    role = predict(planned(m, (n_i, n_i), task=Task.SVD, components=3)).roles["user-1"]
    q = m // 2 + 32
    reflected = 4 * m * q * n_i - 2 * m * n_i**2 + 2 * m * m * n_i  # T_i, then P on the factor itself
    assert role.flops_by_stage["share"] == pytest.approx(5 * m * m * q + reflected, rel=0.01)


def test_the_csp_computes_nothing_in_mode_a_and_users_do_not_factorise_in_mode_b():
    whole, top = (predict(planned(300, (900, 900), task=Task.SVD, components=r)) for r in (None, 5))
    assert whole.roles["csp"].flops == 0
    assert "factorise" in whole.roles["user-2"].seconds_by_stage
    assert "factorise" in top.roles["csp"].seconds_by_stage
    assert "factorise" not in top.roles["user-2"].seconds_by_stage
    assert {"acceptance"} == set(whole.roles["user-2"].seconds_by_stage) - set(whole.roles["user-1"].seconds_by_stage)
