"""A formula is measured before it is expanded: what becomes too large is refused, by the token that makes it so."""

import formulaic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError
from fedsvd.prepare.formula import parse
from fedsvd.prepare.formula_size import MOST_TERMS, measured
from fedsvd.prepare.rule import Rule, planned_steps
from fedsvd.studies.submitted import submitted_job

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def never_expanded(monkeypatch):
    def expanded(*_, **__):
        raise AssertionError("a formula was expanded")

    monkeypatch.setattr(formulaic, "Formula", expanded)


@pytest.mark.chaos(
    "a formula without end", "2^26 terms, powers of terms, powers of numbers", "refused before it expands"
)
@pytest.mark.usefixtures("never_expanded")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"y ~ {'*'.join(LETTERS)}", r"'\*' \(character \d+\)"),
        (f"y ~ ({'+'.join(LETTERS)}) ** 9", r"'\*\*' \(character"),
        (f"y ~ ({'+'.join(LETTERS)})* *9", r"'\*\*' \(character"),
        ("y ~ (a + b) ** 99", "'99'"),
        ("y ~ ((a + b) ** 9) ^ 9", r"'\^'"),
        ("y ~ a ** 2 ** 9", "'2'"),
        (f"y ~ {'/'.join(LETTERS * 8)}", "'/'"),
        (f"y ~ {'*'.join(LETTERS[:12])}{'+ z' * 2000}", r"'\+'"),
        ("y ~ I(9**9**9)", r"a power of numbers, 9 \*\* 9"),
        ("y ~ I(a ** (9**9))", r"a power of numbers, 9 \*\* 9"),
        ("y ~ log((-9)**9 + a)", "a power of numbers"),
        (f"y ~ I(a * {'9' * 300})", r"beyond 2\^53"),
        ("y ~ I(a * 1e999)", r"beyond 2\^53"),
        (f"y ~ {'9' * 400}:a", "'9999"),
        (f"y ~ I({'-' * 900}a)", "which is long"),
        (f"y ~ I({'+'.join('a' * 400)})", "which is long"),
        (f"y ~ {'(' * 300}a{')' * 300}", r"'\('"),
        (f"y ~ I{'(' * 300}a{')' * 300}", "brackets within each other"),
        (f"y ~ {'a + ' * 9000}a", "characters"),
        ("y ~ a | b", r"'\|'"),
        ("y ~ {9**9**9}", r"'\{'"),
        ("y ~ a[9**9**9]", r"'\['"),
        ("y ~ 'text'", "character 5"),
        ("y ~ .", r"'\.'"),
        ("y ~ a +* b", r"'\+\*'"),
        ("y ~ a~b~c", "'~'"),
    ],
)
def test_what_would_have_no_end_is_refused_and_its_token_named(text, named):
    with pytest.raises(ConfigError, match=named):
        parse(text)


@pytest.mark.usefixtures("never_expanded")
def test_a_job_whose_formula_has_no_end_is_refused_where_it_is_submitted():
    file = {
        "job": {"name": "x", "task": "lr"},
        "prepare": {"formula": f"y ~ {'*'.join(LETTERS)}"},
        "party": [{"name": name} for name in "abc"],
    }
    with pytest.raises(ConfigError, match="the formula is too large"):
        submitted_job(file)


def test_categories_that_are_crossed_beyond_all_tables_are_refused():
    crossed = ":".join(f"C({letter})" for letter in LETTERS)
    with pytest.raises(ConfigError, match="may have more than"):
        planned_steps(Rule(mean=True, formula=f"y ~ {crossed}", combat=True), 30)


operands = st.sampled_from(["a", "b", "`c d`", "e.f", "C(g)", "log(h)", "I(a ** 2)", "1"])
formulas = st.recursive(
    operands,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", " - ", "*", "/", ":", " %in% "]), inner).map("".join),
        inner.map("({})".format),
        st.tuples(inner, st.integers(1, 3)).map(lambda pair: f"({pair[0]}) ** {pair[1]}"),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(formulas)
def test_what_is_counted_is_never_less_than_what_the_parser_makes(text):
    try:
        size, _ = measured(f"y ~ {text}")
    except ConfigError:
        return
    try:
        formula = formulaic.Formula(f"y ~ {text}")
    except Exception:  # e.g. a number that scales nothing: refused by the parser
        return
    terms = [*formula.lhs, *formula.rhs]
    assert len(terms) <= size.terms + 1  # the intercept
    assert sum(len(term.factors) for term in terms) <= size.factors + 1


def test_formulas_of_ordinary_size_are_within_the_limits():
    for text, terms in (
        ("y ~ " + " + ".join(f"x{i}" for i in range(1000)), 1000),
        ("y ~ (" + " + ".join(f"x{i}" for i in range(60)) + ") ** 2", 60 * 61 // 2),
        ("y ~ a %in% b", 2),
        ("y ~ " + "*".join(LETTERS[:10]), 2**10 - 1),
    ):
        assert len(parse(text).terms) == terms < MOST_TERMS
