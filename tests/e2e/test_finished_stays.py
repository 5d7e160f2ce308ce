"""A finished study stays finished, whichever role is killed at its end; one resume asks for all approvals at once."""

from time import monotonic, sleep

import numpy as np
import pytest
from tests.e2e.federations import PARTIES, federation_in_trouble, job_file
from tests.e2e.outcomes import LONGEST, settled
from tests.tolerances import spectrum

from fedsvd.results.folder import UNFINISHED
from fedsvd.results.write import read_result
from fedsvd.service.records import AWAITS_APPROVAL, JobState
from fedsvd.service.site import Site

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")]
MEMBERS = tuple(f"party/{name}" for name in PARTIES)


@pytest.fixture
def federation(tmp_path):
    with federation_in_trouble(tmp_path) as federation:
        yield federation.lay_data()


def until(true, what):
    deadline = monotonic() + LONGEST
    while not true():
        assert monotonic() < deadline, what
        sleep(0.1)


def results(federation, id):
    return [
        folder for name in PARTIES for folder in (federation.kits[f"party/{name}"] / "results").glob(f"*-{id[:8]}*")
    ]


@pytest.mark.chaos("kill -9", "all roles when all have enlisted, before a session is opened", "done when they are back")
def test_a_csp_killed_before_it_opened_a_session_opens_it_when_it_is_back(federation):
    process = federation.start_with_fault("csp/csp", "dies-planning")
    for member in MEMBERS:
        federation.start(member, how="processes")
    with federation.client() as client:
        id = client.submit(job_file()).id
        assert process.wait(LONGEST) == -9
        for member in MEMBERS:  # whose calls would be repeated, and open the session
            federation.kill(member)
        federation.start("csp/csp", *MEMBERS)
        done = settled(client, id, {"done", "broken"})
    assert (done.state, done.attempt, done.failures) == (JobState.DONE, 1, ())
    federation.expect_right()


@pytest.mark.chaos("kill -9", "the CSP as the last member ends, before that is on its disk", "done after its restart")
def test_a_csp_killed_before_it_wrote_the_last_end_finishes_the_job_when_it_is_back(federation):
    process = federation.start_with_fault("csp/csp", "dies-unsaid:3")
    federation.start(*MEMBERS)
    with federation.client() as client:
        id = client.submit(job_file()).id
        assert process.wait(LONGEST) == -9
        federation.start("csp/csp")
        done = settled(client, id, {"done", "broken"})
    assert (done.state, done.attempt, done.failures) == (JobState.DONE, 1, ())
    federation.expect_right()
    assert len(results(federation, id)) == len(PARTIES)
    assert not any((folder / UNFINISHED).exists() for folder in results(federation, id))


@pytest.mark.chaos("kill -9", "a party that has its results, before it reports its end", "done when it is back")
def test_a_party_killed_before_it_said_that_it_had_ended_finishes_the_job_when_it_is_back(federation):
    federation.start("csp/csp", "party/a", "party/c")
    process = federation.start_with_fault("party/b", "dies-unsaid:0")
    with federation.client() as client:
        id = client.submit(job_file()).id
        assert process.wait(LONGEST) == -9
        settled(client, id, {"broken"})  # the CSP has missed it, and the others have marked their results
        until(lambda: sum((folder / UNFINISHED).exists() for folder in results(federation, id)) == 2, "not marked")
        federation.start("party/b")
        done = settled(client, id, {"done"})
        assert (done.attempt, done.failures) == (1, ())
        until(lambda: not any((folder / UNFINISHED).exists() for folder in results(federation, id)), "still marked")
    federation.expect_right()


@pytest.mark.chaos(
    "kill -9", "a party before it seals results for the researcher, then the CSP", "sealed when it is back"
)
def test_a_researcher_gets_its_results_after_a_kill_of_the_party_and_of_the_csp_at_the_end(federation):
    for name in PARTIES:
        path = federation.kits[f"party/{name}"] / "policy.toml"
        path.write_text(path.read_text() + 'researcher = "shared"\n')
    federation.start("csp/csp", how="processes")
    federation.start("party/b", "party/c")
    process = federation.start_with_fault("party/a", "dies-unsaid:0")  # the one that sends the files
    with federation.connect() as connection:
        id = connection.submit(job_file())
        assert process.wait(LONGEST) == -9
        federation.kill("csp/csp")
        federation.start("csp/csp", "party/a")
        assert connection.wait(id, timeout=LONGEST).folder is not None
        sigma = read_result(connection.results(id).folder).arrays["singular_values"]
    expected = np.linalg.svd(federation.D, compute_uv=False)
    np.testing.assert_allclose(sigma, expected, rtol=0, atol=spectrum(*federation.D.shape) * expected[0])


@pytest.mark.chaos(
    "kill -9", "the CSP as the first member ends, before that is on its disk", "done, or resumed once; right"
)
def test_a_csp_killed_before_it_wrote_the_first_end_costs_one_resume_at_most(federation):
    process = federation.start_with_fault("csp/csp", "dies-unsaid:1")
    federation.start(*MEMBERS)
    with federation.client() as client:
        id = client.submit(job_file()).id
        assert process.wait(LONGEST) == -9
        federation.start("csp/csp")
        ended = settled(client, id, {"done", "broken"})
        if ended.state is JobState.BROKEN:
            federation.approve_again(client.job(id))
            client.resume(id)
            ended = settled(client, id, {"done", "broken"})
    assert ended.state is JobState.DONE
    assert ended.attempt <= 2
    federation.expect_right()


@pytest.mark.chaos("kill -9", "a party in WRITING, when others have finished", "one resume; all are asked at once")
def test_parties_that_must_approve_again_are_all_waited_for_at_once(federation):
    federation.start("csp/csp", "party/a", "party/c")
    process = federation.start_with_fault("party/b", "dies-unsaid:0")
    with federation.client() as client:
        id = client.submit(job_file()).id
        assert process.wait(LONGEST) == -9
        settled(client, id, {"broken"})
        client.resume(id)  # in haste, before party b was back

        def asked():
            job = client.job(id)
            return {name for name, progress in job.progress.items() if progress.stage == AWAITS_APPROVAL}

        federation.start("party/b")
        until(lambda: asked() == set(MEMBERS), "not all were asked")
        assert client.job(id).state is JobState.RECRUITING
        for member in MEMBERS:
            Site.at(federation.kits[member]).approvals().give(client.job(id))
        done = settled(client, id, {"done", "broken"})
    assert (done.state, done.attempt) == (JobState.DONE, 2)
    federation.expect_right()
