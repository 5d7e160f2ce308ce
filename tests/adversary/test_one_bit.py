"""What a CSP that answers wrongly learns from whether users go on: one bit, and nothing in it of any single user.

After an answer of the CSP users send sums, which it cannot read, and stop or go on. That must be a joint decision (the
same at all users), and a function of what the CSP has seen and said: not of the basis in which users hold their data,
and not of how the data is divided.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from tests.tolerances import assert_close, digits_lost

from fedsvd.errors import FedSVDError, PrivacyWarning
from fedsvd.protocol.messages import Aborted, Factors, Solution, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.sums import null_space_sum
from fedsvd.protocol.tasks import Check, Split, Task
from fedsvd.testing.federation import Federation, altering

ROWS = {"split": Split.HORIZONTAL}


@pytest.fixture(autouse=True)
def _quiet():
    warnings.simplefilter("ignore", PrivacyWarning)


def outcome(session, meddle):
    """The code a session stops with, or None; and what was sent of the stop."""
    try:
        session.run(meddle=meddle)
    except FedSVDError as error:
        return error.code, {(str(o), m.code, m.stage) for o, _, m in session.sent if isinstance(m, Aborted)}
    return None, set()


# --- the basis --------------------------------------------------------------------------------------------------------

M = 64


def in_basis(spread):
    """Two tables of one spectrum and mean zero: singular vectors are features, or all features alike."""
    rng = np.random.default_rng(1)
    sizes = np.geomspace(4.0, 1.0, M)
    frames = [np.linalg.qr(rng.standard_normal((80, M)))[0] * np.sqrt(0.5) for _ in range(2)]
    V = scipy.linalg.hadamard(M) / np.sqrt(M) if spread else np.eye(M)
    return [np.concatenate((half, -half)) for half in (frame * sizes @ V.T for frame in frames)]


def turned(angle):
    """The first two vectors of an answer turned among themselves."""

    def lie(said: Factors):
        U = said.U_masked.copy()
        U[:, 0] = np.cos(angle) * said.U_masked[:, 0] - np.sin(angle) * said.U_masked[:, 1]
        U[:, 1] = np.sin(angle) * said.U_masked[:, 0] + np.cos(angle) * said.U_masked[:, 1]
        return [replace(said, U_masked=U)]

    return altering(Factors, lie)


def test_whether_users_go_on_does_not_show_the_basis_of_their_features():
    """The largest entry of a residual is eight times smaller where it is spread over 64 features; its length is not."""
    angles = np.geomspace(1e-15, 1e-9, 25)
    codes = []
    for spread in (False, True):
        session = Federation(in_basis(spread), Task.PCA, components=2, **ROWS)
        codes.append([outcome(session, turned(angle))[0] for angle in angles])
    assert codes[0] == codes[1]
    assert set(codes[0]) == {None, "FSVD-305"}  # the lies reach from what rounding hides to what is refused


# --- one user's own digits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [Check.SAMPLE, Check.ALL])
@pytest.mark.parametrize("scheme", ["sum", "mask"])
def test_a_user_whose_data_is_below_the_digits_of_the_result_does_not_stop_alone(check, scheme):
    """Its own residual is all of its data, where a direction of it is below the rank; the joint one is rounding."""
    rng = np.random.default_rng(2)
    tables = [rng.standard_normal((12, 4)) * [1.0, 1.0, 1.0, 0.0] for _ in range(2)]
    tables.append(rng.standard_normal((9, 4)) * [0.0, 0.0, 0.0, 1e-18])
    session = Federation(tables, Task.SVD, check=check, scheme=scheme, **ROWS)
    results = session.run()
    joint = np.concatenate(tables)
    for result in results:
        assert_close(result.sigma[:3], np.linalg.svd(joint, compute_uv=False)[:3], digits_lost(5))
    assert results[2].verified.residual == pytest.approx(1.0)  # known to its owner, and to no other


@pytest.mark.parametrize("check", [Check.SAMPLE, Check.ALL])
def test_a_wrong_part_of_one_user_stops_all_of_them_in_the_same_state(check, monkeypatch):
    from fedsvd.roles.user import svd

    passed = svd.second_pass

    def spoilt(work, *rest):
        kept, verified, gram, error = passed(work, *rest)
        return kept, verified, gram, error + (1.0 if work.i == 1 else 0.0)

    monkeypatch.setattr(svd, "second_pass", spoilt)
    tables = [np.random.default_rng(i).standard_normal((9, 4)) for i in range(3)]
    session = Federation(tables, Task.SVD, check=check, **ROWS)
    with pytest.raises(FedSVDError) as stopped:
        session.run()
    assert stopped.value.code == "FSVD-305"
    shared = [(str(o), m.name) for o, _, m in session.sent if isinstance(m, SumShare)]
    assert {who for who, name in shared if name == "reconstruction"} == {"user 1", "user 2", "user 3"}
    assert not session.released


# --- null spaces on split columns -------------------------------------------------------------------------------------


def columns(lost):
    """Nine rows of 2 + 3 columns; with ``lost`` the last is the first again."""
    rng = np.random.default_rng(3)
    tables = [rng.standard_normal((9, n_i)) * (1.0 + np.arange(n_i)) for n_i in (2, 3)]
    if lost:
        tables[1][:, 2] = tables[0][:, 0]
    return Federation(tables, Task.LR, labels=[rng.standard_normal(9), None]), tables


def claiming(session, null_of):
    """A CSP that claims this null space, and adds up the sum that goes with it."""

    def lie(said: Solution):
        null = null_of(said)
        rank = null.shape[0] - null.shape[1]
        needed = null_space_sum(session.plan, rank)
        if needed is not None:
            session.machines[CSP].planned[needed.name] = needed
        return [replace(said, null_masked=null, rank=rank)]

    return altering(Solution, lie)


def some_directions(count):
    return lambda said: np.linalg.qr(np.random.default_rng(1).standard_normal((5, count)))[0]


@pytest.mark.parametrize(
    ("lost", "null_of"),
    [
        (False, some_directions(1)),
        (False, some_directions(5)),
        (True, some_directions(1)),
        (True, lambda said: np.linalg.qr(np.column_stack((said.null_masked, np.eye(5)[:, :1])))[0]),
    ],
    ids=["one", "all", "another one", "one more"],
)
def test_a_null_space_that_is_not_one_is_refused_before_the_sum_that_uses_it_is_opened(lost, null_of):
    session, _ = columns(lost)
    code, _ = outcome(session, claiming(session, null_of))
    assert code == "FSVD-305"
    assert not session.released
    # The label holder checks, and sends no share before: a sum without one is words that say nothing.
    assert not [1 for o, _, m in session.sent if o == user(1) and isinstance(m, SumShare) and m.name == "null space"]


def test_a_true_null_space_passes_and_the_solution_is_the_least_one():
    session, tables = columns(lost=True)
    found = session.run()
    w = np.concatenate([result.coefficients[0] for result in found])
    X = np.concatenate(tables, axis=1)
    y = session.parties[0].labels[:, 0]
    expected = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    assert_close(w, expected, digits_lost(5))
