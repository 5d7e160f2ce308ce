"""What was given to ``fit`` as one table per party, samples in rows.

A list is read as parties when its items are tables: arrays of two dimensions, frames, sparse matrices, paths,
sources, lists of rows. Anything else is one table, as scikit-learn understands it, and is divided evenly; that is a
rehearsal, since one owner held it all. Columns keep their names where every party agrees on them.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.data.views import underlying
from fedsvd.errors import ConfigError, DataWarning, ShapeError, warn_caller
from fedsvd.estimators.matched import id_columns, identified_tables, matching_rule, record_ids_of, spelt_ids
from fedsvd.estimators.rows import Labels, ids_from
from fedsvd.prepare.formula_table import FormulaTable
from fedsvd.prepare.identifiers import RecordIds
from fedsvd.protocol.tasks import Ids, Split
from fedsvd.studies.parties import Extent, PartyData, expect_fitting
from fedsvd.studies.problems import Problems
from fedsvd.studies.table_columns import expect_named_ids, row_ids
from fedsvd.types import Float, near

SPARSE = ("csr", "csc")  # what a sparse table may stay; scikit-learn converts the other forms


@dataclass(frozen=True, repr=False)
class Tables:
    """One table per party, the names of the joint columns where they have names, and who divided them."""

    sources: tuple[MatrixSource, ...]
    names: tuple[str, ...] | None
    split: Split
    rehearsed: bool  # one owner's table, divided here
    ids: tuple[Labels, ...] = ()  # of every party's rows, where all have some; a comparison is to be made then
    aligned: bool = False  # records are matched first: tables may have any of them
    common: int | None = None  # how many records are, once that is known
    spelt: Any = None  # where records are matched, the ids of the first party's rows as its table has them

    def __repr__(self) -> str:
        return f"Tables({', '.join(str(source.shape) for source in self.sources)}, split={self.split})"

    @property
    def compared(self) -> bool:
        """Whether rows of split features are to be compared by ids."""
        return self.split is Split.VERTICAL and bool(self.ids) and all(own is not None for own in self.ids)

    def parties(self, labels: Sequence[Float | None] = ()) -> list[PartyData]:
        """What each party brings: its table, its labels where it has some, the ids of its rows where all have some."""
        none = (None,) * len(self.sources)
        ids = self.ids if self.compared else none
        return [PartyData(*own) for own in zip(self.sources, labels or none, ids, strict=True)]

    @property
    def n_samples(self) -> int:
        rows = [source.shape[0] for source in self.sources]
        if self.aligned:
            return min(rows) if self.common is None else self.common
        return sum(rows) if self.split is Split.HORIZONTAL else rows[0]

    @property
    def n_features(self) -> int:
        columns = [source.shape[1] for source in self.sources]
        return columns[0] if self.split is Split.HORIZONTAL else sum(columns)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many samples each party has labels for: its own, or all, with one holder, when features are split."""
        if self.split is Split.HORIZONTAL:
            return tuple(source.shape[0] for source in self.sources)
        return (self.n_samples,)

    @property
    def edges(self) -> tuple[int, ...]:
        """Where the parties' samples (or features, when those are split) begin and end in the joint table."""
        axis = 0 if self.split is Split.HORIZONTAL else 1
        return (0, *(int(edge) for edge in np.cumsum([source.shape[axis] for source in self.sources])))


def are_parties(X: Any) -> bool:
    """Whether X is a list with one table per party, rather than one table."""
    return isinstance(X, list | tuple) and any(_is_table(item) for item in X)


def _is_table(item: Any) -> bool:
    if isinstance(item, str | os.PathLike | MatrixSource):
        return True
    if isinstance(item, list | tuple):
        return bool(item) and isinstance(item[0], list | tuple | np.ndarray)
    return len(getattr(item, "shape", ())) == 2


def tables_of(estimator: Any, X: Any, y: Any, split: Split, n_parties: int) -> tuple[Tables, Any]:
    """The parties' tables, and y as scikit-learn checks it when there is one table (else as given).

    Sets ``n_features_in_`` and ``feature_names_in_`` on the estimator.
    """
    if are_parties(X):
        match = None if estimator.align is None else record_ids_of(estimator.id, estimator.align)
        tables = given(X, split, estimator.id, estimator.ids, match=match)
        _remember(estimator, tables.names, tables.n_features)
        return tables, y
    if estimator.align is not None:
        raise ConfigError("align matches the records of several tables, and one table was given", "give one per party")
    if isinstance(X, str | os.PathLike | MatrixSource) or estimator.id is not None:
        source = open_source(X).without(id_columns(estimator.id))
        _remember(estimator, source.names, source.shape[1])
        return divided(source, source.names, split, n_parties), y
    _expect_two_sides(X)
    least = (n_parties, 1) if split is Split.HORIZONTAL else (1, n_parties)
    checks = {"accept_sparse": SPARSE, "ensure_min_samples": least[0], "ensure_min_features": least[1]}
    if y is None and not estimator.__sklearn_tags__().target_tags.required:
        X = validate_data(estimator, X, **checks)
    else:
        X, y = validate_data(estimator, X, y, multi_output=True, y_numeric=True, **checks)
    names = getattr(estimator, "feature_names_in_", None)
    return divided(open_source(X), names, split, n_parties), y


def given(
    X: Sequence[Any],
    split: Split,
    id: str | Sequence[str] | None = None,
    ids: str = Ids.COMPARE,
    needed: bool = True,
    match: RecordIds | None = None,
) -> Tables:
    """The tables of a list, with joint column names; refused when parties contradict each other.

    Without ``needed``, which is for new tables, the column ``id`` may be missing from all of them. ``match`` is how
    records are matched, where they are.
    """
    whole, columns, made = opened_tables(X), id_columns(id), None
    if not needed and match is None:
        columns = tuple(name for name in columns if _where_all_have(name, whole) is not None)
    rule = match or record_ids_of(columns, None)
    if rule is not None:
        sources, made = identified_tables(whole, rule)
    else:
        sources = tuple(source.without(columns) for source in whole)
    if match is None:
        expect_fitting(split, {str(i): Extent(*source.shape) for i, source in enumerate(sources, start=1)})
    names = [_names(item, source) for item, source in zip(X, sources, strict=True)]
    joint = _shared_names(names) if split is Split.HORIZONTAL else _joined_names(names)
    rows: tuple[Labels, ...] = ()
    if split is Split.VERTICAL and ids == Ids.COMPARE:
        rows = made or _row_ids(whole, next(iter(columns), None))
    spelt = None if match is None else spelt_ids(whole[0], match)
    return Tables(sources, joint, split, rehearsed=False, ids=rows, aligned=match is not None, spelt=spelt)


def _where_all_have(id: str, sources: Sequence[MatrixSource]) -> str | None:
    having = sum(id in (source.names or ()) for source in sources)
    if 0 < having < len(sources):
        fault = f"{len(sources) - having} of {len(sources)} tables have no column {id!r}"
        raise ConfigError(fault, "give row ids everywhere or nowhere")
    return id if having else None


def _row_ids(sources: Sequence[MatrixSource], id: str | None) -> tuple[Labels, ...]:
    """The ids of every party's rows: those in the column that is named, else the labels of the frames."""
    if id is not None:
        return tuple(row_ids(source, id) for source in sources)
    found = ids_from([source.row_labels() for source in sources])
    if any(own is None for own in found):
        expect_named_ids(sources)
    return found


def opened_tables(X: Sequence[Any]) -> tuple[MatrixSource, ...]:
    """Every party's table; one error with all of them that are no tables, and what is wrong with the others."""
    problems, sources = Problems(), {}
    for index, item in enumerate(X, start=1):
        with problems.of(str(index), _file(item)):
            sources[index] = open_source(item)
    if problems:
        problems.read((str(index), _file(X[index - 1]), source) for index, source in sources.items())
    problems.expect_none()
    return tuple(sources.values())


def _file(item: Any) -> str:
    return str(item) if isinstance(item, str | os.PathLike) else ""


def divided(source: MatrixSource, names: Sequence[str] | None, split: Split, n_parties: int) -> Tables:
    """One table divided evenly, by rows or by columns; views, not copies."""
    lying = source if split is Split.HORIZONTAL else source.T
    length = lying.shape[0]
    if length < n_parties:
        what = "n_samples" if split is Split.HORIZONTAL else "n_features"
        raise ConfigError(f"{what}={length} cannot be divided among {n_parties} parties", "give a larger table")
    cuts = pairwise(length * i // n_parties for i in range(n_parties + 1))
    parts = (lying.reordered(np.arange(start, stop)) for start, stop in cuts)
    sources = tuple(part if split is Split.HORIZONTAL else part.T for part in parts)
    return Tables(sources, None if names is None else tuple(names), split, rehearsed=True)


def expect_own_intercept(sources: Sequence[MatrixSource]) -> None:
    """Refuse tables of a formula without an intercept where the model would add one."""
    made = [formula for source in sources if (formula := underlying(source, FormulaTable)) is not None]
    if any(not formula.intercept for formula in made):
        fault = "the tables are those of a formula without an intercept (- 1), and fit_intercept=True adds one"
        raise ConfigError(fault, "fit_intercept=False, or leave - 1 out of the formula")


Prepares = Callable[[Any], MatrixSource]
"""Opens a new table as those of a study were mapped and prepared."""


class Part(NamedTuple):
    """A table with some of the columns of ``fit``: their place among the joint ones, and the ids of its rows."""

    source: MatrixSource
    columns: slice
    ids: Labels = None


def parts_like_fitted(estimator: Any, X: Any) -> list[Part]:
    """Tables with the columns the estimator was fitted on, each with its place among the joint columns."""
    everything = slice(0, estimator.n_features_in_)
    by: tuple[Prepares, ...] | None = getattr(estimator, "preparation_", None)  # of a result that was loaded
    if not are_parties(X):
        alone = by is None or estimator.split != Split.HORIZONTAL
        return [Part(_like_fitted(estimator, X if alone or by is None else _prepared(by[0], X)), everything)]
    if estimator.split == Split.HORIZONTAL:
        X = X if by is None else [_prepared(by[0], part) for part in X]
        return [Part(_like_fitted(estimator, part), everything) for part in X]
    if by is not None and len(by) == len(X):
        X = [_prepared(own, part) for own, part in zip(by, X, strict=True)]
    match = None if estimator.align is None else matching_rule(estimator)
    tables = given(X, Split.VERTICAL, estimator.id, estimator.ids, needed=False, match=match)
    widths = tuple(source.shape[1] for source in tables.sources)
    if widths != estimator.plan_.counts:
        raise ShapeError(
            f"parties have {widths} columns, in fit they had {estimator.plan_.counts}",
            "give each party's columns of fit",
        )
    _expect_names(estimator, tables.names)
    ids = tables.ids or (None,) * len(tables.sources)
    places = pairwise(tables.edges)
    return [Part(source, slice(*ends), own) for source, ends, own in zip(tables.sources, places, ids, strict=True)]


def _prepared(prepares: Prepares, X: Any) -> Any:
    """New rows as those of the study were prepared; a table that ``fedsvd.prepared`` made is taken as it is."""
    return X if isinstance(X, MatrixSource) else prepares(X)


def _like_fitted(estimator: Any, X: Any) -> MatrixSource:
    """One table with all columns the estimator was fitted on."""
    if not isinstance(X, str | os.PathLike | MatrixSource):
        _expect_two_sides(X)
        if set(id_columns(estimator.id)) & {str(name) for name in getattr(X, "columns", ())}:
            return _like_fitted(estimator, open_source(X))
        finite = "allow-nan" if getattr(estimator, "missing", "error") == "project" else True
        return open_source(validate_data(estimator, X, reset=False, accept_sparse=SPARSE, ensure_all_finite=finite))
    source = open_source(X)
    source = source.without([name for name in id_columns(estimator.id) if name in (source.names or ())])
    if source.shape[1] != estimator.n_features_in_:
        name, fitted = type(estimator).__name__, estimator.n_features_in_
        raise ShapeError(
            f"X has {source.shape[1]} features, but {name} is expecting {fitted} features as input",
            "give the columns of fit, and no others",
        )
    _expect_names(estimator, source.names)
    return source


def _expect_two_sides(X: Any) -> None:
    # Before scikit-learn's own check, whose message would quote the entries.
    sides = len(getattr(X, "shape", (0, 0)))
    if isinstance(X, list | tuple) and not any(isinstance(row, Iterable) for row in X):
        sides = 1
    if sides < 2:
        raise ShapeError(
            f"X has {sides} dimension(s), expected 2",
            "Reshape your data: array.reshape(-1, 1) if it is one feature, array.reshape(1, -1) if it is one sample",
        )


def _expect_names(estimator: Any, names: Sequence[str] | None) -> None:
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is not None and names is not None and tuple(names) != tuple(fitted):
        raise ConfigError("the feature names differ from those of fit", "name and order the columns as in fit")


def _remember(estimator: Any, names: Sequence[str] | None, n_features: int) -> None:
    estimator.n_features_in_ = n_features
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _names(item: Any, source: MatrixSource) -> tuple[str, ...] | None:
    """The column names, where they are text: scikit-learn's rule, by which numbered columns have no names."""
    columns = [] if isinstance(item, MatrixSource) else getattr(item, "columns", [])
    return source.names if all(isinstance(name, str) for name in columns) else None


def _shared_names(names: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    known = {given for given in names if given is not None}
    bare = [index for index, given in enumerate(names, start=1) if given is None]
    if known and bare:
        warn_caller(
            f"party {bare[0]} gives a table without column names, and others have names: its columns are taken in "
            "their order. Give a frame with the same names to be sure",
            DataWarning,
        )
    if len(known) > 1:
        raise ConfigError(*_other_names(names))
    return known.pop() if known else None


def _joined_names(names: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    joined = [name for part in names for name in part or ()]
    # Two parties may well call different columns by one name; then the joint table has none.
    return tuple(joined) if all(names) and len(set(joined)) == len(joined) else None


def _other_names(names: Sequence[tuple[str, ...] | None]) -> tuple[str, str]:
    """What differs between the columns of the first two parties that differ, and what helps."""
    named = [(index, given) for index, given in enumerate(names, start=1) if given is not None]
    first, one = named[0]
    second, two = next((index, given) for index, given in named if given != one)
    lacking = [name for name in one if name not in two]
    if not lacking:  # tables of different widths are refused before
        fault = f"party {second} has its columns in another order than party {first}"
        return fault, f"give all parties the same order: tables[{second - 1}][list(tables[{first - 1}].columns)]"
    fault = f"party {second} has no column {lacking[0]!r}, which party {first} has"
    return fault, f"give all parties the same columns: rename={{old: new}} or drop=[...]{near(lacking[0], two)}"
