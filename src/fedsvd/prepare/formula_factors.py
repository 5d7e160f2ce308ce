"""The factors of a formula: a column, or one of a short list of calls, read by ``ast``; nothing of it is evaluated.

A formula comes from another party, and one who may choose any function of a record may choose one that a single record
has: ``exp(-(200*(age-52.62))**2)`` told whether a person of that age is in a table. So the calls are a list
(``ALLOWED``) of functions that grow no faster than powers of a column and have no narrow peak. What is not on it is
refused by its token, with what may stand there.
"""

import ast
import re
from dataclasses import dataclass

from fedsvd.errors import ConfigError, printable

CURVES = ("log", "log1p", "sqrt", "asinh")
"""Functions of one column. They grow slower than the column, so that none can single out one of its values."""

ALLOWED = (
    f"C(x), {', '.join(f'{name}(x)' for name in CURVES)}, poly(x, 2, raw=True), ns(x), I(x / 10), I(x - 50), I(x * z)"
)
"""The calls of the grammar, as an error names them."""

SPLINE = "ns"
"""A natural spline of one column at the knots of the dictionary: those of a job could lie between any two people."""

AT_HOME = "or make the column in your own table before the study"
_OF_R = ("factor", "as.factor", "ordered", "as.character")
_LARGEST = 2.0**53  # of a number in a formula
_SHOWN = 40


@dataclass(frozen=True)
class Token:
    """A piece of a formula: ``kind`` is one of name, number, call, operator, ( and )."""

    kind: str
    text: str
    place: int


@dataclass(frozen=True)
class Factor:
    """One factor of a term: which columns it reads and what it makes of them. ``text`` is its name in results.

    ``kind`` is a name of ``CURVES``, or one of column, C, poly, ns, I, I/, I-, I*. ``number``: constant or degree.
    """

    text: str
    kind: str
    columns: tuple[str, ...]
    number: float = 0.0
    reference: str | None = None  # the level that C(...) leaves out

    @property
    def multiplied(self) -> int:
        """How many columns it multiplies."""
        return len(self.columns)


def factor_of(token: Token) -> Factor:
    """The factor that a name or a call is."""
    if token.kind == "call":
        return _Call(token).factor()
    name = token.text.strip("`")
    if token.kind != "name" or name == ".":
        raise refused(token, "name the columns: y ~ age + C(sex)")
    return Factor(name, "column", (name,))


def names_in(token: Token, fix: str) -> tuple[str, ...]:
    """The columns that are all arguments of a call."""
    return _Call(token).names(fix)


class _Call:
    """A term such as ``log(dose)``, parsed by ``ast``; names in backticks are words of their own there."""

    def __init__(self, token: Token) -> None:
        self._token = token
        self._prefix = "quoted_"
        while self._prefix in token.text:
            self._prefix += "_"
        self._quoted: list[str] = []

    def names(self, fix: str) -> tuple[str, ...]:
        """The columns that are its arguments; refused where one is no column."""
        tree = self._tree(fix)
        found = [self._name(argument) for argument in tree.args]
        if tree.keywords or not found or None in found:
            raise self._refused(fix)
        return tuple(name for name in found if name is not None)

    def factor(self) -> Factor:
        """What the call makes; refused unless it is one of ``ALLOWED``."""
        tree = self._tree(f"a term is one of {ALLOWED}")
        called = self._called(tree)
        reader = {"C": self._category, "poly": self._powers, "I": self._arithmetic}.get(called)
        if reader is not None:
            kind, columns, number, reference = reader(tree)
        elif called in (*CURVES, SPLINE):
            kind, columns, number, reference = called, (self._only_name(tree),), 0.0, None
        else:
            raise self._refused(_instead_of(called))
        return Factor(self._text(tree), kind, columns, number, reference)

    def _tree(self, fix: str) -> ast.Call:
        plain = re.sub(r"`([^`]*)`", self._word, self._token.text)
        try:
            tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            called = self._token.text.partition("(")[0]  # "as.factor", where "as" is a word of Python's
            raise self._refused(_instead_of(called) if called in _OF_R else fix) from None
        if not isinstance(tree, ast.Call) or _dotted(tree.func) is None:
            raise self._refused(fix)
        return tree

    def _called(self, tree: ast.Call) -> str:
        return _dotted(tree.func) or ""

    def _word(self, found: re.Match[str]) -> str:
        self._quoted.append(found[1])
        return f"{self._prefix}{len(self._quoted) - 1}_"

    def _text(self, tree: ast.AST) -> str:
        """The call with blanks where Python writes them, and its quoted names again."""
        pattern = rf"{self._prefix}(\d+)_"
        return re.sub(pattern, lambda found: f"`{self._quoted[int(found[1])]}`", ast.unparse(tree))

    def _name(self, node: ast.AST) -> str | None:
        name = _dotted(node)
        found = None if name is None else re.fullmatch(rf"{self._prefix}(\d+)_", name)
        return self._quoted[int(found[1])] if found else name

    def _only_name(self, tree: ast.Call) -> str:
        """The column that is the only argument."""
        name = self._name(tree.args[0]) if len(tree.args) == 1 and not tree.keywords else None
        if name is None:
            called = self._called(tree)
            if called == SPLINE:
                raise self._refused("write ns(x): its knots stand in the dictionary, and a job chooses none")
            raise self._refused(
                f"{called}(x) of one column, with odd names in backticks; a term is one of {ALLOWED}; {AT_HOME}"
            )
        return name

    def _category(self, tree: ast.Call) -> tuple[str, tuple[str, ...], float, str | None]:
        """``C(x)``, or with another reference level: the same columns in another base."""
        fix = "write C(sex), or C(sex, contr.treatment('f')) for another reference level"
        name = self._name(tree.args[0]) if tree.args else None
        if (
            name is None
            or len(tree.args) + len(tree.keywords) > 2
            or any(each.arg != "contrasts" for each in tree.keywords)
        ):
            raise self._refused(fix)
        rest = [*tree.args[1:], *(each.value for each in tree.keywords)]
        reference = None
        for call in rest:
            known = isinstance(call, ast.Call) and ast.unparse(call.func) == "contr.treatment"
            if not isinstance(call, ast.Call) or not known or call.keywords or len(call.args) > 1:
                raise self._refused(fix)
            for level in call.args:
                if not isinstance(level, ast.Constant) or not isinstance(level.value, str):
                    raise self._refused(fix)
                reference = level.value
        return "C", (name,), 0.0, reference

    def _powers(self, tree: ast.Call) -> tuple[str, tuple[str, ...], float, str | None]:
        """``poly(x, 2, raw=True)``: the orthogonal ones of R would need joint moments, and span the same columns."""
        fix = "write poly(x, 2, raw=True) or poly(x, 3, raw=True): powers of x, the same for every party"
        name = self._name(tree.args[0]) if len(tree.args) == 2 else None
        degree = tree.args[1].value if name and isinstance(tree.args[1], ast.Constant) else None
        raw = [each for each in tree.keywords if each.arg == "raw" and ast.unparse(each.value) in ("True", "TRUE")]
        if name is None or type(degree) is not int or degree not in (2, 3) or len(raw) != 1 or len(tree.keywords) != 1:
            raise self._refused(fix)
        return "poly", (name,), float(degree), None

    def _arithmetic(self, tree: ast.Call) -> tuple[str, tuple[str, ...], float, str | None]:
        """``I(x)``, ``I(x / c)``, ``I(x - c)``, ``I(x * z)``."""
        fix = f"I(x / 10), I(x - 50) and I(x * z) of columns x and z; powers as poly(x, 2, raw=True); {AT_HOME}"
        inner = tree.args[0] if len(tree.args) == 1 and not tree.keywords else None
        if inner is not None and (name := self._name(inner)) is not None:
            return "I", (name,), 0.0, None
        if isinstance(inner, ast.BinOp) and (name := self._name(inner.left)) is not None:
            other, number = self._name(inner.right), _number(inner.right)
            if isinstance(inner.op, ast.Mult) and other is not None:
                return "I*", (name, other), 0.0, None
            if isinstance(inner.op, ast.Sub) and number is not None:
                return "I-", (name,), number, None
            if isinstance(inner.op, ast.Div) and number:
                return "I/", (name,), number, None
        raise self._refused(fix)

    def _refused(self, fix: str) -> ConfigError:
        return refused(self._token, fix)


def _dotted(node: ast.AST) -> str | None:
    """A name, which may have points in it, as names of R have: ``alk.phos``; None for anything else."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


def _number(node: ast.AST) -> float | None:
    """A plain number, with a sign or without."""
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1.0, node.operand
    if not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
        return None
    value = node.value
    if not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise ConfigError("the formula has a number beyond 2^53", "write a smaller one")
    return sign * float(value)


def _instead_of(called: str) -> str:
    """What to write in place of a function that is not in the grammar."""
    if called in ("log2", "log10"):
        return f"write log(x): {called}(x) is a multiple of it"
    if called in ("bs", "cr", "cc", "cs"):
        return "write ns(x), a natural spline at the knots that the dictionary has for x"
    if called in _OF_R:
        return "write C(x): a column for each level of x but one"
    if called in ("scale", "center", "standardize"):
        return (
            f"{called}(...) looks at other rows; use the study's own centring and scaling, or I(x - 50) and I(x / 10)"
        )
    if called in ("Surv", "strata", "cluster", "offset"):
        return "Surv(time, event) stands left of ~; strata(x), cluster(x), offset(x) right of it, alone between +"
    return f"a term is one of {ALLOWED}; {AT_HOME}"


def refused(token: Token, fix: str) -> ConfigError:
    """The error that names a token, where it stands, and what may stand there."""
    text = printable(token.text, _SHOWN)
    return ConfigError(f"the formula cannot be read at {text!r} (character {token.place + 1})", fix)
