"""Nothing in ``src`` is written for tests alone: a function or class of a module is used by the product, or it goes.

A use is a mention by another module, or in its own outside its definition. Commands and callbacks are used by their
decorators. Exempt are the packages that are made for others to use, and what is run by name.
"""

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from .imports import COMPUTED, Codebase, SourceFile, build, ours

FOR_OTHERS = {
    "fedsvd.testing": "the suites and fakes that are shipped for those who write a transport or a store",
}
RUN_BY_NAME = {"fedsvd.engine.parts.serve": "started as a process of its own"}


def unused(codebase: Codebase) -> list[str]:
    """Functions and classes of modules that nothing in the codebase mentions."""
    elsewhere = {use.name for file in codebase.files.values() for use in file.uses}
    return sorted(
        name
        for file in codebase.files.values()
        for name in _defined(file)
        if name not in elsewhere
        and _by_computed_name(file, name) not in elsewhere
        and name not in RUN_BY_NAME
        and not any(name.startswith(f"{package}.") for package in FOR_OTHERS)
    )


def _by_computed_name(file: SourceFile, name: str) -> str:
    """How a module that finds this file by its name in the package mentions what it defines."""
    return f"{file.module.rpartition('.')[0]}{COMPUTED}.{name.rpartition('.')[2]}"


def _defined(file: SourceFile) -> Iterator[str]:
    """What a file defines at its top and does not use itself."""
    mentioned = [{each.id for each in ast.walk(node) if isinstance(each, ast.Name)} for node in file.tree.body]
    counts = Counter(name for names in mentioned for name in names)
    for node, inside in zip(file.tree.body, mentioned, strict=True):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or _registered(node):
            continue
        if node.name.startswith("__") or counts[node.name] > (node.name in inside):
            continue
        yield f"{file.module}.{node.name}"


def _registered(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator such as ``@group.command("list")`` has it called."""
    called = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return any(isinstance(each, ast.Attribute) and each.attr in ("command", "group", "callback") for each in called)


def test_every_function_and_class_of_a_module_is_used_in_the_product():
    assert unused(ours()) == []


def test_every_exemption_is_of_something_that_exists():
    codebase = ours()
    assert not [package for package in FOR_OTHERS if package not in codebase.files]
    for name in RUN_BY_NAME:
        module, _, function = name.rpartition(".")
        assert function in {getattr(node, "name", None) for node in codebase.files[module].tree.body}


@pytest.mark.parametrize(
    "text, found",
    [
        ("def alone():\n    return 1\n", True),
        ("def alone():\n    return alone()\n", True),
        ("class alone:\n    pass\n", True),
        ("def alone():\n    return 1\n\n\nTABLE = {'a': alone}\n", False),
        ("from click import group\n\n\n@group.command('list')\ndef alone():\n    return 1\n", False),
    ],
)
def test_a_planted_function_without_a_caller_is_found(tmp_path, text, found):
    codebase = build(tmp_path, {"linalg/planted.py": f'"""A planted file for this test."""\n\n{text}'})
    assert ("fedsvd.linalg.planted.alone" in unused(codebase)) is found


def test_a_planted_caller_in_another_file_is_enough(tmp_path):
    alone = "def alone():\n    return 1\n"
    caller = "from fedsvd.linalg import planted\n\nVALUE = planted.alone()\n"
    assert unused(build(tmp_path, {"linalg/planted.py": alone, "masks/caller.py": caller})) == []
