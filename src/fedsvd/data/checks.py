"""What every matrix must pass before a panel of it is handed out.

Law of this file: a panel is a real, finite, two-dimensional float64 array, whatever it was at rest. The checks
stand here, once, so that each format refuses the same fault with the same words. No message carries an entry
of the matrix: only names, shapes, counts and indices.
"""

from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.written import Written
from fedsvd.errors import DuplicateNames, EmptyData, NotFinite, NotNumeric, ShapeError
from fedsvd.types import Float

_REAL_KINDS = "biuf"
_LONG, _MOST = 1 << 20, 1 << 30  # numbers that are worth several threads, and that BLAS can count


def expect_matrix(shape: Sequence[int]) -> tuple[int, int]:
    """``shape`` as (rows, columns); refused unless it has two sides, both longer than zero."""
    if 0 in shape:
        lacks = "row" if not shape[0] else "column"
        fault = f"the data has shape {tuple(shape)}: no {lacks} is left once ids, labels and dropped ones are taken out"
        raise EmptyData(fault, f"give at least one {lacks}; of split columns, a party with labels needs a feature too")
    if len(shape) != 2:
        raise ShapeError(
            f"the data has {len(shape)} dimension(s), expected 2",
            "make it a table of rows and columns; one column is array.reshape(-1, 1)",
        )
    return int(shape[0]), int(shape[1])


def expect_names(names: Iterable[object], columns: int) -> tuple[str, ...]:
    """Column names as text; refused when one occurs twice or their number is not that of the columns."""
    texts = tuple(str(name) for name in names)
    if len(texts) != columns:
        raise ShapeError(f"{len(texts)} names for {columns} columns", "give one name for each column")
    if len(set(texts)) != len(texts):
        twice = next(name for place, name in enumerate(texts) if name in texts[:place])
        raise DuplicateNames(f"more than one column is named {twice!r}", "rename one of them")
    return texts


_AS_NUMBERS = "encode it as numbers"
_TEXT_KINDS = ("String", "Categorical", "Enum", "object", "string", "large_string")


def expect_numeric(dtype: np.dtype[Any], column: str) -> None:
    """Refuse anything but booleans, integers and real floating-point numbers."""
    if dtype.kind not in _REAL_KINDS:
        raise not_numeric(column, str(dtype))


def not_numeric(
    column: str, kind: str, fix: str = _AS_NUMBERS, name: str | None = None, held: Written | None = None
) -> NotNumeric:
    """The refusal of a column that holds ``kind`` instead of numbers; ``name`` is what it can be left out by.

    ``held`` is what its texts look like, and how they are read as they were meant.
    """
    leave_out = "leave the column out"
    if name is not None:
        leave_out += f': name it as id (id) if it names the rows, else drop = ["{name}"]'
        fix = fix if fix != _AS_NUMBERS else "make indicators of its levels (categories)"
    what = "text" if kind in _TEXT_KINDS else kind
    if held is not None and name is not None:
        return NotNumeric(f"{column} holds {what}: {held.what}", f"{held.fix(name)}; or leave it out (drop)")
    return NotNumeric(f"{column} holds {what}, not numbers", f"{fix}, or {leave_out}")


def first_text_column(rows: Iterable[Sequence[Any]]) -> int:
    """The first column of the first row that holds something that is not a real number, else 0."""
    for row in rows:
        for column, cell in enumerate(row):
            if not isinstance(cell, Real):
                return column
    return 0


def to_float(panel: NDArray[Any], place: Callable[[int, int], str], *, known_finite: bool = False) -> Float:
    """The panel as a read-only float64 array, all finite: a view of the same memory when it is one already.

    What is known to be finite is not looked through again.
    """
    exact = panel.dtype.kind in "biu"
    if isinstance(panel, np.ma.MaskedArray):
        # A masked entry is a missing one; asarray would hand out whatever lies under the mask.
        panel, exact = np.ma.filled(panel.astype(np.float64), np.nan), False
    with np.errstate(over="ignore"):
        numbers: Float = np.asarray(panel, dtype=np.float64).view()
    numbers.flags.writeable = False
    if not exact and not known_finite:
        _expect_finite(numbers, place)
    return numbers


def to_gapped(panel: NDArray[Any], place: Callable[[int, int], str]) -> Float:
    """The panel as a read-only float64 array with NaN where an entry is missing; infinite entries are refused."""
    if isinstance(panel, np.ma.MaskedArray):
        panel = np.ma.filled(panel.astype(np.float64), np.nan)
    with np.errstate(over="ignore"):
        numbers: Float = np.asarray(panel, dtype=np.float64).view()
    numbers.flags.writeable = False
    bad = np.isinf(numbers)
    if bad.any():
        row, column = divmod(int(np.argmax(bad)), panel.shape[1])
        fault = f"{int(np.count_nonzero(bad))} entries are infinite, the first at {place(row, column)} (counted from 0)"
        raise NotFinite(fault, "correct these entries, or leave them empty to have them filled in as missing values")
    return numbers


def numbers_as_text(values: Float) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    """Numbers as text, whole ones without a point, empty where they are missing; and which are missing."""
    missing = np.isnan(values)
    whole = ~missing & (np.abs(values) < 2.0**53) & (values == np.floor(values))
    out = np.where(missing, "", values.astype(np.str_))
    out = np.where(whole, np.where(whole, values, 0.0).astype(np.int64).astype(np.str_), out)
    return out.astype(np.str_), missing


def text_with_gaps(values: Sequence[object], missing: NDArray[np.bool_]) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    """Cells as text without outer blanks, empty where they are missing; and which are missing."""
    shown = ["" if gap else str(value) for value, gap in zip(values, missing.tolist(), strict=True)]
    return np.strings.strip(np.array(shown, dtype=np.str_)), missing


def _expect_finite(panel: Float, place: Callable[[int, int], str]) -> None:
    # A finite sum of squares has only finite terms, and it needs no mask as large as the panel. A sum that overflowed
    # proves nothing, so entries are counted before anything is refused.
    with np.errstate(over="ignore", invalid="ignore"):
        if panel.flags.forc:
            total = _sum_of_squares(panel.ravel(order="K"))
        else:  # line by line, in memory order
            lines = panel.T if abs(panel.strides[0]) < abs(panel.strides[1]) else panel
            total = float(np.sum(np.vecdot(lines, lines)))
    if np.isfinite(total):
        return
    bad = ~np.isfinite(panel)
    count = int(np.count_nonzero(bad))
    if count:
        row, column = divmod(int(np.argmax(bad)), panel.shape[1])
        raise not_finite(count, panel.size, place(row, column))


def _sum_of_squares(flat: Float) -> float:
    if flat.size < _LONG:  # not by NumPy's BLAS, whose threads wait for each other on a busy machine
        return float(np.einsum("i,i->", flat, flat))
    from scipy.linalg.blas import ddot  # SciPy's library is the one that has threads in a session; it loads slowly

    parts = (flat[start : start + _MOST] for start in range(0, flat.size, _MOST))
    return sum(float(ddot(part, part)) for part in parts)


def not_finite(count: int, size: int, where: str) -> NotFinite:
    """The refusal of ``count`` missing or infinite entries among the ``size`` that were read."""
    return NotFinite(
        f"{count} of the {size} entries read are missing, NaN or infinite, the first at {where} (counted from 0)",
        'say how they are treated: missing = "mean", "constant" or "drop", at all parties alike; or remove these rows',
    )


def to_column(values: NDArray[Any], name: str) -> NDArray[Any]:
    """One column of a table, whole: int64 for integers, float64 for other numbers, text for everything else.

    Integers too large for int64 stay uint64. Missing entries are refused in ids and labels as in the matrix.
    """
    kind = "f" if isinstance(values, np.ma.MaskedArray) else values.dtype.kind
    if kind in "iu":
        fits = kind == "i" or not values.size or int(values.max()) <= np.iinfo(np.int64).max
        column = values.astype(np.int64) if fits else values
    elif kind in "bf":
        column = to_float(values.reshape(-1, 1), lambda row, _: f"row {row}, column {name!r}")[:, 0]
    elif kind == "U":
        column = values.view()
    else:
        raise not_numeric(f"column {name!r}", str(values.dtype), name=name)
    column.flags.writeable = False
    return column


def to_text(values: Sequence[object], missing: NDArray[np.bool_], name: str) -> NDArray[np.str_]:
    """Cells as text without outer blanks; refused when one is missing."""
    if missing.any():
        where = f"row {int(np.argmax(missing))}, column {name!r}"
        raise not_finite(int(np.count_nonzero(missing)), len(missing), where)
    text: NDArray[np.str_] = np.strings.strip(np.array([str(value) for value in values], dtype=np.str_))
    return text
