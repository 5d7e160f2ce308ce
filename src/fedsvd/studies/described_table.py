"""A description (Table 1) by a dictionary: which columns it is of, how tables are prepared for it, and its plan.

Tables are prepared at home alone: levels become their places in the dictionary, and gaps stay gaps, marked by an
indicator for each column, so that the session counts them. Rows are left out by a view of the dictionary, or not at
all. Where all tables are one person's, ``made_dictionary.py`` makes one of them.
"""

from collections.abc import Sequence

from fedsvd.errors import ConfigError
from fedsvd.prepare.dictionary import Dictionary
from fedsvd.prepare.missing import Missing
from fedsvd.protocol.model import Digits
from fedsvd.protocol.table import TablePlan, Variable
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.study_section import StudySection

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
    dictionary.expect_groups_of(by)
    taken = tuple(words.columns or columns)
    taken = taken if by is None or by in taken else (by, *taken)
    dictionary.expect_names("the study", taken)
    levels = {name: dictionary.levels_of(name) for name in taken if dictionary.levels_of(name)}
    dropped = words.missing is Missing.DROP
    gaps = {} if dropped else {"missing": Missing.CONSTANT, "indicators": True}
    found = words.model_copy(update={"columns": taken, "ordinal": levels, **gaps})
    found = found.described_by(dictionary, {}, viewed, taken)
    return found if dropped else found.with_gaps_counted()


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
    decimals = -1 if column.decimals is None else column.decimals
    return Variable(name, (), float(low), float(high), decimals, tuple(column.bins or ()))
