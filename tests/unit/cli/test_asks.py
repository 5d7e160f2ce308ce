"""An ask waits for its owner: --yes does not answer it, peers learn a code, and the answer holds for that job.

Party a has the usual policy, and a table in which one cluster is one record.
"""

import json

import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import federation_of
from tests.network import GENEROUS, until
from typer.testing import CliRunner

from fedsvd.cli.main import cli
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.service.client import Connection
from fedsvd.service.records import JobState

PARTIES = ("a", "b", "c")
ROWS = 120


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("federation")
    rng = np.random.default_rng(5)
    with federation_of(root, PARTIES, policy=Policy.permissive(), patience=GENEROUS) as federation:
        for name in PARTIES:
            table = pd.DataFrame(rng.normal(size=(ROWS, 2)), columns=["age", "bmi"])
            table["cost"] = table["age"] + rng.normal(size=ROWS)
            table["ward"] = [f"w{row % 10}" for row in range(ROWS)]
            table["flat"] = ["one" if name == "a" and row == 9 else f"f{row % 2}" for row in range(ROWS)]
            paths = {"default": root / f"{name}.csv", "again": root / f"{name}-again.csv"}
            for path in paths.values():
                table.to_csv(path, index=False)
            lines = [f'{job} = "{path}"' for job, path in paths.items()]
            (federation.kits[f"party/{name}"] / "site.toml").write_text("\n".join(["[data]", *lines, ""]))
        usual(federation)
        with federation.csp_node() as csp:
            for name in PARTIES:
                with (federation.kits[f"party/{name}"] / "site.toml").open("a") as file:
                    file.write(f'[csp]\naddress = "{federation.csp}"\n')
            yield federation, csp


def usual(federation, **changed):
    # Jobs of this module are about the same records in other columns, which is not what is tested.
    policy = Policy(remember=False, parties_for_clusters=3, **changed)
    (federation.kits["party/a"] / "policy.toml").write_text(spelt_policy(policy))


def submitted(federation, cluster, *columns, name="study"):
    asked = {"name": name, "task": "lr", "inference": True, "label": "cost", "cluster": cluster}
    file = {"job": asked, "prepare": {"columns": list(columns)}, "party": [{"name": name} for name in PARTIES]}
    with Connection(federation.kits["researcher/res"], federation.csp) as connection:
        return connection.submit(file)


def approve(federation, id, *words, party="a", answer=None):
    words = ["job", "approve", id, "--kit", str(federation.kits[f"party/{party}"]), *words]
    return CliRunner().invoke(cli, words, input=answer)


def ended(federation, csp, id):
    for name in "bc":
        assert approve(federation, id, "--yes", party=name).exit_code == 0
    with federation.member_nodes("party/a", "party/b", "party/c"):
        until(lambda: csp.jobs.get(id).state in (JobState.BROKEN, JobState.DONE))
    return csp.jobs.get(id)


def test_an_honest_study_passes_without_a_word(made):
    federation, csp = made
    id = submitted(federation, "ward", "age", "bmi")
    said = approve(federation, id, "--yes", "--format", "json")
    assert said.exit_code == 0, said.output
    assert not [each for each in json.loads(said.stdout)["findings"] if each["asks"] or each["below"]]
    assert ended(federation, csp, id).state is JobState.DONE


def test_yes_never_answers_an_ask_and_the_owner_does(made):
    federation, csp = made
    id = submitted(federation, "flat", "age", "bmi")
    said = approve(federation, id, "--yes")
    assert said.exit_code == 1
    assert "this job asks its owner" in " ".join(said.stderr.split())
    said = approve(federation, id, answer="n\n")
    assert said.exit_code == 1
    said = approve(federation, id, answer="y\n")
    shown = " ".join(said.output.split())
    assert said.exit_code == 0, said.output
    assert "asks you: own clusters: 3 clusters, the largest with" in shown
    assert "Your policy asks you one thing above" in shown
    assert ended(federation, csp, id).state is JobState.DONE


def test_what_an_owner_answers_once_for_all_is_shown_and_waits_for_nothing(made):
    federation, _ = made
    usual(federation, answered=("own clusters",))
    id = submitted(federation, "flat", "bmi")
    said = approve(federation, id, "--yes", "--format", "json")
    usual(federation)
    assert said.exit_code == 0, said.output
    (shown,) = [each for each in json.loads(said.stdout)["findings"] if "own clusters" in each["text"]]
    assert (shown["asks"], shown["below"]) == (False, False)


def test_what_was_approved_without_an_answer_is_refused_before_anything_is_summed_and_peers_learn_a_code(made):
    federation, csp = made
    id = submitted(federation, "flat", "age", "bmi")
    usual(federation, answered=("all",))
    assert approve(federation, id, "--yes").exit_code == 0
    usual(federation)
    job = ended(federation, csp, id)
    assert job.state is JobState.BROKEN
    assert ("party/a", "FSVD-110") in {(failure.who, failure.code) for failure in job.failures}
    told = " ".join(str(failure) for failure in job.failures)
    assert "clusters" not in told
    assert "flat" not in told


def test_after_three_refusals_jobs_of_a_researcher_wait_for_the_owner(made):
    """Each is one bit of a's table. The table is one that no other test asks about."""
    federation, csp = made
    with federation.member_nodes("party/a", "party/b", "party/c"):
        for columns in (("age",), ("bmi",), ("age", "bmi")):
            id = submitted(federation, "flat", *columns, name="again")
            until(lambda id=id: csp.jobs.get(id).state is JobState.BROKEN, str(columns))
        id = submitted(federation, "ward", "age", "bmi", name="again")
        until(lambda: {"party/b", "party/c"} <= set(csp.jobs.get(id).enlisted))
        assert "party/a" not in csp.jobs.get(id).enlisted
        said = approve(federation, id, answer="y\n")
        assert said.exit_code == 0, said.output
        until(lambda: csp.jobs.get(id).state is JobState.DONE)
