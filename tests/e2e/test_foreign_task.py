"""The worked example of a foreign task on every rung: numbers of NumPy, and all that people read of it."""

import json
import os
import shlex
import signal
import sys

import numpy as np
import pandas as pd
import pytest
from tests.e2e.commands import ENVIRONMENT, Process, answered, command
from tests.e2e.federations import federation_of
from tests.foreign import NAME, declared, install_example, install_task
from tests.tolerances import RESULT_BAR, assert_close

import fedsvd
from fedsvd import FederatedStatistic, Federation, Local, Policy, Simulation
from fedsvd.engine.installed_tasks import installed_task
from fedsvd.errors import ConfigError, PrivacyWarning, ReleaseRefused
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from, read_job
from fedsvd.studies.jobs import run_job
from fedsvd.studies.submitted import submitted_file, submitted_job

OPTIONS = {"group": "ward", "groups": 3, "weights": "weight"}
JOB = """
[job]
name = "variances"
task = "foreign"

[foreign]
name = "group-variance"
options = { group = "ward", groups = 3, weights = "weight" }
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example on the path of this process, and of those it starts."""
    place = install_example(tmp_path / "site")
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return installed_task(NAME)


@pytest.fixture
def tables():
    rng = np.random.default_rng(26)
    found = []
    for rows in (140, 150, 160):
        x = rng.normal([0.0, 1e6], [1.0, 0.01], (rows, 2))
        ward, weight = rng.integers(0, 3, rows), rng.uniform(0.5, 2.0, rows)
        found.append(pd.DataFrame({"a": x[:, 0], "ward": ward, "b": x[:, 1], "weight": weight}))
    return found


def expected(tables):
    """Weighted means, and the variances that are unbiased where all weights are 1, of the joint table."""
    joint = pd.concat(tables)
    means, variances = [], []
    for ward in range(3):
        own = joint[joint.ward == ward]
        X, w = own[["a", "b"]].to_numpy(), own.weight.to_numpy()
        mean = np.average(X, axis=0, weights=w)
        means.append(mean)
        variances.append(np.average((X - mean) ** 2, axis=0, weights=w) * len(own) / (len(own) - 1))
    return np.array(means), np.array(variances), joint.ward.value_counts().sort_index().to_numpy()


def expect_variances(found, tables):
    means, variances, records = expected(tables)
    assert found["records"].tolist() == records.tolist()
    assert_close(found["mean"], means, RESULT_BAR)
    # Around joint means that are exact to rounding: b, whose mean is 1e8 of its deviations, keeps its digits.
    for j in range(2):
        assert_close(found["variance"][:, j], variances[:, j], 1e4 * RESULT_BAR)


def written(folder, tables, name="job.toml"):
    text = JOB
    for place, table in zip("abc", tables, strict=True):
        table.to_csv(folder / f"{place}.csv", index=False)
        text += f'\n[[party]]\nname = "{place}"\ndata = "{place}.csv"\n'
    (folder / name).write_text(text)
    return folder / name


def policy(folder, task):
    (folder / "policy.toml").write_text(f'[foreign]\n"{NAME}" = "{task.hash}"\n')
    return folder / "policy.toml"


def test_a_simulation_gives_the_numbers_of_the_joint_table(installed, tables):
    here = Simulation(policy=Policy(foreign={NAME: installed.hash}))
    found = FederatedStatistic(NAME, options=OPTIONS, federation=here).fit(tables)
    expect_variances(found.outputs_, tables)
    assert found.feature_names_in_ == ("a", "b")
    assert found.plan_.foreign.name == NAME
    shuffled = [tables[0], tables[1][["weight", "b", "a", "ward"]], tables[2]]
    again = FederatedStatistic(NAME, options=OPTIONS, federation=here).fit(shuffled)
    assert_close(again.outputs_["variance"], found.outputs_["variance"], RESULT_BAR)


def test_without_a_policy_that_names_it_a_simulation_warns_and_another_hash_is_refused(installed, tables):
    with pytest.warns(PrivacyWarning, match="not fedsvd's own"):
        FederatedStatistic(NAME, options=OPTIONS).fit(tables)
    other = Simulation(policy=Policy(foreign={NAME: "sha256:" + "0" * 64}))
    with pytest.raises(ReleaseRefused, match="has the hash"):
        FederatedStatistic(NAME, options=OPTIONS, federation=other).fit(tables)
    strict = Simulation(policy=Policy(enforce=True))
    with pytest.raises(ReleaseRefused, match="not among those allowed"):
        FederatedStatistic(NAME, options=OPTIONS, federation=strict).fit(tables)


def test_the_same_statistic_on_processes_of_this_machine_asks_every_policy(installed, tables, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    asked = FederatedStatistic(NAME, options=OPTIONS, federation=Local(policy=Policy(foreign={NAME: installed.hash})))
    found = asked.fit(tables)
    expect_variances(found.outputs_, tables)
    assert found.feature_names_in_ == ("a", "b")
    assert found.plan_.foreign.name == NAME
    with pytest.raises(ReleaseRefused, match="not among those allowed"):
        FederatedStatistic(NAME, options=OPTIONS, federation=Local()).fit(tables)


def test_the_same_statistic_is_one_job_between_institutions(installed, tables, tmp_path):
    names = ("a", "b", "c")
    for name, table in zip(names, tables, strict=True):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    allowing = Policy(foreign={NAME: installed.hash}, researcher="shared")
    with federation_of(tmp_path / "federation", names, policy=allowing, how="threads") as federation:
        for name in names:
            site = federation.kits[f"party/{name}"] / "site.toml"
            site.write_text(f'[data]\ndefault = "{tmp_path / f"{name}.csv"}"\n')
        federation.start("csp/csp", *(f"party/{name}" for name in names))

        def at(who, **more):
            where = Federation(federation.kits[who], names, "variances", address=federation.csp, wait=120.0, **more)
            return FederatedStatistic(NAME, options=OPTIONS, federation=where)

        researcher = at("researcher/res").fit(None)
        expect_variances(researcher.outputs_, tables)
        party = at("party/b").fit(None)
        expect_variances(party.outputs_, tables)
        assert party.job_ == researcher.job_
        with pytest.raises(ConfigError, match="X was given, and tables of a federation are where"):
            at("party/b").fit(tables)
        with pytest.raises(ConfigError, match="takes all columns of the tables"):
            at("party/b", columns=["a"]).fit(None)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"group": "ward"}, "needs the option groups"),
        ({"group": "wing", "groups": 3}, "no column|name a column 'wing'"),
        ({"group": "ward", "groups": 0}, "from 1 to 1000"),
        ({"group": "ward", "groups": 3, "wieghts": "weight"}, "no option"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_sent(installed, tables, options, match):
    here = Simulation(policy=Policy(foreign={NAME: installed.hash}))
    with pytest.raises(ConfigError, match=match):
        FederatedStatistic(NAME, options=options, federation=here).fit(tables)


def test_a_job_carries_its_declaration_and_who_reads_it_needs_no_module(installed, tables, tmp_path, monkeypatch):
    job = read_job(written(tmp_path, tables))
    file = json.loads(json.dumps(submitted_file(job)))
    monkeypatch.undo()  # the task is not on the path any more, as at the CSP
    with pytest.raises(ConfigError, match="not installed"):
        installed_task(NAME)
    again = submitted_job(file)
    assert again.foreign == job.foreign
    assert again.foreign.study.declaration.name == NAME


def test_a_job_whose_declaration_or_options_are_not_legal_is_refused(installed, tables, tmp_path):
    file = submitted_file(read_job(written(tmp_path, tables)))
    wrong = [
        {**file["foreign"], "declaration": {}},
        {**file["foreign"], "name": "other"},
        {**file["foreign"], "options": {"group": "ward"}},
        {**file["foreign"], "declaration": {**file["foreign"]["declaration"], "steps": []}},
    ]
    for section in wrong:
        with pytest.raises(ConfigError):
            job_from({**file, "foreign": section}, tmp_path)
    for job in ({**file["job"], "task": "pca"}, {**file["job"], "split": "vertical"}, {**file["job"], "label": "a"}):
        with pytest.raises(ConfigError):
            job_from({**file, "job": job}, tmp_path)
    with pytest.raises(ConfigError):
        job_from({key: value for key, value in file.items() if key != "foreign"}, tmp_path)


def test_the_command_line_lists_shows_plans_runs_reports_and_loads_it(installed, tables, tmp_path):
    job = written(tmp_path, tables)
    (listed,) = answered("tasks")["tasks"]
    assert listed["hash"] == installed.hash
    shown = command("tasks", "show", NAME)
    assert installed.hash in shown.stdout
    assert "group_variance/__init__.py" in shown.stdout
    assert "what the code of an installed task computes" in " ".join(shown.stdout.split())
    plan = answered("plan", job)
    assert "Every party learns the total weight of each group: 3 numbers of 53 bits." in plan["learns"]
    assert plan["foreign"]["options"] == {**OPTIONS, "ddof": 1}
    assert "'squares' (6 numbers of 53 bits)" in "".join(plan["leaves_each_site"])
    assert list(plan["released"]) == ["records", "mean", "variance"]
    ended = answered("run", job, "--out", tmp_path / "results")
    assert ended["bytes"] == plan["cost"]["bytes"]
    found = fedsvd.load(tmp_path / "results" / "parties" / "b")
    expect_variances(found.outputs_, tables)
    assert found.options["ddof"] == 1
    page = (tmp_path / "results" / "parties" / "b" / "report.html").read_text()
    for text in (
        "Weighted mean and variance of every feature",
        "weighted variances",
        "group-variance",
        "What came out",
    ):
        assert text in page
    table = pd.read_csv(tmp_path / "results" / "variance.csv")
    assert table.columns.tolist() == ["group", "feature", "variance"]
    assert table.feature.tolist() == ["a", "b"] * 3


def test_on_the_local_rung_every_party_asks_its_own_policy(installed, tables, tmp_path):
    job = written(tmp_path, tables)
    refused = command("run", job, "--env", "local", "--out", tmp_path / "no")
    assert refused.returncode != 0
    assert "FSVD-110" in refused.stderr
    consented = command("run", job, "--env", "local", "--consent", "--out", tmp_path / "no")
    assert consented.returncode != 0
    for said in (refused.stderr, consented.stderr):
        fix = " ".join(said.partition("Fix:")[2].split())
        assert f'[foreign] has the line "{NAME}" = "sha256:..."' in fix
        assert "--consent is for data, and allows no code" in fix
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(f'[foreign]\n"{NAME}" = "sha256:{"0" * 64}"\n')
    other = command("run", job, "--env", "local", "--policy", wrong, "--out", tmp_path / "no")
    assert other.returncode != 0
    assert "has the hash" in other.stderr
    ended = command(
        "run", job, "--env", "local", "--policy", policy(tmp_path, installed), "--out", tmp_path / "results"
    )
    assert ended.returncode == 0, ended.stderr
    assert "variance" in ended.stdout
    assert ended.stdout.count("the first 5 of 6") == 2  # means and variances of two features in three groups
    expect_variances(fedsvd.load(tmp_path / "results").outputs_, tables)
    verified = command("verify", tmp_path / "results")
    assert verified.returncode == 0, verified.stdout
    body = json.loads((tmp_path / "results" / "certificate.json").read_text())["body"]
    assert body["sums"] == ["records: 3", "weights: 3", "sums: 6", "squares: 6"]


def test_a_rehearsed_federation_approves_plays_and_signs_it(installed, tables, tmp_path):
    """The researcher and the parties have the module; the CSP's process has not."""
    job = written(tmp_path, tables)
    founded = command("federation", "rehearse", "trial", "--job", job, cwd=tmp_path)
    assert founded.returncode == 0, founded.stderr
    start, submit, approve, watch = (
        shlex.split(line)[1:] for line in founded.stdout.splitlines() if line.startswith("  fedsvd ")
    )
    for name in "abc":
        kit = next((tmp_path / "trial").glob(f"{name}/policy.toml"))
        kit.write_text(f'[foreign]\n"{NAME}" = "{installed.hash}"\n')
    roles = Process(*start, cwd=tmp_path)
    try:
        roles.said("are running", "out")
        submitted = command(*submit, cwd=tmp_path)
        assert submitted.returncode == 0, submitted.stderr
        approved = command(*approve, "--yes", cwd=tmp_path)
        assert approved.returncode == 0, approved.stderr
        text = " ".join(approved.stdout.split())
        assert "group-variance (foreign; ddof = 1, group = 'ward', groups = 3" in text
        assert "Every party learns how many records each group has: 3 numbers of 53 bits." in text
        assert installed.hash in text
        watched = command(*watch, cwd=tmp_path)
        assert watched.returncode == 0, watched.stderr
        roles.signal(signal.SIGINT)
        assert roles.ended() == 0
    finally:
        roles.kill()
    for name in "abc":
        (results,) = (tmp_path / "trial" / name / "results").iterdir()
        expect_variances(fedsvd.load(results).outputs_, tables)


def test_a_job_that_was_written_for_another_version_of_the_task_is_refused_at_a_party(tmp_path, monkeypatch, tables):
    monkeypatch.syspath_prepend(str(tmp_path))
    script = "def script(options, columns):\n    total = yield 'sums', [c.sum() for c in columns.values()]\n"
    install_task(tmp_path, script + "    return {'total': total}\n")
    text = '[job]\nname = "sums"\ntask = "foreign"\n[foreign]\nname = "one-sum"\n'
    for place, table in zip("abc", tables, strict=True):
        table.to_csv(tmp_path / f"{place}.csv", index=False)
        text += f'[[party]]\nname = "{place}"\ndata = "{place}.csv"\n'
    (tmp_path / "job.toml").write_text(text)
    job = read_job(tmp_path / "job.toml")
    install_task(tmp_path, script + "    return {'total': total}\n", declared(about="The same sums, in other words."))
    here = Policy(foreign={"one-sum": installed_task("one-sum").hash})
    with pytest.raises(ConfigError, match="declares one-sum otherwise"):
        run_job(prepare(job), policy=here)
