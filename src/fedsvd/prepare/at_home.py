"""What a party does to its own table before a study, without a message: columns, ordinal maps, missing values.

    names -> columns of the study, in its order -> ordinal maps -> rows without gaps, or gaps filled with a constant

The rule is that of the job and the same at every party, so that all have the same columns: every column of a rule's
``indicators`` gets one, whether this party misses an entry there or not. What needs the other parties' tables (joint
means, joint levels of a text column) comes after (``script.py``): with ``missing = "mean"`` gaps stay gaps here, and
columns that will be categories stay text. The report of what was filled or left out is for the owner.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.views import Reordered
from fedsvd.data.written import misread_texts, read_as_levels, written_in
from fedsvd.errors import ConfigError, FedSVDError, NotFinite, NotNumeric, together
from fedsvd.prepare import missing
from fedsvd.prepare.categories import ordinal
from fedsvd.prepare.columns import ColumnChoice, arranged, chosen, every, listed
from fedsvd.prepare.derived import SideBySide, names_of, row_panels
from fedsvd.prepare.encoding import Ordinal, encoded
from fedsvd.prepare.missing import Gaps, Missing
from fedsvd.prepare.recipe import Recipe
from fedsvd.types import near

CLASSES_FIX = (
    'name its classes, the reference first: classes = ["no", "yes"], in a generalised linear '
    "model (glm, family binomial or multinomial)"
)


NUMBERS_FIX = "name a column of numbers; or number its levels from 0, in their order (ordinal)"


@dataclass(frozen=True)
class HomeRule:
    """What is done to every party's table, each at its own site."""

    columns: tuple[str, ...] = ()  # the features, in this order; empty: all there are
    drop: tuple[str, ...] = ()
    missing: Missing = Missing.ERROR
    constant: float = 0.0
    indicators: bool | tuple[str, ...] = False  # for every feature, or for these
    ordinal: tuple[tuple[str, tuple[str, ...]], ...] = ()  # column, its levels in order
    by_formula: bool = False  # whether the columns are those that a formula reads
    view: tuple[str, ...] = ()  # columns that say which rows are complete, besides those of the study
    outcome: tuple[str, ...] = ()  # what stands left of ~ in a formula

    def __post_init__(self) -> None:
        for name, levels in self.ordinal:
            ordinal(name, levels)  # refuses a level that is named twice

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Every column that the rule names, with the word that names it."""
        marked = () if isinstance(self.indicators, bool) else self.indicators
        asked = {"columns": self.columns, "drop": self.drop, "indicators": marked, "ordinal": dict(self.ordinal)}
        return tuple((word, name) for word, names in asked.items() for name in names)


@dataclass(frozen=True)
class HomeReport:
    """What was done to a party's table; it stays with its owner."""

    how: Missing
    gaps: Gaps
    dropped: int
    left_out: tuple[str, ...]
    recipe: Recipe | None = None  # of what took joint numbers
    alone: bool = False  # whether these are of this table alone: split columns

    @property
    def filled(self) -> int:
        return self.gaps.total if self.how.fills else 0

    def record(self) -> dict[str, Any]:
        """For the manifest of the owner's own results."""
        held = zip(self.gaps.names, self.gaps.counts.tolist(), strict=True)
        return {
            "missing": str(self.how),
            "rows": self.gaps.rows,
            "rows_dropped": self.dropped,
            "entries_filled": self.filled,
            "missing_by_column": {name: count for name, count in held if count},
            "columns_left_out": list(self.left_out),
            **({} if self.recipe is None or self.alone else {"together": self.recipe.summary()}),
        }

    def __str__(self) -> str:
        left_out = f"; columns left out: {every(self.left_out)}" if self.left_out else ""
        together = "" if self.recipe is None or self.alone else "".join(f"; {line}" for line in self.recipe.lines())
        return f"{missing.FillReport(self.how, self.gaps, self.dropped)}{left_out}{together}"

    def counted(self) -> str:
        """The same where gaps are counted, and what stands in them is not."""
        if self.how is Missing.DROP or not self.gaps.total:
            return str(self)
        return f"{self.gaps.total} of {self.gaps.size} entries are missing: {self.gaps.describe()}"


@dataclass(frozen=True, repr=False)
class HomeTable:
    """The features of the study; labels and ids, which ``table.column`` reads by name, are those of its rows."""

    table: MatrixSource
    report: HomeReport


class CompleteRows(Reordered):
    """The rows of a table in which nothing is missing; labels and ids of the other rows may be."""

    def column(self, name: str) -> NDArray[Any]:
        if name in (self.names or ()):
            return MatrixSource.column(self, name)
        try:
            return super().column(name)
        except NotFinite:
            values, gaps = self.text(name)
            if gaps.any():
                raise
            return values


def renamed(source: MatrixSource, *maps: Mapping[str, str]) -> MatrixSource:
    """The table under other names, map after map; a map's old names that are not here are another party's."""
    for names in maps:
        held = set(names_of(source)) if names else ()
        found = tuple((old, new) for old, new in names.items() if old in held)
        source = chosen(source, ColumnChoice(rename=found))
    return source


def prepared_at_home(
    source: MatrixSource,
    rule: HomeRule,
    labels: Sequence[str] = (),
    ids: str | Sequence[str] | None = None,
    partly: bool = False,
    text: Mapping[str, str | None] | None = None,
    stays: Sequence[str] = (),
) -> HomeTable:
    """The table as the rule wants it; ``partly`` where columns are split, and a name may be another party's.

    ``stays`` are labels that are features too: columns of random slopes.

    ``ids`` are columns of text that are no features: row ids, clusters. Columns of ``text`` stay as they are; an entry
    that they miss is a level of its own where one is given for it.
    """
    names, aside = names_of(source), {*labels, *((ids,) if isinstance(ids, str) else ids or ())}
    problems = [*_problems(names, rule, aside, partly)]
    if problems:
        raise together(problems)
    held, dropped = set(names), set(rule.drop)
    apart = set() if rule.by_formula else aside - set(stays)  # what a formula has as a term is a feature
    features = [name for name in rule.columns or names if name in held and name not in apart and name not in dropped]
    if not [name for name in features if name not in (text or {})]:
        raise ConfigError(
            "columns and drop leave no column of numbers of this table", "name more columns, or drop fewer"
        )
    taken = {*features, *labels}
    codes = {name: levels for name, levels in rule.ordinal if name in taken}
    table = arranged(source, list(dict.fromkeys([*features, *(name for name in labels if name in held)])))
    levels_of = {name: level for name, level in (text or {}).items() if name in taken}
    strange = [n for n in names_of(table) if n in table.text_names and n not in codes and n not in levels_of]
    _expect_read(table, strange, labels)
    _expect_classes([name for name in strange if name in labels or name in rule.outcome], labels)
    _expect_features(strange, rule.by_formula)
    _expect_levels(table, [name for name in levels_of if name in table.text_names], rule.by_formula)
    table = encoded(table, [Ordinal(name, tuple(ordinal(name, levels).items())) for name, levels in codes.items()])
    numbers = arranged(table, [name for name in names_of(table) if name not in levels_of])
    gaps = _gaps(numbers)
    _expect_labels(gaps, labels, rule)
    left_out = tuple(name for name in names if name not in taken and name not in aside)
    gapped = [name for name, level in levels_of.items() if level is None and table.text(name)[1].any()]
    elsewhere = _complete_elsewhere(source, rule)
    if rule.missing is Missing.DROP and (gaps.total or gapped or not elsewhere.all()):
        rows = missing.complete_rows(numbers, gapped, elsewhere)
        report = HomeReport(rule.missing, gaps, source.shape[0] - len(rows), left_out)
        return HomeTable(arranged(CompleteRows(table, rows), features), report)
    table, report = arranged(table, features), HomeReport(rule.missing, gaps, 0, left_out)
    if rule.missing is Missing.ERROR:
        missing.expect_no_gaps(gaps)
    if rule.missing is Missing.CONSTANT:
        marked = features if rule.indicators is True else [name for name in rule.indicators or () if name in taken]
        if not levels_of:
            return HomeTable(missing.filled_with_constant(table, rule.constant, marked), report)
        filled = missing.filled_with_constant(
            arranged(numbers, [n for n in features if n not in levels_of]), rule.constant, marked
        )
        return HomeTable(SideBySide(filled, arranged(table, list(levels_of))), report)
    return HomeTable(table, report)


def _complete_elsewhere(source: MatrixSource, rule: HomeRule) -> NDArray[np.bool_]:
    """Which rows miss nothing of the view that the study is of, whichever of its columns the study takes."""
    held, names = np.ones(source.shape[0], np.bool_), set(names_of(source))
    viewed = [name for name in rule.view if name in names] if rule.missing is Missing.DROP else []
    for name in (name for name in viewed if name in source.text_names):
        held &= ~source.text(name)[1]
    numbers = [name for name in viewed if name not in source.text_names]
    if numbers:
        for rows, panel in row_panels(arranged(source, numbers)):
            held[rows] &= ~np.isnan(panel).any(axis=1)
    return held


def _gaps(table: MatrixSource) -> Gaps:
    """Missing entries, counted in one pass; what a generator makes has none."""
    if table.made_up:
        return Gaps(names_of(table), table.shape[0], np.zeros(table.shape[1], np.int64))
    return missing.gaps(table)


def _problems(names: Sequence[str], rule: HomeRule, aside: set[str], partly: bool) -> Iterator[FedSVDError]:
    known = set(names)
    for word in ("columns", "drop", "indicators", "ordinal"):
        asked = [name for by, name in rule.names if by == word]
        lacking = [] if partly else [name for name in asked if name not in known]
        known.update(lacking)  # a name that two words have is one mistake
        if lacking:
            fix = "add the column, rename what is called otherwise (rename), or take it out of the list"
            if word == "drop":
                fix = "name the columns of the study (columns): what else a table has stays out, at every party"
            where = "formula" if rule.by_formula and word == "columns" else word
            yield ConfigError(f"{where}: the table has no column {listed(lacking)}", f"{fix}{near(lacking[0], names)}")
        twice = sorted(name for name, count in Counter(asked).items() if count > 1)
        if twice:
            yield ConfigError(f"{word}: {listed(twice)} is named more than once", "name it once")
    for word in ("drop", "indicators"):
        needed = sorted(aside & {name for by, name in rule.names if by == word})
        if needed:
            yield ConfigError(f"{word}: {listed(needed)} is the label or the id of the study", "name features only")


def _expect_classes(text: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse an outcome of text whose classes are not named, and text where a study reads numbers next to it."""
    next_to_it = [name for name in text if name in labels[1:]]
    if next_to_it:
        raise NotNumeric(
            f"column {listed(next_to_it)} holds text, and is read as numbers",
            NUMBERS_FIX,
        )
    if text:
        raise NotNumeric(
            f"the outcome {listed(text)} holds text",
            f"{CLASSES_FIX}; or give its levels an order (ordinal)",
        )


def _expect_read(table: MatrixSource, text: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse numbers and dates that are not read as such, of features and of an outcome."""
    texts = {name: (values, gaps) for name in text for values, gaps in (table.text(name),)}
    misread = misread_texts({name: written_in(values[~gaps].tolist()) for name, (values, gaps) in texts.items()})
    for fault, fix in misread:  # numbers or dates that are not read as such
        outcome = [name for name in text if name in labels]
        raise NotNumeric(fault, fix if outcome else f"{fix}; or leave it out (drop)")


def _expect_levels(table: MatrixSource, text: Sequence[str], by_formula: bool) -> None:
    """Refuse categories that are numbers or dates in many texts, which the reader did not take for such."""
    for name in text:
        values, gaps = table.text(name)
        levels = Counter(values[~gaps].tolist())
        found = read_as_levels(levels)
        if found is not None:
            asked = (
                f"write {name} for C({name}) in the formula"
                if by_formula
                else "take it out of the categories (categories)"
            )
            fault = f"column {name!r} is to be a category, and holds {len(levels)} different texts: {found.what}"
            raise NotNumeric(fault, f"{found.fix(name)}, and {asked}; or leave it out (drop)")


def _expect_features(text: Sequence[str], by_formula: bool) -> None:
    """Refuse features of text of which nothing is said."""
    if text:
        ways = "leave out (drop), make indicators of the levels (categories), or give them an order ([prepare.ordinal])"
        fix = f"write C({text[0]}) in the formula" if by_formula else ways
        holds = "column {} holds" if len(text) == 1 else "columns {} hold"
        raise NotNumeric(f"{holds.format(listed(text))} text, and nothing says what becomes of it", fix)


def _expect_labels(gaps: Gaps, labels: Sequence[str], rule: HomeRule) -> None:
    """A label is measured or it is not: none is made up."""
    held = zip(gaps.names, gaps.counts.tolist(), strict=True)
    found = [(name, count) for name, count in held if count and name in labels]
    if found and rule.missing.fills:
        counts = ", ".join(f"{count} of {gaps.rows} entries of the label {name!r}" for name, count in found)
        raise NotFinite(
            f"{counts} are missing, and a label is never filled in", 'missing = "drop" leaves these rows out'
        )
