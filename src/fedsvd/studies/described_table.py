"""A description (Table 1) by a dictionary: which columns it is of, how tables are prepared for it, and its plan.

Tables are prepared at home alone: levels become their places in the dictionary, and gaps stay gaps, marked by an
indicator for each column, so that the session counts them. Rows are left out by a view of the dictionary, or not at
all. Where all tables are one person's, a dictionary is made of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.dictionary import Dictionary, dictionary_of
from fedsvd.prepare.missing import Missing
from fedsvd.prepare.spellings import expect_one_spelling
from fedsvd.protocol.model import Digits
from fedsvd.protocol.table import TablePlan, Variable
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.study_section import StudySection
from fedsvd.types import near

_MOST_DECIMALS = 6
_MOST_LEVELS = 1000
_NEEDED = 'name one: [dictionary] file = "dictionary.toml"; fedsvd dictionary propose FILE writes a first one'


def table_words(
    dictionary: Dictionary, by: str | None, words: PrepareSection, columns: Sequence[str], viewed: Sequence[str]
) -> PrepareSection:
    """``[prepare]`` of a description: what its columns are made of, without a step that takes the other parties."""
    if dictionary.takes_any:
        raise ConfigError("a description is of columns that a dictionary describes one by one", _NEEDED)
    # As a job is written that was read: gaps are marked, and what stands in them is never counted.
    marked = words.missing is Missing.CONSTANT and words.indicators is True and not words.constant
    if words.missing not in (Missing.ERROR, Missing.DROP) and not marked:
        fix = 'leave missing out, or describe complete records of a view: missing = "drop"'
        raise ConfigError(f'missing = "{words.missing}" fills gaps in, and a description counts them', fix)
    if words.joint is not None:
        raise ConfigError("a description is of the dictionary's columns as they are", "leave the rest of [prepare] out")
    taken = tuple(words.columns or columns)
    taken = taken if by is None or by in taken else (by, *taken)
    levels = {name: dictionary.levels_of(name) for name in taken if dictionary.levels_of(name)}
    dropped = words.missing is Missing.DROP
    gaps = {} if dropped else {"missing": Missing.CONSTANT, "indicators": True}
    found = words.model_copy(update={"columns": taken, "ordinal": levels, **gaps})
    return found.described_by(dictionary, {}, viewed, taken)


def table_plan(
    dictionary: Dictionary | None,
    words: PrepareSection,
    by: str | None,
    nonnormal: Sequence[str] = (),
    counts: str = "fives",
    quantiles: bool = True,
    correlations: bool = False,
    digits: Digits = Digits.AUTO,
) -> TablePlan:
    """What a description is of, by the words that ``table_words`` made."""
    if dictionary is None:
        raise ConfigError("task 'describe' needs a dictionary", _NEEDED)
    variables = tuple(_variable(dictionary, name) for name in words.columns)
    gaps = words.missing is not Missing.DROP
    return TablePlan(variables, by or "", tuple(nonnormal), str(counts), quantiles, correlations, digits, gaps)


def plan_of_job(dictionary: Dictionary | None, study: StudySection, words: PrepareSection) -> TablePlan:
    """The same of a job file."""
    asked = study.by, study.nonnormal, study.counts, study.quantiles, study.correlations, study.digits
    return table_plan(dictionary, words, *asked)


def _variable(dictionary: Dictionary, name: str) -> Variable:
    levels = dictionary.levels_of(name)
    if levels:
        return Variable(name, levels)
    column = dictionary.described[name]
    low, high = column.range or (0.0, 0.0)
    return Variable(name, (), float(low), float(high), -1 if column.decimals is None else column.decimals)


# --- where all tables are one person's --------------------------------------------------------------------------------


def silent_dictionary(
    sources: Sequence[MatrixSource], columns: Sequence[str] = (), categorical: Sequence[str] = ()
) -> Dictionary:
    """A dictionary of all tables together; texts, and what is named so, are categories."""
    held = names_of(sources[0])
    taken = columns or held
    lacking = [name for name in (*taken, *categorical) if any(name not in names_of(each) for each in sources)]
    if lacking:
        where = next(i for i, each in enumerate(sources, start=1) if lacking[0] not in names_of(each))
        fix = f"name columns that every party has (columns), or rename it there (rename){near(lacking[0], held)}"
        raise DataError(f"the table of party {where} has no column {lacking[0]!r}", fix)
    found: dict[str, dict[str, Any]] = {}
    for name in taken:
        text = name in categorical or any(name in each.text_names for each in sources)
        found[name] = _levels(sources, name) if text else _range(sources, name)
    return dictionary_of({"columns": found})


def _levels(sources: Sequence[MatrixSource], name: str) -> dict[str, Any]:
    counts: dict[str, dict[str, int]] = {}
    for i, source in enumerate(sources, start=1):
        values, gaps = source.text(name)
        held, records = np.unique(values[~gaps], return_counts=True)
        counts[f"party {i}"] = dict(zip(held.tolist(), records.tolist(), strict=True))
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
