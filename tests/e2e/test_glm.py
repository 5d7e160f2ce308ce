"""A logistic regression among processes over TLS: the table of statsmodels, the same files at every party."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from tests.e2e.commands import command
from tests.exact_csv import read_exact
from tests.tolerances import DIGITS_ERRORS_BAR, DIGITS_STEP_BAR, GLM_BAR, assert_each_close

JOB = """\
[job]
name = "outcome"
task = "glm"
family = "binomial"
label = "ill"
classes = ["no", "yes"]
weights = "w"

[[party]]
name = "north"
data = "north.csv"

[[party]]
name = "south"
data = "south.csv"

[[party]]
name = "west"
data = "west.csv"
"""


def tables(folder, digits):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(420, 3))
    share = 1.0 / (1.0 + np.exp(-(X @ [0.7, -0.4, 0.1] - 0.2)))
    joint = pd.DataFrame(X, columns=["age", "dose", "weight"])
    joint["w"] = rng.uniform(0.5, 1.5, size=420)
    joint["ill"] = np.where(rng.random(420) < share, "yes", "no")
    for name, rows in (("north", slice(0, 110)), ("south", slice(110, 290)), ("west", slice(290, 420))):
        joint[rows].to_csv(folder / f"{name}.csv", index=False)
    (folder / "job.toml").write_text(
        JOB.replace('task = "glm"', f'task = "glm"\ndigits = "{digits}"'), encoding="utf-8"
    )
    return joint


@pytest.mark.parametrize(("digits", "errors"), [("auto", DIGITS_ERRORS_BAR), ("all", GLM_BAR)])
def test_a_logistic_regression_among_processes_is_statsmodels(tmp_path, digits, errors):
    joint = tables(tmp_path, digits)
    ran = command("run", "job.toml", "--env", "local", "--quiet", "--format", "json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    fit = sm.GLM(
        (joint["ill"] == "yes").to_numpy(dtype=float),
        sm.add_constant(joint[["age", "dose", "weight"]].to_numpy()),
        family=sm.families.Binomial(),
        var_weights=joint["w"].to_numpy(),
    ).fit(tol=1e-13, maxiter=100, tol_criterion="params")
    spelt = set()
    for name in ("north", "south", "west"):
        folder = tmp_path / "results/outcome/parties" / name
        table = read_exact(folder / "coefficients.csv")
        assert np.abs((table["coef"] - fit.params) / fit.bse).max() < DIGITS_STEP_BAR
        assert_each_close(table["se"], fit.bse, errors)
        spelt.add(tuple(table["coef"]))
        said = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["facts"]["models"][0]
        assert_each_close([said["deviance"], said["null_deviance"]], [fit.deviance, fit.null_deviance], errors)
        assert (folder / "report.html").is_file()
    assert len(spelt) == 1  # every party holds the coefficients that party 1 sent, bit for bit


@pytest.mark.parametrize(("digits", "code"), [("auto", "FSVD-304"), ("all", "FSVD-306")])
def test_a_model_that_fails_says_so_with_its_code_and_leaves_no_results(tmp_path, digits, code):
    """Where all records are separated by one column, few digits end at a home test; all digits see it."""
    joint = tables(tmp_path, digits)
    joint["ill"] = np.where(joint["age"] > 0.0, "yes", "no")
    for name, rows in (("north", slice(0, 110)), ("south", slice(110, 290)), ("west", slice(290, 420))):
        joint[rows].to_csv(tmp_path / f"{name}.csv", index=False)
    ran = command("run", "job.toml", "--env", "local", "--quiet", cwd=tmp_path)
    assert ran.returncode != 0
    assert code in ran.stderr
    assert "predicts the outcome without error" in " ".join(ran.stderr.split()) or digits == "all"
    assert not (tmp_path / "results").exists()
