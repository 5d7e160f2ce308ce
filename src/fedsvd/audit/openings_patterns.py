"""Attacks that read how often each combination of few-valued columns occurs, from sums that are linear in it.

A record of a pattern adds the same numbers to every sum, so that sums of known digits are linear equations in counts of
patterns, which are whole numbers. The attacker subtracts what its own records add, solves by least squares and rounds;
where that is not enough, by lattice reduction, which needs fewer digits: of all whole counts it finds some that are
near the sums and near a guess. Two kinds of sums: the information matrices of a logistic regression at its iterates,
and the squared scores of HC0, HC2 and HC3. The fit is driven here by the generators that users drive, with sums of all
parties in one process: rounded at home, noise included, where few digits are opened.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from fedsvd.audit.attacks.opened import combinations
from fedsvd.audit.openings_table import OpenedTable, Played, Verdict, at_home, gravest, not_played
from fedsvd.errors import DataError, FedSVDError
from fedsvd.estimators.linear_regression import FederatedLinearRegression
from fedsvd.policy.opened_columns import OpenedColumns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import SIZE_CLASSES
from fedsvd.protocol.tasks import Family, Item, Robust, Split, Task
from fedsvd.roles.user.models import shape_of
from fedsvd.statistics import glm, glm_digits
from fedsvd.statistics.families import family_named
from fedsvd.statistics.irls import Answer, Proposal, Request
from fedsvd.statistics.newton import NOISE
from fedsvd.statistics.newton_requests import Asked, Point, Sizes, Totals
from fedsvd.statistics.undefined import is_array
from fedsvd.studies.opened_before import Before, study_columns
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import Float, SessionId

MOST_PATTERNS = 64
_MOST_PAIRS = 16  # of columns and label: three weights give fewer sums than a fit has
_ALL_DIGITS = 1e-12  # of the largest number of a sum: what float64 leaves unsure
_UNSURE = {Digits.ALL: 100.0 * _ALL_DIGITS, Digits.TABLE: 2.0**-18}  # of a regression's sums, likewise
_ROBUST = (Robust.HC0, Robust.HC2, Robust.HC3)
_FINE = 64.0  # whole numbers of a lattice to a deviation
_SURE = 8.0  # deviations within which a solution agrees with every sum
_SESSION = SessionId("00" * 16)
FEW_VALUED = "logistic regression on columns of few values"
ROBUST = "HC0, HC2 and HC3 of the same records"

Information = tuple[Point, Float, Float]
"""An information matrix that was opened: where, its upper triangle, and how sure each number of it is."""


@dataclass(frozen=True, repr=False)
class Patterns:
    """All combinations of the values of some columns, and how often each occurs among some records."""

    grid: Float  # (patterns, columns)

    @classmethod
    def of(cls, columns: Float) -> "Patterns":
        values = [np.unique(column) for column in columns.T]
        return cls(np.array(list(product(*values))))

    def counts(self, rows: Float) -> Float:
        """How often each pattern is a row."""
        place = {tuple(pattern): number for number, pattern in enumerate(self.grid.tolist())}
        return np.bincount([place[tuple(row)] for row in rows.tolist()], minlength=len(self.grid)).astype(np.float64)

    def guess(self, own: Float, means: Float, records: int) -> Float:
        """Counts as independent columns would have them: shares of 0/1 columns by means that are opened, others by the
        attacker's own records."""
        shares = np.ones(len(self.grid))
        for j, column in enumerate(self.grid.T):
            values = np.unique(column)
            if len(values) == 2:
                upper = np.clip((means[j] - values[0]) / (values[1] - values[0]), 0.0, 1.0)
                shares *= np.where(column == values[1], upper, 1.0 - upper)
            else:
                own_shares = {value: (np.sum(own[:, j] == value) + 0.5) / (len(own) + 1.0) for value in values}
                shares *= np.array([own_shares[value] for value in column])
        return records * shares


@dataclass(frozen=True, repr=False)
class Equations:
    """Sums of the others' records: what one record of each pattern adds, the sums, and how sure each of them is."""

    A: Float  # (sums, patterns)
    b: Float
    deviations: Float

    def solved(self, guess: Float) -> Float:
        """Whole counts that have these sums, or those nearest to the sums and the guess."""
        A, b = self.A / self.deviations[:, None], self.b / self.deviations
        plain = guess + np.linalg.lstsq(A, b - A @ guess, rcond=None)[0]
        whole = np.maximum(np.rint(plain), 0.0)
        if np.abs(A @ whole - b).max() <= _SURE:  # the attacker sees that it is right
            return whole
        spread = np.sqrt(guess + 0.5)
        reduced = _by_lattice(A, b, np.rint(guess), spread)
        if reduced is not None:
            return reduced
        A, b = np.concatenate((A, np.diag(1.0 / spread))), np.concatenate((b, guess / spread))
        near: Float = np.maximum(np.rint(guess + np.linalg.lstsq(A, b - A @ guess, rcond=None)[0]), 0.0)
        return near


def _by_lattice(A: Float, b: Float, guess: Float, spread: Float) -> Float | None:
    """Whole counts that agree with every sum and are near a guess, if a reduced basis shows some.

    One vector for each pattern, one for the sums less the guess: the combination of them with the true counts is short
    in units of the sums' deviations and of the spread. Only their inner products matter, so that a triangle will do.
    """
    m = len(guess)
    sums = np.column_stack((A, A @ guess - b))
    spreads = np.diag(np.append(1.0 / spread, 0.25 * np.sqrt(len(b) + m)))
    triangle = np.asarray(np.linalg.qr(np.concatenate((sums, spreads)), mode="r"))
    whole = [[round(entry) for entry in column] for column in (_FINE * triangle.T).tolist()]
    products = [[sum(x * y for x, y in zip(one, other, strict=True)) for other in whole] for one in whole]
    found = []
    for numbers in combinations(products):
        counts = guess + np.array(numbers[:-1], np.float64) * numbers[-1]
        if abs(numbers[-1]) == 1 and counts.min() >= 0.0 and np.abs(A @ counts - b).max() <= _SURE:
            found.append((float(np.square(A @ counts - b).sum()), counts))
    return min(found, key=lambda each: each[0])[1] if found else None


def read_exactly(found: Float, truth: Float) -> int:
    """Records whose pattern was found with its right count: one that is off by one is a guess."""
    return int(truth[(found == truth) & (truth > 0)].sum())


def few_valued(table: OpenedTable, most: int = MOST_PATTERNS) -> list[int]:
    """Columns whose combinations can be listed, those with fewest values first."""
    values = [len(np.unique(column)) for column in table.X.T]
    taken: list[int] = []
    patterns = 1
    for j in sorted(range(len(values)), key=lambda j: values[j]):
        if patterns * values[j] <= most:
            taken, patterns = [*taken, j], patterns * values[j]
    return sorted(taken)


# --- a logistic regression --------------------------------------------------------------------------------------------


def logistic(table: OpenedTable, policy: Policy, seed: int) -> Iterator[Played]:
    """The attack in all digits, and in those of ``digits = "table"``."""
    columns, high = few_valued(table), float(table.y.max())
    if len(columns) < 2 or len(np.unique(table.y)) != 2:
        yield not_played(FEW_VALUED, "it needs a label of two values, and two columns of few values")
        return
    y, parts = (table.y == high).astype(np.float64), table.dealt(3)
    table = replace(table, y=y)
    for digits in (Digits.ALL, Digits.TABLE):
        attack = f'{FEW_VALUED}, digits = "{digits}"'
        about = ModelPlan(
            Family.BINOMIAL,
            "logit",
            classes=2,
            least_class=policy.least_class,
            least_events=policy.least_events,
            digits=digits,
        )
        plan = _planned(Study(Task.GLM, Split.HORIZONTAL, targets=1, glm=about), len(columns), parts)
        opened = opened_information(table.X[:, columns], y, parts, plan, seed)
        if not opened:
            yield not_played(attack, "a model of these columns ends before its first matrix")
            continue
        read, guessed = _by_information(table.X[:, columns], parts, opened)
        verdict = gravest(at_home(plan, table.party(part, columns), policy) for part in parts[1:])
        yield Played(attack, 1, read, parts[-1].stop - parts[1].start, "records", verdict, guessed)


def opened_information(X: Float, y: Float, parts: Sequence[slice], plan: SessionPlan, seed: int) -> list[Information]:
    """Every information matrix that users opened, to the end of the fit, however it ended."""
    assert plan.glm is not None
    if plan.glm.few_digits:
        return list(_in_few_digits(X, y, parts, plan, np.random.default_rng(seed)))
    return list(_in_all_digits(X, y))


def _by_information(X: Float, parts: Sequence[slice], opened: Sequence[Information]) -> tuple[int, int]:
    """Records read exactly, and those right by a guess from the opened means."""
    patterns, own = Patterns.of(X), X[parts[0]]
    known, blocks = patterns.counts(own), []
    for at, sums, deviations in opened:
        A = _of_each_pattern(patterns.grid, at)
        blocks.append(Equations(A, sums - A @ known, deviations))
    others = np.concatenate([X[part] for part in parts[1:]])
    means = (X.sum(axis=0) - own.sum(axis=0)) / len(others)  # joint means are opened, own ones are known
    return _scored(patterns, others, blocks, patterns.guess(own, means, len(others)))


def _scored(patterns: Patterns, others: Float, blocks: Sequence[Equations], guess: Float) -> tuple[int, int]:
    """The referee: what was read, and what was guessed, compared with the true records."""
    joined = Equations(
        np.concatenate([each.A for each in blocks]),
        np.concatenate([each.b for each in blocks]),
        np.concatenate([each.deviations for each in blocks]),
    )
    truth = patterns.counts(others)
    return read_exactly(joined.solved(guess), truth), read_exactly(np.rint(guess), truth)


def _of_each_pattern(grid: Float, at: Point) -> Float:
    """What one record of each pattern adds to an information matrix, (entries, patterns)."""
    Z = np.column_stack((np.ones(len(grid)), grid - at.centre))
    tail = np.exp(-np.abs(Z @ at.beta))  # near separation 1 - p has no digits of its own
    return _triangles(Z, tail / np.square(1.0 + tail))


def _triangles(Z: Float, weights: Float) -> Float:
    upper = np.triu_indices(Z.shape[1])
    found: Float = (weights[:, None] * Z[:, upper[0]] * Z[:, upper[1]]).T
    return found


def _in_all_digits(X: Float, y: Float) -> Iterator[Information]:
    """The information matrix of every iterate, as users have it from the Gram matrices that they open."""
    logit, upper = family_named("binomial", "logit"), np.triu_indices(X.shape[1] + 1)
    steps = glm.fit(logit)
    asked = next(steps)
    while True:
        if isinstance(asked, Proposal):
            answer: Answer | Float = asked.numbers
        else:
            assert isinstance(asked, Request)
            made = glm.contribution(asked, logit, X, y)
            factor: Float | None = None if made.rows is None else np.asarray(np.linalg.qr(made.rows, mode="r"))
            answer = Answer(factor, dict(zip(asked.totals, made.totals, strict=True)))
            if factor is not None and asked.beta is not None and not asked.constant_only:
                sums = (factor[:, :-1].T @ factor[:, :-1])[upper]
                unsure = np.full(len(sums), _ALL_DIGITS * np.abs(sums).max())
                yield Point(asked.beta, np.zeros(X.shape[1]), information=True), sums, unsure
        try:
            asked = steps.send(answer)
        except (StopIteration, FedSVDError):  # separated, for one: what was opened by then was opened
            return


class _Home:
    """One party's own parts of a logistic regression by few digits, rounded as a user rounds them."""

    def __init__(self, X: Float, y: Float) -> None:
        self._X, self._y, self._sent = X, y, np.zeros(0)
        self._family = family_named("binomial", "logit")

    def sizes(self, asked: Sizes) -> Float:
        n = len(self._y)
        if asked.of == "columns":
            return np.concatenate(((n, 0.0, self._y.sum()), np.sqrt(np.square(self._X).mean(axis=0))))
        assert asked.at is not None
        own = glm_digits.evaluate(asked.at, self._family, self._X, self._y)
        if asked.of == "start":
            assert own.information is not None
            spread = np.sqrt(np.square(self._X - asked.at.centre).mean(axis=0))
            units = np.concatenate(((1.0,), np.where(spread > 0.0, spread, 1.0)))
            bound = float((own.information.diagonal() / np.square(units)).max())
            return np.concatenate(((bound, own.deviance, own.pearson), spread))
        return self._ending(asked, asked.at, asked.scale)

    def values(self, asked: Asked) -> Float:
        if asked.of == "moments":
            return np.concatenate(((len(self._y), 0.0, self._y.sum()), self._X.sum(axis=0)))
        assert asked.at is not None
        if asked.of not in ("score", "information", "table"):
            return self._ending(asked, asked.at, asked.scale)
        own = glm_digits.evaluate(asked.at, self._family, self._X, self._y)
        if asked.of == "score":
            return np.concatenate(((own.deviance, own.pearson), own.score))
        assert own.information is not None
        triangle = own.information[np.triu_indices(len(own.score))]
        self._sent = self._sent if asked.piece else np.zeros(len(triangle))
        return triangle - self._sent

    def rounded(self, asked: Asked, rng: np.random.Generator) -> Float:
        """The share: in units of the sum, with a whole number of noise."""
        values, units = self.values(asked), np.where(asked.units > 0.0, asked.units, 1.0)
        whole = np.rint(values / units) + rng.integers(-NOISE, NOISE + 1, len(values))
        share: Float = np.where(asked.units > 0.0, whole * units, 0.0)
        if asked.of in ("information", "table"):
            self._sent = self._sent + share
        return share

    def _ending(self, asked: Sizes | Asked, at: Point, scale: float) -> Float:
        if asked.of == "likelihood":
            return np.array([glm_digits.log_likelihood(at, self._family, self._X, self._y, scale)])
        own = glm_digits.evaluate(at, self._family, self._X, self._y)
        return np.array([own.deviance, own.pearson])


def _in_few_digits(
    X: Float, y: Float, parts: Sequence[slice], plan: SessionPlan, rng: np.random.Generator
) -> Iterator[Information]:
    """The information matrices that were opened, pieces added up, each in the last unit it was opened in."""
    assert plan.glm is not None
    homes = [_Home(X[part], y[part]) for part in parts]
    steps = glm_digits.fit_by_digits(family_named("binomial", "logit"), shape_of(plan, plan.glm), offset=False, alpha=0)
    opened: dict[tuple[str, bytes], Information] = {}
    asked = next(steps)
    while True:
        if isinstance(asked, Sizes):
            own = np.array([home.sizes(asked) for home in homes])
            exponents = np.where(own == 0.0, SIZE_CLASSES.start, np.frexp(own)[1])
            answer = np.clip(exponents.max(axis=0), SIZE_CLASSES.start, SIZE_CLASSES.stop)
        else:
            total = np.sum([home.rounded(asked, rng) for home in homes], axis=0)
            answer = Totals(total)
            if asked.of in ("information", "table") and asked.at is not None:
                key = asked.of, asked.at.beta.tobytes()
                before = opened[key][1] if asked.piece else 0.0
                opened[key] = asked.at, total + before, NOISE * asked.units
        try:
            asked = steps.send(answer)
        except (StopIteration, FedSVDError):
            break
    yield from opened.values()


# --- robust errors ----------------------------------------------------------------------------------------------------


def robust(table: OpenedTable, policy: Policy) -> Iterator[Played]:
    """Three regressions of the same records, whose squared scores are weighted in three ways; in all digits, and in
    those of ``digits = "table"``."""
    labels = len(np.unique(table.y))
    columns = few_valued(table, _MOST_PAIRS // labels)
    if not columns or labels < 2:
        yield not_played(ROBUST, "it needs a label and a column of few values")
        return
    X, parts = table.X[:, columns], table.dealt(3)
    joined = np.column_stack((X, table.y))
    own, others = joined[parts[0]], np.concatenate([joined[part] for part in parts[1:]])
    means = (joined.sum(axis=0) - own.sum(axis=0)) / len(others)
    for digits in _UNSURE:
        attack = f'{ROBUST}, digits = "{digits}"'
        try:
            blocks, patterns = _by_scores(X, table.y, parts, digits)
        except FedSVDError as error:
            yield not_played(attack, f"the model of these columns does not end well ({error.code})")
            continue
        read, guessed = _scored(patterns, others, blocks, patterns.guess(own, means, len(others)))
        verdict = gravest(_of_robust(table, policy, columns, parts, digits))
        yield Played(attack, len(_ROBUST), read, len(others), "records", verdict, guessed)


def _of_robust(
    table: OpenedTable, policy: Policy, columns: list[int], parts: Sequence[slice], digits: Digits
) -> Iterator[Verdict]:
    """What the other parties' rules say of each of the three, one after the other."""
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE, Item.ROBUST)
    for part in parts[1:]:
        party = table.party(part, columns)
        opened, rows = OpenedColumns().after(party.table.shape[0]), np.arange(party.table.shape[0])
        for kind in _ROBUST:
            study = Study(Task.LR, Split.HORIZONTAL, targets=1, release=release, robust=kind, digits=digits)
            plan = _planned(study, len(columns), parts)
            yield at_home(plan, party, policy, before=Before(opened, rows))
            if (opens := study_columns(plan, party)) is not None:
                opened = opened.with_study(kind, opens, rows)


def _by_scores(X: Float, y: Float, parts: Sequence[slice], digits: Digits) -> tuple[list[Equations], Patterns]:
    """The sums that three fits of real sessions show a user, less its own; equations in counts of (x, y)."""
    patterns = Patterns.of(np.column_stack((X, y)))
    known = patterns.counts(np.column_stack((X, y))[parts[0]])
    Z, targets = np.column_stack((np.ones(len(patterns.grid)), patterns.grid[:, :-1])), patterns.grid[:, -1]
    blocks, upper, unsure = list[Equations](), np.triu_indices(Z.shape[1]), _UNSURE[digits]
    for kind in _ROBUST:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it says is what is measured here
            fit = FederatedLinearRegression(inference=True, cov_type=str(kind), digits=str(digits))
            (found,) = fit.fit([X[part] for part in parts], [y[part] for part in parts]).inference_
        if found.aliased or not is_array(found.root) or not is_array(found.covariance):
            raise DataError("these columns have no table of a regression", "take columns that are not dependent")
        inverse = found.root @ found.root.T
        gram: Float = np.linalg.inv(inverse).astype(np.float64)
        residual = targets - Z @ found.coefficients
        leverage = np.einsum("ij,jk,ik->i", Z, inverse, Z)
        weights = np.square(residual) / (1.0 - leverage) ** {Robust.HC0: 0, Robust.HC2: 1, Robust.HC3: 2}[kind]
        blocks.append(_equations(_triangles(Z, weights), (gram @ found.covariance @ gram)[upper], known, unsure))
        if kind is Robust.HC0:  # the others' are the same
            blocks.append(_equations(_triangles(Z, np.ones(len(Z))), gram[upper], known, unsure))
            blocks.append(_equations(Z.T * targets, gram @ found.coefficients, known, unsure))
    return blocks, patterns


def _equations(A: Float, sums: Float, known: Float, unsure: float) -> Equations:
    return Equations(A, sums - A @ known, np.full(len(sums), unsure * np.abs(sums).max()))


def _planned(study: Study, columns: int, parts: Sequence[slice]) -> SessionPlan:
    return plan_study(study, columns, tuple(part.stop - part.start for part in parts), _SESSION).plan
