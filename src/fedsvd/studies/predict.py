"""Predictions of a regression on split columns, from the parties' results folders and new tables.

Each party applies its own coefficients to its own new columns; the partial scores are added up for the label holder,
through the protocol, and no other party learns them. New tables may hold more columns than the model: those it was made
from are picked by name.
"""

from collections.abc import Sequence
from dataclasses import replace

from fedsvd.data.source import MatrixSource
from fedsvd.data.suspects import shared_id
from fedsvd.errors import ConfigError, RowsDiffer
from fedsvd.protocol.tasks import Ids, Split, Task
from fedsvd.results.result import PartyResult
from fedsvd.results.tables import by_sample, score
from fedsvd.studies.doubts import doubts, warn_of
from fedsvd.studies.job_data import labels_in, party_named, row_ids, with_features
from fedsvd.studies.jobs import parties_named
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import Progress, run_study
from fedsvd.studies.study import Study
from fedsvd.types import Float


def predict_together(
    parts: Sequence[PartyResult],
    tables: Sequence[MatrixSource],
    progress: Progress | None = None,
    ids: Ids = Ids.COMPARE,
) -> dict[str, PartyResult]:
    """What the label holder gets to read: predictions, and how far off they are where its new table has labels.

    Rows are compared by ids: those of the result's id column, or of a column that is plainly one in all tables.
    """
    first = parts[0]
    names = tuple(part.party or "" for part in parts)
    if first.id is None and ids is Ids.COMPARE:
        # Columns that the model does not know are left out in any case, so ids among them need no name.
        found = shared_id(tables)
        known = {name for part in parts for name in part.features or ()}
        parts = [part if found in known else replace(part, id=found) for part in parts]
    parties = [_with_weights(part, table) for part, table in zip(parts, tables, strict=True)]
    with_ids = [party.ids is not None for party in parties]
    if any(with_ids) and not all(with_ids):
        lacking = ", ".join(name for name, has in zip(names, with_ids, strict=True) if not has)
        raise ConfigError(f"the tables of {lacking} have no column {first.id!r}", "give row ids everywhere or nowhere")
    study = Study(
        Task.PREDICT,
        Split.VERTICAL,
        trust=first.plan.trust,
        targets=first.plan.targets,
        label_user=first.plan.label_user,
        memory=first.plan.memory,
        check_ids=all(with_ids) and ids is Ids.COMPARE,
        trust_rows=ids is Ids.TRUST or first.plan.trust_rows,
    )
    warn_of(doubts(study, parties))
    with parties_named(names):
        outcome = run_study(study, parties, progress=progress)
    place = first.plan.label_user - 1
    predictions: Float = outcome.parties[place].predictions
    return {names[place]: predicted(parts[place], predictions, parties[place])}


def predicted(model: PartyResult, predictions: Float, party: PartyData) -> PartyResult:
    """Predictions under the names of their targets, and their errors where the labels are there too."""
    found = by_sample(model.emptied(), "predictions", predictions, party.ids, model.targets)
    if party.labels is None:
        return found
    return found.adding(facts={"score": score(model.targets, party.labels, predictions)})


def new_data(model: PartyResult, table: MatrixSource) -> PartyData:
    """New data as the result knows it: its features by name, and labels and ids where the table has them."""
    known = table.names or ()
    ids = row_ids(table, model.id) if model.id in known else None
    present = bool(model.targets) and set(model.targets) <= set(known) and model.task is not Task.GLM
    labels = labels_in(table, model.targets) if present else None
    features = table if model.features is None else with_features(table, model.features)
    return PartyData(features, labels, ids)


def _with_weights(part: PartyResult, table: MatrixSource) -> PartyData:
    with party_named(part.party or ""):
        data = new_data(part, table)
        labels = data.labels if part.index == part.plan.label_user else None
        weights = part.arrays["coefficients"].T, part.arrays["intercept"]
        return PartyData(data.table, labels, data.ids, weights)


def in_the_order_of(model: PartyResult, table: MatrixSource) -> MatrixSource:
    """The rows of a table as the result has them: by their ids where both have ids, else by position."""
    rows, ours = model.plan.m, model.arrays.get("row_ids")
    id = model.id if model.id is not None and model.id in (table.names or ()) else None
    if id is not None and ours is not None:
        place = {row: i for i, row in enumerate(row_ids(table, id).tolist())}
        missing = sum(row not in place for row in ours.tolist())
        if missing:
            raise RowsDiffer(f"{missing} of {rows} row ids of the result are not in the table", "give the same rows")
        table = table.reordered([place[row] for row in ours.tolist()])
    if table.shape[0] != rows:
        raise RowsDiffer(f"the table has {table.shape[0]} rows, the result has {rows}", "give the same rows")
    return table if id is None else table.without([id])
