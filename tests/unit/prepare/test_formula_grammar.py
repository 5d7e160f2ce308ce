"""Formulas: what is in the grammar equals formulaic, what is not is refused by its token before it is expanded."""

import formulaic
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import RESULT_BAR, assert_each_close

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError
from fedsvd.prepare.categories import JointLevels
from fedsvd.prepare.formula import LONGEST, MOST_TERMS, parse
from fedsvd.prepare.formula_table import FormulaTable
from fedsvd.prepare.rule import Rule, planned_steps
from fedsvd.studies.submitted import submitted_job

LETTERS = "abcdefghijklmnopqrstuvwxyz"
CODES = ["aa", "ab", "ac", "ad"]


@pytest.mark.chaos("a formula without end", "2^26 terms, powers of terms, long calls", "refused before it expands")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"y ~ {'*'.join(LETTERS)}", r"too many columns at '\*' \(character \d+\)"),
        (f"y ~ ({'+'.join(LETTERS)})*({'+'.join(LETTERS)})", r"too large at '\*' \(character \d+\)"),
        (f"y ~ ({'+'.join(LETTERS)}):({'+'.join(LETTERS)})", r"too large at ':' \(character \d+\)"),
        ("y ~ a:b:c:d", r"too many columns at ':' \(character 10\)"),
        ("y ~ a:I(b * c):d", r"too many columns at ':'"),
        (f"y ~ ({'+'.join(LETTERS)}) ** 9", r"'\*\*' \(character"),
        ("y ~ (a + b) ^ 2", r"'\^' .* write products out"),
        ("y ~ a / b", "'/' .* write a [+] a:b"),
        ("y ~ a %in% b", "'%in%' .* write a [+] a:b"),
        ("y ~ a | b", r"'\|' .* the site as a term"),
        ("y ~ I(9**9**9)", r"I\(9\*\*9\*\*9\).*poly\(x, 2, raw=True\)"),
        ("y ~ I(a ** 2)", r"I\(a \*\* 2\).*poly\(x, 2, raw=True\)"),
        (f"y ~ I(a / {'9' * 300})", r"beyond 2\^53"),
        ("y ~ I(a - 1e999)", r"beyond 2\^53"),
        ("y ~ I(a / 0)", r"I\(a / 0\)"),
        (f"y ~ {'9' * 400}:a", "'9999"),
        ("y ~ 2", "'2'.*no intercept"),
        ("y ~ 1:a", "'1'.*no intercept"),
        ("y ~ (a + 0)", "'0'.*outside of brackets"),
        (f"y ~ {'(' * 300}a{')' * 300}", r"'\('"),
        (f"y ~ I{'(' * 300}a{')' * 300}", "brackets within each other"),
        (f"y ~ {'a + ' * 900}a", "3,605 characters.*at most 2,000"),
        (f"y ~ {'+'.join(f'x{i}' for i in range(MOST_TERMS + 1))}", r"too large at '\+'"),
        ("y ~ {9**9**9}", r"'\{'"),
        ("y ~ a[9**9**9]", r"'\['"),
        ("y ~ 'text'", "character 5"),
        ("y ~ .", r"'\.'.*name the columns"),
        ("y ~ a +* b", r"'\*'"),
        ("y ~ a~b~c", "'~'"),
        ("y:z ~ a", "':'"),
        ("y ~ `a", "close the name"),
        ("y ~ log(a", "close its bracket"),
    ],
)
def test_what_is_too_large_or_strange_is_refused_and_its_token_named(text, named):
    with pytest.raises(ConfigError, match=named):
        parse(text)


@pytest.mark.parametrize(
    ("term", "fix"),
    [
        ("exp(-(200*(age-52.62))**2)", "a term is one of C"),
        ("exp(age)", "before the study"),
        ("abs(age)", "before the study"),
        ("log(age - 52.62)", "of one column"),
        ("log(log(age))", "of one column"),
        ("log10(age)", r"write log\(x\)"),
        ("I(age ** 9)", "I.x / 10."),
        ("I(1 / age)", "I.x / 10."),
        ("I(age - 52.62 - bmi)", "I.x / 10."),
        ("I(age == 52)", "I.x / 10."),
        ("I(age > 52)", "I.x / 10."),
        ("I(age + bmi)", "I.x / 10."),
        ("poly(age, 2)", "raw=True"),
        ("poly(age, 4, raw=True)", "raw=True"),
        ("ns(age, df=4)", "a job chooses none"),
        ("bs(age, df=4)", r"write ns\(x\)"),
        ("scale(age)", "looks at other rows"),
        ("cut(age, 54.825)", "before the study"),
        ("C(sex, contr.poly())", "write C.sex."),
        ("C(sex, levels=['f'])", "a term is one of"),
        ("np.log(age)", "a term is one of"),
        ("lag(age)", "before the study"),
        ("factor(stage)", "write C.x."),
        ("as.factor(stage)", "write C.x."),
    ],
)
def test_functions_outside_of_the_grammar_are_refused_with_what_to_write(term, fix):
    with pytest.raises(ConfigError, match="cannot be read at") as caught:
        parse(f"y ~ bmi + {term}")
    assert "(character 11)" in str(caught.value) or term.startswith("C(sex, levels")
    with pytest.raises(ConfigError, match=fix):
        parse(f"y ~ bmi + {term}")


@pytest.mark.parametrize("term", ["log({})", "C({})", "I({} / 10)", "I({} * age)", "poly({}, 2, raw=True)"])
def test_names_with_points_need_no_backticks_in_calls(term):
    found, quoted = (parse(f"y ~ {term.format(name)}") for name in ("alk.phos", "`alk.phos`"))
    assert found.variables == quoted.variables
    assert "alk.phos" in found.variables


def test_a_job_whose_formula_has_no_end_is_refused_where_it_is_submitted():
    file = {
        "job": {"name": "x", "task": "lr"},
        "prepare": {"formula": f"y ~ {'*'.join(LETTERS)}"},
        "party": [{"name": name} for name in "abc"],
    }
    with pytest.raises(ConfigError, match="the formula multiplies too many columns"):
        submitted_job(file)


def test_categories_that_are_crossed_beyond_all_tables_are_refused():
    with pytest.raises(ConfigError, match="may have more than"):
        planned_steps(Rule(mean=True, formula="y ~ C(a):C(b):C(c)", combat=True, most_levels=300), 30)


def test_formulas_of_ordinary_size_are_within_the_limits():
    for text, terms in (
        ("y ~ " + " + ".join(f"x{i}" for i in range(MOST_TERMS)), MOST_TERMS),
        ("y ~ " + "+".join(f"log(variable_{i})" for i in range(100)), 100),
        ("y ~ a*b*c - a:b:c", 6),
        ("y ~ (a + b + C(c))*(d + e)", 11),
    ):
        assert len(text) <= LONGEST
        assert len(parse(text).terms) == terms


FRAME = pd.DataFrame(
    {
        "y": np.linspace(1, 2, 48),
        "u": np.random.default_rng(1).uniform(1, 9, 48),
        "v": np.random.default_rng(2).uniform(1, 9, 48),
        "mean radius": np.random.default_rng(3).uniform(1, 9, 48),
        "e.f": np.random.default_rng(4).uniform(1, 9, 48),
        "s": np.resize(["f", "m"], 48),
        "g": np.resize(["x", "y", "z"], 48),
        "h": np.repeat(CODES, 12),
    }
)
LEVELS = {name: JointLevels(name, tuple(sorted(set(FRAME[name])))) for name in ("s", "g", "h")}
FACTORS = [
    *("u", "v", "`mean radius`", "e.f", "s", "g", "C(h)", "C(g,contr.treatment('z'))", "log(u)", "log1p( v )"),
    *("sqrt(`mean radius`)", "asinh(u)", "poly(v, 2, raw=True)", "poly(u,3,raw=True)", "I(u/10)", "I(v - 2.50)"),
    *("I(u * v)", "I(u*u)", "I(v - -3)", "I(u)"),
]
formulas = st.recursive(
    st.sampled_from(FACTORS),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", " + ", " - ", "*", " * ", ":"]), inner).map("".join),
        inner.map("({})".format),
    ),
    max_leaves=7,
)


@settings(max_examples=300, deadline=None)
@given(formulas, st.sampled_from(["y ~ ", "~ ", "", "log(y) + u ~ "]), st.sampled_from(["", " - 1", " + 0", " + 1"]))
def test_random_formulas_have_the_columns_and_names_of_formulaic(text, left, constant):
    text = f"{left}{text}{constant}"
    try:
        formula = parse(text)
    except ConfigError as fault:
        if "too many columns" in str(fault) or "reads no column" in str(fault):
            return
        raise  # nothing else in these formulas may be refused
    context = {name: getattr(np, name) for name in ("log", "log1p", "sqrt", "asinh")}
    expected = formulaic.Formula(text).get_model_matrix(FRAME, context=context)
    right = expected.rhs if hasattr(expected, "rhs") else expected
    table = FormulaTable(open_source(FRAME), formula, LEVELS)
    # Formulaic counts the powers of poly(...) from 0, we call them by their degree, as R does.
    renamed = {f"raw=True)[{power}]": f"raw=True)[{power + 1}]" for power in (2, 1, 0)}
    names = [str(name) for name in right.columns if name != "Intercept"]
    for old, new in renamed.items():
        names = [name.replace(old, new) for name in names]
    assert list(table.names) == names
    assert formula.intercept == ("Intercept" in right.columns)
    if names:
        found, wanted = table.rows(0, 48), right.drop(columns="Intercept", errors="ignore").to_numpy(dtype=float)
        assert_each_close(found, wanted, RESULT_BAR)
    if "~" in text and not text.startswith("~"):
        assert table.outcome_names == tuple(map(str, expected.lhs.columns))
        assert_each_close(table.outcome(), expected.lhs.to_numpy(dtype=float), RESULT_BAR)


def test_functions_of_categories_and_categories_of_numbers_are_refused():
    for text, fault in (
        ("y ~ log(s)", "is a category"),
        ("y ~ I(u * s)", "is a category"),
        ("y ~ C(u)", "has no levels"),
    ):
        with pytest.raises(ConfigError, match=fault):
            FormulaTable(open_source(FRAME), parse(text), LEVELS)
    with pytest.raises(ConfigError, match="has no level 'w'"):
        FormulaTable(open_source(FRAME), parse("y ~ C(g, contr.treatment('w'))"), LEVELS)
