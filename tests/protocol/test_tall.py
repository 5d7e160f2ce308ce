"""A matrix that memory does not hold: rows stream through a file, U comes in panels, nothing is lost (6.2)."""

import mmap
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.tolerances import EPS, VALUES_BAR, assert_close, digits_lost

from fedsvd.cost.estimate import predict
from fedsvd.errors import AnswerRefused, SplitView, StorageError, UnexpectedMessage, VerificationFailed
from fedsvd.linalg.windows import Form
from fedsvd.protocol.messages import FactorRows, Factors, Finished, RowsRequest
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.roles.service_provider import factorise
from fedsvd.testing.federation import Federation

from .cases import svd, tall

M, WIDTHS = 2400, (7, 12, 1)
MEMORY = 48 * sum(WIDTHS) * 600  # eighteen times less than four copies of X'

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def parts(condition=1e6):
    rng, n = np.random.default_rng(5), sum(WIDTHS)
    U, V = (np.linalg.qr(rng.normal(size=(side, n)))[0] for side in (M, n))
    return np.split(U * np.logspace(0, -np.log10(condition), n) @ V.T, np.cumsum(WIDTHS)[:-1], axis=1)


def federation(tmp_path, task=Task.SVD, split=Split.VERTICAL, **asked):
    asked = {"scheme": "mask", "memory": MEMORY} | asked
    tables = parts() if split is Split.VERTICAL else [X_i.T.copy() for X_i in parts()]
    return Federation(tables, task, split, scratch=tmp_path, **asked)


def test_a_tall_svd_beyond_the_memory_is_that_of_the_joint_data(tmp_path):
    made = federation(tmp_path)
    found = made.run()
    assert made.plan.tall
    assert len(made.plan.panels) > 2
    X, n = np.hstack(parts()), sum(WIDTHS)
    for X_i, result in zip(parts(), found, strict=True):
        assert np.linalg.norm(result.U * result.sigma @ result.Vt_i - X_i) <= VALUES_BAR * np.linalg.norm(X)
    Vt = np.hstack([result.Vt_i for result in found])
    assert_close(found[0].sigma, np.linalg.svd(X, compute_uv=False), VALUES_BAR)
    for Q in (found[0].U, Vt.T):
        assert np.linalg.norm(Q.T @ Q - np.eye(n)) <= 64 * EPS * (n + 16)


def test_pca_with_more_features_than_memory_holds_is_that_of_the_joint_data(tmp_path):
    made = federation(tmp_path, Task.PCA, Split.HORIZONTAL, components=3, unit_variance=True)
    found = made.run()
    assert made.plan.tall
    D = np.hstack(parts()).T
    D = (D - D.mean(axis=0)) / D.std(axis=0)
    _, _, Vt = np.linalg.svd(D, full_matrices=False)
    assert np.linalg.norm(found[0].U @ (found[0].U.T @ Vt[:3].T) - Vt[:3].T) <= digits_lost(7)
    scores = np.vstack([result.scores_i for result in found])
    assert_close(np.abs(scores), np.abs(D @ Vt[:3].T), digits_lost(8))


@pytest.mark.parametrize("asked", [{}, {"components": 4}, {"release": (Item.COMPONENTS, Item.SPECTRUM)}])
def test_bytes_and_messages_are_predicted(asked, tmp_path):
    made = federation(tmp_path, Task.LSA, **asked)
    made.run()
    # Twenty singular values over six decades want their vectors corrected; the first four of them do not.
    cost = predict(made.plan, well_conditioned="components" in asked, searched=False)
    assert cost.bytes_by_link == made.certificate.bytes_by_link
    assert cost.messages_by_link == made.certificate.messages_by_link


def test_no_message_holds_more_than_a_panel_of_u(tmp_path):
    made = federation(tmp_path)
    made.run()
    panels = [rows for _, rows in made.views.of(user(1), FactorRows)]
    assert [rows.U_masked.shape for rows in panels] == [(rows, sum(WIDTHS)) for rows, _ in made.plan.panels]
    assert all(factors.U_masked.size == 0 for _, factors in made.views.of(user(1), Factors))


def test_a_u_too_long_for_memory_lies_on_disk(tmp_path):
    result, *_ = federation(tmp_path).run()
    base = result.U
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(getattr(base, "obj", base), mmap.mmap)
    assert list(tmp_path.iterdir()) == []


def test_where_memory_holds_it_u_is_one_message_under_the_same_masks(tmp_path):
    made, streamed = federation(tmp_path, memory=1 << 30), federation(tmp_path)
    made.run(), streamed.run()
    assert not made.plan.tall
    assert not made.views.of(user(1), FactorRows)
    assert (made.plan.left, made.plan.right) == (streamed.plan.left, streamed.plan.right) == (Form.HAAR, Form.HAAR)


@pytest.mark.parametrize(
    ("m", "memory", "what"), [(M, 32 * M - 1, "a column of 2400 rows"), (50, 12 * sum(WIDTHS) ** 2 - 1, "Q")]
)
def test_a_budget_below_a_column_or_q_is_refused_before_anything_is_sent(m, memory, what, tmp_path):
    made = Federation([X_i[:m] for X_i in parts()], scheme="mask", memory=memory, scratch=tmp_path)
    with pytest.raises(StorageError, match=what):
        made.run()
    assert not made.sent


WRONG = {
    "the rows of another panel": (lambda told: replace(told, panel=told.panel + 1), AnswerRefused),
    "a row less": (lambda told: replace(told, U_masked=told.U_masked[1:]), AnswerRefused),
    "not a number": (lambda told: replace(told, U_masked=told.U_masked * np.nan), AnswerRefused),
    # By itself each panel could be an honest one: all are compared with the other users', and none is used before.
    "columns that are not orthonormal": (lambda told: replace(told, U_masked=told.U_masked * 1.001), SplitView),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_user_takes_no_rows_of_u_that_it_did_not_ask_for(fault):
    wrong, error = WRONG[fault]

    def meddle(origin, to, message):
        return [wrong(message) if isinstance(message, FactorRows) and to == user(2) else message]

    with pytest.raises(error):
        tall().run(meddle=meddle)


@pytest.mark.parametrize(("make", "panel"), [(tall, 99), (tall, -1), (partial(svd, scheme="mask"), 0)])
def test_the_csp_sends_no_rows_of_u_that_there_are_not(make, panel):
    def meddle(origin, to, message):
        asks = isinstance(message, Finished) and origin == user(1)
        return [RowsRequest(message.plan, panel)] if asks else [message]

    with pytest.raises(UnexpectedMessage, match=r"rows of U'|not the next step"):
        make().run(meddle=meddle)


def test_a_wrong_second_pass_is_not_released(monkeypatch):
    real = factorise.two_pass_svd

    def wrong(R, *rest):
        R = R.copy()
        R[0, -1] += 1e-6 * np.abs(R).max()
        return real(R, *rest)

    monkeypatch.setattr(factorise, "two_pass_svd", wrong)
    made = tall()
    with pytest.raises(VerificationFailed, match="nothing was released"):
        made.run()
    assert not made.views.of(user(1), Factors)
