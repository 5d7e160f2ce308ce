"""The family that ``auto`` takes is one law of public shapes and of the release, on every surface of a study."""

import itertools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedsvd import FederatedLSA, FederatedPCA, FederatedSVD, Federation, Masks
from fedsvd.cli.main import cli
from fedsvd.errors import ConfigError
from fedsvd.estimators.between import job_of
from fedsvd.protocol.tasks import Task
from fedsvd.service.enlist import plan_of
from fedsvd.service.records import EnlistedFacts
from fedsvd.studies import run
from fedsvd.studies.job_file import job_from
from fedsvd.types import SessionId

ESTIMATORS = {"pca": FederatedPCA, "svd": FederatedSVD, "lsa": FederatedLSA}
SHAPES = [  # records of each party, features; rows are split, or the same with columns split
    ((6000, 6000), 1000),
    ((3000, 3000), 1000),
    ((6000, 6000), 500),
    ((5000, 400, 600), 700),
    ((9000, 9000, 9000), 2400),
]
STUDIES = [
    (task, split, asked)
    for task, split, components in itertools.product(ESTIMATORS, ("horizontal", "vertical"), (2, 40, 0.9))
    if not (task == "pca" and split == "vertical") and not (task != "pca" and components == 0.9)
    for asked in ({"components": components}, {"components": components, "release": True})
    if "release" not in asked or task == "pca"
]


def by_the_law(task, split, asked, counts, m) -> bool:
    """ADR 0090, written again."""
    r, n, outside = asked["components"], max(counts), sum(counts) - max(counts)
    shown = task != "pca" or "release" in asked
    if split == "vertical" or not shown or r < 1:
        return False
    return 240 * r * n * m < n * m**2 + 10 * m**3 and m > 512 and outside >= 26 * min(60 * r + 64, m)


@pytest.fixture
def taken(monkeypatch):
    """The family of the plan that a call in this process comes to; no session is begun."""
    plans = []

    def stop(plan, policy):
        plans.append(plan)
        raise ConfigError("seen", "nothing")

    monkeypatch.setattr(run, "guard", stop)

    def of(call):
        plans.clear()
        call()
        return str(plans[-1].scheme)

    return of


@pytest.mark.filterwarnings("ignore::fedsvd.errors.RowsNotCompared")
@pytest.mark.parametrize(("counts", "m"), SHAPES)
@pytest.mark.parametrize(("task", "split", "asked"), STUDIES)
def test_every_surface_takes_the_same_family(task, split, asked, counts, m, taken, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vertical, names = split == "vertical", [f"p{i}" for i in range(len(counts))]
    shapes = [(m, n_i) if vertical else (n_i, m) for n_i in counts]
    data = [f"synthetic://{rows}x{columns}?seed={i}" for i, (rows, columns) in enumerate(shapes)]
    release = ["components", "mean", "spectrum"] if "release" in asked else None
    job = {"name": "j", "task": task, "split": split, "components": asked["components"]}
    job |= {} if release is None else {"release": release}
    sections = {"job": job, "party": [{"name": name, "data": where} for name, where in zip(names, data, strict=True)]}
    Path("job.toml").write_text(as_toml(sections), "utf-8")
    words = [word for name, where in zip(names, data, strict=True) for word in ("--party", f"{name}={where}")]
    words += ["--components", str(asked["components"])] + ([] if release is None else ["--release", "spectrum"])
    words += [] if task == "pca" else ["--split", split]

    def command(*line):
        return CliRunner().invoke(cli, list(line))

    def fit(estimator):
        with pytest.raises(ConfigError, match="seen"):
            estimator.fit(data)

    given = {"split": split} | ({"release_spectrum": release is not None} if task == "pca" else {})
    if task == "pca" and release is None and asked["components"] < 1:
        given = {}  # a share takes the singular values, and a job file that leaves release out gives them
    estimator = ESTIMATORS[task](asked["components"], **given)
    facts = {
        f"party/{name}": EnlistedFacts(rows=rows, columns=columns, signing=name)
        for name, (rows, columns) in zip(names, shapes, strict=True)
    }
    elsewhere = job_of(estimator, Federation("csp.example", names, "j"), Task(task), Masks(), {})
    session = SessionId("00" * 16)
    found = {
        "python": taken(lambda: fit(estimator)),
        "python, between institutions": str(plan_of(elsewhere, facts, session).scheme),
        "command": taken(lambda: command(task, *words)),
        "run": taken(lambda: command("run", "job.toml")),
        "plan": json.loads(command("plan", "job.toml", "--format", "json").stdout)["scheme"],
        "service": str(plan_of(job_from(sections, tmp_path), facts, session).scheme),
    }
    assert len(set(found.values())) == 1, found
    assert (found["python"] == "steps") == by_the_law(task, split, asked, counts, m)


def as_toml(sections) -> str:
    job = "\n".join(f"{key} = {json.dumps(value)}" for key, value in sections["job"].items())
    parties = [f"[[party]]\nname = {json.dumps(p['name'])}\ndata = {json.dumps(p['data'])}" for p in sections["party"]]
    return f"[job]\n{job}\n" + "\n".join(parties) + "\n"


def test_a_release_that_keeps_steps_away_is_said(tmp_path, monkeypatch):
    """A PCA that shows no singular values stays with sums, and its plan says what else there is."""
    monkeypatch.chdir(tmp_path)
    party = [{"name": name, "data": f"synthetic://6000x1000?seed={name}"} for name in "12"]
    said = {}
    for release in (["components", "mean"], ["components", "mean", "spectrum"]):
        job = {"name": "j", "task": "pca", "components": 2, "release": release}
        Path("job.toml").write_text(as_toml({"job": job, "party": party}), "utf-8")
        found = CliRunner().invoke(cli, ["plan", "job.toml", "--format", "json"])
        said[len(release)] = json.loads(found.stdout)
    assert (said[2]["scheme"], said[3]["scheme"]) == ("sum", "steps")
    assert "steps would be quicker" in said[2]["why"]
    assert "steps would be quicker" not in said[3]["why"]
