"""A column in another unit at one site: pointed out before the study, and at home by the means that a study opens."""

import json

import numpy as np
import pandas as pd
import pytest

from fedsvd import FederatedGLM, FederatedLinearRegression, FederatedPCA, FederatedPCR, Policy, Simulation
from fedsvd.errors import DataWarning

PARTIES = ("--party", "a.csv", "--party", "b.csv", "--party", "c.csv")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    for name, factor in (("a", 1.0), ("b", 1000.0), ("c", 1.0)):
        table = pd.DataFrame(
            {"weight": rng.normal(70, 9, 60), "age": rng.normal(50, 9, 60), "zero": rng.normal(size=60)}
        )
        table.assign(weight=table["weight"] * factor, y=rng.normal(size=60)).to_csv(f"{name}.csv", index=False)
    return tmp_path


# By hand: the mean of 60 weights there is 69,756.24, and 68.066 and 69.355 at the other two.
OTHER_UNIT = "the mean of column 'weight' of party b is 1,015 times that of the others together: another unit?"


@pytest.mark.parametrize(
    "words",
    [
        ("pca", "--drop", "y", "--scheme", "sum", "--components", "2"),
        ("pca", "--drop", "y", "--scheme", "mask", "--components", "2"),
        ("svd", "--drop", "y"),
        ("lr", "--label", "y"),
        ("glm", "--label", "y", "--family", "gaussian"),
    ],
    ids=lambda words: " ".join(words[:1] + words[3:5]),
)
def test_every_study_of_split_rows_points_it_out_before_it_begins(fedsvd, here, words):
    said = fedsvd(*words[:1], *PARTIES, *words[1:])
    assert said.code == 0, said.out + said.err
    text = " ".join(said.err.split())
    assert OTHER_UNIT in text
    assert (
        "(1,000: kg to g?) If so, multiply it by 0.001 (weight = { factor = 0.001 } in the map of the table, --map)"
        in text
    )
    assert text.index("another unit?") < text.index("expected:")
    assert "'age'" not in said.err
    assert "'zero'" not in said.err


@pytest.mark.parametrize("words", [("pca", "--drop", "y", "--components", "2"), ("lr", "--label", "y")], ids=str)
def test_a_party_has_it_in_its_own_results_from_joint_means_alone(fedsvd, here, words):
    """What each party is shown between institutions: by the means that its study opens."""
    assert fedsvd(words[0], *PARTIES, *words[1:]).code == 0
    own = [
        json.loads((here / f"results/{words[0]}/parties/{name}/manifest.json").read_text())["facts"] for name in "abc"
    ]
    assert own[1]["look_at"][0].startswith("the mean of column 'weight' here is 1,015 times that at the other sites")
    assert len(own[1]["look_at"]) == 1
    assert "look_at" not in json.loads((here / f"results/{words[0]}/manifest.json").read_text())["facts"]


@pytest.mark.parametrize("digits", ["table", "more"])
def test_a_model_by_few_digits_has_it_too(fedsvd, here, digits):
    words = ("--label", "y", "--family", "gaussian", "--digits", digits)
    assert fedsvd("glm", *PARTIES, *words).code == 0
    facts = json.loads((here / "results/glm/parties/b/manifest.json").read_text())["facts"]
    assert "the mean of column 'weight' here is " in facts["look_at"][0]


def test_a_regression_that_centres_together_points_it_out(fedsvd, here):
    said = fedsvd("lr", *PARTIES, "--label", "y", "--centre", "joint")
    assert said.code == 0, said.out + said.err
    assert (
        "b: no entry was missing; the mean of column 'weight' here is 1,015 times that at the other sites" in said.err
    )
    facts = json.loads((here / "results/lr/parties/b/manifest.json").read_text())["facts"]
    assert "'weight'" in facts["prepared"]["together"]["look_at"][0]


def test_estimators_warn_of_it(here):
    frames = [pd.read_csv(f"{name}.csv") for name in "abc"]
    own = Simulation(policy=Policy.permissive())
    with pytest.warns(DataWarning, match="the mean of column 'weight' of party 2 is 1,015 times"):
        FederatedPCA(n_components=2, federation=own).fit([frame.drop(columns="y") for frame in frames])
    with pytest.warns(DataWarning, match="the mean of column 'weight' of party 2 is 1,015 times"):
        FederatedGLM("gaussian", federation=own).fit(frames, "y")


@pytest.mark.parametrize("estimator", [FederatedLinearRegression(), FederatedGLM("gaussian"), FederatedPCR(1)], ids=str)
def test_estimators_warn_of_an_outcome_in_another_unit(here, estimator):
    """One of three hospitals counts stays in hours; y is given as values, and weights may stand next to it."""
    stays = [pd.read_csv(f"{name}.csv")["age"] * factor for name, factor in zip("abc", (1.0, 24.0, 1.0), strict=True)]
    tables = [pd.read_csv(f"{name}.csv")[["zero"]] for name in "abc"]
    estimator.set_params(federation=Simulation(policy=Policy.permissive()))
    with pytest.warns(DataWarning, match=r"the mean of column 'stay' of party 2 is 24\.15 times.*24: days to hours"):
        estimator.fit(tables, [each.rename("stay") for each in stays])
    if isinstance(estimator, FederatedGLM):
        weights = np.concatenate([np.ones(60), np.full(60, 9.0), np.ones(60)])
        with pytest.warns(DataWarning, match="column 'stay' of party 2"):
            estimator.fit(tables, [each.rename("stay") for each in stays], sample_weight=weights)


JOB = """[job]
name = "units"
task = "{task}"
{more}

[prepare]
{prepare}

[[party]]
name = "a"
data = "a.csv"

[[party]]
name = "b"
data = "b.csv"
"""


@pytest.mark.parametrize(
    ("task", "more", "prepare", "says"),
    [
        ("svd", "", 'drop = "y"', "Between institutions this study opens no means"),
        ("svd", "", 'drop = "y"\ncentre = "site"', "Between institutions this study opens no means"),
        ("lr", 'label = "y"\nintercept = false', "", "Between institutions this study opens no means"),
        ("lr", 'label = "y"', "", "is shown which of its own may be in another unit"),
        ("svd", "", 'drop = "y"\nscale = "joint"', "is shown which of its own may be in another unit"),
        ("pca", "", 'drop = "y"', "is shown which of its own may be in another unit"),
    ],
)
def test_plan_and_look_say_whether_units_are_compared(fedsvd, here, task, more, prepare, says):
    (here / "job.toml").write_text(JOB.format(task=task, more=more, prepare=prepare))
    assert says in fedsvd("plan", "job.toml", "--format", "json").json["units"]
    assert says.split()[0] in fedsvd("plan", "job.toml").out
    assert says in fedsvd("look", "a.csv", "--job", "job.toml", "--json").json["units"]
    assert "not looked at" in fedsvd("look", "a.csv", "--json").json["units"]
    assert fedsvd("look", "a.csv", "b.csv", "--json").json["units"] is None
