"""Formulas over joint levels make the columns that formulaic makes of the joint table; other code is never run."""

import formulaic
import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from numpy.testing import assert_array_equal
from tests.tolerances import assert_close, digits_lost
from tests.unit.prepare.jointly import joint_levels

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError, NotFinite
from fedsvd.prepare.categories import JointLevels, own_levels
from fedsvd.prepare.formula import parse
from fedsvd.prepare.formula_table import FormulaTable
from fedsvd.randomness.seed import Seed

KEY = Seed(bytes(32))


@pytest.fixture
def parts():
    rng = np.random.default_rng(9)
    whole = pd.DataFrame(
        {
            "y": rng.normal(size=60),
            "age": rng.uniform(20, 80, 60),
            "dose": rng.uniform(1, 5, 60),
            "sex": rng.choice(["f", "m"], 60),
            "site": rng.choice(["north", "south", "west"], 60),
        }
    )
    # The second party has no one from the west: its own levels would give it fewer columns.
    return [whole[:25], whole[25:][whole["site"][25:] != "west"]]


def made(parts, text):
    formula = parse(text)
    sources = [open_source(part) for part in parts]
    levels = {}
    for name in formula.variables:
        if name in sources[0].text_names:
            levels[name] = joint_levels([own_levels(source, name) for source in sources], KEY, sites=1)
    return [FormulaTable(source, formula, levels) for source in sources]


@pytest.mark.parametrize(
    "text",
    [
        "y ~ age + C(sex) + site",
        "y ~ age * sex + log(dose)",
        "y ~ C(site, contr.treatment('west')) : age + I(age * age)",
        "y ~ 0 + sex + age",
        "y ~ (age + dose) * sex + age:dose",
        "y ~ C(site) + sqrt(dose) - 1",
    ],
)
def test_columns_and_names_are_those_of_formulaic_on_the_joint_table(parts, text):
    expected = formulaic.Formula(text).get_model_matrix(pd.concat(parts), context=vars(np))
    tables = made(parts, text)
    columns = [name for name in expected.rhs.columns if name != "Intercept"]
    for table in tables:
        assert list(table.names) == columns
    found = np.vstack([table.rows(0, table.shape[0]) for table in tables])
    assert_array_equal(found, expected.rhs[columns].to_numpy(dtype=float))
    outcome = np.vstack([table.outcome() for table in tables])
    assert_array_equal(outcome, expected.lhs.to_numpy(dtype=float))
    assert parse(text).intercept == ("Intercept" in expected.rhs.columns)


def test_least_squares_on_the_columns_is_that_of_statsmodels(parts):
    expected = smf.ols("y ~ age * C(sex) + site", data=pd.concat(parts)).fit()
    tables = made(parts, "y ~ age * C(sex) + site")
    X = np.vstack([table.rows(0, table.shape[0]) for table in tables])
    y = np.vstack([table.outcome() for table in tables])[:, 0]
    found, *_ = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)
    values = dict(zip(("Intercept", *tables[0].names), found.tolist(), strict=True))
    assert set(values) == set(expected.params.index)
    for name, value in expected.params.items():
        assert_close(values[name], value, digits_lost(5), scale=float(np.abs(expected.params).max()))


def test_panels_of_rows_and_columns_agree(parts):
    table = made(parts, "y ~ age * site")[0]
    whole = table.rows(0, 25)
    assert_array_equal(table.columns(1, 3), whole[:, 1:3])
    assert_array_equal(table.reordered([4, 1]).rows(0, 2), whole[[4, 1]])


def test_a_formula_without_outcome_has_columns_alone(parts):
    table = made(parts, "age + C(sex)")[0]
    assert table.names == ("age", "C(sex)[T.m]")
    with pytest.raises(ConfigError, match="no outcome"):
        table.outcome()


@pytest.mark.parametrize(
    "text",
    [
        "y ~ I(__import__('os').system('true'))",
        "y ~ I(().__class__)",
        "y ~ age.values",
        "y ~ I([x for x in age])",
        "y ~ I(open('f'))",
        "y ~ C(sex, levels=open('f'))",
        "y ~ C(sex, contr.treatment(open('f')))",
        "y ~ I((lambda: 1)())",
        "y ~ {age[0]}",
        "y ~ I('text')",
        "y ~ np.log(age)",
        "eval('1') ~ age",
    ],
)
def test_code_in_a_formula_is_refused_and_not_run(text, parts, monkeypatch):
    def never(*_, **__):
        raise AssertionError("a formula was evaluated")

    monkeypatch.setattr("builtins.open", never)
    monkeypatch.setattr("os.system", never)
    try:
        formula = parse(text)
    except ConfigError:
        return
    # A name with a point is a column of that name, which no table here has.
    with pytest.raises(DataError, match="no column"):
        FormulaTable(open_source(parts[0]), formula, {})


def test_faults_name_what_is_missing(parts):
    source = open_source(parts[0])
    with pytest.raises(DataError, match="no column 'weight'"):
        FormulaTable(source, parse("y ~ weight"), {})
    with pytest.raises(DataError, match="levels of column 'sex' were not agreed"):
        FormulaTable(source, parse("y ~ sex"), {})
    gap = open_source(parts[0].assign(sex=[None, *parts[0]["sex"][1:]]))
    with pytest.raises(DataError, match="entries of column 'sex' are missing"):
        FormulaTable(gap, parse("y ~ sex"), {"sex": JointLevels("sex", ("f", "m"))})
    for text in ("y ~", "~ ~", "1", "y ~ (age"):
        with pytest.raises(ConfigError):
            parse(text)


def test_a_function_that_leaves_the_numbers_is_refused_with_its_place(parts):
    table = made([part.assign(dose=part["dose"] - 3) for part in parts], "y ~ log(dose)")[0]
    with pytest.raises(NotFinite, match=r"log\(dose\)"):
        table.rows(0, 25)


def test_rows_with_a_gap_are_refused_and_not_left_out(parts):
    gappy = parts[0].assign(age=[np.nan if i == 3 else age for i, age in enumerate(parts[0]["age"])])
    with pytest.raises(NotFinite, match="row 3"):
        made([gappy, parts[1]], "y ~ age + sex")[0].rows(0, 25)
