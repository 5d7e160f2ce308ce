"""The preparation of one party's table as a script: it asks for sums, gets the joint answer, and ends with a table.

A rule is part of the plan and the same at every party. The script is a generator: it yields what it asks of all parties
(``AskSum``, ``AskUnion``, ``AskShare``), in an order that follows from rule and columns, and is sent the joint answers.
It knows no transport; ``play_together`` plays several in one process. Where columns are split, a party plays its own
script alone. Encoded columns come after the numbers. Steps, each left out where the rule does not ask for it:

    columns -> rows without gaps -> levels of text columns -> gaps filled -> indicators or formula -> ComBat
            -> covariates partialled out -> centring and scaling
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare import categories, combat, missing, sites
from fedsvd.prepare.categories import Digests, JointLevels
from fedsvd.prepare.columns import ColumnChoice, arranged, chosen, listed
from fedsvd.prepare.derived import SideBySide, names_of
from fedsvd.prepare.encoding import Coding, Indicators, Ordinal, encoded
from fedsvd.prepare.formula import FormulaTable, parse
from fedsvd.prepare.missing import FillReport, Missing
from fedsvd.prepare.sites import Moments, Over
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float


@dataclass(frozen=True)
class AskSum:
    """All parties' vectors, added up in an authenticated sum; the answer is a vector of the same shape."""

    what: str
    vector: Float


@dataclass(frozen=True)
class AskUnion:
    """The digests that any party has; the answer is sorted."""

    what: str
    digests: Digests


@dataclass(frozen=True, repr=False)
class AskShare:
    """Texts for the other parties alone, sealed; the answer is what all parties shared."""

    what: str
    texts: tuple[str, ...]


Ask = AskSum | AskUnion | AskShare
Answer = Float | Digests | tuple[str, ...]


@dataclass(frozen=True)
class CategoryRule:
    """How a text column becomes numbers: all indicators, less the first or a reference level, or an ordinal order."""

    name: str
    drop_first: bool = False
    reference: str | None = None
    order: tuple[str, ...] = ()
    missing: str | None = None  # the level that a missing entry is


@dataclass(frozen=True)
class Rule:
    """What is done to every party's table."""

    columns: ColumnChoice = field(default_factory=ColumnChoice)
    missing: Missing = Missing.ERROR
    constant: float = 0.0
    indicators: bool = False
    categories: tuple[CategoryRule, ...] = ()
    formula: str = ""
    combat: bool = False
    preserve: tuple[str, ...] = ()  # covariates that ComBat leaves in the data
    covariates: tuple[str, ...] = ()  # partialled out
    centre: Over = Over.NONE
    scale: Over = Over.NONE
    minimum: int = 1  # a level that is rarer over all parties is pooled
    shared_by: int = 2  # so is one that fewer parties have

    def __post_init__(self) -> None:
        if self.formula and any(rule.order for rule in self.categories):
            raise ConfigError("a formula and an ordinal map are asked for together", "use one of the two")
        if self.preserve and not self.combat:
            raise ConfigError("covariates are to be preserved, and ComBat is not asked for", "combat = true")


@dataclass(frozen=True, repr=False)
class PreparedTable:
    """The prepared table, its rows among the given ones (None: all), what was filled, the outcome of the formula."""

    table: MatrixSource
    rows: NDArray[np.intp] | None
    report: FillReport
    outcome: Float | None = None
    outcome_names: tuple[str, ...] = ()
    findings: tuple[str, ...] = field(default=())


Script = Generator[Ask, Answer, PreparedTable]


def prepare(source: MatrixSource, rule: Rule, key: Seed, site: int, parties: int) -> Script:
    """The script of party ``site`` (counted from 0) of ``parties``; ``key`` is the users' own."""
    table = chosen(source, rule.columns)
    parsed = parse(rule.formula) if rule.formula else None
    if parsed is not None:
        _expect_columns(table, parsed.variables)
    text = [name for name in (parsed.variables if parsed else names_of(table)) if name in table.text_names]
    wanted = parsed.variables if parsed else names_of(table)
    numbers = arranged(table, [name for name in wanted if name not in text])
    rows, report = None, FillReport(rule.missing, missing.gaps(numbers))
    if rule.missing is Missing.DROP:
        rows = missing.complete_rows(numbers, text)
        report = FillReport(rule.missing, report.gaps, source.shape[0] - len(rows))
        table, numbers = table.reordered(rows), numbers.reordered(rows)
    levels = yield from _levels(table, text, rule, key)
    filled, findings = yield from _filled(numbers, rule, report)
    if parsed is None:
        final = yield from _site_effects(_with_codes(table, filled, text, rule, levels), rule, site, parties)
        return PreparedTable(final, rows, report, findings=findings)
    made = FormulaTable(filled, parsed, levels)
    outcome = made.outcome() if parsed.outcome else None
    final = yield from _site_effects(made, rule, site, parties)
    return PreparedTable(final, rows, report, outcome, made.outcome_names, findings)


def play_together(scripts: Sequence[Script]) -> list[PreparedTable]:
    """All parties' scripts played in one process, with sums in the clear."""
    answer: Answer | None = None
    while True:
        asks: list[Ask] = []
        results: list[PreparedTable] = []
        for script in scripts:
            try:
                asks.append(next(script) if answer is None else script.send(answer))
            except StopIteration as end:
                results.append(end.value)
        if results and asks:
            raise DataError("parties ask for different sums", "give every party the same rule")
        if results:
            return results
        answer = _answered(asks)


def _answered(asks: Sequence[Ask]) -> Answer:
    first = asks[0]
    if any(type(ask) is not type(first) or ask.what != first.what for ask in asks):
        raise DataError("parties ask for different sums", "give every party the same rule and the same columns")
    if isinstance(first, AskSum):
        return np.asarray(np.sum([ask.vector for ask in asks if isinstance(ask, AskSum)], axis=0))
    if isinstance(first, AskUnion):
        return categories.union([ask.digests for ask in asks if isinstance(ask, AskUnion)])
    return tuple(sorted({text for ask in asks if isinstance(ask, AskShare) for text in ask.texts}))


def _expect_columns(table: MatrixSource, variables: Sequence[str]) -> None:
    lacking = [name for name in variables if name not in names_of(table)]
    if lacking:
        raise DataError(f"the table has no column {listed(lacking)}, which the formula reads", "check its names")


def _levels(
    table: MatrixSource, text: Sequence[str], rule: Rule, key: Seed
) -> Generator[Ask, Answer, dict[str, JointLevels]]:
    """The joint levels of every text column that is not ordinal."""
    rules = {each.name: each for each in rule.categories}
    unknown = [name for name in rules if name not in text]
    if unknown:
        raise ConfigError(f"categories: column {listed(unknown)} is no text here", "name columns of text")
    lacking = [] if rule.formula else [name for name in text if name not in rules]
    if lacking:
        raise DataError(
            f"column {listed(lacking)} holds text, and nothing says what becomes of it",
            "name it under categories, or leave it out (drop)",
        )
    found = {}
    for name in text:
        each = rules.get(name, CategoryRule(name))
        if each.order:
            continue
        own = categories.own_levels(table, name, each.missing)
        every = yield AskUnion(f"levels of {name}", categories.level_digests(own, key))
        counts = yield AskSum(f"counts of {name}", categories.contribution(own, key, _digests(every)))
        agreed = categories.agree(name, _digests(every), _vector(counts), rule.minimum, rule.shared_by)
        texts = yield AskShare(f"names of {name}", categories.texts_to_share(own, key, agreed))
        found[name] = categories.named(agreed, key, _texts(texts))
    return found


def _filled(
    numbers: MatrixSource, rule: Rule, report: FillReport
) -> Generator[Ask, Answer, tuple[MatrixSource, tuple[str, ...]]]:
    if rule.missing is Missing.ERROR:
        missing.expect_no_gaps(report.gaps)
    if rule.missing in (Missing.ERROR, Missing.DROP):
        return numbers, ()
    names, own = names_of(numbers), missing.totals(numbers)
    answer = yield AskSum("totals and counts", own.vector())
    joint = missing.Totals.of_vector(_vector(answer), len(names))
    marked = joint.with_gaps(names) if rule.indicators else ()
    fills = joint.means(names) if rule.missing is Missing.MEAN else np.full(len(names), rule.constant)
    return missing.Filled(numbers, fills, marked), sites.scale_findings(names, own, joint)


def _with_codes(
    table: MatrixSource, filled: MatrixSource, text: Sequence[str], rule: Rule, levels: dict[str, JointLevels]
) -> MatrixSource:
    """The filled numbers with encoded columns after them."""
    if not text:
        return filled
    rules = {each.name: each for each in rule.categories}
    codings: list[Coding] = []
    for name in text:
        each = rules[name]
        if each.order:
            codings.append(Ordinal(name, tuple(categories.ordinal(name, each.order).items())))
        else:
            codings.append(Indicators(levels[name], each.reference, each.drop_first, each.missing))
    return SideBySide(filled, encoded(arranged(table, text), codings))


def _site_effects(table: MatrixSource, rule: Rule, site: int, parties: int) -> Generator[Ask, Answer, MatrixSource]:
    if rule.combat:
        means = yield from _means(table, "means for ComBat")
        design = combat.Design(site, parties, rule.preserve, means)
        columns = table.shape[1] - len(rule.preserve)
        first = yield AskSum("design of ComBat", combat.design_sums(table, design).vector())
        model = combat.fit(combat.DesignSums.of_vector(_vector(first), design.size, columns), parties)
        second = yield AskSum("residuals of ComBat", combat.residual_squares(table, design, model))
        found = combat.adjustment(table, design, model, _vector(second))
        table = combat.Harmonised(table, design, model, found)
    if rule.covariates:
        means = yield from _means(table, "means for covariates")
        own = sites.covariate_sums(table, rule.covariates, means)
        total = yield AskSum("covariates", own.vector())
        columns = table.shape[1] - len(rule.covariates)
        joint = sites.CovariateSums.of_vector(_vector(total), len(rule.covariates), columns)
        table = sites.Residuals(table, rule.covariates, means, joint.coefficients(rule.covariates))
    moments = None
    if Over.JOINT in (rule.centre, rule.scale):
        means = yield from _means(table, "means for scaling")
        squares = yield AskSum("squares for scaling", np.append(sites.squares(table, means), table.shape[0]))
        vector = _vector(squares)
        moments = Moments(means, sites.deviations(vector[:-1], float(vector[-1]), names_of(table)))
    return sites.site_standardised(table, rule.centre, rule.scale, moments)


def _means(table: MatrixSource, what: str) -> Generator[Ask, Answer, Float]:
    answer = yield AskSum(what, missing.totals(table).vector())
    names = names_of(table)
    return missing.Totals.of_vector(_vector(answer), len(names)).means(names)


def _vector(answer: Answer) -> Float:
    if isinstance(answer, tuple):
        raise DataError("a sum was answered with texts", "stop and ask")
    return np.asarray(answer, dtype=np.float64)


def _digests(answer: Answer) -> Digests:
    if isinstance(answer, tuple) or answer.dtype != np.uint8:
        raise DataError("levels were answered with something else", "stop and ask")
    return np.asarray(answer, dtype=np.uint8)


def _texts(answer: Answer) -> tuple[str, ...]:
    if not isinstance(answer, tuple):
        raise DataError("names of levels were answered with numbers", "stop and ask")
    return answer
