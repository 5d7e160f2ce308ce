"""Tests use what a class offers, and reach into no private attribute: what they need to see or replace has a seam.

A test that sets ``machine._seeds`` breaks at every renaming, and shows that something cannot be observed or replaced by
those who use the class either. A seam is a constructor's argument, a public method or property, a message, or a
function of a module under a public name. Found are attributes that begin with one underscore, of anything but ``self``
and ``cls``; imports of such names from ``fedsvd``; and ``monkeypatch.setattr`` with such a name.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from .imports import nodes

ROOT = Path(__file__).parents[2]
TESTS = [path for folder in ("tests", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.py"))]
OWN = {"self", "cls"}
PUBLIC = {
    "_replace": "of a named tuple, documented by Python",
    "_cells": "how a source of data is written: the hook that a subclass overrides (data/source.py)",
}
OF_A_RELEASE = ("benchmarks/attacks/in_0_1_0.py",)  # it runs against 0.1.0


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_") and name not in PUBLIC


def reached_into(source: str) -> Iterator[tuple[int, str]]:
    """Lines, and the private names that they reach for."""
    for node in nodes(source):
        if isinstance(node, ast.Attribute) and private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in OWN):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fedsvd":
            yield from ((node.lineno, alias.name) for alias in node.names if private(alias.name))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            names = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            last = [name.rpartition(".")[2] for name in names if isinstance(name, str)]
            yield from ((node.lineno, name) for name in last if private(name))


@pytest.mark.parametrize(
    "text",
    [
        "machine._seeds['users'] = EVE",
        "assert federation.machines[0]._group.digest()",
        "User._ask = asked",
        "super()._enlist(caller, asked)",
        "from fedsvd.cli.approve import _question",
        "monkeypatch.setattr(handlers, '_PAGE', 4)",
        "monkeypatch.setattr('fedsvd.service.handlers._PAGE', 4)",
    ],
)
def test_a_private_name_is_found(text):
    assert list(reached_into(text))


@pytest.mark.parametrize(
    "text",
    [
        "self._held = cls._made",
        "found._replace(U=U)",
        "summary._repr_html_()",
        "type(this).__name__",
        "from fedsvd import __version__",
        "monkeypatch.setattr(handlers, 'PAGE', 4)",
        "monkeypatch.setenv('_FEDSVD_COMPLETE', 'bash')",
    ],
)
def test_other_names_are_let_be(text):
    assert not list(reached_into(text))


def test_no_test_reaches_into_a_private_attribute():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in TESTS
        if path.relative_to(ROOT).as_posix() not in OF_A_RELEASE
        for line, name in reached_into(path.read_text(encoding="utf-8"))
    ]
    assert not found, "give it a seam:\n" + "\n".join(found)


def test_every_exception_is_needed():
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in TESTS}
    assert all(any(f".{name}(" in text for text in texts.values()) for name in PUBLIC)
    assert all(list(reached_into(texts[name])) for name in OF_A_RELEASE)
