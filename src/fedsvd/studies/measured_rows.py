"""A party's own rows measured as a study would sum them, for ``policy/own_rows.py``: nothing of it is sent.

Measured are the rows of the Gram matrix that is opened: a constant, the features, and the label where it is summed with
them, each row times the root of its weight; rows of one person together, where they have ids. Where released factors
are the study itself (SVD, PCA, LSA), or coefficients alone are opened, only what the job made of the table is measured:
the rest its owner came to share.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.views import NumberedNames
from fedsvd.policy.own_rows import MOST_VALUES, REFUSED, Cells, Grid, Leverage, OwnRows, few_records
from fedsvd.policy.rules import Policy, fewest_records
from fedsvd.prepare.derived import PANEL_CELLS, names_of
from fedsvd.prepare.job_made import columns_read, combined, empty_cells, job_made
from fedsvd.prepare.telling_fills import telling_fills
from fedsvd.protocol.counted import CurvesPlan
from fedsvd.protocol.families import Outcome
from fedsvd.protocol.hazards import baseline_times
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.openings import opened
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import CAPPED_AT, What
from fedsvd.protocol.tasks import Answer, Counts, Split, Task
from fedsvd.statistics.fives import few_cells
from fedsvd.statistics.leverage import in_each_column, leverages
from fedsvd.statistics.life_table import staircases
from fedsvd.studies.parties import PartyData
from fedsvd.studies.persons import counted, groups_of, how_many, persons_of
from fedsvd.studies.table_cells import measured_table
from fedsvd.types import Float

_DETERMINE_GRAM = frozenset({What.GRAM, What.REFINED, What.INFORMATION})
_FEWEST = 10  # records below which one of them stands out in any column
_LIKE_R = 0.1  # added to counts, at which R begins the fit of a Poisson model and near which it ends


def is_judged(plan: SessionPlan) -> bool:
    """Whether single records are in sums of this plan that others see: rows are split, and the study itself begins."""
    return plan.split is Split.HORIZONTAL and plan.task is not Task.PREPARE and not plan.opens_nothing


def measured(plan: SessionPlan, party: PartyData, policy: Policy, refusals: bool = False) -> OwnRows:
    """What is judged of a party's rows; with ``refusals`` only what may be refused, which mostly takes no pass."""
    if plan.table is not None:
        return OwnRows() if refusals else measured_table(plan, party, policy, persons_of(party, plan))
    rows, model = _Rows.of(plan, party), opens_model(plan)
    own = OwnRows(offset=_largest_offset(plan, party), made=rows.made(policy))
    if rows.weights is not None and model:
        own = replace(own, weighted=rows.weighted())
    if refusals:
        return own
    own = replace(
        own,
        records=rows.records,
        cells=tuple(_cells(party, policy, plan)),
        fills=telling_fills(party.table, policy.least_count),
    )
    if rows.records < (fewest := fewest_records(plan, policy)) <= party.table.shape[0]:
        own = replace(own, rows=party.table.shape[0], asked=fewest)
    if party.clusters is not None and What.COUNT in opened(plan):
        own = replace(own, clusters=tuple(np.unique(party.clusters, return_counts=True)[1].tolist()))
    if {What.CELLS, What.WITHIN} & opened(plan) and plan.task is Task.SURVIVAL:
        own = replace(own, grids=_grids(plan, party, policy), classes=_compared(plan, party, rows.of_person))
    if What.ROC in opened(plan) or baseline_times(plan) or plan.task is Task.SURVIVAL:
        own = replace(own, visits=rows.of_person is not None)
    groups = groups_of(party, plan)
    if groups is not None:
        sizes = np.unique(groups, return_counts=True)[1]
        own = replace(own, clusters=tuple(sizes.tolist()), random=True)
    if not model:
        return replace(own, columns=rows.made_columns)
    own = replace(own, columns=rows.features + 1, outcome=rows.outcome(plan), classes=_classes(plan, party))
    # These bring roles along, and job watch needs none.
    from fedsvd.studies.measured_hazards import bins_of_departures, largest_hazard

    own = replace(own, grids=bins_of_departures(plan, party, policy.least_count, rows.of_person))
    if plan.k == 2 and plan.glm is not None and (event := _event(plan.glm)) and party.labels is not None:
        own = replace(own, events=how_many(party.labels[:, event] != 0.0, rows.of_person))
    if plan.glm is not None and plan.glm.facts.weighs and party.labels is not None:
        treated = party.labels[:, plan.glm.facts.counted_at].astype(np.intp)
        own = replace(own, compared=tuple(counted(treated, rows.of_person).tolist()))
    own = rows.judged(own, policy)
    few = few_records(rows.records, own.columns, policy)
    value, column = (0.0, 0) if few else largest_hazard(plan, party, rows.of_person)
    return replace(own, design=Leverage(value, rows.called(column))) if value > own.design.value else own


def determines_gram(plan: SessionPlan) -> bool:
    """Whether users will hold sums of products of all columns."""
    return bool(_DETERMINE_GRAM & opened(plan))


def opens_model(plan: SessionPlan) -> bool:
    """Whether these are of a model: all its columns are judged."""
    return determines_gram(plan) and plan.answer is not Answer.FACTORS


@dataclass(frozen=True, repr=False)
class _Rows:
    """A party's rows as they are summed: features, then labels that are joined to them."""

    plan: SessionPlan
    party: PartyData
    labels: Float | None
    weights: Float | None
    _job: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: SessionPlan, party: PartyData) -> "_Rows":
        labels, weights = party.labels if plan.adds_labels else None, party.row_weights
        if plan.glm is not None and party.labels is not None:
            weights = party.labels[:, -1] if plan.glm.weighted else None
        return cls(plan, party, labels, weights, job_made(party.table))

    @cached_property
    def of_person(self) -> NDArray[np.intp] | None:
        """The person that each row is of, where persons have several."""
        return persons_of(self.party, self.plan)

    @property
    def records(self) -> int:
        """Own rows; persons, where these have several."""
        return self.party.table.shape[0] if self.of_person is None else 1 + int(self.of_person.max(initial=-1))

    @property
    def features(self) -> int:
        return self.party.table.shape[1]

    @cached_property
    def names(self) -> Sequence[str]:
        if self.labels is None and self.party.table.names is None:
            return NumberedNames(self.features)
        return [*names_of(self.party.table), *([""] * (0 if self.labels is None else self.labels.shape[1]))]

    def called(self, place: int) -> str:
        return f"column {self.names[place]!r}" if place < self.features else "the label"

    # --- what the job adds ----------------------------------------------------------------------------------------

    def made(self, policy: Policy) -> Leverage:
        """The largest leverage with columns of the job, of a record that has less in what they are made of.

        Each of them with what it is made of, and all of them together, where records are enough to tell.
        """
        if not self._job or self.records < _FEWEST:
            return Leverage()
        place = {name: j for j, name in enumerate(self.names) if name}
        groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
            ((place[name],), tuple(place[each] for each in of if each in place))
            for name, of in self._job.items()
            if name in place
        ]
        if len(groups) > 1 and not few_records(self.records, self.made_columns, policy):
            every = tuple(j for made, _ in groups for j in made)
            groups.append((every, tuple(dict.fromkeys(j for _, of in groups for j in of if j not in every))))
        return max((self._added(made, of, policy) for made, of in groups), key=lambda each: each.value)

    @property
    def made_columns(self) -> int:
        """Columns that the job made, those they are made of, and the constant; none where it made none."""
        return len({*self._job, *(name for of in self._job.values() for name in of)}) + bool(self._job)

    def _added(self, made: tuple[int, ...], of: tuple[int, ...], policy: Policy) -> Leverage:
        columns = (*of, *made)
        found = leverages(lambda: self._panels(columns, self.weights), self.of_person)
        without = leverages(lambda: self._panels(of, self.weights), self.of_person).values
        # A record that stands out in the data itself is not the job's doing: its owner is asked about the data.
        limits = np.where(without > REFUSED, 1.0, np.where(without > policy.most_leverage, REFUSED, 0.0))
        values = np.where(found.values > limits, found.values, 0.0)
        if not values.any():
            return Leverage()
        heaviest = found.column - 1
        named = columns[heaviest] if heaviest >= len(of) else made[0]
        return Leverage(float(values.max()), self.called(named))

    def weighted(self) -> Leverage:
        """The largest share of the weights in a record: what they add to leverage in the constant's direction."""
        assert self.weights is not None
        total = float(self.weights.sum())
        if self.records < _FEWEST or not total > 0:
            return Leverage()
        return Leverage(self._most(self.weights) / total, "the weights")

    def _most(self, values: Float) -> float:
        """The largest of numbers of the rows, or of their sums over persons."""
        return float(np.max(values if self.of_person is None else np.bincount(self.of_person, weights=values)))

    # --- what the data is -----------------------------------------------------------------------------------------

    def judged(self, own: OwnRows, policy: Policy) -> OwnRows:
        """With leverages in single columns, in all codes together and in all columns together.

        A column of two values that few own records tell apart is left out where joint counts found enough of them
        elsewhere: then what counts is that no other column differs from it in few records.
        """
        if self.records < _FEWEST:
            return own
        halves = _Halves.of(lambda: self._with_weights(None), self._counted(policy))
        elsewhere = {j for j, rows in halves.counts().items() if rows < policy.least_count}
        alike = halves.nearly_equal(policy.least_count)
        if alike is not None:
            own = replace(own, alike=tuple(self.called(j) for j in alike))
        many = not few_records(self.records, own.columns, policy)
        alone, bound = in_each_column(lambda: self._with_weights(self.weights), many, self.of_person)
        data = np.array([name not in self._job and j not in elsewhere for j, name in enumerate(self.names)])
        if data.any():
            place = int(np.argmax(np.where(data, alone, -1.0)))
            own = replace(own, alone=Leverage(float(alone[place]), self.called(place)))
        if bound <= policy.most_leverage:
            return own  # of fewer columns it is less
        codes = self._codes(data)
        if len(codes) > 1 and not few_records(self.records, 1 + len(codes), policy):
            own = replace(own, codes=self._among(codes))
        if bound > REFUSED and many:
            every = tuple(j for j in range(len(self.names)) if j not in elsewhere)
            own = replace(own, design=self._among(every))
        return own

    def _counted(self, policy: Policy) -> tuple[int, ...]:
        """Features that the data brings and of which joint counts were taken as the data is now."""
        recipe = None if self.party.prepared is None else self.party.prepared.recipe
        # Rows of weight 0 are left out, at other parties too, and were counted. Columns are told apart by rows.
        apart = self.weights is not None or self.of_person is not None
        if recipe is None or recipe.rare is None or policy.least_count > CAPPED_AT or apart:
            return ()
        current, made = set(recipe.rare.current), columns_read(self.party.table, recipe.levels)
        names = enumerate(self.names[: self.features])
        return tuple(j for j, name in names if name not in self._job and current.issuperset(made.get(name, (name,))))

    def outcome(self, plan: SessionPlan) -> Leverage:
        """The largest leverage at the weights that a Poisson model comes to: near the counts themselves."""
        if plan.glm is None or not plan.glm.facts.weighs_by_outcome or self.party.labels is None:
            return Leverage()
        counts = self.party.labels[:, 0] + _LIKE_R
        weights = counts if self.weights is None else counts * self.weights
        if self.records < _FEWEST or not np.isfinite(weights).all() or not weights.min() >= 0.0:
            return Leverage()  # which the model itself refuses
        return Leverage(self._most(weights) / float(weights.sum()), "the outcome, near which the model weighs records")

    def _codes(self, data: NDArray[np.bool_]) -> tuple[int, ...]:
        """Columns of the data with few values."""
        few = dict.fromkeys(np.flatnonzero(data).tolist(), np.zeros(0))
        for cells, _ in self._with_weights(None):
            for j in list(few):
                few[j] = np.union1d(few[j], cells[:, j])
                if len(few[j]) > MOST_VALUES:
                    del few[j]
            if not few:
                break
        return tuple(few)

    def _among(self, columns: tuple[int, ...]) -> Leverage:
        found = leverages(lambda: self._panels(columns, self.weights), self.of_person)
        named = "the constant" if not found.column else self.called(columns[found.column - 1])
        return Leverage(found.largest, named)

    # --- passes ---------------------------------------------------------------------------------------------------

    def _panels(self, columns: Sequence[int], weights: Float | None) -> Iterator[Float]:
        """A constant and these columns, each row times the root of its weight."""
        wanted = np.array(columns, dtype=np.intp)
        for cells, w in self._with_weights(weights):
            yield np.hstack([np.ones((len(cells), 1)), cells[:, wanted]]) * np.sqrt(w)[:, None]

    def _with_weights(self, weights: Float | None) -> Iterator[tuple[Float, Float]]:
        start = 0
        for cells in self.party.table.panels(0, max(1, PANEL_CELLS // max(1, self.features))):
            rows = slice(start, start := start + len(cells))
            panel = cells if self.labels is None else np.hstack([cells, self.labels[rows]])
            yield panel, np.ones(len(cells)) if weights is None else weights[rows]


@dataclass(frozen=True, repr=False)
class _Halves:
    """The columns of two values among some: which rows have the rarer one, counted for each and for any two."""

    columns: tuple[int, ...]
    both: Float  # (columns, columns): rows that have the rarer value of both
    records: int

    @classmethod
    def of(cls, panels: Callable[[], Iterator[tuple[Float, Float]]], wanted: Sequence[int]) -> "_Halves":
        values = dict.fromkeys(wanted, np.zeros(0))
        for cells, _ in panels() if wanted else ():
            for j in list(values):
                values[j] = np.union1d(values[j], cells[:, j])
                if len(values[j]) > 2:
                    del values[j]
        two = tuple(j for j, each in values.items() if len(each) == 2)
        if not two:
            return cls((), np.zeros((0, 0)), 0)
        upper, G = np.array([values[j][1] for j in two]), np.zeros((1 + len(two), 1 + len(two)))
        for cells, _ in panels():
            flags = np.column_stack((np.ones(len(cells)), cells[:, two] == upper))
            G += flags.T @ flags
        # The rarer value is the upper one, or is 1 less that.
        turned = np.diag(G)[1:] * 2 > G[0, 0]
        T = np.vstack((turned, np.diag(np.where(turned, -1.0, 1.0))))
        return cls(two, T.T @ G @ T, int(G[0, 0]))

    def counts(self) -> dict[int, int]:
        """Rows that have the rarer value."""
        return dict(zip(self.columns, np.diag(self.both).astype(int).tolist(), strict=True))

    def nearly_equal(self, least: int) -> tuple[int, int] | None:
        """Two columns that few rows tell apart, and that have rows in common; None where there are none."""
        counts = np.diag(self.both)
        apart = counts[:, None] + counts - 2.0 * self.both
        few = ((apart > 0) & (apart < least)) | ((apart < self.records) & (apart > self.records - least))
        found = np.argwhere(np.triu(few & (self.both > 0), 1))
        return (self.columns[found[0, 0]], self.columns[found[0, 1]]) if len(found) else None


def _cells(party: PartyData, policy: Policy, plan: SessionPlan | None = None) -> Iterator[Cells]:
    """Sets of columns with combinations that few own records have, or none: persons, where these have several rows."""
    of_person = persons_of(party, plan)
    for each in combined(party.table, MOST_VALUES):
        counts = counted(each.rows, of_person)
        few = int(counts[counts < policy.least_count].sum())
        empty = empty_cells(party.table, each)
        if few or empty:
            yield Cells(", ".join(repr(name) for name in each.names), few, empty)


def _classes(plan: SessionPlan, party: PartyData) -> tuple[int, ...]:
    """Own records, or persons, of each class of the outcome, and with and without an event; none where it has no
    classes, or is a proportion."""
    if plan.glm is None or party.labels is None:
        return ()
    facts = plan.glm.facts
    if facts.outcome not in (Outcome.CLASSES, Outcome.TIMES):
        return ()
    y = party.labels[:, facts.counted_at]
    effect = plan.glm.effect_facts
    if effect is not None and effect.outcome in (Outcome.CLASSES, Outcome.TIMES):  # sums tell who of a group has one
        y = y + 2.0 * party.labels[:, plan.glm.column("event") or 0]
    if not np.isfinite(y).all() or (y != np.round(y)).any():
        return ()
    return tuple(counted(y.astype(np.intp), persons_of(party, plan)).tolist())


def _event(about: ModelPlan) -> int:
    """The label column whose rows are summed over events; 0 where there is none."""
    return (about.column("event") or 0) if (about.effect_facts or about.facts).few_events else 0


def _grids(plan: SessionPlan, party: PartyData, policy: Policy) -> tuple[Grid, ...]:
    """Time bins whose exact counts are opened: events and departures of each curve."""
    about = CurvesPlan.of(plan)
    if about.counts is not Counts.EXACT:
        return ()
    time, event, group = _of_curves(about, party)
    few = 0
    for code in range(about.curves):
        own = staircases(time[group == code], event[group == code], about.edges, about.kinds)
        steps = own[:-1].reshape(about.kinds + 1, -1)
        ended = steps[-1] - steps[:-1].sum(axis=0)  # departures less events: follow-up that ended
        few += few_cells(np.vstack((steps, ended)), policy.least_count)
        few += int(0 < own[-1] - steps[-1, -1] < policy.least_count)
    cells = about.curves * ((about.kinds + 2) * len(about.edges) + 1)
    return (Grid("time bins of events, departures and ends of follow-up", few, cells),)


def _compared(plan: SessionPlan, party: PartyData, of_person: NDArray[np.intp] | None) -> tuple[int, ...]:
    """Own records, or persons, with and without an event and of each group, where groups are compared."""
    about = CurvesPlan.of(plan)
    if not about.test_numbers:
        return ()
    _, event, group = _of_curves(about, party)
    found = (event == 1.0, event == 0.0, *(group == code for code in range(about.curves)))
    return tuple(how_many(some, of_person) for some in found)


def _of_curves(about: CurvesPlan, party: PartyData) -> tuple[Float, Float, Float]:
    rows = party.table.rows(0, party.table.shape[0])
    return rows[:, 0], rows[:, 1], rows[:, 2] if about.groups else np.zeros(len(rows))


def _largest_offset(plan: SessionPlan, party: PartyData) -> float:
    """The offset of a model whose link is not the identity, which stands next to the label; without its sign."""
    model = plan.glm
    if model is None or party.labels is None or not model.offset or model.link == "identity":
        return 0.0
    return float(np.max(np.abs(party.labels[:, model.offset_at]), initial=0.0))
