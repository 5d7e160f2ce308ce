"""A dictionary that is made of the tables, where all of them are on one machine: a study to try out needs none before.

Between institutions people agree on a dictionary, and nothing is made of data. Here ranges are those of the records,
levels are those that occur, and one view has all columns. The file of it is for its owner: it says what the smallest
and the largest values are.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.data.open import located
from fedsvd.data.source import MatrixSource
from fedsvd.data.written import read_as_levels
from fedsvd.errors import DataError, NotNumeric
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.dictionary import FILE, Dictionary, dictionary_of
from fedsvd.prepare.mapped import open_mapped
from fedsvd.prepare.missing import Missing
from fedsvd.prepare.propose import laid_out
from fedsvd.prepare.spellings import expect_one_spelling
from fedsvd.prepare.table_map import NOTHING, read_map
from fedsvd.protocol.tasks import Task
from fedsvd.storage import private
from fedsvd.studies.problems import parties_named
from fedsvd.tasks.declared import declared
from fedsvd.types import near

_MOST_DECIMALS = 6
_MOST_LEVELS = 1000
_VIEW = "all"
BETWEEN = "Between institutions parties agree on one: fedsvd dictionary propose FILE writes a first."
_HEADER = """\
# Made of all tables of one study. Ranges are those of the records, smallest and largest values among them: this file is
# yours. Before other institutions see it, widen ranges to what is possible, and add levels, units and meanings.
"""


def with_made_dictionary(record: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A job file whose task is by a dictionary, with one of its tables where it names none; any other as it is."""
    section = record.get("job")
    if "dictionary" in record or not isinstance(section, Mapping) or section.get("task") not in _BY_DICTIONARY:
        return record
    parties = record.get("party")
    if not isinstance(parties, Sequence) or not all(isinstance(each, Mapping) and "data" in each for each in parties):
        return record  # the job file is checked as any other is, and says what is wrong
    ids = [section["id"]] if isinstance(section.get("id"), str) else list(section.get("id", ()))
    words = dict(record.get("prepare", {}))
    categorical = [*([section["by"]] if "by" in section else []), *words.pop("categories", ())]
    sources = []
    for each in parties:
        mapped = NOTHING if "map" not in each else read_map(folder / each["map"])
        sources.append(open_mapped(located(each["data"], folder), mapped))
    aside = {*words.pop("drop", ()), *ids}
    columns = words.get("columns") or [name for name in names_of(sources[0]) if name not in aside]
    with parties_named(tuple(each["name"] for each in parties)):
        made = silent_dictionary(sources, tuple(dict.fromkeys([*categorical, *columns])), categorical).record()
    described = {**made["columns"], **{name: {"role": "id"} for name in ids}}
    if words.get("missing") == Missing.DROP and "view" not in words:
        words["view"] = _VIEW
    says = {"columns": described, "views": {_VIEW: list(made["columns"])}}
    return {**record, "prepare": words, "dictionary": {"says": says}}


_BY_DICTIONARY = frozenset(str(task) for task in Task if declared(task).by_dictionary)


def write_made_dictionary(folder: Path, dictionary: Dictionary) -> Path:
    """A file next to the folder of results, whose files are signed; where it lies."""
    path = folder.parent / f"{folder.name}-{FILE}"
    says = dictionary.record()
    private.replace(path, f"{_HEADER}\n{laid_out(says['columns'], says['views'])}".encode())
    return path


def silent_dictionary(
    sources: Sequence[MatrixSource], columns: Sequence[str] = (), categorical: Sequence[str] = ()
) -> Dictionary:
    """A dictionary of all tables together; texts, and what is named so, are categories."""
    held = names_of(sources[0])
    taken = columns or held
    lacking = [name for name in (*taken, *categorical) if any(name not in names_of(each) for each in sources)]
    if lacking:
        where = next(i for i, each in enumerate(sources, start=1) if lacking[0] not in names_of(each))
        there = sources[where - 1].names
        if there is None:
            fix = "give it as a data frame, or as a file with a header"
            raise DataError(f"the table of party {where} has no column names, and a description is by names", fix)
        fix = f"name columns that every party has (columns), or rename it there (rename){near(lacking[0], there)}"
        raise DataError(f"the table of party {where} has no column {lacking[0]!r}", fix)
    found: dict[str, dict[str, Any]] = {}
    for name in taken:
        text = name in categorical or any(name in each.text_names for each in sources)
        found[name] = _levels(sources, name, name in categorical) if text else _range(sources, name)
    return dictionary_of({"columns": found})


def _levels(sources: Sequence[MatrixSource], name: str, meant: bool) -> dict[str, Any]:
    counts: dict[str, dict[str, int]] = {}
    for i, source in enumerate(sources, start=1):
        values, gaps = source.text(name)
        held, records = np.unique(values[~gaps], return_counts=True)
        counts[f"party {i}"] = dict(zip(held.tolist(), records.tolist(), strict=True))
        misread = read_as_levels(counts[f"party {i}"], meant) if name in source.text_names else None
        if misread is not None:
            fault = f"party {i}: column {name!r} holds {len(held)} different texts: {misread.what}"
            raise NotNumeric(fault, f"{misread.fix(name)}; or leave it out (drop)")
    expect_one_spelling(name, counts)
    levels = set().union(*counts.values())
    if not levels or len(levels) > _MOST_LEVELS:
        raise DataError(f"column {name!r} has {len(levels)} levels", "leave it out, or describe groups of its levels")
    return {"levels": sorted(levels, key=_in_order)}


def _in_order(level: str) -> tuple[int, float, str]:
    """Numbers by their size, before other texts."""
    try:
        return 0, float(level), level
    except ValueError:
        return 1, 0.0, level


def _range(sources: Sequence[MatrixSource], name: str) -> dict[str, Any]:
    parts = []
    for source in sources:
        place = names_of(source).index(name)
        values = source.raw(slice(0, source.shape[0]), slice(place, place + 1))[:, 0]
        parts.append(values[np.isfinite(values)])
    joint = np.concatenate(parts)
    if not joint.size:
        raise DataError(f"column {name!r} has no entry at any party", "leave it out")
    low, high = float(joint.min()), float(joint.max())
    found: dict[str, Any] = {"range": [low, high if high > low else low + 1.0]}
    decimals = next((d for d in range(_MOST_DECIMALS + 1) if np.array_equal(np.round(joint, d), joint)), None)
    return found if decimals is None else {**found, "decimals": decimals}
