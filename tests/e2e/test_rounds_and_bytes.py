"""What moves: rounds and bytes of the sum family grow neither with the data nor with k, and stay below their bars."""

import numpy as np
import pytest

from fedsvd.cost.traffic import Expected, full_rank, messages_of
from fedsvd.data.source import MatrixSource
from fedsvd.protocol.messages import PaddedBatch, SumShare, size
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Item, Mode, Split, Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation
from fedsvd.types import SessionId

H, V = Split.HORIZONTAL, Split.VERTICAL
BAR = 90e6  # bytes of an SVD of 1000 x n with two users, all links together, V's correction included
KEYS = ("KeyOffer", "KeyBook")


def study(task, n, m=20, k=2, **asked):
    """k users who share m rows and n columns between them, samples in columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, n)) * np.logspace(0, -3, m)[:, None]
    tables = [np.ascontiguousarray(X_i.T) for X_i in np.array_split(X, k, axis=1)]
    labels = [rng.normal(size=len(table)) for table in tables] if task is Task.LR else None
    return Federation(tables, task, H, labels=labels, scheme="sum", **asked)


@pytest.mark.parametrize("task", [Task.SVD, Task.PCA, Task.LSA, Task.LR])
@pytest.mark.parametrize("k", [2, 5])
def test_rounds_and_bytes_are_the_same_for_ten_times_the_data(task, k):
    asked = {"components": 4} if task in (Task.PCA, Task.LSA) else {}
    certificates = []
    for n in (400, 4000):
        run = study(task, n, k=k, **asked)
        run.run()
        certificates.append(run.certificate)
    few, many = certificates
    assert few.messages_by_link == many.messages_by_link
    assert few.bytes_by_link == many.bytes_by_link


def test_bytes_of_an_svd_stay_below_a_bar_that_goes_with_the_square_of_m():
    m = 100
    moved = []
    for n in (1000, 10_000):
        run = study(Task.SVD, n, m=m)
        run.run()
        moved.append(run.certificate.bytes_total)
    assert moved[0] == moved[1] <= BAR * (m / 1000) ** 2 * 1.1  # keys and signatures weigh more in a small study
    # Two Gram matrices and two shares of V's correction up and down, 8 m^2 bytes each; U from user 1 to the other.
    assert moved[0] >= 8 * m**2 * (4 + 4 + 2)


@pytest.mark.parametrize("components", [None, 4], ids=["mode A", "mode B"])
@pytest.mark.parametrize("k", [2, 5])
def test_a_user_sends_one_gram_matrix_of_words_whatever_k_and_the_data(components, k):
    m = 30
    run = study(Task.SVD, 3000, m=m, k=k, components=components)
    run.run()
    assert run.plan.mode is (Mode.B if components else Mode.A)
    for party in run.plan.users:
        if components:
            shares = [message.payload for who, message in run.views.of(CSP, PaddedBatch) if who == party]
        else:
            sums = [message for who, message in run.views.of(CSP, SumShare) if who == party]
            shares = [message.payload for message in sums if message.name == "gram"]
        assert sum(share.nbytes for share in shares) == 8 * m * (m + 1)


# --- the bars: planned, and as metered at small sizes -----------------------------------------------------------------


def planned(m, counts, **asked):
    return plan_study(Study(**asked), m, counts, SessionId("a session")).plan


def sent_by(plan, party):
    """Bytes that a user sends by the name of a sum, or the kind of a message."""
    found = {}
    for origin, _, message, times in messages_of(plan, Expected(full_rank(plan))):
        if origin == party:
            name = getattr(message, "name", type(message).__name__)
            found[name] = found.get(name, 0) + times * size(message)
    return found


@pytest.mark.parametrize("release", [None, (Item.COMPONENTS, Item.SPECTRUM)], ids=["with V", "without V"])
def test_an_svd_of_1000_features_takes_8_megabytes_of_a_user_whatever_k_and_8_more_where_v_is_corrected(release):
    uploads = []
    for k in (2, 10, 50):
        sent = sent_by(planned(1000, (3000,) * k, task=Task.SVD, release=release), user(2))
        assert sent.pop("orthogonality", 0) <= (8.1e6 if release is None else 0)
        uploads.append(sum(sent.values()))
    assert max(uploads) <= 8.2e6
    assert min(uploads) == max(uploads)


def test_user_1_sends_u_once_besides_in_mode_a_and_less_in_mode_b():
    for components, most in ((None, 8.1e6), (50, 5e3)):
        plans = [planned(1000, (3000,) * k, task=Task.SVD, components=components) for k in (2, 10, 50)]
        more = [sum(sent_by(plan, user(1)).values()) - sum(sent_by(plan, user(2)).values()) for plan in plans]
        assert max(more) <= most + 200 * 50  # and the users' seeds, sealed to each


def beside_keys(plan, searched=True):
    """Bytes of a session on all links, without session keys."""
    messages = messages_of(plan, Expected(full_rank(plan), searched=searched))
    return sum(times * size(message) for *_, message, times in messages if type(message).__name__ not in KEYS)


def test_a_pca_of_20_features_between_50_parties_moves_less_than_3_megabytes_beside_keys_and_compared_answers():
    compared = 200 * 50 * 49  # each sends all others a digest of the answer, before anything is computed from it
    assert beside_keys(planned(20, (400,) * 50, task=Task.PCA)) < 3e6 + compared


def test_the_top_5_of_200_features_between_50_parties_move_less_than_30_megabytes_and_6_where_order_is_searched_for():
    plan = planned(200, (400,) * 50, task=Task.PCA, components=5)
    assert beside_keys(plan, searched=False) < 30e6
    assert beside_keys(plan) - beside_keys(plan, searched=False) < 6e6


@pytest.mark.parametrize("k", [2, 10])
def test_what_is_planned_is_what_is_metered(k):
    run = study(Task.PCA, 800, m=12, k=k, components=3)
    run.run()
    metered = run.certificate.bytes_by_link
    for party in run.plan.users:
        assert sum(sent_by(run.plan, party).values()) == metered[party, CSP]


class Repeated(MatrixSource):
    """A long matrix that is one block of columns over and over, and takes no more memory than the block."""

    def __init__(self, block, times):
        super().__init__((block.shape[0], block.shape[1] * times), block.dtype)
        self._block = block

    def inspect(self):
        """The block is all there is."""

    def _cells(self, rows, columns):
        width = self._block.shape[1]
        return self._block[rows][:, np.arange(columns.start, columns.stop) % width]


@pytest.mark.slow
def test_an_svd_of_1000_by_100000_moves_at_most_90_megabytes():
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(1000, 50_000)) * np.logspace(0, -3, 1000)[:, None] for _ in range(2)]
    run = Federation(parts, Task.SVD, V)
    results = run.run()
    assert [result.Vt_i.shape for result in results] == [(1000, 50_000)] * 2
    assert run.certificate.bytes_total <= BAR


@pytest.mark.scale
def test_a_million_columns_move_as_many_bytes_as_ten_thousand():
    """U and S; that V's correction does not grow with n either is shown at smaller m above."""
    block = np.random.default_rng(2).normal(size=(1000, 5000)) * np.logspace(0, -3, 1000)[:, None]
    certificates = []
    for times in (1, 100):
        run = Federation(
            [Repeated(block, times), Repeated(block, times)], Task.SVD, V, release=(Item.COMPONENTS, Item.SPECTRUM)
        )
        run.run()
        certificates.append(run.certificate)
    few, many = certificates
    assert few.bytes_by_link == many.bytes_by_link
    assert few.messages_by_link == many.messages_by_link
    assert many.bytes_total <= BAR
