"""A formula in the style of R (``outcome ~ age * C(sex) + site``) as the columns of a study.

Formulaic, a maintained parser, reads it (extra ``formula``). The levels of text columns are the joint ones, agreed
before (``categories.py``), so that every party makes the same columns, in the same order, with the names of the
formula. Terms are computed row by row; a term that looks at other rows (``scale``, ``poly``, ``bs``) would be
another one at every party, and is refused: centring and scaling are settings of the study.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.errors import ConfigError, DataError, MissingExtra, printable
from fedsvd.prepare.categories import JointLevels, level_codes
from fedsvd.prepare.columns import listed
from fedsvd.prepare.derived import Derived, names_of, positions
from fedsvd.prepare.formula_size import measured
from fedsvd.types import Float

# Row by row. A formula comes in a job file, from another party, and a parser of formulas evaluates Python: what is not
# in these lists is refused before anything of it is evaluated.
_FUNCTIONS = {
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "log1p": np.log1p,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
}
_CONTRASTS = ("treatment", "sum", "helmert", "diff")
_OTHER_ROWS = {"scale", "center", "standardize", "poly", "bs", "cr", "cc", "cs", "lag", "hashed"}
_ARITHMETIC = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Load, ast.keyword),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd),
)
_LARGEST = 2.0**53  # of a number in a formula
_MOST_NODES = 300  # of one term's arithmetic
SITE = "site"
"""Which party a row is of, as a term (``site_term.py``)."""


@dataclass(frozen=True)
class Parsed:
    """A formula: its text, the columns it reads, which of them stand left of ``~``, and whether it has an intercept."""

    text: str
    variables: tuple[str, ...]
    outcome: tuple[str, ...]
    intercept: bool
    targets: tuple[str, ...] = ()  # the terms left of ~, as they are called
    categorical: frozenset[str] = frozenset()  # the columns in C(...)
    terms: tuple[tuple[tuple[str, ...], ...], ...] = ()  # right of ~, less the intercept: what each factor reads
    has_site: bool = False  # whether a bare site stands right of ~


@lru_cache(maxsize=64)
def parse(text: str) -> Parsed:
    """A formula that any party may have written; anything but terms, known functions and contrasts is refused."""
    for call in measured(text)[1]:
        _names(_tree(call))  # before the parser expands anything
    formulaic = _formulaic()
    try:
        formula = formulaic.Formula(text)
        left, right = (formula.lhs, formula.rhs) if hasattr(formula, "rhs") else ((), formula)
        sides = [[factor for term in side for factor in term.factors] for side in (left, right)]
    except Exception as fault:
        raise ConfigError(
            f"the formula cannot be read ({type(fault).__name__})", "write terms such as y ~ age + C(sex)"
        ) from None
    outcome, variables = ([name for factor in side for name in _read_by(factor)] for side in sides)
    if not variables:
        raise ConfigError("the formula reads no column", "write terms such as y ~ age + C(sex)")
    intercept = any(factor.expr == "1" for factor in sides[1])
    return Parsed(
        text,
        tuple(dict.fromkeys([*outcome, *variables])),
        tuple(dict.fromkeys(outcome)),
        intercept,
        tuple(str(term) for term in left),
        frozenset(name for factor in (*sides[0], *sides[1]) for name in _in_contrasts(factor)),
        tuple(term for each in right if any(term := tuple(tuple(_read_by(factor)) for factor in each.factors))),
        any(factor.eval_method.name == "LOOKUP" and str(factor.expr) == SITE for factor in sides[1]),
    )


def _read_by(factor: Any) -> list[str]:
    """The columns that a factor reads; refused when it is more than arithmetic, functions of the list and contrasts."""
    kind = factor.eval_method.name
    if kind == "LITERAL":
        return []
    if kind == "LOOKUP":
        return [str(factor.expr)]
    return _names(_tree(str(factor.expr)))


def _tree(call: str) -> ast.Expression:
    """A term that is Python, parsed; nothing of it is evaluated. One that is too long to be walked is refused."""
    try:
        tree = ast.parse(call, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        fault = f"the formula has the term {printable(call, 40)!r}, which cannot be read"
        raise ConfigError(fault, "rename columns with odd names first") from None
    if sum(1 for _ in ast.walk(tree)) > _MOST_NODES:
        raise ConfigError(f"the formula has the term {printable(call, 40)!r}, which is long", "shorten it")
    return tree


def _in_contrasts(factor: Any) -> list[str]:
    """The columns that a factor reads inside of C(...)."""
    if factor.eval_method.name in ("LITERAL", "LOOKUP"):
        return []
    calls = (node for node in ast.walk(ast.parse(str(factor.expr), mode="eval")) if isinstance(node, ast.Call))
    named = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "C" and call.args)
    return [name for call in named for name in _names(call.args[0])]


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        if not abs(node.value) <= _LARGEST:
            raise ConfigError("the formula has a number beyond 2^53", "write a smaller one")
        return []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        called, arguments = node.func.id, [*node.args, *node.keywords]
        if called in _OTHER_ROWS:
            fix = "use the study's own centring and scaling, or make the column before the study"
            raise ConfigError(f"{called}(...) looks at other rows, which every party would do differently", fix)
        if called == "C" and node.args:
            if not all(_is_contrast(each) for each in arguments[1:]):
                raise ConfigError("C(...) has a setting that is no contrast", "write C(sex, contr.treatment('f'))")
            return _names(node.args[0])
        if called == "I" or called in _FUNCTIONS:
            return [name for each in arguments for name in _names(each)]
        raise ConfigError(f"the formula calls {called[:40]!r}", f"one of C, I, {', '.join(_FUNCTIONS)}")
    if not isinstance(node, _ARITHMETIC):
        what = "the formula has more than columns, arithmetic and functions of the list"
        raise ConfigError(what, f"use C, I, {', '.join(_FUNCTIONS)} and arithmetic")
    found = [name for child in ast.iter_child_nodes(node) for name in _names(child)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not found:
        # Python computes it exactly, and 9**9**9 for hours.
        raise ConfigError(f"the formula has a power of numbers, {ast.unparse(node)[:40]}", "write its value")
    return found


def _is_contrast(node: ast.AST) -> bool:
    """``contr.treatment("level")`` and its kin, with plain texts and numbers inside."""
    call = node.value if isinstance(node, ast.keyword) and node.arg == "contrasts" else node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    known = isinstance(call.func.value, ast.Name) and call.func.value.id == "contr" and call.func.attr in _CONTRASTS
    values = [*call.args, *(each.value for each in call.keywords)]
    return known and all(isinstance(value, ast.Constant) for value in values)


class FormulaTable(Derived):
    """The columns that a formula makes of a table, less the intercept, which the study adds itself."""

    def __init__(
        self,
        base: MatrixSource,
        formula: Parsed,
        levels: Mapping[str, JointLevels],
        missing_as: Mapping[str, str] | None = None,
    ) -> None:
        names = names_of(base)
        missing = [name for name in formula.variables if name not in names and name not in levels]
        if missing:
            raise DataError(f"the table has no column {listed(missing)}, which the formula reads", "check its names")
        text = [name for name in formula.variables if name in base.text_names]
        lacking = [name for name in text if name not in levels]
        if lacking:
            raise DataError(f"the levels of column {listed(lacking)} were not agreed", "agree on them before")
        self._reads = [name for name in formula.variables if name not in levels]
        self._places = np.array([names.index(name) for name in self._reads], dtype=np.intp)
        self._levels = {name: levels[name] for name in formula.variables if name in levels}
        as_level = missing_as or {}
        self._codes = {name: level_codes(base, joint, as_level.get(name)) for name, joint in self._levels.items()}
        gaps = [name for name, codes in self._codes.items() if bool((codes < 0).any())]
        if gaps:
            raise DataError(f"entries of column {listed(gaps)} are missing", 'drop these rows: missing = "drop"')
        self._spec, self._outcome, columns = _spec(formula, self._reads, self._levels)
        super().__init__(base, columns)
        self.outcome_names: tuple[str, ...] = self._outcome

    def outcome(self) -> Float:
        """The columns left of ``~``, shape (rows, outcomes)."""
        matrices = self._matrices(slice(0, self.shape[0]))
        if not self._outcome:
            raise ConfigError("the formula has no outcome", "write y ~ ...")
        return np.asarray(matrices.lhs, dtype=np.float64)

    def column(self, name: str) -> NDArray[Any]:
        if name in self.outcome_names and name not in (self.names or ()):
            values: NDArray[Any] = self.outcome()[:, self.outcome_names.index(name)]
            return values
        return super().column(name)

    def _cells(self, rows: Index, columns: Index) -> Float:
        matrices = self._matrices(rows)
        right = matrices.rhs if self._outcome else matrices
        cells: Float = np.asarray(right[list(self.names or ())], dtype=np.float64)
        return cells[:, positions(columns, self.shape[1])]

    def _matrices(self, rows: Index) -> Any:
        cells = self._base.raw(rows, self._places)
        data = {name: cells[:, place] for place, name in enumerate(self._reads)}
        coded = {name: _categorical(codes[rows], self._levels[name]) for name, codes in self._codes.items()}
        with np.errstate(all="ignore"):  # what is not finite is refused with its place, as everywhere
            return self._spec.get_model_matrix(_frame({**data, **coded}), context=_FUNCTIONS)


def _spec(
    formula: Parsed, reads: Sequence[str], levels: Mapping[str, JointLevels]
) -> tuple[Any, tuple[str, ...], list[str]]:
    """How the formula is applied, its outcome's names and its columns, from a made-up table with every joint level."""
    rows = max([2, *(len(joint.all) for joint in levels.values())])
    # Numbers that are neither constant nor special: no function of the list fails on them.
    data: dict[str, Any] = {name: np.linspace(0.25, 0.75, rows) for name in reads}
    for name, joint in levels.items():
        data[name] = _categorical(np.arange(rows) % len(joint.all), joint)
    try:
        # Rows with a gap would be left out without a word; a panel of them is refused instead.
        made = _formulaic().Formula(formula.text)
        matrices = made.get_model_matrix(_frame(data), context=_FUNCTIONS, na_action="ignore")
    except Exception as fault:
        raise ConfigError(
            f"the formula cannot be applied ({type(fault).__name__})", "check that C(...) stands around text only"
        ) from None
    right = matrices.rhs if formula.outcome else matrices
    outcome = tuple(map(str, matrices.lhs.columns)) if formula.outcome else ()
    return matrices.model_spec, outcome, [str(name) for name in right.columns if name != "Intercept"]


def _categorical(codes: Any, joint: JointLevels) -> Any:
    import pandas

    return pandas.Categorical.from_codes(codes, categories=list(joint.all))


def _frame(data: Mapping[str, Any]) -> Any:
    import pandas

    return pandas.DataFrame(dict(data))


def _formulaic() -> Any:
    try:
        import formulaic
    except ImportError:
        raise MissingExtra("formulas need formulaic", "pip install 'fedsvd[formula]'") from None
    return formulaic
