"""What differs between tables that are meant to have the same columns: names, kinds, orders, and how ids are written.

It is for a person who has all of them; findings hold names and counts, and never an id.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.profile import Profile, listed
from fedsvd.data.source import MatrixSource
from fedsvd.data.suspects import Finding, is_id_name
from fedsvd.data.written import map_line
from fedsvd.errors import DataError
from fedsvd.types import closest

_OWN_NUMBERS = 6  # digits of ids that each site may give by itself
_FEW_TWICE = 0.1  # of the rows, with an id that another row has; beyond, a person has several rows


def compare(profiles: Mapping[str, Profile]) -> tuple[Finding, ...]:
    """What differs in names, kinds and orders of columns."""
    tables = {file: {column.name: column for column in each.columns} for file, each in profiles.items()}
    every = list(dict.fromkeys(name for table in tables.values() for name in table))
    found = [*_names(tables, every)]
    for name in every:
        held = {file: table[name] for file, table in tables.items() if name in table}
        as_text = [file for file, column in held.items() if column.is_text]
        known = any(held[file].written is not None for file in as_text)  # its own table's finding says more
        if as_text and len(as_text) < len(held) and not known:
            found.append(Finding(name, f"column {name!r} is text in {', '.join(as_text)} and numbers elsewhere"))
    common = set(every).intersection(*tables.values())
    if len({tuple(name for name in table if name in common) for table in tables.values()}) > 1:
        found.append(Finding("", "the files have their columns in different orders, and are put into one"))
    return tuple(found)


def _names(tables: Mapping[str, Mapping[str, object]], every: Sequence[str]) -> Iterator[Finding]:
    """Columns that a table lacks, with what it may call them."""
    for file, table in tables.items():
        others = [each for other, each in tables.items() if other != file]
        own = [name for name in table if not any(name in each for each in others)]
        lacking = [name for name in every if name not in table]
        for name in list(lacking):
            near = closest(name, own)
            if near is not None and 2 * sum(name in each for each in others) >= len(others):
                lacking.remove(name)
                own.remove(near)
                yield Finding(
                    near,
                    f"{file} has no column {name!r}, and {near!r}, which no other file has: another name for it? "
                    f"If so, {map_line(near, {'name': name})} in the map of the table",
                    {"name": name},
                    file,
                )
        # A column that one file alone has is said once, of that file.
        lacking = [name for name in lacking if 2 * sum(name in each for each in tables.values()) >= len(tables)]
        if lacking:
            yield Finding("", f"{file} has no column {listed(lacking)}, which other files have", of=file)
        if own and len(tables) > 2:
            yield Finding("", f"{file} alone has column {listed(own)}: leave it out (drop)", of=file)


def id_columns_of(sources: Mapping[str, MatrixSource]) -> list[str]:
    """The columns of all these tables that have a name as ids have."""
    first, *others = sources.values()
    return [name for name in first.names or () if is_id_name(name) and all(name in (o.names or ()) for o in others)]


def ids_between(name: str, sources: Mapping[str, MatrixSource]) -> Iterator[Finding]:
    """What is wrong with a column of ids: zeros that were lost, ids that occur twice or in two tables."""
    held: dict[str, NDArray[np.str_]] = {}
    for file, source in sources.items():
        try:
            held[file] = source.column(name).astype(np.str_)
        except DataError:
            return  # ids that are missing are refused, with their place
    yield from zeros_lost(name, held)
    for file, ids in held.items():
        twice = len(ids) - len(np.unique(ids))
        if 0 < twice <= _FEW_TWICE * len(ids):
            text = f"{twice} of {len(ids)} rows of {file} have an id ({name}) that another row has too"
            yield Finding(name, f"{text}: leave repeated rows out, or name the id as cluster too (cluster)", of=file)
    for (one, first), (two, second) in combinations(held.items(), 2):
        shared = len(np.intersect1d(first, second))
        if shared and not (counts_rows(first) and counts_rows(second)):
            text = f"{one} and {two} have {shared} ids ({name}) in common: records that both bring count twice"
            yield Finding(name, text)


def zeros_lost(name: str, held: Mapping[str, NDArray[np.str_]]) -> Iterator[Finding]:
    """Tables whose ids have lost the zeros in front that they have in another one."""
    widths = {file: _padded_width(ids) for file, ids in held.items()}
    known = {width for width in widths.values() if width}
    if len(known) != 1:
        return
    (width,) = known
    for file, ids in held.items():
        digits, lengths = np.strings.isdigit(ids), np.strings.str_len(ids)
        if not widths[file] and digits.all() and lengths.max(initial=0) <= width and lengths.min(initial=width) < width:
            yield Finding(
                name,
                f"ids in column {name!r} of {file} have fewer than {width} digits, and elsewhere {width} with zeros in "
                f"front: a spreadsheet takes them away. {map_line(name, {'width': width})} in the map of the table "
                "restores them",
                {"width": width},
                file,
            )


def _padded_width(ids: NDArray[np.str_]) -> int:
    """The width of ids that are digits of one length, some with zeros in front; 0 for others."""
    lengths = np.unique(np.strings.str_len(ids))
    padded = len(lengths) == 1 and np.strings.isdigit(ids).all() and np.strings.startswith(ids, "0").any()
    return int(lengths[0]) if padded and lengths[0] > 1 else 0


def counts_rows(ids: NDArray[np.str_]) -> bool:
    """Whether ids are short numbers, which each site gives by itself."""
    return bool(np.strings.isdigit(ids).all() and np.strings.str_len(ids).max(initial=0) <= _OWN_NUMBERS)
