"""A study in one process: fresh secrets unless a test asks otherwise, one more try where a bound was too narrow."""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.data.open import open_source
from fedsvd.errors import FixedPointOverflow
from fedsvd.policy.rules import Policy
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.protocol.tasks import Split, Task, Trust
from fedsvd.studies.run import PartyData, run_study
from fedsvd.studies.study import Study

SILENT = Policy(warn=False)
X = np.random.default_rng(0).normal(size=(5, 9))
SVD = Study(Task.SVD, Split.VERTICAL)
MASKED = Study(Task.SVD, Split.VERTICAL, scheme="mask")


def parties(cuts=(4,)):
    return [PartyData(open_source(X_i)) for X_i in np.split(X, cuts, axis=1)]


def run(study=SVD, **options):
    return run_study(study, parties(), policy=SILENT, **options)


def payload(outcome):
    """The first padded share of the Gram matrix that the CSP heard."""
    return next(message.payload for _, message in outcome.views.of(CSP, SumShare) if message.name == "gram")


def test_each_run_has_its_own_session_keys_masks_and_pads():
    first, second = run(record=True), run(record=True)
    assert first.plan.session != second.plan.session
    assert not set(first.plan.identities) & set(second.plan.identities)
    assert not np.any(payload(first) == payload(second))


def test_a_random_state_repeats_every_bit_and_another_one_none():
    first, again, other = (run(random_state=state, record=True) for state in (3, 3, 4))
    np.testing.assert_array_equal(payload(first), payload(again))
    assert first.parties[0].U.tobytes() == again.parties[0].U.tobytes()
    assert first.plan == again.plan
    assert not np.any(payload(first) == payload(other))


def test_parties_have_secrets_of_their_own():
    outcome = run(random_state=0, record=True)
    shares = [message.payload for _, message in outcome.views.of(CSP, SumShare) if message.name == "gram"]
    assert not np.any(shares[0] == shares[1])
    assert len(set(outcome.plan.identities)) == 3


@pytest.fixture
def narrow(monkeypatch):
    """A usual bound that entries exceed, which chance alone would do once in 1e26."""
    monkeypatch.setattr("fedsvd.secagg.fixed_point.bound", lambda c, F, w_m, w_n: 0.01 * c * F)


@pytest.mark.usefixtures("narrow")
def test_an_overflow_of_the_usual_bound_starts_again_under_the_certain_one():
    outcome = run(MASKED, record=True)
    assert outcome.plan.certain_bound
    assert_close(outcome.parties[0].sigma, np.linalg.svd(X, compute_uv=False), digits_lost(3))


def test_the_second_try_is_a_session_of_its_own(request):
    usual = run(MASKED, random_state=5)
    request.getfixturevalue("narrow")
    again = run(MASKED, random_state=5)
    assert (usual.plan.certain_bound, again.plan.certain_bound) == (False, True)
    assert usual.plan.session != again.plan.session


def test_an_overflow_of_the_certain_bound_is_an_error(monkeypatch):
    monkeypatch.setattr("fedsvd.roles.user.upload.entry_bound", lambda work, F: 1e-9)
    with pytest.raises(FixedPointOverflow, match="beyond the bound"):
        run(MASKED)


def test_progress_names_party_stage_and_how_far():
    seen = []
    run(MASKED, progress=lambda *told: seen.append(told))
    assert {party for party, *_ in seen} == {"user-1", "user-2", "csp"}
    assert [told for told in seen if told[1] == "reading"] == [
        (f"user-{i}", "reading", done, 1) for i in (1, 2) for done in (0, 1)
    ]
    assert ("user-1", "right vectors", 1, 1) in seen  # made of the product of the checks, without another pass
    assert all(0 <= done <= total for _, _, done, total in seen)


def test_views_are_there_when_asked_for():
    assert run().views is None
    outcome = run(record=True)
    assert set(outcome.views.received) == {CSP, user(1), user(2)}


def test_how_long_data_was_read_is_a_stage_of_every_party():
    certificate = run().certificate
    read = {party: seconds for (party, stage), seconds in certificate.seconds_by_stage.items() if stage == "reading"}
    assert set(read) == {user(1), user(2)}
    for party, seconds in read.items():
        began = {stage: at for (who, stage), at in certificate.began_by_stage.items() if who == party}
        assert began.pop("reading") == 0.0
        assert all(at >= seconds for at in began.values())


def test_the_outcome_says_why_and_how_good():
    outcome = run_study(Study(Task.SVD, Split.VERTICAL, trust=Trust.AUTHORITY), parties(), policy=SILENT)
    assert outcome.why
    assert outcome.certificate.rank == 5
    assert (TA, CSP) in outcome.certificate.bytes_by_link
    record = outcome.certificate.record()
    assert record["bytes_total"] == sum(record["bytes_by_link"].values())
    assert record["plan_digest"] == outcome.plan.digest
    assert set(record["versions"]) == {"fedsvd", "protocol", "python", "numpy", "scipy"}


def test_results_and_data_do_not_show_numbers():
    outcome = run()
    assert repr(outcome.parties[0]) == "FactorsResult(U=(5, 5), rank=5)"
    assert repr(parties()[0]) == "PartyData(table=(5, 4), labels=False)"
    numbers = [f"{abs(value):.3f}" for value in (*outcome.parties[0].sigma, *X.ravel())]
    assert not [number for number in numbers if number in repr(outcome)]
