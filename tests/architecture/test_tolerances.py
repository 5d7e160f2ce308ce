"""No test states a numerical tolerance itself: ``tests/tolerances.py`` derives them all from eps, sizes and norms.

A number typed into a test (``atol=1e-11``) fits the BLAS kernel and the scale of the data it was tried on, and fails on
another machine. Floats below ``TINY`` are found in the tolerances of the usual functions, in comparisons by order and
in constants of a module; larger ones (5 %, a tenth of a second) are statements about chance or time. NumPy's functions
without ``rtol`` are found too, because their own defaults hide what ``atol`` says.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from .imports import nodes

TESTS = Path(__file__).parents[1]
HOME = TESTS / "tolerances.py"
TINY = 1 / 10_000
KEYWORDS = {"atol", "rtol", "abs", "rel", "rcond", "rel_tol", "abs_tol"}
# What NumPy adds where it is not said: a relative 1e-7 or 1e-5, an absolute 1e-8.
HIDDEN = {"assert_allclose": {"rtol"}, "allclose": {"rtol", "atol"}, "isclose": {"rtol", "atol"}}
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def typed(node: ast.AST) -> bool:
    """A positive float below TINY is written somewhere in this expression; denormal numbers are data, not bars."""
    constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return any(isinstance(value, float) and 1e-300 < value < TINY for value in constants)


def called(node: ast.Call) -> str:
    """The name of a function of NumPy, or nothing: ``math.isclose`` has other defaults."""
    return node.func.attr if isinstance(node.func, ast.Attribute) and ast.unparse(node.func).startswith("np.") else ""


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Lines, and what is wrong in them."""
    module, *inner = nodes(source)
    for node in inner:
        if isinstance(node, ast.Call):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            for name in KEYWORDS & given.keys():
                if typed(given[name]):
                    yield node.lineno, f"a typed {name}"
            if None not in given and (missing := HIDDEN.get(called(node), set()) - given.keys()):
                yield node.lineno, f"{called(node)} without {' and '.join(sorted(missing))}, which then is NumPy's own"
        elif isinstance(node, ast.Compare) and any(isinstance(op, ORDER) for op in node.ops) and typed(node):
            yield node.lineno, "a typed bar in a comparison"
    assert isinstance(module, ast.Module)
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant) and typed(node.value):
            yield node.lineno, "a typed constant of the module"


def test_no_test_types_a_tolerance():
    found = [
        f"{path.relative_to(TESTS.parent)}:{line}: {fault}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != HOME
        for line, fault in faults(path.read_text(encoding="utf-8"))
    ]
    assert not found, "use tests/tolerances.py:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)",
        "np.testing.assert_allclose(a, b, rtol=1e-13 * size)",
        "np.testing.assert_allclose(a, b, atol=spectrum(3, 4))",
        "np.testing.assert_allclose(a, b)",
        "assert np.isclose(a, b, rtol=spectrum(3, 4))",
        "assert a == pytest.approx(b, abs=1e-12)",
        "assert a == pytest.approx(b, rel=1e-9)",
        "assert np.linalg.norm(a - b) < 1e-10",
        "assert np.linalg.norm(a - b) <= 2.0 * (1e-13 + eps) * np.linalg.norm(b)",
        "assert 1 - 1e-12 <= ratio",
        "BAR = 1e-12",
        "BAR: float = 1e-12",
    ],
)
def test_a_typed_tolerance_is_found(line):
    assert [number for number, _ in faults(f"import numpy as np\n{line}\n")] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "np.testing.assert_allclose(a, b, rtol=0, atol=spectrum(3, 4) * sigma[0])",
        "assert_close(a, b, VALUES_BAR)",
        "assert a == pytest.approx(b, rel=0.05)",
        "assert seconds < 0.5",
        "X[0] += 1e-9",
        "sigma = np.geomspace(1.0, 1e-12, 15)",
        "SMALLEST = 5e-324",
    ],
)
def test_data_and_statements_about_chance_or_time_are_not(line):
    assert not list(faults(line))
