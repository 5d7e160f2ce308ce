"""Own parts panel by panel: kept elsewhere than in memory they are the same, and what is wrong with them is found."""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost, gram, product

from fedsvd.cost.estimate import predict
from fedsvd.data.open import open_source
from fedsvd.errors import VerificationFailed
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Check, Split, Task
from fedsvd.roles.user import svd
from fedsvd.roles.user.work import InMemory, Nowhere
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import UserFiles, run_study
from fedsvd.studies.study import Study

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
M, N = 12, 9000
SMALL = 48 * M * 4096  # bytes: panels of 4096 columns, so that there are several


def parts(spread: float) -> list[np.ndarray]:
    X = np.random.default_rng(3).normal(size=(M, N)) * np.logspace(0, -spread, M)[:, None]
    return [X[:, :4000], X[:, 4000:]]


def study(**asked) -> Study:
    return Study(Task.SVD, Split.VERTICAL, scheme="sum", memory=SMALL, **asked)


def run(X, sink=None, **asked):
    def files(plan, i):
        return UserFiles(sink=sink() if sink else None)

    parties = [PartyData(open_source(X_i)) for X_i in X]
    return run_study(study(**asked), parties, random_state=1, files=files, record=True)


@pytest.mark.parametrize("spread", [0.5, 9.0], ids=["well conditioned", "corrected"])
def test_a_part_kept_panel_by_panel_is_the_part_in_memory(spread):
    X = parts(spread)
    whole = [result.Vt_i for result in run(X).parties]
    kept = [result.Vt_i for result in run(X, InMemory).parties]
    for one, other in zip(whole, kept, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=product(M) * 10 ** (spread / 2))
    V = np.hstack(kept)
    np.testing.assert_allclose(V @ V.T, np.eye(M), rtol=0, atol=gram(N))
    _, sigma, Vt = np.linalg.svd(np.hstack(X), full_matrices=False)
    assert_close(np.abs(np.sum(V * Vt, axis=1))[sigma > digits_lost(10) * sigma[0]], 1, digits_lost(7))


@pytest.mark.parametrize("spread", [0.5, 9.0], ids=["well conditioned", "corrected"])
def test_all_panels_are_verified_against_the_data_and_each_other(spread):
    outcome = run(parts(spread), Nowhere, check=Check.ALL)
    for result, count in zip(outcome.parties, (4000, 5000), strict=True):
        assert result.Vt_i is None
        assert (result.verified.columns, result.verified.of) == (count, count)
        assert result.verified.residual < product(M)
        assert result.verified.orthogonality < M * gram(N)
    asked = [message.name for _, message in outcome.views.of(CSP, SumShare)]
    assert asked.count("verified") == 2
    predicted = predict(outcome.plan, well_conditioned=spread < 1, in_memory=False)
    assert predicted.bytes_total == outcome.certificate.bytes_total


def test_a_sample_makes_some_panels_and_needs_no_sum(monkeypatch):
    monkeypatch.setattr(svd, "SAMPLED_PANELS", 2)
    X = np.random.default_rng(3).normal(size=(M, 40_000))
    outcome = run([X[:, :20_000], X[:, 20_000:]], check=Check.SAMPLE)
    for result in outcome.parties:
        assert result.Vt_i is None
        assert result.verified.columns == 4096 + 20_000 % 4096
        assert result.verified.orthogonality is None
    assert "verified" not in [message.name for _, message in outcome.views.of(CSP, SumShare)]


@pytest.mark.parametrize("check", [Check.ALL, Check.SAMPLE])
def test_a_part_that_does_not_fit_the_data_is_refused(check, monkeypatch):
    monkeypatch.setattr(svd, "own_vectors", _of_another_basis)
    monkeypatch.setattr("fedsvd.roles.user.svd.own_vectors", _of_another_basis)
    with pytest.raises(VerificationFailed, match="residual"):
        run(parts(0.5), check=check)


_own_vectors = svd.own_vectors


def _of_another_basis(work, U, sigma, product=None, solved=None):
    tilted = U.copy()
    tilted[:, 0] += 1e-6 * U[:, 1]
    return _own_vectors(work, tilted, sigma)


def test_scores_go_to_a_sink_too():
    D = np.random.default_rng(0).normal(size=(9000, 5))
    parties = [PartyData(open_source(D_i)) for D_i in (D[:4000], D[4000:])]
    asked = Study(Task.PCA, components=2)
    whole = run_study(asked, parties, random_state=1)
    kept = run_study(asked, parties, random_state=1, files=lambda plan, i: UserFiles(sink=InMemory()))
    none = run_study(asked, parties, random_state=1, files=lambda plan, i: UserFiles(sink=Nowhere()))
    for one, other, nothing in zip(whole.parties, kept.parties, none.parties, strict=True):
        np.testing.assert_array_equal(one.scores_i, other.scores_i)
        assert nothing.scores_i is None
