"""The CSP verifies before it releases: a solver or a memory that went wrong in silence ends the session with an error.

Each test breaks one thing inside the CSP, as a flipped bit or a broken library could, and nobody hears of factors.
"""

import numpy as np
import pytest
from tests.tolerances import digits_lost

from fedsvd.errors import VerificationFailed
from fedsvd.linalg import dense_svd as solver
from fedsvd.linalg import rounded_gram
from fedsvd.linalg.dense_svd import SVD, dense_svd
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.protocol.messages import Factors, Solution
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Mode
from fedsvd.roles.service_provider import factorise
from fedsvd.roles.user import opening
from fedsvd.testing.federation import every_order

from .cases import lr_horizontal, lr_vertical, pca, svd, tall

FAULTS = {
    "a singular value": lambda U, s, Vt: SVD(U, s * (1 + 1e-9 * (np.arange(len(s)) == 1)), Vt),
    "a left vector": lambda U, s, Vt: SVD(U + 1e-9 * (np.arange(U.size).reshape(U.shape) == 1), s, Vt),
    "a right vector": lambda U, s, Vt: SVD(U, s, Vt + 1e-9 * (np.arange(Vt.size).reshape(Vt.shape) == 1)),
    "two vectors exchanged": lambda U, s, Vt: SVD(U[:, np.r_[1, 0, 2 : U.shape[1]]], s, Vt),
    "not a number": lambda U, s, Vt: SVD(U, s * np.where(np.arange(len(s)) == 0, np.nan, 1.0), Vt),
}


def nobody_heard(federation):
    return not any(federation.views.of(user(i), kind) for i in (1, 2) for kind in (Factors, Solution))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("make", [lambda: svd(mode=Mode.B), pca, lambda: svd(scheme="mask")])
def test_a_wrong_factorisation_is_not_released(fault, make, monkeypatch):
    monkeypatch.setattr(factorise, "dense_svd", lambda A: FAULTS[fault](*dense_svd(A)))
    federation = make()
    with pytest.raises(VerificationFailed, match="nothing was released"):
        federation.run()
    assert nobody_heard(federation)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "a right vector"])  # which is not sent
@pytest.mark.parametrize("k", [2, 3])
def test_where_users_factorise_the_others_do_not_accept_what_user_1_got_wrong(fault, k, monkeypatch):
    """Mode A: the CSP factorises nothing, so the users verify each other before anything is released."""
    monkeypatch.setattr(opening, "dense_svd", lambda A: FAULTS[fault](*dense_svd(A)))
    federation = svd(k)
    with pytest.raises(VerificationFailed, match="not those of the joint Gram matrix"):
        federation.run()
    assert not federation.results


@pytest.mark.parametrize("make", [lr_vertical, lr_horizontal])
def test_a_wrong_solve_is_not_released(make, monkeypatch):
    solved = solver.of_full_rank
    monkeypatch.setattr(factorise, "solution_of_rounded", lambda *given: None)  # as of features that are not even
    monkeypatch.setattr(solver, "of_full_rank", lambda *given: solved(*given) * (1 + 1e-9))
    federation = make()
    with pytest.raises(VerificationFailed, match="nothing was released"):
        federation.run()
    assert nobody_heard(federation)


@pytest.mark.parametrize("make", [lr_vertical, lr_horizontal])
@pytest.mark.parametrize("fault", ["a singular value", "a left vector", "two vectors exchanged"])
def test_a_wrong_solution_is_not_released(fault, make, monkeypatch):
    monkeypatch.setattr(factorise, "solution_of_rounded", lambda *given: None)  # as of features that are not even
    monkeypatch.setattr(solver, "of_full_rank", lambda *given: None)  # as where the rank is not proved
    monkeypatch.setattr(solver, "dense_svd", lambda A: FAULTS[fault](*dense_svd(A)))
    federation = make()
    with pytest.raises(VerificationFailed, match="nothing was released"):
        federation.run()
    assert nobody_heard(federation)


def test_a_wrong_factor_of_normal_equations_is_not_released(monkeypatch):
    factored = rounded_gram.cholesky
    monkeypatch.setattr(rounded_gram, "cholesky", lambda K: factored(K) * (1 + 1e-5))
    federation = lr_horizontal()
    with pytest.raises(VerificationFailed, match="nothing was released"):
        federation.run()
    assert nobody_heard(federation)


@pytest.mark.parametrize("make", [lr_vertical, tall], ids=["lr", "tall"])
def test_a_factor_that_went_wrong_while_panels_came_in_is_not_used(make, monkeypatch):
    """The panels are forgotten by then: the probe beside the factor finds it."""
    factor = StreamingFactor.factor

    def flipped(self):
        R = np.array(factor(self))
        R[0, -1] *= 1 + 1e-6
        return R

    monkeypatch.setattr("fedsvd.roles.service_provider.collect.StreamingFactor.factor", flipped)
    federation = make()
    with pytest.raises(VerificationFailed, match="disagrees with its probe"):
        federation.run()
    assert nobody_heard(federation)


@pytest.mark.parametrize("mode", list(Mode))
def test_what_is_released_was_verified_to_rounding(mode):
    federation = svd(mode=mode)
    for _ in every_order(federation.run, most=1):
        assert federation.certificate.residual <= digits_lost(2)
        assert federation.certificate.orthogonality <= digits_lost(2)
