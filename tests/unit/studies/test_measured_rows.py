"""A party's own rows are measured as they are summed: verdicts on honest tables, and on records that stand out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from fedsvd.data.open import open_source
from fedsvd.data.views import underlying
from fedsvd.policy.rules import Policy
from fedsvd.prepare.at_home import HomeReport
from fedsvd.prepare.categories import JointLevels
from fedsvd.prepare.described import described
from fedsvd.prepare.dictionary import dictionary_of
from fedsvd.prepare.formula import parse
from fedsvd.prepare.formula_table import FormulaTable
from fedsvd.prepare.job_made import combined, job_made
from fedsvd.prepare.joint_counts import Rare
from fedsvd.prepare.missing import Gaps, Missing, filled_with_constant
from fedsvd.prepare.recipe import Recipe
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.tasks import Family, Item, Task
from fedsvd.randomness.seed import Seed
from fedsvd.studies.measured_rows import _cells
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study

LEVELS = {"sex": JointLevels("sex", ("f", "m"), False), "ward": JointLevels("ward", ("e", "w"), False)}


def people(rows=160):
    rng = np.random.default_rng(9)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 9, rows),
            "dose": rng.uniform(1, 3, rows),
            "old": np.repeat([0.0, 1.0], rows // 2),
            "sex": ["f", "m"] * (rows // 2),
            "ward": ["e", "e", "w", "w"] * (rows // 4),
        }
    )


def table_of(formula, frame):
    return FormulaTable(open_source(frame), parse(formula), LEVELS)


def verdicts(study, tables, labels=None, policy=None, **beside):
    """Of every party: the rules that ask or refuse."""
    sources = [open_source(table) if isinstance(table, np.ndarray) else table for table in tables]
    parties = [PartyData(source, y, **beside) for source, y in zip(sources, labels or [None] * 3, strict=True)]
    plan = plan_for(study, parties, Seed(bytes(32)))[0].plan
    judged = replace(policy or Policy(), openings="any")  # how many bits are opened is judged apart
    found = [home_findings(plan, party, judged) for party in parties]
    return [[(each.rule, "refused" if each.below else "asks") for each in own] for own in found]


LINEAR = Study(Task.LR, release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE), targets=1)
POISSON = Study(Task.GLM, glm=ModelPlan(Family.POISSON, "log"), targets=1)
LOGISTIC = Study(Task.GLM, glm=ModelPlan(Family.BINOMIAL, "logit"), targets=1)
PCA = Study(Task.PCA, components=2)
NONE = [[], [], []]
ASKS = [("leverage", "asks")]
FEW_PERSONS = Policy(records_for_full=10)


# --- columns that a job makes ----------------------------------------------------------------------------------------


def test_products_powers_and_several_functions_of_one_column_are_made_by_the_job():
    plain, products = "log(age) + I(tall / 10) + C(sex) + old", "I(tall * dose) + tall:old + C(sex):C(ward)"
    asked = f"{plain} + poly(dose, 2, raw=True) + sqrt(dose) + {products}"
    assert job_made(table_of(asked, people().assign(tall=1.0))) == {
        "I(tall / 10)": (),
        "poly(dose, 2, raw=True)[2]": ("poly(dose, 2, raw=True)[1]",),
        "sqrt(dose)": (),
        "I(tall * dose)": (),
        "tall:old": ("old",),
        "C(sex)[f]:C(ward)[T.w]": (),
        "C(sex)[m]:C(ward)[T.w]": ("C(sex)[T.m]",),
    }
    assert job_made(table_of("log(dose) + I(age - 50) + C(sex) + old", people())) == {}


def test_indicators_of_gaps_are_made_by_the_job():
    frame = people()[["age", "dose"]]
    frame.loc[3, "age"] = np.nan
    assert list(job_made(filled_with_constant(open_source(frame), 0.0, ["age"]))) == ["age_missing"]
    assert job_made(open_source(people()[["age", "dose"]])) == {}


def test_any_two_products_are_combined_and_columns_of_many_values_are_left_out():
    crossed = table_of("age:C(sex) + old:C(ward)", people())
    (cells,) = combined(crossed, 20)
    assert cells.names == ("old", "sex", "ward")
    by_hand = people().groupby(["old", "sex", "ward"]).ngroup().to_numpy()
    assert len({*zip(cells.rows.tolist(), by_hand.tolist(), strict=True)}) == len(set(cells.rows.tolist())) == 8
    assert {tuple(each) for each in people()[["old", "sex", "ward"]].astype({"old": int}).astype(str).to_numpy()} == {
        *cells.held
    }
    assert list(combined(table_of("age + C(sex)", people()), 20)) == []


WARDS = {
    "columns": {
        "sex": {"levels": ["f", "m"]},
        "ward": {"levels": ["e", "w", "maternity"]},
        "old": {"range": [0, 1], "decimals": 0},
        "age": {"range": [0, 120]},
        "person": {"role": "id"},
    },
}


def cells_of(frame, formula="C(sex):C(ward)", **words):
    """What a party with this table is asked about combinations, by a dictionary."""
    source = described(open_source(frame), dictionary_of({**WARDS, **words}))
    levels = {"sex": JointLevels("sex", ("f", "m")), "ward": JointLevels("ward", ("e", "w", "maternity"))}
    table = FormulaTable(source, parse(formula), {name: each for name, each in levels.items() if name in formula})
    policy = Policy()
    return [(each.few, each.empty) for each in _cells(PartyData(table.reordered(range(len(frame)))), policy)]


def test_an_empty_cell_asks_unless_the_dictionary_says_that_it_cannot_occur():
    frame = people().assign(person=range(160)).drop(columns="dose")
    assert cells_of(frame) == [(0, 2)]
    zero = {"sex": "m", "ward": "maternity"}
    assert cells_of(frame, structural_zeros=[zero]) == [(0, 1)]
    frame.loc[frame.index[frame["sex"] == "f"][:9], "ward"] = "maternity"
    assert cells_of(frame, structural_zeros=[zero]) == []
    assert cells_of(frame, "old:C(sex):C(ward)", structural_zeros=[zero]) == [(0, 1)]  # of old women in maternity
    assert cells_of(frame, "old:C(sex)") == []


def test_persons_are_counted_where_they_have_several_rows():
    frame = people().drop(columns="dose")
    one_row_each = frame.assign(person=range(160))
    assert cells_of(one_row_each, "old:C(sex)") == []
    visits = frame.assign(person=np.arange(160) % 80 // 20)  # 40 rows in each cell, of two persons
    assert cells_of(visits, "old:C(sex)") == [(16, 0)]


def test_the_rows_of_one_person_stand_out_together():
    """Five visits of a person make up most of a code that no one of them does, and two are half of its weight."""
    rng = np.random.default_rng(12)
    visits = pd.DataFrame({"age": rng.normal(50, 9, 300), "dialysis": (np.arange(300) < 8).astype(float)})
    labels = [rng.normal(size=(300, 1)) for _ in range(3)]
    several, others = np.repeat(np.arange(60), 5), np.arange(300)
    for ids, found in ((others, NONE), (np.where(others < 8, 0, others), [ASKS] * 3)):
        assert verdicts(LINEAR, [open_source(visits)] * 3, labels, FEW_PERSONS, ids=ids) == found
    calm = visits.assign(dialysis=rng.normal(size=300))
    assert verdicts(LINEAR, [open_source(calm)] * 3, labels, FEW_PERSONS, ids=several) == NONE
    twelve = np.repeat(np.arange(12), 25)
    assert verdicts(LINEAR, [open_source(calm)] * 3, labels, FEW_PERSONS, ids=twelve) == [[("few", "asks")]] * 3


def test_subjects_of_a_mixed_model_are_persons():
    """Eight visits of the one patient on dialysis are one record, without an id too, and by an id of visits."""
    rng = np.random.default_rng(13)
    about = ModelPlan(Family.MIXED, "identity", digits="table")
    person, study = np.repeat(np.arange(60), 8), Study(Task.MIXED, targets=2, glm=about)
    visits = pd.DataFrame({"age": rng.normal(50, 9, 60)[person], "dialysis": (person == 7).astype(float)})
    labels = [np.column_stack((rng.normal(size=480), person)) for _ in range(3)]
    assert verdicts(study, [open_source(visits)] * 3, labels, FEW_PERSONS) == [ASKS] * 3
    assert verdicts(study, [open_source(visits)] * 3, labels, FEW_PERSONS, ids=np.arange(480)) == [ASKS] * 3
    calm = visits.assign(dialysis=rng.integers(0, 2, 60)[person].astype(float))
    assert verdicts(study, [open_source(calm)] * 3, labels, FEW_PERSONS) == NONE


def test_a_party_with_fewer_persons_than_records_are_asked_for_is_asked_however_many_rows_it_has():
    """The plan has rows alone; how many persons these are of is known at home."""
    rng = np.random.default_rng(14)
    person = np.repeat(np.arange(60), 8)
    visits = pd.DataFrame({"age": rng.normal(50, 9, 60)[person], "dose": rng.normal(size=480)})
    labels = [np.column_stack((rng.normal(size=480), person)) for _ in range(3)]
    study = Study(Task.MIXED, targets=2, glm=ModelPlan(Family.MIXED, "identity", digits="table"))
    asked = [[("records", "asks")]] * 3
    assert verdicts(study, [open_source(visits)] * 3, labels) == asked
    outcomes = [own[:, :1] for own in labels]
    assert verdicts(LINEAR, [open_source(visits)] * 3, outcomes, ids=person) == asked
    assert verdicts(LINEAR, [open_source(visits)] * 3, outcomes, ids=np.arange(480)) == NONE


def counted(frames, policy=None, current=None):
    """The verdicts on a regression of these tables, after joint counts of which all passed."""
    names = tuple(frames[0])
    rare = Rare(current=names if current is None else current)
    report = HomeReport(Missing.ERROR, Gaps(names, 1, np.zeros(len(names), np.int64)), 0, (), Recipe(rare=rare))
    rng = np.random.default_rng(8)
    labels = [rng.normal(size=(len(frame), 1)) for frame in frames]
    sources = [open_source(frame) for frame in frames]
    return verdicts(LINEAR, sources, labels, policy, prepared=report)


def comorbid(rows=150, own=1, **columns):
    """People of whom ``own`` have a comorbidity."""
    rng = np.random.default_rng(2)
    made = {"age": rng.normal(50, 9, rows), "rare": (np.arange(rows) < own).astype(float)}
    return pd.DataFrame(
        made | {name: (np.isin(np.arange(rows), list(held))).astype(float) for name, held in columns.items()}
    )


def test_what_passed_joint_counts_is_not_asked_about_however_few_own_records_have_it():
    frames = [comorbid(own=own) for own in (1, 4, 3)]
    assert counted(frames) == NONE
    without = [PartyData(open_source(frame)) for frame in frames]
    assert verdicts(LINEAR, [each.table for each in without], [np.ones((150, 1))] * 3)[0] == ASKS
    assert counted(frames, current=("age",))[0] == ASKS  # counted when other records had it
    assert counted(frames, Policy(least_count=6))[0] == ASKS  # five are not enough for this owner


def test_columns_that_few_own_records_tell_apart_are_asked_about_unless_they_are_disjoint():
    def asked(first, other):
        return counted([comorbid(own=9, a=first, b=other)] * 3)[0]

    assert asked(range(20, 40), range(20, 40)) == []  # the same
    assert asked(range(20, 40), range(20, 41)) == ASKS
    assert asked(range(20, 40), range(20, 44)) == ASKS
    assert asked(range(20, 40), range(20, 45)) == []
    assert asked([20], [21]) == []  # disjoint
    assert asked(range(75), [*range(3), *range(75, 150)]) == ASKS  # all but three have either


def test_a_table_behind_views_is_found():
    crossed = table_of("age:C(sex)", people())
    assert underlying(crossed.without([]), FormulaTable) is crossed
    assert underlying(open_source(np.eye(3)), FormulaTable) is None


# --- verdicts --------------------------------------------------------------------------------------------------------


def split(X, y, seed=0):
    order = np.random.default_rng(seed).permutation(len(X))
    return [np.ascontiguousarray(part) for part in np.array_split(X[order], 3)], [
        np.asarray(part, dtype=float)[:, None] for part in np.array_split(y[order], 3)
    ]


@pytest.mark.parametrize(("name", "study"), [("diabetes", LINEAR), ("iris", LINEAR), ("diabetes", PCA)])
def test_honest_tables_pass_without_a_word(name, study):
    data = getattr(datasets, f"load_{name}")()
    X, y = split(data.data, data.target)
    assert verdicts(study, X, y if study is LINEAR else None) == NONE


def test_nearly_dependent_measurements_ask_between_institutions_and_are_never_refused():
    """Breast cancer, 30 measurements: one record makes up up to 0.95 of a direction; scikit-learn's own table."""
    data = datasets.load_breast_cancer()
    X, y = split(data.data, data.target)
    assert {verdict for own in verdicts(LINEAR, X, y) for _, verdict in own} <= {"asks"}
    assert verdicts(PCA, X) == NONE


def designs(seed=11, rows=150, columns=4):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rows, columns)) for _ in range(3)]
    return X, [rng.normal(size=(rows, 1)) for _ in range(3)]


def test_a_heavy_tailed_column_asks_at_its_party_alone():
    X, y = designs()
    assert verdicts(LINEAR, X, y) == NONE
    X[1][7, 2] = 40.0
    assert verdicts(LINEAR, X, y) == [[], ASKS, []]
    assert verdicts(LINEAR, X, y, Policy(most_leverage=0.99)) == NONE
    y[0][7] = 90.0
    assert verdicts(LINEAR, X, y) == [ASKS, ASKS, []]


def test_codes_that_differ_in_one_record_ask():
    """Nested codes: neither column is one record's, their difference is."""
    X, y = designs()
    for each in X:
        each[:, 0] = np.arange(150) < 40
        each[:, 1] = np.arange(150) < 60
    assert verdicts(LINEAR, X, y) == NONE
    X[2][:, 1] = X[2][:, 0]
    X[2][77, 1] = 1.0
    assert verdicts(LINEAR, X, y) == [[], [], ASKS]


def test_a_record_that_stands_out_in_the_data_is_asked_about_and_not_held_against_the_job():
    frames = [people() for _ in range(3)]
    frames[1].loc[5, "age"] = 4000.0
    y = [np.random.default_rng(3).normal(size=(160, 1)) for _ in range(3)]
    tables = [table_of("age + old + age:old", frame) for frame in frames]
    assert verdicts(LINEAR, tables, y) == [[], ASKS, []]


def test_few_records_ask_once_and_say_nothing_of_leverage():
    X, y = designs(rows=40, columns=9)
    assert verdicts(LINEAR, X, y) == [[("few", "asks")]] * 3
    assert verdicts(LINEAR, [each[:8] for each in X], [each[:8] for each in y]) == [[("few", "asks")]] * 3


def test_counts_that_one_record_makes_up_ask_and_small_classes_do():
    X, _ = designs()
    y = [np.random.default_rng(seed).poisson(4, (150, 1)).astype(float) for seed in range(3)]
    assert verdicts(POISSON, X, y) == NONE
    y[0][3] = 20_000.0
    assert verdicts(POISSON, X, y) == [ASKS, [], []]
    ill = [(np.arange(150) < cases).astype(float)[:, None] for cases in (30, 3, 5)]
    assert verdicts(LOGISTIC, X, ill) == [[], [("classes", "asks")], []]


def test_curves_of_one_column_that_single_out_its_extreme_are_refused_and_one_curve_is_not():
    """Six functions of a column fit a peak to one person's value, which no one of them does."""
    frames = [people() for _ in range(3)]
    for frame in frames:
        frame["dose"] = np.linspace(1.0, 3.0, len(frame))
    frames[1].loc[0, "dose"] = 0.1
    curves = [f"{name}(dose)" for name in ("log", "log1p", "sqrt", "asinh")]
    for columns, expected in ((["age", curves[0]], []), (["age", "dose", *curves], [("leverage", "refused")])):
        tables = [table_of(" + ".join(columns), frame) for frame in frames]
        assert verdicts(PCA, tables) == [[], expected, []]


def test_more_columns_of_the_job_than_a_fifth_of_the_records_ask_where_factors_are_the_study():
    few = [table_of("age * old * dose + age:C(sex):C(ward)", people(40)) for _ in range(3)]
    assert {rule for own in verdicts(PCA, few) for rule, _ in own} == {"few"}
