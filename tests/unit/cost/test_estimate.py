"""What the cost model predicts is what the metered transport counts and what a user's arrays take."""

import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest

from fedsvd.cost.estimate import predict
from fedsvd.cost.traffic import Expected, full_rank, messages_of
from fedsvd.engine.player import Player
from fedsvd.protocol.messages import SumReply
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.parties import user
from fedsvd.protocol.sums import order_steps
from fedsvd.protocol.tasks import LINKS, Family, Item, Mode, Split, Task, Trust
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation
from fedsvd.types import SessionId

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")

H, V = Split.HORIZONTAL, Split.VERTICAL
FACTORS = (Item.COMPONENTS, Item.SPECTRUM)
SCHEMES = ("sum", "mask")


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
    # With these singular values the trace shows that little is left out.
    federation = Federation(tables, Task.LSA, V, scheme=scheme, scratch=tmp_path, **asked)
    counted, predicted = traffic_of(federation, searched=False)
    assert predicted == counted


@pytest.mark.parametrize("scheme", ["sum", "mask"])
@pytest.mark.parametrize("release", [(Item.COMPONENTS, Item.MEAN), (Item.COMPONENTS, Item.MEAN, Item.SPECTRUM)])
def test_bytes_of_a_search_outside_of_the_components_are_exact(scheme, release):
    flat = np.random.default_rng(4).normal(size=(90, 36))
    federation = Federation(cut(flat, H), Task.PCA, H, components=2, scheme=scheme, release=release)
    counted, predicted = traffic_of(federation)
    assert order_steps(federation.plan) > 2
    assert predicted == counted


@pytest.mark.parametrize("scheme", ["sum", "mask"])
@pytest.mark.parametrize("release", [(Item.COMPONENTS, Item.MEAN), (Item.COMPONENTS, Item.MEAN, Item.SPECTRUM)])
def test_bytes_are_exact_where_so_little_is_outside_that_it_is_not_searched(scheme, release):
    flat = np.random.default_rng(4).normal(size=(90, 12))
    federation = Federation(cut(flat, H), Task.PCA, H, components=2, scheme=scheme, release=release)
    counted, predicted = traffic_of(federation)
    assert order_steps(federation.plan) == 0
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


@pytest.mark.parametrize(
    ("family", "alpha"),
    [(Family.BINOMIAL, 0.0), (Family.GAUSSIAN, 0.0), (Family.GAUSSIAN, 0.5), (Family.MULTINOMIAL, 0.0)],
)
def test_bytes_of_a_model_are_exact_for_the_iterations_it_took(family, alpha):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(240, 2)), rng.integers(0, 2 + (family is Family.MULTINOMIAL), 240).astype(float)
    about = ModelPlan(family, LINKS[family][0], classes=3 if family is Family.MULTINOMIAL else 0)
    federation = Federation(np.split(X, 3), Task.GLM, H, labels=np.split(y, 3), alpha=alpha, glm=about)
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


@pytest.mark.slow
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
    ],
    ids=["sum A", "sum B", "tall", "pca", "few records", "mask", "regression"],
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
