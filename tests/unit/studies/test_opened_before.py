"""A study next to what earlier ones opened of the same table: records that stand out in two studies and in neither."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.datasets as econometric
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets
from tests.tolerances import STATISTIC_BAR

from fedsvd.data.open import open_source
from fedsvd.policy.opened_columns import OpenedColumns
from fedsvd.policy.rules import Policy
from fedsvd.prepare.formula import parse
from fedsvd.prepare.formula_table import FormulaTable
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.tasks import Family, Item, Task
from fedsvd.randomness.seed import Seed
from fedsvd.studies.opened_before import Before, earlier_bits, study_columns, together
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study

ROWS = 150
LINEAR = Study(Task.LR, release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE), targets=1)
PCA = Study(Task.PCA, components=2)
LOGISTIC = Study(Task.GLM, glm=ModelPlan(Family.BINOMIAL, "logit"), targets=1)
JUDGED = Policy(openings="any", consent_to_gram=True)


def people(seed=3, rows=ROWS):
    """Codes and measurements; ``ward2`` and ``ill2`` differ from ``ward`` and ``ill`` in the eighth record alone."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["age", "bmi", "sbp"])
    made["ward"], made["sex"], made["ill"] = (rng.integers(0, 2, rows).astype(float) for _ in range(3))
    made["cost"] = made["age"] + rng.normal(size=rows)
    for name in ("ward", "ill"):
        made[f"{name}2"] = np.where(np.arange(rows) == 7, 1.0 - made[name], made[name])
    made["bmi2"] = np.where(np.arange(rows) == 7, made["bmi"] + 3.0, made["bmi"])
    return made


class Site:
    """One party's table and its memory, study after study."""

    def __init__(self, table, policy=JUDGED):
        self.table, self.policy = table, policy
        self.opened = OpenedColumns().after(len(table))

    def brings(self, study, columns, label="cost", record=None, weights=None):
        """The rules that ask or refuse; from now on it is an earlier study."""
        source = open_source(self.table[columns]) if isinstance(columns, list) else self.formula(columns)
        y = None if study.task is Task.PCA else self.table[[label]].to_numpy()
        own = PartyData(source, y, row_weights=weights)
        others = [PartyData(open_source(own.table.rows(0, len(self.table))), y, row_weights=weights) for _ in range(2)]
        plan = plan_for(study, [own, *others], Seed(bytes(32)))[0].plan
        rows = np.arange(len(self.table))
        before = Before(self.opened, rows if record is None else record)
        found = home_findings(plan, own, self.policy, before)
        self.opened = self.opened.after(len(rows)).with_study(
            f"{len(self.opened.studies)}", study_columns(plan, own), rows
        )
        self.bits = earlier_bits(plan, own, before)
        self.measured = together(plan, own, before, self.policy)
        return [(each.rule, "refused" if each.below else "asks") for each in found if each.below or each.asks]

    def formula(self, text):
        return FormulaTable(open_source(self.table), parse(text), {})


def test_codes_that_differ_in_one_record_ask_in_the_second_study():
    site = Site(people())
    assert site.brings(LINEAR, ["age", "bmi", "ward"]) == []
    assert site.brings(LINEAR, ["age", "sbp", "sex"]) == []
    assert site.brings(LINEAR, ["age", "bmi", "ward"]) == []  # again: nothing new
    assert site.brings(LINEAR, ["age", "bmi", "ward2"]) == [("leverage", "asks")]
    assert site.measured.guessed.column == "column 'ward2'"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((["age", "bmi"], "cost"), (["age", "bmi2"], "cost")),
        ((["age", "bmi"], "ill"), (["age", "bmi"], "ill2")),
    ],
    ids=["measurements", "labels"],
)
def test_columns_that_differ_in_one_record_ask(first, second):
    for study in (LINEAR, LOGISTIC) if first[1] == "ill" else (LINEAR,):
        site = Site(people())
        assert site.brings(study, *first) == []
        assert site.brings(study, *second) == [("leverage", "asks")]


def test_what_two_jobs_make_of_one_record_is_refused():
    site = Site(people())
    assert site.brings(LINEAR, "cost ~ age + age:ward") == []
    assert site.brings(LINEAR, "cost ~ age + age:sex") == []
    assert site.brings(LINEAR, "cost ~ age + age:ward2") == [("leverage", "refused")]
    pca = Site(people())  # factors are the study: only what jobs make is judged
    assert pca.brings(PCA, "age + bmi + age:ward") == []
    assert pca.brings(PCA, "age + bmi + age:ward2") == [("leverage", "refused")]


def test_many_columns_of_one_study_do_not_hide_what_two_others_say():
    """A study of as many columns as records holds every direction: with it no record would stand out anew."""
    table = pd.concat([people(), pd.DataFrame(np.random.default_rng(1).normal(size=(ROWS, ROWS)))], axis=1)
    table.columns = table.columns.map(str)
    site = Site(table, replace(JUDGED, answered=("few",)))
    site.brings(PCA, [str(j) for j in range(ROWS)])
    site.brings(replace(PCA, components=ROWS), [str(j) for j in range(ROWS)])
    assert site.brings(LINEAR, ["age", "bmi", "ward"]) == []
    assert site.brings(LINEAR, ["age", "bmi", "ward2"]) == [("leverage", "asks")]


def test_three_codes_that_count_one_record_together_ask_in_the_third_study():
    """One ward, another ward, and either of them: one person is in both. No two of these studies say so."""
    table, rng = people(), np.random.default_rng(6)
    kind = rng.integers(0, 3, ROWS)
    table["one"], table["two"] = (kind == 0).astype(float), (kind == 1).astype(float)
    table.loc[7, ["one", "two"]] = 1.0
    table["either"] = table[["one", "two"]].max(axis=1)
    numbers = pd.DataFrame(rng.normal(size=(ROWS, 30)), columns=[f"z{j}" for j in range(30)])
    site = Site(pd.concat([table, numbers], axis=1))
    for k, code in enumerate(("one", "two")):  # numbers, which are others in each study, do not hide it
        assert site.brings(LINEAR, ["age", code, *numbers.columns[10 * k : 10 * k + 10]]) == []
    assert site.brings(LINEAR, ["age", "either", *numbers.columns[20:]]) == [("leverage", "asks")]


def test_weights_that_differ_in_one_record_ask():
    site, even, rng = Site(people()), np.ones(ROWS), np.random.default_rng(2)
    weighted = replace(LINEAR, weighted=True)
    assert site.brings(weighted, ["age", "bmi"], weights=even) == []
    assert site.brings(weighted, ["age", "bmi"], weights=rng.uniform(0.5, 2.0, ROWS)) == []
    assert site.brings(LINEAR, ["age", "bmi"]) == []
    tilted = np.where(np.arange(ROWS) == 7, 4.0, 1.0)
    assert site.brings(weighted, ["age", "bmi"], weights=tilted) == [("leverage", "asks")]


def test_corrections_and_new_records_are_no_new_columns():
    """Five corrected records would make the difference of both versions a study of these five."""
    site = Site(people())
    columns = ["age", "bmi", "sbp", "ward", "sex"]
    assert site.brings(LINEAR, columns) == []
    site.table = people().copy()
    site.table.loc[3:7, columns] += 1.0
    later = people(seed=5, rows=6)
    site.table = pd.concat([site.table, later], ignore_index=True)
    site.opened = site.opened.after(ROWS, np.arange(3, 8))
    assert site.brings(LINEAR, columns, record=np.concatenate((np.arange(ROWS), np.full(6, -1)))) == []
    assert len(site.opened.names) == len(columns) + 1, "one for each column, and the label"


def test_a_renamed_column_and_its_logarithm_hold_no_bits_of_their_own():
    """Else every name would hold bits of its own, and no number of studies would open too much."""
    table = people()
    table["age"] = np.exp(table["age"])
    table["years"] = table["age"]
    site = Site(table)
    site.brings(LINEAR, ["age", "bmi"])
    site.brings(LINEAR, ["years", "bmi"])
    assert [dict(each.columns) for each in site.bits] == [{}]
    site.brings(LINEAR, "cost ~ log(age) + bmi")
    assert [dict(each.columns) for each in site.bits] == [{}, {}]
    site.brings(LINEAR, ["sbp"])
    assert all(set(each.columns) == {"age", "bmi"} for each in site.bits[:2])
    assert all(bits >= 8.0 for bits in site.bits[0].columns.values())


HONEST = {
    "diabetes": (lambda: datasets.load_diabetes(scaled=False).data, 147),
    "wine": (lambda: datasets.load_wine().data, 60),
    "anes96": (lambda: econometric.anes96.load_pandas().exog, 314),
    "modechoice": (lambda: econometric.modechoice.load_pandas().data[["ttme", "invc", "invt", "gc", "hinc"]], 280),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_eight_regressions_of_honest_tables_one_after_the_other_pass_without_a_word(name):
    load, rows = HONEST[name]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame(np.asarray(load(), float)[rng.permutation(len(load()))[:rows]])
        table.columns = [f"x{j}" for j in table.columns]
        names = list(table.columns)
        table["cost"] = rng.normal(size=rows)
        site = Site(table)
        for _ in range(8):
            some = rng.choice(names, size=min(len(names) - 1, rng.integers(3, 7)), replace=False)
            assert site.brings(LINEAR, sorted(some)) == []


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 4))
def test_the_leverage_of_several_studies_is_that_of_a_hat_matrix(seed, first, second):
    rng = np.random.default_rng(seed)
    heavy = rng.normal(size=(60, first + second)) * (1.0 + 30.0 * (rng.random((60, 1)) < 0.05))
    table = pd.DataFrame(heavy, columns=[f"x{j}" for j in range(first + second)])
    table["cost"] = rng.normal(size=60)
    site = Site(table)
    names = list(table.columns)
    site.brings(LINEAR, names[:first])
    site.brings(LINEAR, names[first : first + second])

    def hat(columns):
        X = np.column_stack((np.ones(60), table[columns]))
        return np.diag(X @ np.linalg.pinv(X))

    alone = [hat([*names[:first], "cost"]), hat([*names[first : first + second], "cost"])]
    both = hat([*names[: first + second], "cost"])
    expected = np.max(both[(both > 0.8) & (alone[0] <= 0.8) & (alone[1] <= 0.8)], initial=0.0)
    assert site.measured.every.value == pytest.approx(expected, abs=STATISTIC_BAR)
