"""A model whose outcome stands in a formula, with the site as a term: job file, command line and Python.

What is expected is statsmodels' on the joint table, with the name of the party as a column.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from tests.messy import write_job
from tests.tolerances import GLM_BAR, STATISTIC_BAR, assert_close
from typer.testing import CliRunner

import fedsvd
from fedsvd import FederatedGLM, Policy, Simulation
from fedsvd.cli.main import cli
from fedsvd.errors import ConfigError, DataError, NotNumeric
from fedsvd.policy.rules import Policy as Rules
from fedsvd.service.enlist import open_data
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from
from fedsvd.studies.job_stages import Stage
from fedsvd.studies.jobs import run_job
from fedsvd.studies.own_faults import own_faults
from fedsvd.studies.stages import agree, preparation_of, recipes_of

ROWS, CUTS = 420, (150, 300)
SITES = ("bonn", "lyon", "oslo")
FORMULA = "outcome ~ age + C(sex) + site"
NAMES = ["age", "C(sex)[T.m]", "site[T.lyon]", "site[T.oslo]"]
THEIRS = ["age", "C(sex)[T.m]", "C(site)[T.lyon]", "C(site)[T.oslo]"]

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


@pytest.fixture
def joint():
    rng = np.random.default_rng(19)
    found = pd.DataFrame({"age": rng.normal(50, 12, ROWS), "sex": rng.choice(["f", "m"], ROWS)})
    found["site"] = np.repeat(SITES, np.diff([0, *CUTS, ROWS]))
    effect = found["site"].map({"bonn": 0.0, "lyon": 0.8, "oslo": -0.6})
    eta = (found["age"] - 50) / 12 + 0.5 * (found["sex"] == "m") + effect
    found["outcome"] = (rng.random(ROWS) < 1 / (1 + np.exp(-eta))).astype(int)
    found["visits"] = rng.poisson(np.exp(0.3 * eta))
    found["cost"] = 3 * eta + rng.normal(size=ROWS)
    return found


@pytest.fixture
def files(joint, tmp_path):
    for name in SITES:
        joint[joint["site"] == name].drop(columns="site").to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def record(folder, formula, task="glm", **job):
    party = [{"name": name, "data": str(folder / f"{name}.csv")} for name in SITES]
    return {"job": {"name": "formula", "task": task, **job}, "prepare": {"formula": formula}, "party": party}


def logit(joint):
    return smf.glm("outcome ~ age + C(sex) + C(site)", joint, family=sm.families.Binomial()).fit(tol=0, maxiter=60)


def expect_model(found, intercept, expected, bar=GLM_BAR):
    assert_close(np.ravel(found), expected.params[THEIRS].to_numpy(), bar)
    assert_close(np.ravel(intercept), expected.params[["Intercept"]].to_numpy(), bar)


def test_a_logistic_regression_by_a_job_file_is_that_of_statsmodels(joint, files):
    job = job_from(record(files, FORMULA, family="binomial"), Path())
    prepared = prepare(job)
    found = run_job(prepared, policy=Rules.permissive()).parties[1]
    assert list(prepared.features[0]) == NAMES
    expect_model(found.coefficients, found.intercept, logit(joint))


def test_and_by_one_command_with_its_table_and_predictions(joint, files, monkeypatch):
    monkeypatch.chdir(files)
    words = ["glm", "--family", "binomial", "--formula", FORMULA, "--name", "m", "--quiet"]
    parties = [word for name in SITES for word in ("--party", f"{name}.csv")]
    said = CliRunner().invoke(cli, [*words, *parties])
    assert said.exit_code == 0, said.output
    expected = logit(joint)
    table = pd.read_csv("results/m/coefficients.csv").set_index("term")
    assert_close(table.loc[NAMES, "coef"].to_numpy(), expected.params[THEIRS].to_numpy(), GLM_BAR)
    assert_close(table.loc[NAMES, "se"].to_numpy(), expected.bse[THEIRS].to_numpy(), GLM_BAR)
    new = ["predict", "results/m/parties/lyon", "--party", "lyon.csv", "--format", "json"]
    said = CliRunner().invoke(cli, new)
    assert said.exit_code == 0, said.output
    values = json.loads(said.stdout)["parties"]["lyon"]["values"]
    lyon = joint[joint["site"] == "lyon"]
    assert_close(np.array(list(values.values())[-1]), expected.predict(lyon).to_numpy(), GLM_BAR)
    of_all = CliRunner().invoke(cli, ["predict", "results/m", "--party", "lyon.csv", "--format", "json"])
    assert "name that party's own folder" in json.loads(of_all.stdout)["error"]["fix"]


def test_and_in_python(joint, files):
    paths = [files / f"{name}.csv" for name in SITES]
    tables = fedsvd.prepared(paths, formula=FORMULA, policy=Policy.permissive())
    assert tables[0].names == ("age", "C(sex)[T.m]", "site[T.party 2]", "site[T.party 3]")
    y = np.concatenate([table.column("outcome") for table in tables])
    model = FederatedGLM(family="binomial", federation=Simulation(policy=Policy.permissive())).fit(tables, y)
    expect_model(model.coef_, model.intercept_, logit(joint))


def test_classes_of_text_and_counts_stand_in_a_formula_too(joint, files):
    for name in SITES:
        path = files / f"{name}.csv"
        table = pd.read_csv(path)
        table.assign(outcome=table["outcome"].map({0: "well", 1: "ill"})).to_csv(path, index=False)
    asked = record(files, FORMULA, family="binomial", classes=["well", "ill"])
    found = run_job(prepare(job_from(asked, Path())), policy=Rules.permissive()).parties[0]
    expect_model(found.coefficients, found.intercept, logit(joint))
    counts = job_from(record(files, "visits ~ age + C(sex) + site", family="poisson"), Path())
    found = run_job(prepare(counts), policy=Rules.permissive()).parties[0]
    poisson = smf.glm("visits ~ age + C(sex) + C(site)", joint, family=sm.families.Poisson()).fit(tol=0, maxiter=60)
    expect_model(found.coefficients, found.intercept, poisson)


def test_numbers_that_are_no_class_of_the_study_are_refused(files):
    asked = record(files, FORMULA, family="binomial", classes=["1", "2"])
    with pytest.raises(DataError, match="that the study does not name") as caught:
        prepare(job_from(asked, Path()))
    assert "party bonn" in str(caught.value)


@pytest.mark.parametrize("task", ["lr", "pcr"])
def test_a_linear_regression_has_the_site_as_a_term(joint, files, task):
    more = {"inference": True} if task == "lr" else {"components": 4}
    job = job_from(record(files, "cost ~ age + C(sex) + site", task, **more), Path())
    found = run_job(prepare(job), policy=Rules.permissive()).parties[2]
    expected = smf.ols("cost ~ age + C(sex) + C(site)", joint).fit()
    expect_model(found.coefficients, found.intercept, expected, STATISTIC_BAR)


def test_a_column_called_site_is_read_where_the_formula_says_so(joint, tmp_path):
    """Not as the party: two wards that all parties have, under the name site."""
    rng = np.random.default_rng(2)
    table = joint.assign(site=rng.choice(["east", "west"], ROWS))
    for place, name in enumerate(SITES):
        table[place * 140 : place * 140 + 140].to_csv(tmp_path / f"{name}.csv", index=False)
    prepared = prepare(job_from(record(tmp_path, "cost ~ age + C(site)", "lr"), Path()))
    assert list(prepared.features[0]) == ["age", "C(site)[T.west]"]
    with pytest.raises(ConfigError, match="the table has a column 'site' too"):
        prepare(job_from(record(tmp_path, "cost ~ age + site", "lr"), Path()))


def test_what_a_site_as_a_term_shows_is_said_and_one_party_can_look_alone(files):
    job = job_from(record(files, FORMULA, family="binomial"), Path())
    assert any("coefficients show the level of each party" in line for line in job.prepare.description())
    assert not own_faults(job, fedsvd.open_source(files / "bonn.csv"))


def test_a_model_without_an_outcome_in_its_formula_is_refused(files):
    with pytest.raises(ConfigError, match="the formula has no outcome"):
        job_from(record(files, "~ age + C(sex)", family="binomial"), Path())
    with pytest.raises(ConfigError, match="the outcome of the formula is a category"):
        job_from(record(files, "C(outcome) ~ age", family="binomial"), Path())


def test_between_institutions_each_site_opens_its_table_with_its_own_name(joint, files):
    """Both sessions, as services open them."""
    job = job_from(record(files, "cost ~ age + C(sex) + site", "lr"), Path())
    homes = [open_data(job, name, files / f"{name}.csv", stage=Stage.PREPARE) for name in SITES]
    assert [set(home.data.table.text("site")[0].tolist()) for home in homes] == [{name} for name in SITES]
    assert len({home.facts.features for home in homes}) == 1
    recipes = recipes_of(agree(preparation_of(job), [home.data for home in homes], policy=Rules.permissive()))
    opened = [
        open_data(job, name, files / f"{name}.csv", recipe=recipe) for name, recipe in zip(SITES, recipes, strict=True)
    ]
    rows = np.vstack([each.data.table.rows(0, each.data.table.shape[0]) for each in opened])
    expected = [joint["age"], joint["sex"] == "m", joint["site"] == "lyon", joint["site"] == "oslo"]
    assert np.array_equal(rows, np.column_stack(expected).astype(float))


def test_text_that_stands_bare_in_a_formula_is_refused_with_what_to_write(files):
    with pytest.raises(NotNumeric, match=r"write C\(sex\) in the formula"):
        prepare(job_from(record(files, "cost ~ age + sex", "lr"), Path()))


def test_the_job_file_as_toml_says_the_same(files):
    path = write_job(files, record(files, FORMULA, family="binomial"))
    assert "site" in path.read_text()
    said = CliRunner().invoke(cli, ["plan", str(path), "--format", "json"])
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["features"] == len(NAMES)
