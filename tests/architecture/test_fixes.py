"""An error that a person can meet says what to do: in its own words, or in those of its kind.

In the other packages a caller is a programmer of fedsvd, who passed a wrong shape or number; the fault says which. Of
statistics that holds for shapes alone: what its other errors say of records and models is read by persons.
"""

import ast
from pathlib import Path

import pytest

from fedsvd import errors

SOURCE = Path(__file__).parents[2] / "src" / "fedsvd"
MET = ("cli", "data", "engine", "estimators", "identity", "policy", "prepare", "results", "roles", "service", "studies")
MET += ("audit", "compress", "sealing", "tasks", "transport", "wire")
OF_PROGRAMMERS = {"statistics": (errors.ShapeError,)}
NO_FIX = ("nothing is released", "nothing was released", "look again")
NAMES_A_SURFACE = ("--map", "(--", "fedsvd.prepared", "in Python")


def raises(tree):
    """Every error of ours that is made, to be raised there or elsewhere, with its class and its arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            kind = getattr(errors, ast.unparse(node.func), None)
            if isinstance(kind, type) and issubclass(kind, errors.FedSVDError):
                yield node.lineno, kind, node.args


def without_fix(tree, of_programmers=()):
    """The lines whose error has no fix: none of its own, and none of its kind; or one that is nothing to do."""
    for line, kind, args in raises(tree):
        if issubclass(kind, of_programmers) or any(isinstance(each, ast.Starred) for each in args):
            continue
        own = args[1] if len(args) > 1 else None
        empty = isinstance(own, ast.Constant) and own.value in NO_FIX
        if empty or (own is None and not kind.usual_fix):
            yield line


def unfinished(tree):
    """The lines that raise what Python has for a method that no one wrote."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and "NotImplementedError" in ast.unparse(node):
            yield node.lineno


def of_a_surface(tree):
    """The lines whose texts name options or keywords, which the surface puts in (ADR 0162)."""
    for line, _, args in raises(tree):
        texts = [each.value for arg in args for each in ast.walk(arg) if isinstance(each, ast.Constant)]
        if any(mark in text for text in texts if isinstance(text, str) for mark in NAMES_A_SURFACE):
            yield line


def files(packages):
    return [path for package in packages for path in sorted((SOURCE / package).rglob("*.py"))]


@pytest.mark.parametrize("package", [*MET, *OF_PROGRAMMERS])
def test_every_error_that_a_person_meets_has_a_fix(package):
    found = [
        f"{path.name}:{line}"
        for path in files([package])
        for line in without_fix(ast.parse(path.read_text()), OF_PROGRAMMERS.get(package, ()))
    ]
    assert found == []


def test_nothing_ends_in_an_error_of_an_unwritten_method():
    found = [f"{path.name}:{line}" for path in SOURCE.rglob("*.py") for line in unfinished(ast.parse(path.read_text()))]
    assert found == []


@pytest.mark.parametrize("package", ["data", "prepare", "roles", "studies", "tasks", "protocol"])
def test_no_error_below_the_surfaces_names_a_word_of_one(package):
    found = [f"{path.name}:{line}" for path in files([package]) for line in of_a_surface(ast.parse(path.read_text()))]
    assert found == []


def test_the_checkers_find_what_they_look_for():
    lines = ['raise ConfigError("a")', 'raise PeerLost("b")', 'raise DataError("c", "name it (--id)")']
    lines += ['fault = ConfigError("d")', 'raise SplitView("e", "nothing is released")', 'raise ShapeError("f")']
    tree = ast.parse("\n".join([*lines, "raise NotImplementedError"]))
    assert list(without_fix(tree, (errors.ShapeError,))) == [1, 4, 5]
    assert list(of_a_surface(tree)) == [3]
    assert list(unfinished(tree)) == [7]
