"""The tree drawn at the top of ``errors.py`` is the tree of classes below it, and every code is its own."""

import builtins
import inspect
import re

import pytest

from fedsvd import errors

CLASSES = {
    name: cls
    for name, cls in inspect.getmembers(errors, inspect.isclass)
    if cls.__module__ == errors.__name__ and issubclass(cls, errors.FedSVDError)
}
WARNINGS = {
    name: cls
    for name, cls in inspect.getmembers(errors, inspect.isclass)
    if cls.__module__ == errors.__name__ and issubclass(cls, Warning)
}
LEAF = re.compile(
    r"^(?P<branch>[│├└─ ]*)(?P<name>\w+)(?: \((?P<builtins>[\w, ]+)\))?(?:\s+(?P<code>FSVD-\d{3}))?(?:\s|$)"
)


def drawn() -> dict[str, tuple[str | None, set[str], str | None]]:
    """Each class of the drawing with its parent there, its builtin bases and its code."""
    lines = (errors.__doc__ or "").splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip() == "FedSVDError")
    tree: dict[str, tuple[str | None, set[str], str | None]] = {}
    above: dict[int, str] = {}
    for line in lines[start:]:
        leaf = LEAF.match(line)
        if not line.strip() or leaf is None:
            break
        depth = len(leaf["branch"])
        above = {d: name for d, name in above.items() if d < depth}
        parent = above[max(above)] if above else None
        above[depth] = leaf["name"]
        tree[leaf["name"]] = (parent, set(re.findall(r"\w+", leaf["builtins"] or "")), leaf["code"])
    return tree


def test_every_error_is_drawn_and_everything_drawn_is_an_error():
    assert set(drawn()) == {*CLASSES, *WARNINGS}


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_is_drawn_under_its_parent_with_its_bases_and_its_code(name):
    parent, bases, code = drawn()[name]
    actual = {base.__name__ for base in CLASSES[name].__bases__}
    if name == "FedSVDError":
        assert (parent, actual, code) == (None, {"Exception"}, None)
    else:
        assert actual == {parent} | bases
        assert all(hasattr(builtins, base) for base in bases)
        assert CLASSES[name].code == code


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_is_drawn_beside_the_tree_under_its_parent(name):
    parent, bases, code = drawn()[name]
    assert {base.__name__ for base in WARNINGS[name].__bases__} == ({parent} - {None}) | bases
    assert code is None
    assert issubclass(WARNINGS[name], UserWarning)


def test_every_error_has_a_code_of_its_own():
    codes = [cls.code for cls in CLASSES.values()]
    assert all(re.fullmatch(r"FSVD-\d{3}", code) for code in codes)
    assert len(set(codes)) == len(codes)
    assert all("code" in vars(cls) for cls in CLASSES.values())


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_tells_its_code_the_fault_and_the_fix(name):
    cls = CLASSES[name]
    error = cls("b is 0", "choose b >= 1")
    assert str(error) == f"{cls.code}: b is 0. Fix: choose b >= 1"
    assert (error.fault, error.fix) == ("b is 0", "choose b >= 1")
    usual = f". Fix: {cls.usual_fix}" if cls.usual_fix else ""
    assert str(cls("b is 0")) == f"{cls.code}: b is 0{usual}"
    assert str(cls()) == cls.code


def test_errors_can_be_caught_by_their_builtin_names():
    for builtin, cls in (
        (ValueError, errors.ShapeError),
        (OSError, errors.StorageError),
        (ArithmeticError, errors.FixedPointOverflow),
        (ImportError, errors.MissingExtra),
        (AttributeError, errors.NotFittedError),
    ):
        with pytest.raises(builtin):
            raise cls("fault")
