"""A column in another unit at one site: pointed out where means are summed, and said not to be looked at elsewhere."""

import json

import numpy as np
import pandas as pd
import pytest

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


def pointed_out(said):
    text = " ".join(said.err.split())
    return [part.split(":")[0].strip() for part in text.split("Data: ")[1:] if "'weight' is a thousandfold" in part]


@pytest.mark.parametrize("scheme", ["sum", "mask"])
def test_a_pca_without_any_preparation_points_it_out_to_each_party(fedsvd, here, scheme):
    said = fedsvd("pca", *PARTIES, "--drop", "y", "--scheme", scheme, "--components", "2")
    assert said.code == 0, said.out + said.err
    assert "b: the mean of column 'weight' is a thousandfold larger here than at the other sites together" in " ".join(
        said.err.split()
    )
    assert "'age'" not in said.err
    assert "'zero'" not in said.err
    facts = [json.loads((here / f"results/pca/parties/{name}/manifest.json").read_text())["facts"] for name in "abc"]
    assert "larger" in facts[1]["look_at"][0]
    assert "look_at" not in json.loads((here / "results/pca/manifest.json").read_text())["facts"]
    assert "b" in pointed_out(said)


def test_a_regression_that_centres_together_points_it_out(fedsvd, here):
    said = fedsvd("lr", *PARTIES, "--label", "y", "--centre", "joint")
    assert said.code == 0, said.out + said.err
    assert "b: no entry was missing; the mean of column 'weight' is a thousandfold larger here" in said.err
    facts = json.loads((here / "results/lr/parties/b/manifest.json").read_text())["facts"]
    assert "'weight'" in facts["prepared"]["together"]["look_at"][0]


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
        ("lr", 'label = "y"', "", "not compared in this study: a column in another unit at one party is not noticed"),
        (
            "lr",
            'label = "y"',
            'centre = "site"',
            "not compared in this study: a column in another unit at one party is not noticed",
        ),
        ("lr", 'label = "y"', 'scale = "joint"', "is shown which of its own are a thousandfold off"),
        ("pca", "", 'drop = "y"', "is shown which of its own are a thousandfold off"),
    ],
)
def test_plan_and_look_say_whether_units_are_compared(fedsvd, here, task, more, prepare, says):
    (here / "job.toml").write_text(JOB.format(task=task, more=more, prepare=prepare))
    assert says in fedsvd("plan", "job.toml", "--format", "json").json["units"]
    assert says.split()[0] in fedsvd("plan", "job.toml").out
    assert says in fedsvd("look", "a.csv", "--job", "job.toml", "--json").json["units"]
    assert "not looked at" in fedsvd("look", "a.csv", "--json").json["units"]
    assert fedsvd("look", "a.csv", "b.csv", "--json").json["units"] is None
