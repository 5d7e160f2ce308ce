"""A study next to what earlier ones opened of the same table: leverage among the columns of several, and their bits.

One study counts a ward, another one a ward that differs in one person: their difference is that person, though no
record stands out in either. So a party keeps which columns studies opened sums of (``policy/opened_columns.py``), and
measures rows among those and the new ones together: with each earlier study, since one of many columns would hide
another, and with all of them at once where records are enough for so many columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedsvd.linalg.pools import one_thread
from fedsvd.policy.bits_held import Earlier, judged_by_bits, takes_label
from fedsvd.policy.opened_columns import MOST_CELLS, NOWHERE, Opened, OpenedColumns, StudyColumns
from fedsvd.policy.own_rows import MOST_VALUES, REFUSED, Leverage, Together, few_records
from fedsvd.policy.rules import Policy
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.job_made import job_made
from fedsvd.protocol.directions import most_directions
from fedsvd.protocol.openings import judged_bits
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Scheme
from fedsvd.statistics.leverage import leverages
from fedsvd.statistics.patterns import NUMBER_BITS, column_bits, rank_share
from fedsvd.studies.counted_cells import grids_of
from fedsvd.studies.measured_rows import determines_gram, opens_model
from fedsvd.studies.opened_times import counted_times
from fedsvd.studies.own_bits import LABEL, WIDE, measured_bits
from fedsvd.studies.parties import PartyData
from fedsvd.studies.persons import persons_of
from fedsvd.types import Float

_FEWEST = 10  # records below which one of them stands out in any column
_BITS_ROWS, _RANK_ROWS = 1 << 14, 1 << 10


@dataclass(frozen=True, repr=False)
class Before:
    """What earlier studies opened of a party's table, next to the rows of the present one."""

    columns: OpenedColumns = field(default_factory=OpenedColumns)
    record: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))  # of every row of the study, or -1

    @property
    def nothing(self) -> bool:
        return not self.columns.studies


def study_columns(plan: SessionPlan, party: PartyData) -> StudyColumns | None:
    """What a study opens of a party's table, for later ones; None where single records are in none of its sums."""
    # A description is judged by its cells, counts over time by theirs, and what they open counts with later studies.
    times = counted_times(plan, party)
    if times is not None and not judged_by_bits(plan):
        rows, names = party.table.places(), names_of(party.table)[: times.rows.shape[1]]
        return StudyColumns(tuple(names), times.rows, rows, counted=len(names), grid=times.at)
    if not judged_by_bits(plan) and plan.table is None:
        return None
    bits = judged_bits(plan, takes_label(plan))
    directions = most_directions(plan) if plan.scheme is Scheme.STEPS else 0
    rows, (n, p) = party.table.places(), party.table.shape
    if n * p > MOST_CELLS:
        held = measured_bits(plan, party).record
        nothing, gram = np.empty((n, 0)), determines_gram(plan)
        return StudyColumns((), nothing, rows, gram=gram, bits=bits, held=held, directions=directions)
    names, values, labels, roots = names_of(party.table), party.table.rows(0, n), 0, None
    gram = determines_gram(plan)
    if gram and party.labels is not None:
        beside = _labels(plan, party.labels)
        labels, values = beside.shape[1], np.hstack((values, beside))
        weights = party.labels[:, -1] if plan.glm is not None and plan.glm.weighted else party.row_weights
        roots = None if weights is None else np.sqrt(weights)
    made, few = job_made(party.table), tuple(j for j in range(values.shape[1]) if _few(values[:, j]))
    counted = 0 if times is None else times.rows.shape[1]
    return StudyColumns(
        (*names, *[LABEL] * labels, *[LABEL] * counted),
        values if times is None else np.hstack((values, times.rows)),
        rows,
        labels,
        tuple(j for j, name in enumerate(names) if name in made),
        few,
        roots,
        gram,
        bits,
        directions=directions,
        described=plan.table is not None,
        by=NOWHERE if plan.table is None else plan.table.place,
        counted=counted,
        grid=None if times is None else times.at,
        grids=() if plan.table is None else grids_of(plan.table),
    )


def _few(column: Float) -> bool:
    """Whether it has few values; a column of many is seen from its first ones."""
    return all(len(np.unique(part)) <= MOST_VALUES for part in (column[:1000], column))


def _labels(plan: SessionPlan, labels: Float) -> Float:
    """Columns that sums of products with the features are opened of: the outcome, each of its classes, the offset."""
    model = plan.glm
    if model is None:
        return labels
    at = model.facts.counted_at
    y = labels[:, at : at + 1]  # of times, rows are summed over events
    offset = labels[:, model.offset_at : model.offset_at + int(model.offset)]
    if model.facts.class_counts:
        y = (y == np.unique(y)[1:]).astype(np.float64)
    return np.hstack((y, offset))


# --- leverage ---------------------------------------------------------------------------------------------------------


def together(plan: SessionPlan, party: PartyData, before: Before, policy: Policy) -> Together:
    """What stands out in this study and earlier ones together, and in none of them alone."""
    if plan.table is not None:  # whose cells are judged by themselves (``table_cells.py``)
        return Together()
    now = None if before.nothing else study_columns(plan, party)
    if now is None or len(now.names) == now.counted or len(now.values) < _FEWEST:
        return Together()
    of = job_made(party.table)
    made = {j for name, of_it in of.items() for j, each in enumerate(now.names) if each in (name, *of_it)}
    rows = _Rows(now, before, opens_model(plan), tuple(sorted(made)), persons_of(party, plan))
    guessed = rows.largest(True, policy.most_leverage, policy)
    every = rows.largest(False, REFUSED, policy) if opens_model(plan) else Leverage()
    return Together(guessed, bool(now.made), every)


class _Rows:
    """Rows of this study and of all records that are remembered, as several studies sum them."""

    def __init__(
        self,
        now: StudyColumns,
        before: Before,
        model: bool,
        made: tuple[int, ...],
        of_person: NDArray[np.intp] | None = None,
    ) -> None:
        self._now, self._stored, self._model, self._made = now, before.columns, model, made
        self._columns_now = len(now.names) - now.counted  # times are in no sum of products
        known = before.record[before.record >= 0]
        rest = np.setdiff1d(np.arange(len(self._stored.values)), known)
        self._record = np.concatenate((before.record, rest))
        # Records that this study does not take are looked at one by one.
        others = np.arange(len(rest)) + (0 if of_person is None else 1 + of_person.max(initial=-1))
        self._of_person = None if of_person is None else np.concatenate((of_person, others))
        self._again = set(self._stored.places(now.values[:, : self._columns_now], before.record).tolist())
        roots = np.empty((len(now.values), 0)) if now.roots is None else now.roots[:, None]
        self._roots = int(np.max(self._stored.places(roots, before.record), initial=NOWHERE))
        self._weighted_anew = now.roots is not None and self._roots == NOWHERE

    def largest(self, guessed: bool, limit: float, policy: Policy) -> Leverage:
        """The largest leverage above ``limit`` with any earlier study, or all of them."""
        found = (self._among(studies, guessed, limit) for studies in self._unions(guessed, policy))
        return max(found, key=lambda each: each.value, default=Leverage())

    def _unions(self, guessed: bool, policy: Policy) -> Iterator[tuple[Opened, ...]]:
        """Earlier studies that have columns or weights this one has not: each, and all of them."""
        found = {(self._columns(each, guessed), each.roots): each for each in self._stored.studies.values()}
        other = {key for key in found if self._weighted_anew or key[1] != self._roots}
        new = [each for key, each in found.items() if key[0] and (key in other or set(key[0]) - self._again)]
        yield from ((each,) for each in new)
        columns = {j for each in new for j in self._columns(each, guessed)}
        together = 1 + len(columns) + len(self._chosen(guessed))
        if len(new) > 1 and not few_records(len(self._record), together, policy):
            yield tuple(new)

    def _columns(self, study: Opened, guessed: bool) -> tuple[int, ...]:
        """Of an earlier study those that are judged: all where users hold its Gram matrix, else what the job made."""
        every = (*study.features, *study.labels)
        stored = self._stored
        if not study.gram:
            return tuple(j for j in every if j in stored.made)
        return tuple(j for j in every if j in stored.made or j in stored.few) if guessed else every

    def _among(self, studies: Sequence[Opened], guessed: bool, limit: float) -> Leverage:
        """The largest leverage above ``limit``, of a record that has less in this study and in the earlier ones."""
        chosen = self._chosen(guessed)
        ours, theirs = self._ours(chosen), [self._theirs(each, self._columns(each, guessed)) for each in studies]
        if ours.shape[1] < 2 or all(each.shape[1] < 2 for each in theirs):
            return Leverage()
        joined = np.hstack((ours, *theirs))
        both = leverages(partial(_whole, joined), self._of_person)
        high = both.values > limit
        for part in (ours, *theirs):
            if high.any():
                high &= leverages(partial(_whole, part), self._of_person).values <= limit
        if not high.any():
            return Leverage()
        row = int(np.argmax(np.where(high, both.values, 0.0)))
        falls = both.falls(joined[row])[1 : ours.shape[1]]
        named = self._now.names[chosen[int(np.argmax(falls))]]
        return Leverage(float(both.values[row]), named if named == LABEL else f"column {named!r}")

    def _chosen(self, guessed: bool) -> tuple[int, ...]:
        now = self._now
        if not self._model:
            return self._made
        return tuple(sorted({*now.few, *self._made})) if guessed else tuple(range(self._columns_now))

    def _ours(self, chosen: Sequence[int]) -> Float:
        """A constant and these columns of this study; zero in records that it does not take."""
        now = self._now
        cells = np.column_stack((np.ones(len(now.values)), now.values[:, chosen]))
        cells *= 1.0 if now.roots is None else now.roots[:, None]
        return np.vstack((cells, np.zeros((len(self._record) - len(cells), cells.shape[1]))))

    def _theirs(self, study: Opened, columns: Sequence[int]) -> Float:
        """The same of an earlier one."""
        known = self._record >= 0
        cells = np.full((len(self._record), 1 + len(columns)), np.nan)
        cells[known, 1:] = self._stored.values[np.ix_(self._record[known], np.array(columns, np.intp))]
        cells[:, 0] = np.where(np.isnan(cells[:, 1:]).all(axis=1), np.nan, 1.0)
        if study.roots != NOWHERE:
            cells[known] *= self._stored.values[self._record[known], study.roots][:, None]
        return np.where(np.isnan(cells), 0.0, cells)


def _whole(rows: Float) -> list[Float]:
    return [rows]


# --- bits -------------------------------------------------------------------------------------------------------------


def earlier_bits(plan: SessionPlan, party: PartyData, before: Before) -> tuple[Earlier, ...]:
    """What earlier studies opened, with the bits of those of their columns that this one has not.

    Columns are the same by what they hold, as within one study: a renamed one, or its logarithm, is no new one.
    """
    studies = before.columns.studies
    if not studies or not judged_by_bits(plan):
        return ()
    new = _new_bits(party, before)
    return tuple(
        Earlier(
            each.bits,
            dict(new[j] for j in each.features if j in new) if each.features else {run: each.held},
            each.directions,
        )
        for run, each in studies.items()
    )


def _new_bits(party: PartyData, before: Before) -> dict[int, tuple[str, float]]:
    """The stored columns that this study has not, each with a name and the bits of one record."""
    stored, (n, p) = before.columns, party.table.shape
    used = sorted({j for each in stored.studies.values() for j in each.features})
    if n * p > MOST_CELLS or not used:
        return {j: (f"column {j}", NUMBER_BITS) for j in used}
    values, names = party.table.rows(0, n), [*names_of(party.table)]
    used = sorted(set(used) - set(stored.places(values, before.record).tolist()))
    rows = np.flatnonzero(before.record >= 0)
    rows = rows[~stored.corrected[before.record[rows]]]
    earlier = stored.values[np.ix_(before.record[rows], np.array(used, np.intp))]
    whole = ~np.isnan(earlier).any(axis=1)
    if 2 * whole.sum() > n:
        rows, earlier = rows[whole], earlier[whole]
    cells = np.hstack((values[rows], np.nan_to_num(earlier, nan=0.0)))[:: -(-max(1, len(rows)) // _BITS_ROWS)]
    called = {j: stored.names[j] if stored.names[j] not in names else f"{stored.names[j]} ({j})" for j in used}
    found = column_bits(cells, [*names, *called.values()])
    share = 1.0
    if cells.shape[1] > WIDE and len(cells):
        with one_thread():
            share = rank_share(cells[:: -(-len(cells) // _RANK_ROWS)])
    return {j: (name, share * found[name]) for j, name in called.items() if name in found}
