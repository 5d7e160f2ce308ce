"""Which cases stay in ``make test``, and that all that is declared is there."""

import ast
import itertools
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.tiers import COVERED, GRIDS, RUNGS, Case, beyond, dealt, matching, named, once

ROOT = Path(__file__).parents[3]


def grid(**sizes):
    """All cases of a product of parameters with so many values each."""
    values = [[(name, index) for index in range(size)] for name, size in sorted(sizes.items())]
    return [Case(tuple(pairs)) for pairs in itertools.product(*values)]


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [({"a": 5}, 5), ({"a": 3, "b": 4}, 4), ({"a": 2, "b": 3, "c": 7}, 7), ({"a": 1, "b": 1}, 1)],
)
def test_every_value_of_every_parameter_stays_in_as_few_cases_as_the_longest_list_has(sizes, kept):
    cases = grid(**sizes)
    places = once(cases)
    assert len(places) == kept
    assert {pair for place in places for pair in cases[place].indices} == {
        pair for case in cases for pair in case.indices
    }


def test_values_that_come_together_only_are_all_kept():
    cases = [Case((("a", 0), ("b", 0))), Case((("a", 0), ("b", 1))), Case((("a", 1), ("b", 1)))]
    assert once(cases) == {0, 2}


PAIRS = [
    Case((("pair", place),), name=f"{first}-check_{second}")
    for place, (first, second) in enumerate(itertools.product("ABC", ["clone", "fit", "pickle", "score"]))
]


@pytest.mark.parametrize(("law", "cases"), [(once, grid(a=4, b=3)), (dealt(2, "-check_"), PAIRS)])
def test_the_order_of_collection_does_not_matter(law, cases):
    backwards = cases[::-1]
    assert {cases[place] for place in law(cases)} == {backwards[place] for place in law(backwards)}


def test_pairs_are_dealt_out():
    kept = [PAIRS[place].name.split("-check_") for place in dealt(2, "-check_")(PAIRS)]
    assert sorted(second for _, second in kept) == [
        "clone",
        "clone",
        "fit",
        "fit",
        "pickle",
        "pickle",
        "score",
        "score",
    ]
    assert sorted(Counter(first for first, _ in kept).values()) == [2, 3, 3]


def test_a_name_beyond_the_least_goes_and_other_words_stay():
    cases = [
        Case((("x", 0),), frozenset(words)) for words in (["svd"], ["pca", "slow link"], ["slow link"], ["pca", "svd"])
    ]
    assert named(["svd"], ["svd", "pca"])(cases) == {0, 2}


def functions(path):
    """Test functions of a file, as pytest names them."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef))


def matched(pattern):
    """Test functions of the suite that a pattern names."""
    names = (
        f"{path.relative_to(ROOT).as_posix()}::{name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if fnmatchcase(path.relative_to(ROOT).as_posix(), pattern.partition("::")[0])
        for name in functions(path)
    )
    return [name for name in names if fnmatchcase(name, pattern)]


@pytest.mark.parametrize("pattern", [*GRIDS, *COVERED, *RUNGS.values()])
def test_what_is_declared_is_there(pattern):
    assert matched(pattern)


@pytest.mark.parametrize("pattern", COVERED)
def test_what_covers_a_test_stays(pattern):
    assert [name for name in matched(f"{COVERED[pattern]}::*") if matching(name, COVERED) is None]


@pytest.mark.parametrize("rung", RUNGS)
def test_every_rung_keeps_a_job(rung):
    (name,) = matched(RUNGS[rung])
    assert matching(name, COVERED) is None


class Collected:
    """As much of a collected test as a law looks at; like pytest it numbers cases, and not the values of parameters."""

    def __init__(self, function, number=0, marks=(), together=(), **values):
        name = "-".join(map(str, values.values()))
        self.nodeid, self.marks, self.together = f"{function}[{name}]" if values else function, marks, together
        if values:
            self.callspec = SimpleNamespace(indices=dict.fromkeys(values, number), params=values, id=name)

    def get_closest_marker(self, mark):
        return mark if mark in self.marks else None

    def iter_markers(self, name):
        assert name == "parametrize"
        return [SimpleNamespace(args=(self.together, []))] if self.together else []


FUNCTION = "tests/unit/masks/test_it.py::test_it"


def kept_of(items):
    gone = list(beyond(items))
    return [tuple(item.callspec.params.values()) for item in items if item not in gone and not item.marks]


def test_a_case_that_is_slow_stands_for_no_other():
    """It is not in ``make test``: the values that it has must be there in cases that are."""
    pairs = list(itertools.product([60, 200, 1000], ["a", "b", "c"]))
    items = [Collected(FUNCTION, i, ("slow",) * (m == 1000), m=m, case=case) for i, (m, case) in enumerate(pairs)]
    assert kept_of(items) == [(60, "a"), (60, "c"), (200, "b")]


def test_pairs_that_are_given_together_all_stay():
    pairs = [("svd", 1), ("svd", 2), ("pca", 1), ("pca", 2)]
    items = [Collected(FUNCTION, i, together="task, k", task=task, k=k) for i, (task, k) in enumerate(pairs)]
    assert kept_of(items) == pairs
    items = [Collected(FUNCTION, i, task=task, k=k) for i, (task, k) in enumerate(pairs)]
    assert kept_of(items[::-1]) == [("pca", 2), ("svd", 1)]


def test_a_test_without_parameters_stays_unless_another_covers_it():
    stays, goes = Collected(FUNCTION), Collected(next(iter(COVERED)).replace("*", "test_it"))
    assert list(beyond([stays, goes])) == [goes]


def test_tests_outside_the_declared_grids_stay():
    pairs = itertools.product(range(3), range(3))
    items = [Collected("tests/adversary/test_it.py::test_it", i, a=a, b=b) for i, (a, b) in enumerate(pairs)]
    assert list(beyond(items)) == []
