"""Columns that are probably not measurements: row ids, codes for missing entries, and numbers that were misread.

An id among the columns drowns everything else (a patient number is nearly all of the first component), and no residual
shows it: the numbers are exact, of the wrong table. What is found here is pointed out to the user before a study runs
and is never an error, since a column may look like ids and be data. A few megabytes from the beginning of a table
decide; nothing is read to its end. No text carries an entry, only names, places and codes that many tables have (-9).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparsePanels
from fedsvd.data.views import Without
from fedsvd.data.written import map_line
from fedsvd.errors import DataError
from fedsvd.types import Float

FEWEST_ROWS = 20  # a smaller table proves nothing
_LOOKED_AT_BYTES = 1 << 22
_MANY_ROWS = 1000  # from this many on, whole numbers that are all distinct and in no order are hardly counts
_FEWEST_CODES = 3  # entries with one code
_VALUES_BESIDE_CODES = 8  # of a column of fewer values an end may be a level: 9 next to 0 and 1 is none
_MOST_OF_FEW = 0.25  # of the entries of such a column; a third level of a third of them is one
_FAR_FOR_A_CODE, _FAR = 0.2, 1.0  # of the range of all other entries
_FAR_ZERO, _SPACES_TO_ZERO = 0.25, 5.0  # of the median, and of spaces between values: nobody's blood pressure is 0
_MOST_ZEROS = 0.1  # of the entries, beyond which zero is a quantity: no cigarettes, no cost
_USUAL_CODES = {
    float(sign * int(str(digit) * n)) for sign in (1, -1) for digit in (7, 8, 9) for n in (1, 2, 3, 4, 5)
} | {-1.0}
_THOUSANDS_BELOW = 100.0  # 99.999 is 99,999
_MOST_UNNAMED = 2  # more such columns in one table are measurements of a large scale
_ENDS = {"id", "ids", "uuid", "guid", "key", "pk", "number", "nr", "identifier", "pseudonym"}
_WHOLE_NAMES = {
    *("", "index", "row", "rowname", "rownames", "record", "case", "subject", "patient", "participant", "person"),
    *("customer", "client", "member", "user", "account", "household", "mrn", "ssn"),
}


def is_id_name(name: str) -> bool:
    """Whether people call row ids by such a name: ``id``, ``customer_id``, ``PatientID``, ``patient``, an index."""
    # "customerId" has two words, and so has "PatientID".
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    words = [word for word in re.split(r"[^a-z0-9]+", parts.lower()) if word]
    if name.startswith(("Unnamed: ", "__index_level_")) or "_".join(words) in _WHOLE_NAMES:
        return True
    return words[-1] in _ENDS or (words[0] == "id" and len(words) == 2)


def id_columns(source: MatrixSource) -> tuple[str, ...]:
    """The columns that look like row ids, as a user would call them: distinct whole numbers, by name or by order."""
    looked_at = _beginning(source)
    if looked_at is None:
        return ()
    rows, positions = looked_at
    distinct = _distinct_whole(rows)
    names = source.names
    named = [bool(names is not None and is_id_name(names[j])) for j in positions]
    by_name = [int(j) for j, flag, known in zip(positions, distinct, named, strict=True) if flag and known]
    others = [
        int(j)
        for place, (j, flag, known) in enumerate(zip(positions, distinct, named, strict=True))
        if flag and not known and _numbers_rows(rows[:, place], source.shape[0])
    ]
    found = sorted([*by_name, *(others if len(others) <= _MOST_UNNAMED else ())])
    return tuple(repr(names[j]) if names is not None else f"{j} (counted from 0)" for j in found)


@dataclass(frozen=True)
class Finding:
    """A sentence about a column, and what the map of its table would say of it, where that is known."""

    name: str
    text: str
    words: Mapping[str, object] = field(default_factory=dict)
    of: str = ""  # the table, where there are several

    def __str__(self) -> str:
        return self.text


def misread_columns(source: MatrixSource) -> tuple[Finding, ...]:
    """Columns with codes among their numbers, and those whose thousands points were read as decimal points."""
    if source.shape[0] < FEWEST_ROWS or source.made_up or isinstance(source, SparsePanels) or source.lazy() is not None:
        return ()
    if 8 * FEWEST_ROWS * source.shape[1] > _LOOKED_AT_BYTES:
        return ()
    names = source.names or tuple(f"x{j}" for j in range(source.shape[1]))
    found = []
    for j, column in _worth_a_look(source):
        codes = _codes(column)
        if codes is not None:
            code, count = codes
            usual = code in _USUAL_CODES or code == 0.0
            words: dict[str, object] = {"missing": [int(code) if usual else "..."]}
            which = f"{count} entries {int(code)}" if usual else f"{count} entries that are all one extreme number"
            text = (
                f"column {names[j]!r} has {which}, far from all others. So do codes for missing entries: "
                f"{map_line(names[j], words)} in the map of the table; if measured, all is well"
            )
            found.append(Finding(names[j], text, words))
        elif _has_thousands_points(column):
            words = {"thousands": "."}
            text = (
                f"column {names[j]!r} mixes whole numbers of three digits with small numbers of three decimals. So do "
                "thousands points that were read as decimal points: "
                f"{map_line(names[j], words)} in the map of the table; if decimals, all is well"
            )
            found.append(Finding(names[j], text, words))
    return tuple(found)


def _worth_a_look(source: MatrixSource) -> Iterator[tuple[int, Float]]:
    """Columns that may be misread, by their place, without gaps: a code is repeated, points are in small numbers.

    Sorting every column would take longer than a short study of them.
    """
    rows = slice(0, min(source.shape[0], max(FEWEST_ROWS, _LOOKED_AT_BYTES // (8 * source.shape[1]))))
    try:
        if source.text_names:
            raise DataError("columns of text are left out one by one", "read the others")
        panel = source.raw(rows, slice(0, source.shape[1]))
        places = np.flatnonzero(_suspicious(panel)).tolist()
        columns: Iterable[tuple[int, Float]] = ((j, panel[:, j]) for j in places)
    except DataError:
        columns = _one_by_one(source, rows)
    for j, column in columns:
        yield j, column[np.isfinite(column)]


def _one_by_one(source: MatrixSource, rows: slice) -> Iterator[tuple[int, Float]]:
    for j in range(source.shape[1]):
        if source.names is not None and source.names[j] in source.text_names:
            continue
        try:
            yield j, source.raw(rows, slice(j, j + 1))[:, 0]
        except DataError:
            continue  # the study's own reading will refuse it, with the place


def _suspicious(panel: Float) -> NDArray[np.bool_]:
    """Columns that ``_codes`` or ``_has_thousands_points`` could find something in; with gaps, all."""
    least, most = panel.min(axis=0), panel.max(axis=0)
    found: NDArray[np.bool_] = ~(np.isfinite(least) & np.isfinite(most)) | ((least >= 1.0) & (most < 1000.0))
    for end in (least, most):
        places = np.flatnonzero(~found & (end == np.floor(end)))
        found[places] = np.count_nonzero(panel[:, places] == end[places], axis=0) >= _FEWEST_CODES
    return found


def _codes(column: Float) -> tuple[float, int] | None:
    """An extreme number that stands apart, as -9 and 999 do, and how many entries it is; None where none does."""
    values, counts = np.unique(column, return_counts=True)
    few = len(values) < _VALUES_BESIDE_CODES
    if len(values) < 3 or not column.size:
        return None
    ends = ((values[0], counts[0], values[1], values[-1]), (values[-1], counts[-1], values[-2], values[0]))
    for code, count, next_to, other_end in ends:
        gap, width = abs(code - next_to), abs(next_to - other_end)
        # -9 among numbers that are all above zero is apart, however wide their range is.
        alone = not few and code < 0.0 <= next_to and gap > abs(code)
        usual = float(code) in _USUAL_CODES and (alone or gap > (_FAR if few else _FAR_FOR_A_CODE) * width)
        usual = usual and not (few and count > _MOST_OF_FEW * len(column))
        far = usual or (not few and gap > _FAR * width) or (code == 0.0 < next_to and _is_no_zero(values, column))
        if count >= _FEWEST_CODES and code == np.floor(code) and width > 0 and far:
            return float(code), int(count)
    return None


def _is_no_zero(values: Float, column: Float) -> bool:
    """Whether the least value is zero, few have it, and the next is far from it by what all others are.

    Where all others are 1 or more: a fraction may be too small to be anything but zero.
    """
    zeros = np.count_nonzero(column == 0.0)
    if len(values) < _VALUES_BESIDE_CODES or zeros > _MOST_ZEROS * len(column) or values[1] < 1.0:
        return False
    median, space = np.median(column[column > 0.0]), np.median(np.diff(values[1:]))
    return bool(values[1] > max(_FAR_ZERO * median, _SPACES_TO_ZERO * space))


def _has_thousands_points(column: Float) -> bool:
    whole = column == np.floor(column)
    few, many = column[~whole], column[whole]
    # One whole number is enough among many that all have three decimals and are below a hundred thousand.
    fewest = 1 if len(few) >= FEWEST_ROWS and few.max() < _THOUSANDS_BELOW else _FEWEST_CODES
    if len(few) < _FEWEST_CODES or len(many) < fewest or (column < 0).any():
        return False
    in_thousands = np.abs(few * 1000 - np.rint(few * 1000)) < 1e-6
    below_two = np.abs(few * 100 - np.rint(few * 100)) > 1e-6  # most have all three decimals
    small = few.max() < 1000.0 and few.min() >= 1.0
    return bool(in_thousands.all() and below_two.mean() > 0.7 and small and many.max() < 1000.0 and many.min() >= 100.0)


def in_thousandths(source: MatrixSource) -> tuple[str, ...]:
    """Columns of a table whose beginning has three decimals in each entry, from 1 to a thousand."""
    if source.made_up or isinstance(source, SparsePanels) or source.lazy() is not None:
        return ()
    names = source.names or tuple(f"x{j}" for j in range(source.shape[1]))
    return tuple(names[j] for j, column in _worth_a_look(source) if in_three_decimals(column[:, np.newaxis])[0])


def in_three_decimals(rows: Float) -> NDArray[np.bool_]:
    """Columns all of whose entries may be thousands with a point, 1.564 for 1564, or numbers of three decimals."""
    found = np.ones(rows.shape[1], np.bool_)
    for part in (slice(0, FEWEST_ROWS), slice(None)):  # a few rows rule most columns out
        places = np.flatnonzero(found)
        some = np.asarray(rows[part, places] if len(places) < len(found) else rows[part])
        known, thousands = np.isfinite(some), some * 1000.0
        right = (some >= 1.0) & (some < 1000.0) & (np.abs(thousands - np.rint(thousands)) < 1e-6)
        # Of numbers between 1,000 and a million nine in ten end in another digit than 0.
        ends = right & (np.abs(some * 100.0 - np.rint(some * 100.0)) > 1e-6)
        many = np.count_nonzero(known, axis=0)
        enough = (many >= min(FEWEST_ROWS, len(some))) & (np.count_nonzero(ends, axis=0) > 0.7 * many)
        found[places] = (right | ~known).all(axis=0) & enough
    return found & (len(rows) >= FEWEST_ROWS)


def is_list_of_ratings(source: MatrixSource) -> bool:
    """Whether each row is one rating: a user, an item, a mark out of few, and perhaps a time."""
    if source.shape[1] not in (3, 4):
        return False
    looked_at = _beginning(source)
    if looked_at is None:
        return False
    rows, _ = looked_at
    users, items, marks = rows[:, 0], rows[:, 1], rows[:, 2]
    if not _whole(rows[:, :2]).all():
        return False
    repeated = len(np.unique(users)) < len(rows) or len(np.unique(items)) < len(rows)
    each_once = len(np.unique(rows[:, :2], axis=0)) == len(rows)
    return bool(repeated and each_once and len(np.unique(marks)) <= min(100, len(rows) // 2))


def shared_id(sources: Sequence[MatrixSource]) -> str | None:
    """The column that is the row ids of every one of these tables, or None: one name, distinct values in each.

    It is text, or has a name that ids have; whether the values agree is for the parties' comparison to say.
    """
    first, *others = sources
    for name in first.names or ():
        if all(name in (other.names or ()) for other in others) and all(_holds_ids(each, name) for each in sources):
            return name
    return None


def _holds_ids(source: MatrixSource, name: str) -> bool:
    if name in source.text_names:
        # It has to be left out in any case: reading it to the end costs no study anything.
        try:
            values = source.column(name)
        except DataError:
            return False
        return len(np.unique(values)) == len(values)
    if not is_id_name(name):
        return False
    looked_at = _beginning(Without(source, [(source.names or ()).index(name)]), fewest=2)
    return looked_at is not None and bool(_distinct_whole(looked_at[0])[0])


def _beginning(source: MatrixSource, fewest: int = FEWEST_ROWS) -> tuple[Float, NDArray[np.intp]] | None:
    """The first rows of the columns that are worth a look, and which these are; None where there is nothing to find."""
    if source.shape[0] < fewest or source.made_up or isinstance(source, SparsePanels) or source.lazy() is not None:
        return None
    positions = np.arange(source.shape[1])
    if 8 * fewest * len(positions) > _LOOKED_AT_BYTES:
        # A table this wide is judged by its names: twenty rows of it would be no small piece.
        positions = np.array([j for j, name in enumerate(source.names or ()) if is_id_name(name)][:64], dtype=np.intp)
        if not positions.size:
            return None
        source = Without(source, positions.tolist())
    try:
        rows = source.rows(0, min(source.shape[0], _LOOKED_AT_BYTES // (8 * len(positions))))
    except DataError:
        return None  # the study's own reading will refuse it, with the place
    return rows, positions


def _whole(rows: Float) -> NDArray[np.bool_]:
    """Which columns hold numbers to count with: whole, not negative, exact in float64."""
    whole: NDArray[np.bool_] = ((rows >= 0) & (rows < 2.0**53) & (rows == np.floor(rows))).all(axis=0)
    return whole


def _distinct_whole(rows: Float) -> NDArray[np.bool_]:
    found = _whole(rows)
    places = np.flatnonzero(found)
    sorted_columns = np.sort(np.ascontiguousarray(rows[:, places].T), axis=1)
    found[places] = (np.diff(sorted_columns, axis=1) > 0).all(axis=1)
    return found


def _numbers_rows(column: Float, n: int) -> bool:
    """Whether distinct whole numbers number the rows: in order, without gaps, or very many of them."""
    steps = np.diff(column)
    if (steps > 0).all() or (steps < 0).all() or len(column) >= _MANY_ROWS:
        return True
    return len(column) == n and float(column.max() - column.min()) == n - 1
