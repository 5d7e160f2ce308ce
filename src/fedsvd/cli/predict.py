"""``fedsvd predict``: what a result says of new data.

Scores of a PCA, coordinates of an SVD or LSA and predictions of a regression on split rows need no other party: they
are computed here, table by table. A regression on split columns is predicted by all parties together, for the label
holder. With split columns, an SVD or LSA folds new columns in: their places among the columns it was made from.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsvd.cli.option_table import asked
from fedsvd.cli.options import FormatOption, Overwrite, Parties, Quiet, Scratch
from fedsvd.cli.output import Format, Output, number, top_of
from fedsvd.cli.tasks import has_name, named_parties, pair
from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.prepare.mapped import open_mapped
from fedsvd.prepare.table_map import NOTHING, TableMap, map_of, read_map
from fedsvd.protocol.outputs import TARGET
from fedsvd.protocol.tasks import Ids, Own, Split
from fedsvd.results.folder import expect_free
from fedsvd.results.outputs import Values, written
from fedsvd.results.result import PartyResult
from fedsvd.results.write import party_folders, read_result, write_predictions
from fedsvd.studies.predict import in_the_order_of, new_data, of_new_rows, predict_together, predicted, with_recipe
from fedsvd.studies.problems import party_named
from fedsvd.studies.table_columns import labels_in

_ROWS_SHOWN = 5


def predict(
    results: Annotated[Path, typer.Argument(help="A results folder: of a party, or of a job.")],
    party: Parties,
    ids: Annotated[Ids, asked("job", "ids")] = Ids.COMPARE,
    linkage: Annotated[list[str] | None, asked("party", "link")] = None,
    mapped_by: Annotated[list[str] | None, asked("party", "map")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for what is predicted.")] = None,
    overwrite: Overwrite = False,
    scratch: Scratch = None,
    quiet: Quiet = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Apply a result to new tables: predictions, scores, coordinates."""
    output, model = Output(format, quiet), read_result(results)
    if out is not None:
        expect_free(out, overwrite)
    mapping = {
        name: read_map(Path(file)) for name, file in (pair("--map", "NAME=FILE", words) for words in mapped_by or ())
    }
    known = _maps(results, model)
    named = {}
    for each in named_parties(party):
        words = mapping.get(each["name"], known.get(each["name"], known.get("", NOTHING)))
        named[each["name"]] = open_mapped(each["data"], words, scratch)
    maps = dict(pair("--linkage", "NAME=FILE", words) for words in linkage or ())
    links = {name: open_source(file, scratch=scratch) for name, file in maps.items()}
    if model.plan.own is Own.VARIATES:
        fix = "fedsvd.load(FOLDER).variates(rows, party) applies a party's own weights"
        raise ConfigError("canonical correlations are not applied to new tables by this command", fix)
    if model.plan.stacks_labels:
        found = _together(output, results, model, named, any(map(has_name, party)), ids, links)
    else:
        if links:
            raise ConfigError(
                "a linkage map, and these rows are not matched with other parties'", "leave --linkage out"
            )
        found = _alone(results, model, named)
    if out is not None:
        write_predictions(out, model, found, overwrite)
    output.answer(_record(model, found, out), lambda console: _show(console, found, out))


def _maps(results: Path, model: PartyResult) -> dict[str, TableMap]:
    """How the parties' tables were mapped in the study, by name; of all new tables where the folder is one party's."""
    folders = [model] if model.party else [read_result(path) for path in party_folders(results)]
    found = {each.party or "": each.facts["table"] for each in folders if "table" in each.facts}
    named = {name: map_of(record, "the result") for name, record in found.items()}
    return {"": named[model.party]} if model.party and named else named


def _together(
    output: Output,
    results: Path,
    model: PartyResult,
    named: dict[str, MatrixSource],
    explicit: bool,
    ids: Ids,
    links: dict[str, MatrixSource],
) -> dict[str, PartyResult]:
    """Predictions for the label holder, by all parties of a regression on split columns."""
    parts = [read_result(path) for path in party_folders(results)]
    if len(parts) < model.plan.k:
        fix = "name the folder of the job with all parties; between institutions every party runs its own part"
        raise ConfigError("a prediction on split columns needs the results of all parties", fix)
    names = tuple(part.party or "" for part in parts)
    if len(named) != len(parts):
        fix = f"one --party NAME=FILE for each of {', '.join(names)}"
        raise ConfigError(f"{len(named)} tables for {len(parts)} parties", fix)
    by_name = set(named) == set(names)
    if not by_name and explicit:
        strangers = ", ".join(sorted(set(named) - set(names)))
        raise ConfigError(f"this job has no party {strangers}", f"the parties are {', '.join(names)}")
    # Files that are not named after the parties are taken in the parties' order.
    tables = [named[name] for name in names] if by_name else list(named.values())
    with output.notices_of_warnings(names), output.progress(names) as progress:
        return predict_together(parts, tables, progress, ids, links)


def _alone(results: Path, model: PartyResult, named: dict[str, MatrixSource]) -> dict[str, PartyResult]:
    """What this folder's result says of every table by itself."""
    from fedsvd.estimators.load import load  # brings scikit-learn along, which no other command waits for

    folded = model.split is Split.VERTICAL
    estimator: Any = None if folded else load(results)
    if estimator is not None:
        estimator.preparation_ = None  # prepared here, where labels and ids are read too, and not once more
        model = with_recipe(model, [] if model.party else [read_result(path) for path in party_folders(results)])
    found = {}
    for name, table in named.items():
        with party_named(name):
            found[name] = _folded_in(model, table) if folded else _applied(estimator, model, table)
    return found


def _applied(estimator: Any, model: PartyResult, table: MatrixSource) -> PartyResult:
    if model.plan.glm is not None:
        return _modelled(estimator, model, table)
    data = new_data(model, table)
    if model.plan.adds_labels:
        predictions = estimator.predict(data.table).reshape(data.table.shape[0], -1)
        return predicted(model, predictions, data)
    return written(of_new_rows(model), Values({"scores": estimator.transform(data.table)}), data.ids)


def _modelled(estimator: Any, model: PartyResult, table: MatrixSource) -> PartyResult:
    """The expected target of new rows, or the probability of each class; quality where the labels are there too."""
    from fedsvd.results.model_table import models_of, own_rows, predicted_columns

    data, columns = new_data(model, table), model.facts.get("columns") or {}
    known, offset = table.names or (), columns.get("offset")
    if offset is not None and offset not in known:
        raise ConfigError(f"the table has no column {offset!r}, the offset of this model", "add the column")
    eta = estimator._linear(data.table, None if offset is None else table.column(offset).astype(float))
    labels = None
    if model.targets[0] in known and columns.get("weights") is None:
        names = (*model.targets, *(() if offset is None else (offset,)))
        labels = labels_in(table, names, model.facts.get("classes") or ())
    fitted, _, said = own_rows(model, models_of(model), eta, labels)
    facts = {"own_rows": said} if said else {}
    found = Values({"predictions": fitted}, facts, labels={TARGET: predicted_columns(model, fitted)})
    return written(of_new_rows(model), found, data.ids)


def _folded_in(model: PartyResult, table: MatrixSource) -> PartyResult:
    from fedsvd.estimators.base import projected

    columns = in_the_order_of(model, table)
    coordinates = projected(columns.T, model.arrays["left_vectors"])
    named = replace(of_new_rows(model), features=None if columns.names is None else tuple(columns.names))
    return written(named, Values({"coordinates": coordinates}))


def _record(model: PartyResult, found: dict[str, PartyResult], out: Path | None) -> dict[str, Any]:
    return {
        "job": model.job,
        "task": model.task,
        "split": model.split,
        "out": None if out is None else str(out),
        "parties": {name: _values(result, out is None) for name, result in found.items()},
    }


def _values(result: PartyResult, all_of_them: bool) -> dict[str, Any]:
    (table,) = result.tables
    shape = [len(next(iter(table.columns.values()))), len(table.columns) - 1]
    columns = {name: list(map(_plain, column)) for name, column in table.columns.items()} if all_of_them else None
    return {"what": table.name, "shape": shape, "values": columns, **result.facts}


def _plain(cell: Any) -> Any:
    return cell.item() if hasattr(cell, "item") else cell


def _show(console: Console, found: dict[str, PartyResult], out: Path | None) -> None:
    for name, result in found.items():
        (table,) = result.tables
        length = len(next(iter(table.columns.values())))
        console.print(f"{name}: {table.name}, {length} rows")
        console.print(top_of(table, _ROWS_SHOWN))
        for target, quality in result.facts.get("score", {}).items():
            console.print(f"{target}: mean squared error {number(quality['mse'])}, R^2 {number(quality['r2'])}")
        for what, quality in result.facts.get("own_rows", {}).items():
            listed = quality if isinstance(quality, list) else [quality]
            console.print(f"{what}: {', '.join(str(number(each)) for each in listed)}")
    if out is not None:
        console.print(f"written to {out}")
