"""The columns that a formula makes of a party's table, with the names that formulaic and R's users know.

The levels of text columns are the joint ones, agreed before (``categories.py``), so that every party makes the same
columns in the same order. A category is coded with all levels where the terms before it do not span the constant, and
without its reference level where they do: the rule of R and patsy (``coded``). All terms are computed row by row.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare.categories import JointLevels, level_codes
from fedsvd.prepare.columns import listed
from fedsvd.prepare.derived import Derived, names_of, positions
from fedsvd.prepare.formula import Parsed
from fedsvd.prepare.formula_factors import SPLINE, Factor
from fedsvd.prepare.splines import natural_spline, spline_columns
from fedsvd.types import Float, near

HAS_NO_KNOTS = (
    "a spline is at the knots of the dictionary: knots = [20, 40, 60] under [columns.NAME]; fedsvd dictionary propose "
    "writes a first one"
)

Coded = tuple[tuple[Factor, bool], ...]
"""A term whose categories are coded: each factor, and whether its reference level is left out."""

Column = tuple[tuple[Factor, tuple[int, bool]], ...]
"""A product of factors: of each its level or power, and whether the reference level is left out of its levels."""


@dataclass(frozen=True, repr=False)
class Combined:
    """Columns whose combinations products count: those that occur, as texts, and which of them each row has."""

    names: tuple[str, ...]
    held: tuple[tuple[str, ...], ...]
    rows: NDArray[np.intp]


class FormulaTable(Derived):
    """The columns that a formula makes of a table, less the intercept, which the study adds itself."""

    def __init__(
        self,
        base: MatrixSource,
        formula: Parsed,
        levels: Mapping[str, JointLevels],
        missing_as: Mapping[str, str] | None = None,
        knots: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.intercept = formula.intercept
        names = names_of(base)
        missing = [name for name in formula.variables if name not in names and name not in levels]
        if missing:
            raise DataError(
                f"the table has no column {listed(missing)}, which the formula reads",
                f"check its names{near(missing[0], names)}",
            )
        text = [name for name in formula.variables if name in base.text_names]
        lacking = [name for name in text if name not in levels]
        if lacking:
            raise DataError(f"the levels of column {listed(lacking)} were not agreed", "agree on them before")
        self._knots = knots or {}
        bare = sorted(formula.splines - set(self._knots))
        if bare:
            raise ConfigError(f"the formula has ns({bare[0]}), and {bare[0]!r} has no knots", HAS_NO_KNOTS)
        self._reads = [name for name in formula.variables if name not in levels]
        self._places = np.array([names.index(name) for name in self._reads], dtype=np.intp)
        self._levels = {name: levels[name] for name in formula.variables if name in levels}
        as_level = missing_as or {}
        self._codes = {name: level_codes(base, joint, as_level.get(name)) for name, joint in self._levels.items()}
        gaps = [name for name, codes in self._codes.items() if bool((codes < 0).any())]
        if gaps:
            raise DataError(f"entries of column {listed(gaps)} are missing", 'drop these rows: missing = "drop"')
        self._left = [((factor, place),) for factor in formula.left for place in self._parts(factor, False)]
        self._right = [column for term in coded(formula, self._is_category) for column in self._columns(term)]
        self._products = [term for term in formula.terms if sum(factor.multiplied for factor in term) > 1]
        super().__init__(base, [self._called(column) for column in self._right])
        self.outcome_names: tuple[str, ...] = tuple(self._called(column) for column in self._left)

    @property
    def made(self) -> dict[str, tuple[str, ...]]:
        """The columns in which a record can stand out that does not in those of the data: products, powers and curves.

        Each with the columns of this table that it is made of. A curve grows slower than its column, and another unit
        changes nothing: alone neither is among them. Several functions of one column are, since a combination of them
        can be as narrow as no one of them is.
        """
        names, found = set(names_of(self)), dict[str, tuple[str, ...]]()
        read = Counter(name for column in self._right for factor, _ in column for name in factor.columns)
        for column, name in zip(self._right, names_of(self), strict=True):
            (factor, (power, _)), alone = column[0], len(column) == 1
            first = factor.kind in ("column", "C", "I") or (factor.kind == "poly" and power == 1)
            if alone and (first or (read[factor.columns[0]] == 1 and factor.kind not in ("I*", "poly"))):
                continue
            sources = [each for one, part in column for each in self._alone(one, part) if each in names - {name}]
            found[name] = tuple(dict.fromkeys(sources))
        return found

    @property
    def read(self) -> dict[str, tuple[str, ...]]:
        """Each column of this table with those of the data that it reads."""
        columns = zip(names_of(self), self._right, strict=True)
        return {name: tuple(each for factor, _ in column for each in factor.columns) for name, column in columns}

    def _alone(self, factor: Factor, part: tuple[int, bool]) -> Iterator[str]:
        """What the factor is called where it is a column of its own."""
        yield from factor.columns
        yield from (self._part_called(factor, part[0], reduced) for reduced in (False, True))
        if factor.kind == "poly":
            yield self._part_called(factor, 1, False)

    def combined(self, most_values: int) -> Iterator[Combined]:
        """For any two products together, the columns of few values in them, and which combination each row has.

        A Gram entry of ``a:b`` and ``c:d`` counts the records of every combination of all four. Combinations of some
        columns are those of more columns added up, so that only the largest sets are given.
        """
        multiplied = [{name for factor in term for name in factor.columns} for term in self._products]
        codes = self._few(sorted(set().union(*multiplied)), most_values)
        pairs = {frozenset(codes) & (one | other) for one in multiplied for other in multiplied}
        for names in (each for each in pairs if each and not any(each < other for other in pairs)):
            ordered = tuple(sorted(names))
            held, rows = np.unique(np.column_stack([codes[name][1] for name in ordered]), axis=0, return_inverse=True)
            texts = [tuple(codes[name][0][place] for name, place in zip(ordered, each, strict=True)) for each in held]
            yield Combined(ordered, tuple(texts), rows.ravel())

    def _few(self, names: Sequence[str], most: int) -> dict[str, tuple[Sequence[str], NDArray[np.intp]]]:
        """The values of these columns as texts, where there are few, and the number of each row's value."""
        found: dict[str, tuple[Sequence[str], NDArray[np.intp]]] = {
            name: (self._levels[name].all, codes.astype(np.intp))
            for name, codes in self._codes.items()
            if name in names
        }
        for name in (each for each in names if each in self._reads):
            place = int(self._places[self._reads.index(name)])
            values = self._base.raw(slice(0, self.shape[0]), slice(place, place + 1))[:, 0]
            levels, codes = np.unique(values, return_inverse=True)
            if len(levels) <= most:
                found[name] = [f"{level:.15g}" for level in levels.tolist()], codes
        return found

    def outcome(self) -> Float:
        """The columns left of ``~``, shape (rows, outcomes)."""
        if not self._left:
            raise ConfigError("the formula has no outcome", "write y ~ ...")
        return self._made(slice(0, self.shape[0]), self._left)

    def column(self, name: str) -> NDArray[Any]:
        if name in self.outcome_names and name not in (self.names or ()):
            values: NDArray[Any] = self.outcome()[:, self.outcome_names.index(name)]
            return values
        return super().column(name)

    def _cells(self, rows: Index, columns: Index) -> Float:
        wanted = positions(columns, self.shape[1])
        return self._made(rows, [self._right[place] for place in wanted.tolist()])

    def _is_category(self, factor: Factor) -> bool:
        """Whether a factor is coded; refused where a function is asked of text, or C(...) of numbers."""
        text = [name for name in factor.columns if name in self._levels]
        if (factor.kind == "C") != bool(text) and factor.kind != "column":
            raise ConfigError(
                f"the formula has {factor.text!r}, and column {listed(text or factor.columns)} "
                f"{'is a category' if text else 'has no levels'}",
                "check that C(...) stands around text only",
            )
        return bool(text)

    def _columns(self, term: Coded) -> list[Column]:
        """The columns of a term, that of the first factor changing fastest."""
        parts = [[(factor, part) for part in self._parts(factor, reduced)] for factor, reduced in term]
        return [tuple(reversed(each)) for each in product(*reversed(parts))]

    def _parts(self, factor: Factor, reduced: bool) -> list[tuple[int, bool]]:
        """Level or power of each column of a factor, and whether a reference level is left out of them."""
        if self._is_category(factor):
            every = self._levels[factor.columns[0]].all
            if factor.reference is not None and factor.reference not in every:
                raise ConfigError(
                    f"column {factor.columns[0]!r} has no level {factor.reference!r}", f"one of {listed(every)}"
                )
            reference = 0 if factor.reference is None else every.index(factor.reference)
            return [(level, reduced) for level in range(len(every)) if not reduced or level != reference]
        if factor.kind == SPLINE:
            return [(column, False) for column in range(1, 1 + spline_columns(self._knots[factor.columns[0]]))]
        return (
            [(power, reduced) for power in range(1, int(factor.number) + 1)] if factor.kind == "poly" else [(0, False)]
        )

    def _called(self, column: Column) -> str:
        return ":".join(self._part_called(factor, part, reduced) for factor, (part, reduced) in column)

    def _part_called(self, factor: Factor, part: int, reduced: bool) -> str:
        if self._is_category(factor):
            return f"{factor.text}[{'T.' if reduced else ''}{self._levels[factor.columns[0]].all[part]}]"
        return f"{factor.text}[{part}]" if factor.kind in ("poly", SPLINE) else factor.text

    def _made(self, rows: Index, columns: Sequence[Column]) -> Float:
        cells = self._base.raw(rows, self._places)
        values = {name: cells[:, place] for place, name in enumerate(self._reads)}
        codes = {name: each[rows] for name, each in self._codes.items()}
        out = np.empty((len(positions(rows, self.shape[0])), len(columns)), order="F")
        with np.errstate(all="ignore"):  # what is not finite is refused with its place, as everywhere
            for place, column in enumerate(columns):
                factors = (_values(factor, part, values, codes, self._knots) for factor, (part, _) in column)
                out[:, place] = next(factors)
                for each in factors:
                    out[:, place] *= each
        return out


def _values(
    factor: Factor,
    part: int,
    values: Mapping[str, NDArray[Any]],
    codes: Mapping[str, NDArray[Any]],
    knots: Mapping[str, Sequence[float]],
) -> NDArray[Any]:
    """One column of a factor, of the rows that were read."""
    name = factor.columns[0]
    if name in codes:
        found: NDArray[Any] = codes[name] == part
        return found.astype(np.float64)
    x: NDArray[Any] = values[name]
    match factor.kind:
        case "column" | "I":
            return x
        case "poly":
            return np.asarray(x**part)
        case "ns":
            return natural_spline(x, knots[name], part)
        case "I/":
            return np.asarray(x / factor.number)
        case "I-":
            return np.asarray(x - factor.number)
        case "I*":
            return np.asarray(x * values[factor.columns[1]])
        case _:
            return np.asarray(getattr(np, factor.kind)(x))


def coded(formula: Parsed, is_category: Callable[[Factor], bool]) -> Iterable[Coded]:
    """Each term with its categories coded so that no column depends on those before it.

    A category spans the constant and its contrasts, so a term spans products of either for each of its categories.
    Those that an earlier term spans are left out; the others are joined to as few products as possible.
    """
    spanned: set[frozenset[tuple[Factor, bool]]] = {frozenset()} if formula.intercept else set()
    for term in formula.terms:
        choices = [((factor, True), None) if is_category(factor) else ((factor, False),) for factor in term]
        new = []
        for each in product(*choices):
            part = tuple(one for one in each if one is not None)
            if frozenset(part) not in spanned:
                new.append(part)
        spanned |= {frozenset(part) for part in new}
        yield from _joined(new)


def _joined(parts: Sequence[Coded]) -> list[Coded]:
    """``a:contrasts + a`` is ``a:all levels``, applied until nothing can be joined."""
    found: list[Coded] = []
    for part in sorted(parts, key=len):
        for other in found:
            more = set(part) - set(other)
            if len(part) - 1 == len(other) and len(more) == 1 and next(iter(more))[1]:
                (new,) = more
                whole = tuple(
                    (factor, False) if (factor, reduced) == new else (factor, reduced) for factor, reduced in part
                )
                found = _joined([*(each for each in found if each != other), whole])
                break
        else:
            found = [*found, part]
    return found
