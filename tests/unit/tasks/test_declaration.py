"""A declaration of a foreign task is checked in every part, and its sizes are worked out, never run."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.foreign import EXAMPLE, declared

from fedsvd.errors import ConfigError
from fedsvd.protocol.foreign import opened_bits, opened_numbers
from fedsvd.protocol.steps import StepKind, listed
from fedsvd.tasks.declaration import declaration_of, read_declaration
from fedsvd.tasks.expressions import LARGEST, size_of

NAMES = {"features": 7, "groups": 3, "parties": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [("groups * features", 21), ("features * (features + 1) // 2", 28), ("12", 12), ("features - 2 * groups", 1)],
)
def test_a_size_is_arithmetic_of_public_names(text, value):
    assert size_of(text, NAMES, "here") == value


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**3))
def test_a_size_is_what_python_says_of_whole_numbers(a, b, c):
    names = {"a": a, "b": b, "c": c}
    assert size_of("(a + b) * c // (b + c) - a // c + a", names, "here") == (a + b) * c // (b + c) - a // c + a


@pytest.mark.parametrize(
    "text",
    [
        "records",
        "2 ** features",
        "features / 2",
        "-features",
        "features % 2",
        "features if groups else 1",
        "__import__('os').system('true')",
        "features.__class__",
        "[1][0]",
        "True",
        "1.5",
        "'a' * 3",
        "features, groups",
        "features < groups",
        "lambda: 1",
        "",
        "(",
        "1 + " * 60 + "1",
        "(" * 90 + "1" + ")" * 90 + " * " * 3,
        "features" * 40,
        str(LARGEST + 1),
    ],
)
def test_anything_else_is_no_size(text):
    with pytest.raises(ConfigError, match="is no size"):
        size_of(text, NAMES, "here")


@pytest.mark.parametrize("text", ["groups // (features - 7)", " * ".join(["1000000"] * 8)])
def test_a_size_that_divides_by_zero_or_grows_without_bound_is_refused(text):
    with pytest.raises(ConfigError, match=r"divides by zero|is beyond"):
        size_of(text, NAMES, "here")


def test_the_example_declares_eighteen_numbers_of_three_groups_and_two_features():
    declaration = read_declaration((EXAMPLE / "group_variance" / "group-variance.json").read_text())
    steps, about = declaration.planned({"group": "g", "groups": 3, "weights": "w"}, m=4, k=3)
    assert [(step.name, str(step.kind), step.size) for step in steps] == [
        ("records", "whole", 3),
        ("weights", "wide", 3),
        ("sums", "wide", 6),
        ("squares", "wide", 6),
    ]
    assert about.aside == ("g", "w")
    assert [output.shape for output in about.outputs] == [(3,), (3, 2), (3, 2)]
    assert json.loads(about.options) == {"group": "g", "groups": 3, "weights": "w", "ddof": 1}


def test_bits_are_those_of_a_kind_or_declared():
    steps = [
        {"name": "unit", "kind": "bound", "says": "a"},
        {"name": "part", "kind": "total", "size": "features", "bits": 12, "unit": "unit", "says": "b"},
        {"repeat": "rounds", "most": "3", "steps": [{"name": "count", "kind": "whole", "size": "2", "says": "c"}]},
    ]
    planned, about = declaration_of(declared(steps=steps)).planned({}, m=5, k=2)
    found = [(step.name, opened_numbers(step), opened_bits(step)) for step in listed(planned)]
    assert found == [("unit", 1, 8), ("part", 5, 12), ("count 1", 2, 53), ("count 2", 2, 53), ("count 3", 2, 53)]
    assert planned[0].kind is StepKind.BOUND
    assert about.units == (("part", "unit"),)


def test_the_digest_is_of_the_content_whatever_the_order_of_keys():
    record = declared()
    other = dict(reversed([*record.items()]))
    assert declaration_of(other).digest == declaration_of(record).digest
    assert declaration_of(declared(about="Another sentence.")).digest != declaration_of(record).digest


STEP = declared()["steps"][0]
OUTPUT = declared()["outputs"][0]
NUMBER = {"kind": "integer", "least": 1, "most": 5, "help": "a number"}


@pytest.mark.parametrize(
    "change",
    [
        {"fedsvd": 2},
        {"name": "Group Variance"},
        {"about": ""},
        {"about": "a" * 301},
        {"about": "two\nlines"},
        {"about": "\u202eleft"},
        {"more": 1},
        {"steps": []},
        {"steps": [{**STEP, "kind": "from user 1"}]},
        {"steps": [{**STEP, "kind": "gram"}]},
        {"steps": [{**STEP, "kind": "shared"}]},
        {"steps": [{**STEP, "to": 1}]},
        {"steps": [STEP, STEP]},
        {"steps": [{**STEP, "name": "sums 2"}]},
        {"steps": [{**STEP, "says": ""}]},
        {"steps": [{**STEP, "size": 5}]},
        {"steps": [{**STEP, "size": "records"}]},
        {"steps": [{"name": "part", "kind": "total", "size": "1", "bits": 53, "says": "a"}]},
        {"steps": [{"name": "part", "kind": "total", "size": "1", "bits": 8, "unit": "sums", "says": "a"}]},
        {"steps": [{"repeat": "a", "most": "3", "steps": [{"repeat": "b", "most": "3", "steps": [STEP]}]}]},
        {"steps": [{"name": "peak", "kind": "bound", "size": "3", "says": "a"}]},
        {"outputs": [{**OUTPUT, "size": ["features", "2"]}]},
        {"outputs": [{**OUTPUT, "name": "row_ids"}]},
        {"outputs": [{**OUTPUT, "name": "../total"}]},
        {"outputs": [OUTPUT, OUTPUT]},
        {"options": {"features": NUMBER}},
        {"options": {"n": {**NUMBER, "default": 9}}},
        {"options": {"n": {"kind": "integer", "help": "without bounds"}}},
        {"options": {"n": {**NUMBER, "most": float("inf")}}},
        {"options": {"n": {"kind": "word", "choices": [], "help": "none"}}},
        {"options": {"n": {"kind": "code", "help": "no kind"}}},
    ],
)
def test_what_a_declaration_may_not_say_is_refused(change):
    with pytest.raises(ConfigError):
        declaration_of(declared(**change))


@pytest.mark.parametrize("record", [None, [], "text", {}, {"fedsvd": 1}])
def test_what_is_no_declaration_is_refused(record):
    with pytest.raises(ConfigError):
        declaration_of(record)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '"a"', '{"fedsvd": 1}'])
def test_text_that_is_no_declaration_is_refused(text):
    with pytest.raises(ConfigError):
        read_declaration(text)


OPTIONS = {
    "n": NUMBER,
    "share": {"kind": "number", "least": 0, "most": 1, "default": 0.5, "help": "a share"},
    "rule": {"kind": "word", "choices": ["a", "b"], "default": "a", "help": "a rule"},
    "strict": {"kind": "flag", "default": False, "help": "whether"},
    "by": {"kind": "column", "default": "", "help": "a column"},
    "and_by": {"kind": "column", "default": "", "help": "another"},
}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"n": 0},
        {"n": True},
        {"n": 2.0},
        {"n": 1, "share": "half"},
        {"n": 1, "rule": "c"},
        {"n": 1, "strict": 1},
        {"n": 1, "by": 5},
        {"n": 1, "by": "a\x1b[31m"},
        {"n": 1, "by": "g", "and_by": "g"},
        {"n": 1, "other": 1},
    ],
)
def test_options_out_of_their_range_are_refused(given):
    with pytest.raises(ConfigError):
        declaration_of(declared(options=OPTIONS)).options(given)


def test_options_that_are_left_out_have_their_defaults():
    found = declaration_of(declared(options=OPTIONS)).options({"n": 2, "by": "g"})
    assert found == {"n": 2, "share": 0.5, "rule": "a", "strict": False, "by": "g", "and_by": ""}


def test_more_numbers_than_a_session_takes_are_refused():
    steps = [{"repeat": "rounds", "most": "1000", "steps": [{**STEP, "size": "5000"}]}]
    with pytest.raises(ConfigError, match="opens 5,000,000 numbers"):
        declaration_of(declared(steps=steps)).planned({}, m=3, k=2)


def test_a_size_that_options_make_zero_is_refused_when_a_plan_is_made():
    declaration = declaration_of(declared(steps=[{**STEP, "size": "features - 3"}]))
    with pytest.raises(ConfigError, match="between 1"):
        declaration.planned({}, m=3, k=2)
