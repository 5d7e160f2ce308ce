"""Every verb that runs a study takes the rung it is told, with the policy it is told, and never a laxer one."""

import pytest

from fedsvd.cli import local_run
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Task

VERBS = {
    "svd": (),
    "pca": ("--components", "2"),
    "lsa": ("--components", "2"),
    "lr": ("--label", "outcome"),
}


@pytest.fixture
def started(monkeypatch):
    """What was to be run on the local rung: jobs and policies."""
    kept = []

    def keep(output, job, out, overwrite, scratch, policy):
        kept.append((job, policy))

    monkeypatch.setattr(local_run, "carry_out_locally", keep)
    return kept


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_runs_on_the_local_rung(fedsvd, by_rows, started, verb):
    said = fedsvd(verb, *by_rows.options(), *VERBS[verb], "--env", "local")
    assert said.code == 0, said
    ((job, policy),) = started
    assert job.study.task is Task(verb)
    assert policy == Policy()


def test_consent_drops_the_rules_and_a_file_gives_others(fedsvd, by_rows, started, tmp_path):
    (tmp_path / "policy.toml").write_text("records = 7\n")
    assert fedsvd("svd", *by_rows.options(), "--env", "local", "--consent").code == 0
    assert fedsvd("svd", *by_rows.options(), "--env", "local", "--policy", tmp_path / "policy.toml").code == 0
    consented, given = (policy for _, policy in started)
    assert consented == Policy.permissive()
    assert given == Policy(records=7, enforce=True)


def test_both_at_once_and_either_on_the_sim_rung_are_refused(fedsvd, by_rows, started, tmp_path):
    (tmp_path / "policy.toml").write_text("")
    policy = ("--policy", tmp_path / "policy.toml")
    for words in (("--env", "local", "--consent", *policy), ("--consent",), policy):
        said = fedsvd("svd", *by_rows.options(), *words, "--format", "json")
        assert (said.code, said.json["error"]["code"]) == (1, "FSVD-100")
    assert started == []
