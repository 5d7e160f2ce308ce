"""kill -9 of every role in every state: after a restart, ``job resume`` ends in the right result, and nothing hangs.

The cases follow from the roles' tables: every state in which a role can hear something. The victim is a process of its
own that kills itself in that state; the others are threads here. ``make chaos`` prints the table of cases and outcomes.
"""

import pytest
from tests.e2e.federations import PARTIES, federation_in_trouble, job_file
from tests.e2e.outcomes import LONGEST, agreed, broken_everywhere, settled, spoken

from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.roles.trusted_authority import TrustedAuthority
from fedsvd.roles.user.role import User

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")]

# Which study reaches a state that an SVD among peers, whose sum the parties open, does not.
ELSEWHERE = {
    ("csp", "AGGREGATING"): {"scheme": "mask"},
    ("csp", "FACTORISING"): {"scheme": "mask"},
    ("csp", "ANSWERING"): {"scheme": "mask"},
    ("user", "UPLOADING"): {"scheme": "mask"},
    ("user", "WAITING"): {"scheme": "mask"},
    ("user", "COMPARING"): {"scheme": "mask"},
    ("user", "CHECKING"): {"split": "vertical", "id": "id"},
    ("user", "FETCHING"): {"split": "vertical", "id": "id", "scheme": "mask", "rows": 2400, "memory": 300_000},
    ("user", "CHALLENGING"): {"task": "lr", "label": "y", "split": "vertical", "id": "id"},
    ("csp", "MATCHING"): {"split": "vertical", "id": "id", "align": "server"},
    ("user", "COMMITTING"): {"split": "vertical", "id": "id", "align": "server"},
    ("user", "MATCHING"): {"split": "vertical", "id": "id", "align": "server"},
    ("user", "TAKING"): {"split": "vertical", "id": "id", "align": "ecdh"},
}


def states(role):
    """The states of a role in which its table lets it hear something."""
    return sorted({state.name for state, _, _ in role.TABLE})


KILLS = (
    [("csp/csp", state, ELSEWHERE.get(("csp", state), {})) for state in states(ServiceProvider)]
    + [("party/b", state, ELSEWHERE.get(("user", state), {})) for state in states(User)]
    + [("party/a", "SUMMING", {})]  # the dealer, and the one whose signs count
    + [("authority/ta", state, {"authority": True}) for state in states(TrustedAuthority)]
)


@pytest.fixture
def federation(tmp_path):
    with federation_in_trouble(tmp_path) as federation:
        yield federation


@pytest.mark.parametrize(
    ("victim", "state", "options"),
    [
        pytest.param(*case, id=f"{case[0]}-{case[1]}", marks=pytest.mark.chaos("kill -9", f"{case[0]} in {case[1]}"))
        for case in KILLS
    ],
)
def test_a_role_killed_in_any_state_comes_back_and_the_job_ends_right(
    federation, victim, state, options, record_property
):
    holder = "b" if "label" in options else None
    federation.lay_data(options.get("split") == "vertical", options.get("rows", 360), holder)
    needed = ["csp/csp", *(f"party/{name}" for name in PARTIES)]
    needed += ["authority/ta"] if "authority" in job_file(options) else []
    if victim != "csp/csp":
        federation.start("csp/csp")
    process = federation.start_with_fault(victim, f"dies:{state}")
    federation.start(*(name for name in needed if name not in (victim, "csp/csp")))
    with federation.client() as client:
        record = client.submit(job_file(options))
        assert process.wait(LONGEST) == -9, "the victim was to die"
        federation.start(victim)
        codes = broken_everywhere(federation, client, record.id)
        federation.approve_again(client.job(record.id))
        client.resume(record.id)
        done = settled(client, record.id, {"done", "broken"})
    assert done.state == "done", done.failures
    assert done.attempt == 2
    federation.expect_right()
    record_property("outcome", f"{spoken(codes)}; {agreed(codes)}resumed, right")
