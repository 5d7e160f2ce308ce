"""An error that a person can meet says what to do: in its own words, or in those of its kind.

In the other packages a caller is a programmer of fedsvd, who passed a wrong shape or number; the fault says which.
"""

import ast
from pathlib import Path

import pytest

from fedsvd import errors

SOURCE = Path(__file__).parents[2] / "src" / "fedsvd"
MET = ("cli", "data", "engine", "estimators", "identity", "policy", "prepare", "results", "roles", "service", "studies")
MET += ("audit", "compress", "sealing", "tasks", "transport", "wire")
NAMES_A_SURFACE = ("--map", "(--", "fedsvd.prepared", "in Python")


def raises(tree):
    """Every raise of an error of ours, with its class and its arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            kind = getattr(errors, ast.unparse(node.exc.func), None)
            if isinstance(kind, type) and issubclass(kind, errors.FedSVDError):
                yield node.lineno, kind, node.exc.args


def without_fix(tree):
    """The lines whose error has no fix: none of its own, and none of its kind."""
    for line, kind, args in raises(tree):
        starred = any(isinstance(each, ast.Starred) for each in args)
        if len(args) < 2 and not starred and not kind.usual_fix:
            yield line


def of_a_surface(tree):
    """The lines whose texts name options or keywords, which the surface puts in (ADR 0162)."""
    for line, _, args in raises(tree):
        texts = [each.value for arg in args for each in ast.walk(arg) if isinstance(each, ast.Constant)]
        if any(mark in text for text in texts if isinstance(text, str) for mark in NAMES_A_SURFACE):
            yield line


def files(packages):
    return [path for package in packages for path in sorted((SOURCE / package).rglob("*.py"))]


@pytest.mark.parametrize("package", MET)
def test_every_error_that_a_person_meets_has_a_fix(package):
    found = [f"{path.name}:{line}" for path in files([package]) for line in without_fix(ast.parse(path.read_text()))]
    assert found == []


@pytest.mark.parametrize("package", ["data", "prepare", "roles", "studies", "tasks", "protocol"])
def test_no_error_below_the_surfaces_names_a_word_of_one(package):
    found = [f"{path.name}:{line}" for path in files([package]) for line in of_a_surface(ast.parse(path.read_text()))]
    assert found == []


def test_the_checkers_find_what_they_look_for():
    tree = ast.parse('raise ConfigError("a")\nraise PeerLost("b")\nraise DataError("c", "name it (--id)")')
    assert list(without_fix(tree)) == [1]
    assert list(of_a_surface(tree)) == [3]
