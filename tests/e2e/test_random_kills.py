"""kill -9 of roles at random moments: the job ends right, after one ``resume`` a kill at most, and nothing hangs.

What is killed, when, and which study runs follow from a seed: a hundred in ``make test-all``, two in ``make test``.
"""

from time import monotonic, sleep

import numpy as np
import pytest
from tests.e2e.federations import PARTIES, federation_in_trouble, job_file
from tests.e2e.outcomes import LONGEST

from fedsvd.errors import FedSVDError
from fedsvd.service.client import Refused
from fedsvd.service.records import JobState

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
QUICK, ALL = 2, 100
STUDIES = (
    {},
    {"scheme": "mask"},
    {"split": "vertical", "id": "id"},
    {"task": "lr", "label": "y", "split": "vertical", "id": "id"},
    {"split": "vertical", "id": "id", "align": "server"},
)
MEMBERS = tuple(f"party/{name}" for name in PARTIES)
LATEST = 4.0  # seconds after the submission, in which most of these studies are over


def asked(client, id):
    """The job as the CSP knows it; None while it is away."""
    try:
        return client.job(id)
    except FedSVDError:
        return None


def ended(client, id):
    """The job once it has ended, well or not."""
    deadline = monotonic() + LONGEST
    while monotonic() < deadline:
        job = asked(client, id)
        if job is not None and job.state in (JobState.DONE, JobState.BROKEN):
            return job
        sleep(0.1)
    raise AssertionError(f"the job hangs: {job}")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(
            seed,
            marks=[
                pytest.mark.chaos(
                    "kill -9", "one or two roles at a random moment", "resumed once a kill, or not; right"
                ),
                *([pytest.mark.slow] if seed >= QUICK else []),
            ],
        )
        for seed in range(ALL)
    ],
)
def test_roles_killed_at_random_moments_cost_a_resume_each_at_most(tmp_path, seed):
    random = np.random.default_rng(seed)
    options = STUDIES[random.integers(len(STUDIES))]
    kills = sorted(random.uniform(0.0, LATEST, size=random.integers(1, 3)))
    victims = random.choice(["csp/csp", *MEMBERS], size=len(kills), p=[0.4, 0.2, 0.2, 0.2])
    with federation_in_trouble(tmp_path) as federation:
        federation.lay_data(options.get("split") == "vertical", 240, "b" if "label" in options else None)
        for name in ("csp/csp", *MEMBERS):
            federation.start(name, how="processes" if name in victims else "threads")
        with federation.client() as client:
            id, resumes = client.submit(job_file(options)).id, 0
            began = monotonic()
            for moment, victim in zip(kills, victims, strict=True):
                sleep(max(began + moment - monotonic(), 0.0))
                federation.kill(str(victim))
                sleep(random.uniform(0.0, 1.0))
                federation.start(str(victim), how="processes")
            while (job := ended(client, id)).state is JobState.BROKEN:
                resumes += 1
                assert resumes <= len(kills), job.failures
                federation.approve_again(job)
                try:
                    client.resume(id)
                except Refused:  # all had ended the study, and the last of them has reported it meanwhile
                    resumes -= 1
                    assert client.job(id).state is JobState.DONE
            assert job.attempt == resumes + 1
        federation.expect_right()
