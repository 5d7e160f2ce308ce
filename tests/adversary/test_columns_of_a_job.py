"""A researcher chooses the columns of a study so that sums of them are one person: refused, beside honest studies."""

import numpy as np
import pandas as pd
import pytest
from tests.tolerances import STATISTIC_BAR, assert_close

from fedsvd.errors import ConfigError
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
