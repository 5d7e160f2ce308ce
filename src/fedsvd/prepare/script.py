"""The joint preparation of one party's table as a script: it asks for sums, gets the totals, ends with a table.

A rule is part of the job and the same at every party. The script is a generator: it yields the sums it asks of all
parties (``AskSum``), in the order of ``planned_steps``, and is sent the totals. It knows no transport;
``play_together`` plays several in one process, in the clear. Where columns are split, a party plays its own script
alone. What a party does by itself came before (``at_home.py``). Encoded columns come after the numbers. Steps, each
left out where the rule does not ask for it:

    joint counts -> levels of text columns -> gaps filled -> indicators or formula -> ComBat
            -> covariates partialled out -> centring and scaling
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.data.views import underlying
from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare import categories, combat, level_sketch, missing, sites, soft_impute, spellings
from fedsvd.prepare.categories import JointLevels
from fedsvd.prepare.columns import arranged, listed
from fedsvd.prepare.derived import SideBySide, names_of
from fedsvd.prepare.encoding import Indicators, encoded
from fedsvd.prepare.formula_table import FormulaTable
from fedsvd.prepare.formula_terms import SITE
from fedsvd.prepare.job_made import persons
from fedsvd.prepare.joint_counts import (
    COUNTS,
    RARE,
    Counted,
    Rare,
    common_levels,
    fewer_now,
    joined,
    not_everywhere,
    own_counts,
    rare_items,
    too_few,
)
from fedsvd.prepare.missing import Gaps
from fedsvd.prepare.recipe import Filled, Fills, Partialled, Recipe
from fedsvd.prepare.rule import ROUND_BITS, LowRank, Rule
from fedsvd.prepare.sites import Moments, Over
from fedsvd.prepare.soft_impute import Completion
from fedsvd.prepare.units import Spread, summed_elsewhere, unit_findings
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float, near

_SETTLED = 1e-4  # of the filled values' size, in the last round


@dataclass(frozen=True, repr=False)
class AskSum:
    """All parties' vectors, added up; the answer has the same shape. From ``whole`` on they hold whole numbers.

    With a ``unit`` numbers are rounded to it before they are added up, and the answer has two rows: the total, and this
    party's own part as it was sent.
    """

    what: str
    vector: Float
    whole: int
    unit: float = 0.0

    def __repr__(self) -> str:
        return f"AskSum({self.what}, {self.vector.shape})"


@dataclass(frozen=True, repr=False)
class PreparedTable:
    """The prepared table, by which recipe, what this party had missing, and the outcome of the formula."""

    table: MatrixSource
    recipe: Recipe
    gaps: Gaps
    outcome: Float | None = None
    outcome_names: tuple[str, ...] = ()


Script = Generator[AskSum, Float, PreparedTable]


def prepare(source: MatrixSource, rule: Rule, key: Seed, sizes: Sequence[float] = ()) -> Script:
    """The script of a party with this table; ``key`` is the users' own, ``sizes`` are the others' rows."""
    start = _Start.of(source, rule)
    rare, common = yield from _rare(start, rule)
    start = start.without(() if rare is None else rare.columns)
    agreed, told = yield from _levels(start, rule, key)
    levels = [_common(each, rule, rare, common) for each in agreed]
    fills, joint, findings = yield from _fills(start, rule, () if rare is None else rare.gaps, sizes)
    completion = None
    if rule.low_rank is not None:
        completion, joint, findings = yield from _completed(start, rule, rule.low_rank, sizes)
    recipe = Recipe(
        names_of(start.numbers),
        tuple(levels),
        fills,
        joint,
        completion,
        findings=findings,
        knots=rule.knots,
        rare=rare,
    )
    table = start.encoded(recipe, rule)
    last, recipe = yield from _site_effects(table, rule, recipe, sizes)
    return start.ended(last, table, replace(recipe, findings=(*told, *recipe.findings)))


def prepared_again(source: MatrixSource, rule: Rule, recipe: Recipe) -> PreparedTable:
    """A table prepared by a recipe, without any other party: the same one again, or new rows of the same party."""
    if rule.parsed is None:  # in the order of the study, whichever the table has
        held = names_of(source)
        source = arranged(source, [name for name in (*recipe.numbers, *rule.text) if name in held])
    start = _Start.of(source, rule)
    table = last = start.encoded(recipe, rule)
    if recipe.model is not None and recipe.adjustment is not None:
        last = combat.Harmonised(last, recipe.model, recipe.adjustment)
    if recipe.partialled is not None:
        last = sites.Residuals(last, rule.covariates, recipe.partialled.means, recipe.partialled.coefficients)
    if recipe.moments is not None:
        last = sites.Standardised(last, recipe.moments.means, recipe.moments.deviations)
    return start.ended(last, table, recipe)


def prepared_alone(source: MatrixSource, rule: Rule) -> PreparedTable:
    """A table whose columns are this party's alone (split columns): every joint number is its own."""
    (found,) = play_together([prepare(source, replace(rule, shared_by=1, counts=None), Seed(bytes(32)))])
    return found


def play_together(scripts: Sequence[Script]) -> list[PreparedTable]:
    """All parties' scripts played in one process, with sums in the clear."""
    answers: list[Float] = []
    while True:
        asks: list[AskSum] = []
        results: list[PreparedTable] = []
        for place, script in enumerate(scripts):
            try:
                asks.append(script.send(answers[place]) if answers else next(script))
            except StopIteration as end:
                results.append(end.value)
        if (results and asks) or any(
            (ask.what, ask.vector.shape) != (asks[0].what, asks[0].vector.shape) for ask in asks
        ):
            raise DataError("parties ask for different sums", "give every party the same rule and the same columns")
        if results:
            return results
        total = np.asarray(np.sum([ask.vector for ask in asks], axis=0))
        answers = [np.stack((total, ask.vector)) if ask.unit else total for ask in asks]


@dataclass(frozen=True, repr=False)
class _Start:
    """A party's table with its columns told apart: numbers, text, and the outcome of a formula."""

    source: MatrixSource
    numbers: MatrixSource
    text: tuple[str, ...]
    gaps: Gaps

    @classmethod
    def of(cls, source: MatrixSource, rule: Rule) -> "_Start":
        parsed, names, text = rule.parsed, names_of(source), rule.text
        wanted = names if parsed is None else parsed.variables
        lacking = [name for name in (*wanted, *text) if name not in names]
        if lacking:
            by = "the formula reads" if parsed else "categories name"
            raise DataError(
                f"the table has no column {listed(lacking)}, which {by}", f"check its names{near(lacking[0], names)}"
            )
        strange = [name for name in wanted if name in source.text_names and name not in text]
        if strange:
            fix = "make indicators of its levels (categories), or leave it out (drop)"
            fix = f"write C({strange[0]}) in the formula" if parsed else fix
            raise DataError(f"column {listed(strange)} holds text, and nothing says what becomes of it", fix)
        if not [name for name in wanted if name not in text]:
            raise ConfigError("every column is a category", "a study needs a column of numbers too")
        numbers = arranged(source, [name for name in wanted if name not in text])
        found = missing.gaps(numbers)
        if parsed is not None:
            outcome = [name for name in parsed.outcome if name not in text]
            counts = np.array([found.counts[found.names.index(name)] for name in outcome], np.int64)
            missing.expect_no_gaps(Gaps(tuple(outcome), found.rows, counts), '"drop": a label is never filled in')
        if not (rule.mean or rule.low_rank):
            missing.expect_no_gaps(found)
        return cls(source, numbers, text, found)

    def without(self, names: Sequence[str]) -> "_Start":
        """Without these columns of numbers."""
        left = [name for name in names_of(self.numbers) if name not in names]
        if not left:
            raise DataError("no column of numbers is left: too few records are off their commonest values", "add some")
        return replace(self, numbers=arranged(self.numbers, left)) if names else self

    def encoded(self, recipe: Recipe, rule: Rule) -> MatrixSource:
        """The numbers with their gaps filled and encoded columns after them, or what the formula makes of them."""
        table = self.numbers
        if recipe.fills is not None:
            table = missing.Filled(table, recipe.fills.of(names_of(table)), recipe.fills.marked, dict(rule.decimals))
        if recipe.completion is not None:
            table = soft_impute.Completed(table, recipe.completion, dict(rule.decimals))
        levels = {joint.name: joint for joint in recipe.levels}
        if rule.parsed is not None:
            gaps = {name: level for name in self.text if (level := rule.category(name).missing) is not None}
            return FormulaTable(table, rule.parsed, levels, gaps, dict(recipe.knots))
        if not self.text:
            return table
        each = (rule.category(name) for name in self.text)
        left_out: dict[str, list[str]] = {}
        for name, level in () if recipe.rare is None else recipe.rare.levels:
            left_out.setdefault(name, []).append(level)
        codings = [
            Indicators(levels[one.name], one.reference, one.drop_first, one.missing, tuple(left_out.get(one.name, ())))
            for one in each
        ]
        return SideBySide(table, encoded(arranged(self.source, self.text), codings))

    def ended(self, last: MatrixSource, table: MatrixSource, recipe: Recipe) -> PreparedTable:
        """``last`` with what goes with it; the outcome is that of ``table``, before any effect was removed."""
        if not isinstance(table, FormulaTable) or not table.outcome_names:
            return PreparedTable(last, recipe, self.gaps)
        return PreparedTable(last, recipe, self.gaps, table.outcome(), table.outcome_names)


def _levels(
    start: _Start, rule: Rule, key: Seed
) -> Generator[AskSum, Float, tuple[list[JointLevels], tuple[str, ...]]]:
    """The joint levels of every text column, and what its owner is told of levels that are pooled."""
    found: list[JointLevels] = []
    told: list[str] = []
    most = rule.most_levels
    for name in start.text:
        if listed_levels := rule.category(name).levels:
            joint = categories.expect_listed(start.source, name, listed_levels, rule.category(name).missing)
            found.append(replace(joint, reference=joint.levels[0]) if rule.less_one else joint)
            continue
        own = categories.own_levels(start.source, name, rule.category(name).missing)
        total = yield AskSum(f"levels of {name}", categories.sketch(own, key, most), whole=0)
        of_parties = name == SITE and rule.by_site  # their names, each of which one party has
        least = (1, 1) if of_parties else (rule.minimum, rule.shared_by)
        agreed = categories.agree(name, level_sketch.read(total, most, f"column {name!r}"), *least)
        texts = yield AskSum(f"names of {name}", categories.texts_to_add(own, key, agreed, most), whole=0)
        found.append(categories.named(agreed, key, texts, most, rule.less_one))
        told += spellings.pooled(own, found[-1])
    return found, tuple(told)


def _rare(start: _Start, rule: Rule) -> Generator[AskSum, Float, tuple[Rare | None, Mapping[str, dict[str, float]]]]:
    """What too few records have, and the levels that rare ones may join."""
    if rule.counts is None:
        return None, {}
    items, counted = rule.counted(names_of(start.source)), underlying(start.source, Counted)
    counts = own_counts(items, start.source, start.source) if counted is None else counted.counts
    own = np.array([counts.get(item, 0) for item in items], np.float64)
    total = None
    if rule.counts.summed:
        total = yield AskSum(COUNTS, own, whole=0)
    now = own if counted is None else np.array([counted.now.get(item, 0) for item in items], np.float64)
    objections = too_few(own, total) | fewer_now(own, now, total)
    if total is None:
        objections = np.concatenate((objections, not_everywhere(items, own, rule.counts.pooled)))
    flags = (yield AskSum(RARE, objections.astype(np.float64), whole=0)) > 0
    known = np.where(flags[len(items) :], 0.0, np.inf) if total is None else total
    missing_as = {name: rule.category(name).missing for name in rule.listed_levels}
    rare = rare_items(items, flags[: len(items)], rule.counts, missing_as)
    current = tuple(dict.fromkeys(name for name, _ in items)) if counted is None else counted.current
    return replace(rare, current=current), common_levels(items, known)


def _common(joint: JointLevels, rule: Rule, rare: Rare | None, common: Mapping[str, dict[str, float]]) -> JointLevels:
    """The levels of a column, with rare ones joined where the dictionary says so."""
    few = [level for name, level in (() if rare is None else rare.levels) if name == joint.name]
    if not few or rule.counts is None or joint.name not in rule.counts.pooled:
        return joint
    return joined(joint, few, common.get(joint.name, {}))


def _fills(
    start: _Start, rule: Rule, unmarked: Sequence[str], sizes: Sequence[float]
) -> Generator[AskSum, Float, tuple[Fills | None, Filled | None, tuple[str, ...]]]:
    if not rule.mean:
        return None, None, ()
    names, own = names_of(start.numbers), missing.totals(start.numbers)
    answer = yield AskSum("totals and counts", own.vector(), whole=len(names))
    joint = missing.Totals.of_vector(answer, len(names))
    joint.expect_enough(names, rule.minimum)
    marked = joint.with_gaps(names) if rule.indicators is True else tuple(rule.indicators or ())
    marked = tuple(name for name in marked if name in names and name not in unmarked)
    lost = Filled(int(joint.rows), len(names), int(len(names) * joint.rows - joint.present.sum()))
    findings = _units(names, Spread.of(start.numbers), summed_elsewhere(own, joint), sizes)
    return Fills(names, _rounded(joint.means(names), names, rule), marked), lost, findings


def _rounded(means: Float, names: Sequence[str], rule: Rule) -> Float:
    """Means to the decimals of their columns, where the dictionary has them.

    A mean of all digits in the place of a gap marks it in every sum: multiples of its last digits say how many gaps
    went in, and of which records.
    """
    decimals = dict(rule.decimals)
    held = zip(means.tolist(), names, strict=True)
    return np.array([round(mean, decimals[name]) if name in decimals else mean for mean, name in held])


def _completed(
    start: _Start, rule: Rule, how: LowRank, sizes: Sequence[float]
) -> Generator[AskSum, Float, tuple[Completion, Filled, tuple[str, ...]]]:
    """Soft-impute of the standardised numbers, in as many rounds as the plan has; refused where it still moves then."""
    table, columns = start.numbers, start.numbers.shape[1]
    names, own = names_of(table), missing.totals(table)
    joint = missing.Totals.of_vector((yield AskSum("totals and counts", own.vector(), whole=columns)), columns)
    joint.expect_enough(names, rule.minimum)
    means = _rounded(joint.means(names), names, rule)
    ours = missing.squares(table, means)
    squares = yield AskSum("squares of entries", ours, whole=columns)
    findings = _units(names, Spread.of(table), summed_elsewhere(own, joint, (ours, squares)), sizes)
    deviations = np.sqrt(np.maximum(squares, 0.0) / joint.present)
    deviations = np.where(deviations > 0, deviations, 1.0)
    # A party that fills the gaps of its own columns alone shows no one what moves.
    alone = soft_impute.patterns_of_few(table, rule.minimum if rule.shared_by > 1 else 1, persons(table))
    now = before = Completion(means, deviations, np.zeros((columns, columns)), alone)
    opened = soft_impute.opened_by(columns, how.rank)
    largest, penalty, first = opened.largest(joint.rows), 0.0, soft_impute.first_rounds(columns, how.rank)
    held, sent = np.zeros((2, soft_impute.numbers_of_a_round(columns, how.rank)))
    for number in range(1, how.played(columns) + 1):
        own_part = soft_impute.contribution(table, now, before, opened)
        unit = 2.0 ** (math.frexp(largest)[1] - ROUND_BITS)
        left = own_part.products - sent
        moved, part = yield AskSum(f"low rank, round {number}", left, whole=left.size, unit=unit)
        held, sent = held + moved, sent + part
        largest = max(float(np.abs(moved).max()), unit)
        squared, V = opened.spectrum(held)
        if number <= first:
            penalty = how.penalty * float(np.sqrt(max(squared[-1], 0.0)))
        if number >= first:
            now, before = replace(now, W=soft_impute.shrinkage(squared, V, penalty)), now
    soft_impute.expect_rank(squared, penalty, how.rank)
    settled = yield AskSum("low rank, moved", np.array([own_part.moved, own_part.size]), whole=2)
    soft_impute.expect_settled(float(settled[0]), float(settled[1]), _SETTLED, how.rounds)
    return now, Filled(int(joint.rows), columns, int(columns * joint.rows - joint.present.sum())), findings


def _site_effects(
    table: MatrixSource, rule: Rule, recipe: Recipe, sizes: Sequence[float]
) -> Generator[AskSum, Float, tuple[MatrixSource, Recipe]]:
    looked = rule.mean or rule.low_rank is not None
    if rule.combat:
        own_totals, joint = yield from _totals(table, "means for ComBat")
        recipe, looked = _noticed(recipe, looked, table, sizes, own_totals, joint), True
        columns, products = table.shape[1] - len(rule.preserve), None
        if rule.preserve:
            own = combat.within_site(table, rule.preserve).vector()
            total = yield AskSum("products for ComBat", own, whole=own.size)
            products = sites.CovariateSums.of_vector(total, len(rule.preserve), columns)
        model = combat.fit(products, rule.preserve, joint.means(names_of(table)), joint.rows)
        squares = yield AskSum("squares for ComBat", combat.residual_squares(table, model), whole=columns)
        found = combat.adjustment(table, model, squares)
        table, recipe = combat.Harmonised(table, model, found), replace(recipe, model=model, adjustment=found)
    if rule.covariates:
        own_totals, joint = yield from _totals(table, "means for covariates")
        recipe, looked = _noticed(recipe, looked, table, sizes, own_totals, joint), True
        means = joint.means(names_of(table))
        own = sites.covariate_sums(table, rule.covariates, means).vector()
        total = yield AskSum("products of covariates", own, whole=own.size)
        columns = table.shape[1] - len(rule.covariates)
        B = sites.CovariateSums.of_vector(total, len(rule.covariates), columns).coefficients(rule.covariates)
        table = sites.Residuals(table, rule.covariates, means, B)
        recipe = replace(recipe, partialled=Partialled(means, B))
    moments = None
    if Over.JOINT in (rule.centre, rule.scale):
        own_totals, joint = yield from _totals(table, "means for scaling")
        means, deviations = joint.means(names_of(table)), np.ones(table.shape[1])
        pair: tuple[Float, Float] | None = None
        if rule.scale is Over.JOINT:
            ours = sites.squares(table, means)
            total = yield AskSum("squares for scaling", ours, whole=table.shape[1])
            deviations, pair = sites.deviations(total, joint.rows, means), (ours, total)
        recipe = _noticed(recipe, looked, table, sizes, own_totals, joint, pair)
        moments = Moments(means, deviations)
    if (rule.centre, rule.scale) == (Over.NONE, Over.NONE):
        return table, recipe
    moments = sites.chosen_moments(table, rule.centre, rule.scale, moments)
    return sites.Standardised(table, moments.means, moments.deviations), replace(recipe, moments=moments)


def _totals(table: MatrixSource, what: str) -> Generator[AskSum, Float, tuple[missing.Totals, missing.Totals]]:
    """This party's totals, and those of all."""
    columns, own = table.shape[1], missing.totals(table)
    answer = yield AskSum(what, own.vector(), whole=columns)
    return own, missing.Totals.of_vector(answer, columns)


def _noticed(
    recipe: Recipe,
    looked: bool,
    table: MatrixSource,
    sizes: Sequence[float],
    own: missing.Totals,
    joint: missing.Totals,
    squares: tuple[Float, Float] | None = None,
) -> Recipe:
    """The recipe with what the first means of a session say of units; of columns of numbers, not of indicators."""
    if looked:
        return recipe
    names = names_of(table)
    numbers = np.array([j for j, name in enumerate(names) if name in set(recipe.numbers)], dtype=np.intp)
    others = summed_elsewhere(own, joint, squares)
    here = Spread.of(table)
    findings = _units([names[j] for j in numbers], here.columns(numbers), others.columns(numbers), sizes)
    return replace(recipe, findings=findings)


def _units(names: Sequence[str], own: Spread, others: Spread, sizes: Sequence[float]) -> tuple[str, ...]:
    return tuple(found.text for found in unit_findings(names, own, others, sizes))
