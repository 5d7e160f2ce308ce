"""What the cost model predicts is what the metered transport counts and what a user's arrays take."""

import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest

from fedsvd.cost.estimate import least_memory, masks_of, predict, table
from fedsvd.cost.rates import DEFAULT, Gains, Rates, Work
from fedsvd.cost.traffic import Expected, full_rank, messages_of
from fedsvd.engine.player import Player
from fedsvd.protocol.messages import SumReply
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import LINKS, Family, Item, Mode, Split, Task, Trust
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation
from fedsvd.types import SessionId

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")

H, V = Split.HORIZONTAL, Split.VERTICAL
FACTORS = (Item.COMPONENTS, Item.SPECTRUM)
SCHEMES = ("sum", "mask", "paper")


def joint(samples=90, features=12):
    """Full rank, with singular values from 1 to 1e-4: the right vectors want their correction."""
    rng = np.random.default_rng(samples)
    left, right = (np.linalg.qr(rng.normal(size=(side, min(samples, features))))[0] for side in (samples, features))
    return left * np.logspace(0, -4, min(samples, features)) @ right.T


def cut(table_, split, k=3):
    places = [1, 4][: k - 1] if k <= 3 else k
    return np.array_split(table_, places, axis=int(split is V))


def labels(split, t=2, samples=90, k=3):
    y = np.random.default_rng(1).normal(size=(samples, t))
    return [None, y, *[None] * (k - 2)] if split is V else cut(y, H, k)


def traffic_of(federation, **assumed):
    """Bytes and messages by link, as counted and as predicted."""
    federation.run()
    counted, cost = federation.certificate, predict(federation.plan, **assumed)
    return (counted.bytes_by_link, counted.messages_by_link), (cost.bytes_by_link, cost.messages_by_link)


# --- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [H, V])
@pytest.mark.parametrize("trust", list(Trust))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_bytes_of_an_svd_are_exact(scheme, trust, split):
    counted, predicted = traffic_of(Federation(cut(joint(), split), Task.SVD, split, scheme=scheme, trust=trust))
    assert predicted == counted


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "asked",
    [
        {"components": 7},
        {"check_ids": True, "ids": [np.arange(90)] * 3},
        {"release": (Item.COMPONENTS, Item.SPECTRUM)},
        {"memory": 5 << 17},
    ],
    ids=["top 7", "row ids", "without Vt_i", "panels and batches"],
)
def test_bytes_of_an_svd_are_exact_with_every_option(scheme, asked, tmp_path):
    tall = "memory" in asked and scheme != "sum"  # more rows than the budget holds
    tables = cut(joint(4000) if tall else joint(), V)
    counted, predicted = traffic_of(Federation(tables, Task.LSA, V, scheme=scheme, scratch=tmp_path, **asked))
    assert predicted == counted


def test_bytes_of_full_matrices_are_exact():
    for split in (H, V):
        counted, predicted = traffic_of(
            Federation(cut(joint(), split), split=split, scheme="paper", full_matrices=True)
        )
        assert predicted == counted


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("asked", [{"components": 4}, {"unit_variance": True}], ids=["top 4", "unit variance"])
def test_bytes_of_a_pca_are_exact(scheme, asked):
    counted, predicted = traffic_of(Federation(cut(joint(), H), Task.PCA, H, scheme=scheme, **asked))
    assert predicted == counted


def test_bytes_of_a_pca_are_exact_with_more_features_than_samples():
    counted, predicted = traffic_of(Federation(cut(joint(12, 90), H), Task.PCA, H))
    assert predicted == counted


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1.5])
@pytest.mark.parametrize(
    ("split", "asked"),
    [(H, {"scheme": "sum"}), (H, {"scheme": "sum", "mode": Mode.A}), (V, {"scheme": "mask"})],
    ids=["sum B", "sum A", "split columns"],
)
def test_bytes_of_a_regression_are_exact(split, asked, alpha, centre):
    federation = Federation(
        cut(joint(), split), Task.LR, split, labels=labels(split), alpha=alpha, centre=centre, **asked
    )
    counted, predicted = traffic_of(federation)
    assert predicted == counted


@pytest.mark.parametrize("centre", [True, False])
def test_bytes_of_the_papers_regression_are_exact(centre):
    asked = {"labels": labels(V), "scheme": "paper", "centre": centre}
    counted, predicted = traffic_of(Federation(cut(joint(), V), Task.LR, V, **asked))
    assert predicted == counted


@pytest.mark.parametrize("family", [Family.BINOMIAL, Family.GAUSSIAN, Family.MULTINOMIAL])
def test_bytes_of_a_model_are_exact_for_the_iterations_it_took(family):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(240, 2)), rng.integers(0, 2 + (family is Family.MULTINOMIAL), 240).astype(float)
    about = ModelPlan(family, LINKS[family][0], classes=3 if family is Family.MULTINOMIAL else 0)
    federation = Federation(np.split(X, 3), Task.GLM, H, labels=np.split(y, 3), glm=about)
    federation.run()
    (model,) = federation.results[user(1)].models
    counted, predicted = traffic_of(federation, iterations=model.iterations)
    assert predicted == counted


def test_bytes_of_scores_are_exact_and_go_to_the_label_holder_alone():
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)
    federation = Federation(cut(joint(), V), Task.LR, V, labels=labels(V), release=release)
    counted, predicted = traffic_of(federation)
    assert predicted == counted
    replies = [
        (to, message.payload.shape)
        for _, to, message, _ in messages_of(federation.plan, Expected(full_rank(federation.plan)))
        if isinstance(message, SumReply) and message.name == "scores"
    ]
    assert replies == [(user(2), (90 * 2, 2))]


def test_bytes_of_a_regression_with_fewer_rows_than_columns_are_exact():
    federation = Federation(cut(joint(12, 90), V), Task.LR, V, labels=labels(V, samples=12))
    counted, predicted = traffic_of(federation)
    assert predicted == counted


def test_bytes_of_a_prediction_are_exact():
    parts = cut(joint(), V)
    weights = [(np.ones((part.shape[1], 2)), np.zeros(2)) for part in parts]
    counted, predicted = traffic_of(Federation(parts, Task.PREDICT, V, weights=weights, targets=2, label_user=3))
    assert predicted == counted


@pytest.mark.parametrize("k", [2, 5, 50])
def test_bytes_are_exact_for_two_to_fifty_users(k):
    counted, predicted = traffic_of(Federation(cut(joint(250), H, k), Task.SVD, H))
    assert predicted == counted


def test_well_conditioned_data_moves_the_same_bytes_so_that_the_csp_cannot_tell_and_is_spared_the_work():
    tables = cut(np.random.default_rng(0).normal(size=(400, 6)), H)
    counted, predicted = traffic_of(Federation(tables, split=H), well_conditioned=True)
    assert predicted == counted
    plan = planned(6, (1, 3, 396), task=Task.SVD)
    well, ill = (predict(plan, well_conditioned=said) for said in (True, False))
    assert well.bytes_by_link == ill.bytes_by_link
    assert well.roles["user-3"].flops < ill.roles["user-3"].flops


def test_bytes_are_exact_for_a_lower_rank_that_is_given():
    D = joint()
    D[:, 5] = D[:, 4]
    counted, predicted = traffic_of(Federation(cut(D, V), Task.LR, V, labels=labels(V)), rank=11)
    assert predicted == counted


# --- the bars ---------------------------------------------------------------------------------------------------------


def planned(m, counts, **asked):
    return plan_study(Study(**asked), m, counts, SessionId("a session")).plan


def test_an_svd_of_1000_by_100_000_moves_at_most_90_megabytes_and_no_more_at_a_million():
    costs = [predict(planned(1000, (n // 2, n // 2), task=Task.SVD)) for n in (100_000, 1_000_000)]
    assert costs[0].bytes_total <= 90e6
    assert costs[0].bytes_by_link == costs[1].bytes_by_link
    assert costs[0].messages_by_link == costs[1].messages_by_link


def test_the_papers_scheme_moves_more_than_1_6_gigabytes():
    assert predict(planned(1000, (50_000, 50_000), task=Task.SVD, scheme="paper")).bytes_total > 1.6e9


# --- memory -----------------------------------------------------------------------------------------------------------


class Nowhere:
    """A transport whose messages reach no one."""

    def send(self, to, message):
        return None


def copied(message):
    """The message as if it had just come in: its arrays are its receiver's own."""
    copies = {f.name: np.copy(v) for f in fields(message) if isinstance(v := getattr(message, f.name), np.ndarray)}
    return replace(message, **copies)


def alone(federation, party):
    """The most that one role's arrays take, the messages it is given included, when it lives through the session."""
    federation.run()
    (machine,) = (machine for machine in federation.assemble().machines if machine.me == party)
    player = Player(machine, Nowhere())
    tracemalloc.start()
    try:
        player.begin()
        for sender, message in federation.views.received[party]:
            player.receive(sender, copied(message))
        assert player.failure is None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("samples", "features", "split", "task", "asked"),
    [
        (250, 6_000, V, Task.SVD, {}),
        (250, 6_000, V, Task.SVD, {"components": 20}),
        (1_500, 250, V, Task.SVD, {}),
        (6_000, 200, H, Task.PCA, {"components": 5}),
        (90, 300, H, Task.PCA, {"components": 5}),
        (100, 6_000, V, Task.SVD, {"scheme": "mask"}),
        (12_000, 30, V, Task.LR, {}),
        (300, 800, V, Task.SVD, {"scheme": "paper"}),
    ],
    ids=["sum A", "sum B", "tall", "pca", "few records", "mask", "regression", "paper"],
)
def test_the_memory_of_a_user_is_right_to_a_fifth(samples, features, split, task, asked):
    if task is Task.LR:
        asked = {"labels": labels(V, 1, samples, 2)}
    tables = np.array_split(joint(samples, features), 2, axis=int(split is V))
    federation = Federation(tables, task, split, **asked)
    taken = alone(federation, user(2))
    assert abs(predict(federation.plan).roles["user-2"].memory / taken - 1) < 0.2


def test_memory_does_not_grow_with_data_that_is_compressed_but_for_the_result():
    plans = [planned(100, (n, n), task=Task.SVD, release=(Item.COMPONENTS, Item.SPECTRUM)) for n in (10**5, 10**7)]
    short, long = (predict(plan).roles for plan in plans)
    assert {name: role.memory for name, role in short.items()} == {name: role.memory for name, role in long.items()}


# --- time and words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["mask", "paper"])
def test_a_regression_longer_than_the_budget_holds_a_column_of_is_predicted(scheme):
    rows, columns = 50_000_000, (500, 500)
    study = Study(Task.LR, V, scheme=scheme, targets=1, label_user=2)
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
    assert machine.seconds_with_all_threads(Work(gemm=50.0, scalars=8.0)) == pytest.approx(3.0)


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
    every = sum(role.seconds for role in cost.roles.values())
    assert cost.seconds_on_one_machine == pytest.approx(every)  # mode B: the CSP alone factorises
    opened = predict(planned(50, (500, 900, 2000), task=Task.SVD))
    once = opened.roles["user-1"].once
    assert once == opened.roles["user-2"].once
    assert min(once) > 0
    every = sum(role.seconds for role in opened.roles.values())
    assert opened.seconds_on_one_machine == pytest.approx(every - 2 * once[0])
    assert opened.core_seconds_on_one_machine >= opened.seconds_on_one_machine


def test_in_processes_as_many_users_work_at_a_time_as_there_are_cores():
    one, two, many = (predict(PLAN, replace(DEFAULT, cores=cores)) for cores in (1, 2, 64))
    every = sum(role.core_seconds for role in one.roles.values())
    users = [one.roles[f"user-{i}"].core_seconds for i in (1, 2, 3)]
    assert one.seconds_in_processes == pytest.approx(every)
    assert two.seconds_in_processes == pytest.approx(every - sum(users) + max(max(users), sum(users) / 2))
    assert many.seconds_in_processes == pytest.approx(every - sum(users) + max(users))
    assert one.seconds_side_by_side == pytest.approx(many.seconds_in_processes)


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
    assert cost.memory == max(role.memory for role in cost.roles.values())


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
    assert masks_of(masked).startswith("P haar (1000, 1 window), Q haar (600, 1 window)")


# --- the sum family ---------------------------------------------------------------------------------------------------


def test_a_user_sends_as_much_whatever_the_number_of_users_but_for_keys():
    sent = [predict(planned(200, (400,) * k, task=Task.SVD)).roles["user-2"].sent for k in (2, 10, 50)]
    assert max(sent) - min(sent) == 0


def test_a_share_takes_six_products_of_its_widened_factor():
    m, n_i = 1000, 20
    role = predict(planned(m, (n_i, n_i), task=Task.SVD, components=3)).roles["user-1"]
    q = m // 2 + 32
    reflected = 4 * m * q * n_i - 2 * m * n_i**2 + 2 * m * m * n_i  # T_i, then P on the factor itself
    assert role.flops_by_stage["share"] == pytest.approx(6 * m * m * q + reflected, rel=0.01)


def test_the_csp_computes_nothing_in_mode_a_and_users_do_not_factorise_in_mode_b():
    whole, top = (predict(planned(300, (900, 900), task=Task.SVD, components=r)) for r in (None, 5))
    assert whole.roles["csp"].flops == 0
    assert "factorise" in whole.roles["user-2"].seconds_by_stage
    assert "factorise" in top.roles["csp"].seconds_by_stage
    assert "factorise" not in top.roles["user-2"].seconds_by_stage
    assert {"acceptance"} == set(whole.roles["user-2"].seconds_by_stage) - set(whole.roles["user-1"].seconds_by_stage)


@pytest.mark.parametrize("components", [None, 10])
def test_memory_of_the_sum_family_goes_with_the_square_of_the_common_side_whatever_the_data(components):
    asked = {"task": Task.SVD, "components": components, "release": FACTORS}
    for m in (1000, 4096):
        few, many = (planned(m, (n,) * 2, **asked) for n in (2 * m, 100 * m))
        least = least_memory(few)
        assert least_memory(many) == least
        assert predict(replace(many, memory=least)).memory == predict(replace(few, memory=least)).memory <= least
        assert 56 * m * m <= least <= 112 * m * m  # the words and their factor alone; with an SVD of it


@pytest.mark.parametrize(("task", "asked"), [(Task.SVD, {}), (Task.PCA, {"components": 10}), (Task.LR, {"targets": 1})])
def test_the_least_memory_of_the_sum_family_is_what_its_own_plan_takes(task, asked):
    for m, counts in ((300, (2000, 900)), (2000, (500, 70_000, 3000))):
        plan = plan_study(Study(task, H, **asked), m, counts, SessionId("00" * 16)).plan
        least = least_memory(plan)
        takes = predict(replace(plan, memory=least), in_memory=False).memory
        # Wider panels wait for each other no longer and may take less; what does not grow with m comes on top.
        assert 0.8 * least <= takes <= 1.01 * least + (16 << 20)
