"""A researcher chooses the columns of a study so that sums of them are one person: refused, beside honest studies."""

import numpy as np
import pandas as pd
import pytest
from tests.tolerances import STATISTIC_BAR, assert_close, digits_lost

from fedsvd.cli.local_run import carry_out_locally
from fedsvd.cli.output import Format, Output
from fedsvd.errors import ConfigError, PrivacyWarning, ReleaseRefused
from fedsvd.policy.rules import Policy
from fedsvd.prepare.formula import parse
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from
from fedsvd.studies.jobs import run_job
from fedsvd.studies.submitted import submitted_job

NAMES = ("bonn", "lyon", "oslo")
AT = "exp(-(200*(age-52.62))**2-(200*(bmi-31.07))**2)"


@pytest.fixture
def clinics(tmp_path):
    """Three tables of 150 people; one of them, at Lyon, is 52.62 years old with a BMI of 31.07."""
    rng = np.random.default_rng(27)
    tables = []
    for _ in NAMES:
        age, bmi = rng.normal(55, 12, 150).round(2), rng.normal(27, 4, 150).round(2)
        tables.append(pd.DataFrame({"age": age, "bmi": bmi, "sex": rng.choice(["f", "m"], 150)}))
        tables[-1]["cost"] = 20 * age + 9 * bmi + rng.normal(0, 30, 150)
    tables[1].loc[7, ["age", "bmi"]] = 52.62, 31.07
    for name, table in zip(NAMES, tables, strict=True):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return tables


def record(folder, formula, **job):
    party = [{"name": name, "data": str(folder / f"{name}.csv")} for name in NAMES]
    words = {"name": "costs", "task": "lr", "inference": True, **job}
    return {"job": words, "prepare": {"formula": formula}, "party": party}


def test_a_formula_that_singles_out_a_person_is_refused_by_every_reader_of_the_job(clinics, tmp_path):
    """The sum of such a column is 1 where the person is in a table: 0.2.0 opened it with every regression table."""
    peak = [np.exp(-((200 * (t["age"] - 52.62)) ** 2) - (200 * (t["bmi"] - 31.07)) ** 2).sum() for t in clinics]
    assert [round(value) for value in peak] == [0, 1, 0]
    asked = record(tmp_path, f"cost ~ age + {AT}")
    submitted = {**asked, "party": [{"name": name} for name in NAMES]}
    readers = (
        lambda: submitted_job(submitted),  # the researcher's client and the CSP
        lambda: job_from(asked, tmp_path),  # a party, and all in one process
        lambda: parse(asked["prepare"]["formula"]),
    )
    for read in readers:
        with pytest.raises(ConfigError, match=r"cannot be read at 'exp\(.*character 14.*before the study"):
            read()


def test_an_honest_formula_of_the_same_table_runs(clinics, tmp_path):
    job = job_from(record(tmp_path, "cost ~ poly(age, 2, raw=True) + log(bmi) * C(sex)"), tmp_path)
    allowed = Policy(enforce=True)
    found = run_job(prepare(job, policy=allowed), policy=allowed).parties[0]
    whole = pd.concat(clinics)
    X = [np.ones(len(whole)), whole["age"], whole["age"] ** 2, np.log(whole["bmi"]), whole["sex"] == "m"]
    X = np.column_stack([*X, X[3] * X[4]]).astype(float)
    fitted = X @ np.linalg.lstsq(X, whole["cost"].to_numpy(), rcond=None)[0]
    ours = X @ np.concatenate([np.ravel(found.intercept), np.ravel(found.coefficients)])
    assert_close(ours, fitted, STATISTIC_BAR)


# --- one record in a sum that is opened, in one process: what a job made is refused, asks are silent ------------------

ENFORCED = Policy(enforce=True, parties_for_clusters=3)
HONEST = "cost ~ age + bmi + C(sex)"


def written(tables, folder):
    for name, table in zip(NAMES, tables, strict=True):
        table.to_csv(folder / f"{name}.csv", index=False)


def run(folder, formula=HONEST, policy=ENFORCED, **job):
    found = job_from(record(folder, formula, **job), folder)
    return run_job(prepare(found, policy=policy), policy=policy)


def test_a_column_that_one_record_has_is_that_records_row(clinics, tmp_path):
    """What the rules are for: the row of that column in the joint Gram matrix, which follows from standard errors."""
    for place, table in enumerate(clinics):
        table["rare"] = 0
        table.loc[7, "rare"] = int(place == 1)
    written(clinics, tmp_path)
    model = run(tmp_path, "cost ~ age + bmi + rare", Policy.permissive()).parties[0].inference[0]
    G = np.linalg.inv(model.covariance / model.sigma**2)
    assert_close(G[3, :4], np.array([1.0, 52.62, 31.07, 1.0]), digits_lost(7))


@pytest.fixture
def wards(clinics, tmp_path):
    """With a cell that one record of Lyon is in: a man in the west ward."""
    rng = np.random.default_rng(3)
    for table in clinics:
        table["ward"] = rng.choice(["east", "west"], 150)
    clinics[1].loc[clinics[1]["sex"] == "m", "ward"] = "east"
    clinics[1].loc[clinics[1].index[clinics[1]["sex"] == "m"][0], "ward"] = "west"
    written(clinics, tmp_path)


def test_a_cell_of_an_interaction_that_one_record_is_in_is_refused(wards, tmp_path):
    run(tmp_path, "cost ~ age + C(sex) + C(ward)")
    with pytest.raises(ReleaseRefused, match=r"leverage: at party lyon, .*C\(sex\)\[T.m\]:C\(ward\)\[T.west\]"):
        run(tmp_path, "cost ~ age + C(sex) * C(ward)")


def test_without_an_enforced_policy_it_is_warned_of(wards, tmp_path):
    with pytest.warns(PrivacyWarning, match="leverage: at party 2"):
        run(tmp_path, "cost ~ age + C(sex) * C(ward)", Policy())


def test_on_the_local_rung_it_is_refused_before_a_process_is_started(wards, tmp_path):
    """One person plays all parties there: asks are answered, and what a job made of one record is not."""
    job = job_from(record(tmp_path, "cost ~ age + C(sex) * C(ward)"), tmp_path)
    output = Output(Format.TEXT, quiet=True)
    with pytest.raises(ReleaseRefused, match=r"leverage: at party lyon, .*--consent"):
        carry_out_locally(output, job, tmp_path / "results", False, None, Policy())
    assert not (tmp_path / "results").exists()


def test_a_weight_that_one_record_has_is_refused(clinics, tmp_path):
    rng = np.random.default_rng(4)
    for table in clinics:
        table["w"] = rng.uniform(1, 3, 150)
    written(clinics, tmp_path)
    run(tmp_path, weights="w")
    clinics[1].loc[7, "w"] = 1e6
    written(clinics, tmp_path)
    with pytest.raises(ReleaseRefused, match=r"leverage: at party lyon, .* with the weights, by which the job weighs"):
        run(tmp_path, weights="w")


def test_an_offset_in_euros_is_refused(clinics, tmp_path):
    rng = np.random.default_rng(5)
    for table in clinics:
        table["years"] = rng.uniform(1, 9, 150)
        table["visits"] = rng.poisson(table["years"])
        table["logged"] = np.log(table["years"])
    written(clinics, tmp_path)
    model = {"task": "glm", "family": "poisson", "inference": False}
    run(tmp_path, "visits ~ age + bmi", offset="logged", **model)
    with pytest.raises(ReleaseRefused, match=r"offset: at .*an offset beyond 20"):
        run(tmp_path, "visits ~ age + bmi", offset="cost", **model)
