"""Sizes that a caller chooses: what no table can have is refused as it is read, and the rest is planned in no time.

A member enlisted with 2^40 records, and a CSP listed chunks, panels and batches of them under the lock of all jobs.
"""

import json
import threading
import tracemalloc
from datetime import UTC, datetime

import pytest

from fedsvd.cost.traffic import longest_message
from fedsvd.errors import ConfigError
from fedsvd.identity.temporary import temporary_federation
from fedsvd.protocol.model import MOST_EVALUATIONS
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.service import csp
from fedsvd.service.csp import CspNode
from fedsvd.service.enlist import plan_of
from fedsvd.service.records import EnlistedFacts, JobState
from fedsvd.service.site import Site
from fedsvd.studies.planning import LONGEST_SIDE
from fedsvd.studies.submitted import submitted_job
from fedsvd.types import SessionId
from fedsvd.wire.version import MARK

GENEROUS = 60.0
LITTLE = 64 << 20  # bytes that planning may take
NAMES = ["a", "b", "c"]
FILE = {"job": {"name": "study", "task": "pca", "components": 3}, "party": [{"name": name} for name in NAMES]}


@pytest.fixture
def node(tmp_path):
    kit = temporary_federation(tmp_path / "kits", ["a"], now=datetime.now(UTC))["csp/csp"]
    site = Site.at(kit)
    node = CspNode(site.listening("127.0.0.1:0"), site.authenticate, tmp_path / "state", patience=GENEROUS)
    node.start()
    yield node
    node.stop()


def ask(node, caller, verb, **values):
    return json.loads(node.answer(caller, json.dumps({**MARK, "ask": verb, "with": values}).encode()))


def facts(place, **changes):
    return {"rows": 50, "columns": 4, "features": "f", "signing": f"{place:064x}", **changes}


def enlist_all(node, id, **changes):
    for place, name in enumerate(NAMES):
        last = ask(node, f"party/{name}", "enlist", id=id, attempt=1, facts=facts(place, **changes))
    return last


@pytest.mark.chaos(
    "sizes beyond all tables", "a member enlists with 2^40 records", "refused with a code; the CSP answers"
)
@pytest.mark.parametrize("side", ["rows", "columns"])
def test_a_table_that_no_site_can_have_is_refused_as_it_is_read(node, side):
    id = ask(node, "researcher/r", "submit", file=FILE)["answer"]["id"]
    refused = ask(node, "party/a", "enlist", id=id, attempt=1, facts=facts(0, **{side: 2**40}))["error"]
    assert refused["code"] == "FSVD-100"
    assert f"facts.{side}" in refused["fault"]
    assert node.jobs.get(id).enlisted == {}
    assert enlist_all(node, id)["answer"]["state"] == "running"


def job_of(task, split="horizontal", **keys):
    return submitted_job({**FILE, "job": {"name": "study", "task": task, "split": split, **keys}})


def planned(job, rows, columns):
    """All that a CSP works out before it opens a session, and the bytes that it took."""
    vertical, labelled = job.study.split == "vertical", bool(job.study.label)
    tables = {
        f"party/{name}": EnlistedFacts(
            rows=rows,
            columns=columns,
            signing=f"{place:064x}",
            features="f",
            names="f",
            label=labelled and (not vertical or not place),
        )
        for place, name in enumerate(NAMES)
    }
    tracemalloc.start()
    try:
        plan = plan_of(job, tables, SessionId("00" * 16))
        longest_message(plan)
        ServiceProvider(plan, lambda shape, access, budget: None)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("job", "columns"),
    [
        (job_of("svd"), 10),
        (job_of("pca", components=3), 1000),
        (job_of("pcr", components=3, label=["y"]), 100),
        (job_of("lr", label=["y"]), 100),
        (job_of("glm", label=["y"], family="poisson"), 100),
    ],
)
def test_a_plan_for_the_longest_tables_takes_little_memory(job, columns):
    assert planned(job, LONGEST_SIDE, columns) < LITTLE


def test_a_plan_for_the_widest_tables_takes_little_memory():
    assert planned(job_of("svd", "vertical"), 100, LONGEST_SIDE) < LITTLE


@pytest.mark.parametrize(
    ("job", "rows", "columns", "fault"),
    [
        (job_of("svd"), LONGEST_SIDE + 1, 10, "rows or columns"),
        (job_of("lr", label=["y"]), 100, LONGEST_SIDE, "batches"),
        (job_of("glm", label=["y"], family="gaussian"), 100, 1 << 18, "Gram matrix"),
        (job_of("svd", "vertical", components=3, memory=10**12), LONGEST_SIDE, 1000, "panels of rows"),
    ],
)
def test_what_would_be_cut_into_too_many_pieces_is_refused_before_any_is_listed(job, rows, columns, fault):
    tables = {
        f"party/{name}": EnlistedFacts.model_construct(
            {"rows", "columns"}, rows=rows, columns=columns, signing=name, features="f", names="f", label=True
        )
        for name in NAMES
    }
    with pytest.raises(ConfigError, match=fault):
        longest_message(plan_of(job, tables, SessionId("00" * 16)))


def test_a_model_that_may_be_evaluated_for_ever_is_refused():
    classes = [str(number) for number in range(100)]
    with pytest.raises(ConfigError, match="evaluations"):
        job_of("glm", label=["y"], family="binomial", classes=classes, max_iterations=1000)
    assert job_of("glm", label=["y"], family="binomial", classes=classes).study.max_iterations * 100 < MOST_EVALUATIONS


@pytest.fixture
def slow_planning(monkeypatch):
    """Planning that waits until it may go on."""
    begun, go_on, real = threading.Event(), threading.Event(), csp.plan_of

    def slow(*arguments):
        begun.set()
        assert go_on.wait(GENEROUS)
        return real(*arguments)

    monkeypatch.setattr(csp, "plan_of", slow)
    return begun, go_on


def test_others_are_answered_while_a_job_is_planned(node, slow_planning):
    begun, go_on = slow_planning
    id = ask(node, "researcher/r", "submit", file=FILE)["answer"]["id"]
    enlisting = threading.Thread(target=enlist_all, args=(node, id))
    enlisting.start()
    assert begun.wait(GENEROUS)
    answers = []

    def others():
        answers.append(ask(node, "party/b", "jobs")["answer"]["jobs"][0]["state"])
        answers.append(ask(node, "researcher/r", "submit", file=FILE)["answer"]["state"])
        answers.append(ask(node, "party/c", "enlist", id=id, attempt=1, facts=facts(2))["answer"]["state"])

    asking = threading.Thread(target=others)
    asking.start()
    asking.join(GENEROUS / 4)
    go_on.set()
    enlisting.join(GENEROUS)
    assert answers == ["recruiting"] * 3
    assert node.jobs.get(id).state is JobState.RUNNING


def test_a_job_that_is_stopped_while_it_is_planned_stays_stopped(node, slow_planning):
    begun, go_on = slow_planning
    id = ask(node, "researcher/r", "submit", file=FILE)["answer"]["id"]
    enlisting = threading.Thread(target=enlist_all, args=(node, id))
    enlisting.start()
    assert begun.wait(GENEROUS)
    stopping = threading.Thread(target=ask, args=(node, "researcher/r", "stop"), kwargs={"id": id})
    stopping.start()
    stopping.join(GENEROUS / 4)
    go_on.set()
    enlisting.join(GENEROUS)
    assert node.jobs.get(id).state is JobState.STOPPED
