"""What moves: rounds and bytes of the compressed scheme do not grow with the data, and stay below their bars."""

import numpy as np
import pytest

from fedsvd.data.source import MatrixSource
from fedsvd.protocol.messages import PaddedBatch
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.testing.federation import Federation

H, V = Split.HORIZONTAL, Split.VERTICAL
BAR = 90e6  # bytes of an SVD of 1000 x n with two users, all links together, V's correction included


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


def test_bytes_of_a_compressed_svd_stay_below_a_bar_that_goes_with_the_square_of_m():
    m = 100
    moved = []
    for n in (1000, 10_000):
        run = study(Task.SVD, n, m=m)
        run.run()
        moved.append(run.certificate.bytes_total)
    assert moved[0] == moved[1] <= BAR * (m / 1000) ** 2
    # U, S and V's correction are in it: two uploads of m x 2m words, U to both, two shares of m^2 / 2 and their sum.
    assert moved[0] >= 8 * (2 * 2 * m**2 + 2 * m**2 + 4 * m**2 / 2)


def test_a_user_uploads_as_many_bytes_as_the_joint_factor_has_words():
    run = study(Task.SVD, 3000, m=30)
    run.run()
    for party in run.plan.users:
        payloads = [message.payload for who, message in run.views.of(CSP, PaddedBatch) if who == party]
        assert sum(payload.size for payload in payloads) == 30 * 60


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
