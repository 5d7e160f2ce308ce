"""Predictions of a regression on split columns, from the parties' results folders and new tables.

Each party applies its own coefficients to its own new columns; the partial scores are added up for the label holder,
through the protocol, and no other party learns them. New tables may hold more columns than the model: those it was made
from are picked by name. Where the study matched records, those of new tables are matched by the same rule first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.suspects import shared_id
from fedsvd.errors import ConfigError, RowsDiffer
from fedsvd.prepare.at_home import renamed
from fedsvd.prepare.described import described
from fedsvd.prepare.dictionary import dictionary_of
from fedsvd.prepare.identifiers import BETWEEN, RecordIds, identified, of_text, read_link
from fedsvd.prepare.recipe import of_record
from fedsvd.prepare.site_term import with_site
from fedsvd.prepare.sites import Over
from fedsvd.protocol.tasks import Ids, Split, Task
from fedsvd.results.outputs import Values, written
from fedsvd.results.result import PartyResult
from fedsvd.results.tables import score
from fedsvd.studies.doubts import doubts, warn_of
from fedsvd.studies.matching import AS_WRITTEN, run_stages
from fedsvd.studies.parties import PartyData
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.problems import parties_named, party_named
from fedsvd.studies.run import Progress
from fedsvd.studies.stages import new_rows
from fedsvd.studies.study import Study
from fedsvd.studies.table_columns import labels_in, row_ids, with_features
from fedsvd.tasks.declared import outputs_of
from fedsvd.tasks.predict import NEW_ROWS
from fedsvd.types import Float

_OF_A_SITE = "prepared by site"  # a fact of what several results share, and that no folder holds


def predict_together(
    parts: Sequence[PartyResult],
    tables: Sequence[MatrixSource],
    progress: Progress | None = None,
    ids: Ids = Ids.COMPARE,
    links: Mapping[str, MatrixSource] | None = None,
) -> dict[str, PartyResult]:
    """What the label holder gets to read: predictions, and how far off they are where its new table has labels.

    Rows are compared by ids: those of the result's id column, or of a column that is plainly one in all tables. Where
    the study matched records, ``links`` are linkage maps for the new tables, by the names of their parties.
    """
    first = parts[0]
    names = tuple(part.party or "" for part in parts)
    if first.id is None and ids is Ids.COMPARE:
        # Columns that the model does not know are left out in any case, so ids among them need no name.
        found = shared_id(tables)
        known = {name for part in parts for name in part.features or ()}
        parts = [part if found in known else replace(part, id=found) for part in parts]
    links = links or {}
    _expect_linked(first, names, links)
    found_links = (links.get(name) for name in names)
    parties = [_with_weights(*each) for each in zip(parts, tables, found_links, strict=True)]
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
        align=first.plan.align,
        id_rule=first.plan.id_rule,
        least_overlap=first.plan.least_overlap,
    )
    warn_of(doubts(study, parties))
    with parties_named(names):
        outcome = run_stages(study, parties, progress=progress)
    place = first.plan.label_user - 1
    predictions: Float = outcome.parties[place].predictions
    party = parties[place] if outcome.matched is None else outcome.matched.parties[place]
    values = _predicted(parts[place], predictions, party)
    if party.matched is not None:
        values |= Values(facts={"matching": party.matched.record()})
    about = replace(parts[place].emptied(), outputs=outputs_of(Task.PREDICT))
    return {names[place]: written(about, values, party.ids)}


def predicted(model: PartyResult, predictions: Float, party: PartyData) -> PartyResult:
    """Predictions under the names of their targets, and their errors where the labels are there too."""
    return written(of_new_rows(model), _predicted(model, predictions, party), party.ids)


def of_new_rows(model: PartyResult) -> PartyResult:
    """The study of a result, for what it says of new rows to the caller who has them."""
    return replace(model.emptied(), outputs=NEW_ROWS)


def _predicted(model: PartyResult, predictions: Float, party: PartyData) -> Values:
    facts = {} if party.labels is None else {"score": score(model.targets, party.labels, predictions)}
    return Values({"predictions": predictions}, facts)


def _expect_linked(model: PartyResult, names: Sequence[str], links: Mapping[str, MatrixSource]) -> None:
    """Refuse linkage maps that nothing reads."""
    strangers = sorted(set(links) - set(names))
    if strangers:
        raise ConfigError(f"this job has no party {strangers[0]}", f"the parties are {', '.join(names)}")
    if links and model.plan.align is None:
        raise ConfigError("a linkage map, and the study matched no records", "leave the map out")


def new_data(model: PartyResult, table: MatrixSource, link: MatrixSource | None = None) -> PartyData:
    """New data as the result knows it: its features by name, and labels and ids where the table has them."""
    says = model.file.get("dictionary", {}).get("says")
    table = table if says is None else described(table, dictionary_of(says, "the result"))
    words, recipe = model.facts.get("preparation", {}).get("words"), model.facts.get("recipe")
    section = None if words is None or model.features is None else PrepareSection.model_validate(words)
    if section is not None and model.party is not None:
        table = with_site(table, section.joint, model.party)
    table = table if section is None else renamed(table, section.rename)
    table, ids, without_link = _identified(model, table, link)
    features = table
    if section is not None and model.features is not None:
        if _OF_A_SITE in model.facts:
            fault = "this study has effects of each site, and new rows belong to one of them"
            raise ConfigError(fault, "name that party's own folder: results/JOB/parties/NAME")
        if section.joint is not None and recipe is None:
            fault = "this folder does not hold the numbers that the tables of the study were prepared with"
            raise ConfigError(fault, "name the folder of a party, or of the job with its parties' inside")
        made = None if recipe is None else of_record(recipe)
        features = new_rows(section, table, model.id, made, model.features)
    known = table.names or ()
    present = bool(model.targets) and set(model.targets) <= set(known) and model.plan.glm is None
    labels = labels_in(table, model.targets) if present else None
    features = features if model.features is None else with_features(features, model.features)
    return PartyData(features, labels, ids, without_link=without_link)


def with_recipe(model: PartyResult, parts: Sequence[PartyResult]) -> PartyResult:
    """What all share of a study on split rows, with the joint numbers of its preparation from the parties' results.

    Effects of a site are its own: where a study removed them, new rows belong to a site, and to that party's result.
    """
    words = model.facts.get("preparation", {}).get("words")
    held = [part.facts["recipe"] for part in parts if "recipe" in part.facts]
    if words is None or "recipe" in model.facts or model.split is Split.VERTICAL or not held:
        return model
    section = PrepareSection.model_validate(words)
    by_site = section.joint is not None and section.joint.by_site
    if by_site or section.combat or Over.SITE in (section.centre, section.scale):
        return model.adding(facts={_OF_A_SITE: True})
    return model.adding(facts={"recipe": held[0]})


def _identified(
    model: PartyResult, table: MatrixSource, link: MatrixSource | None = None
) -> tuple[MatrixSource, NDArray[Any] | None, int]:
    """A table, the ids of its rows as the result's study made them, and how many records a linkage map does not know.

    Ids are None where the table has no such column.
    """
    rule, known = None, table.names or ()
    if model.plan.align is not None:
        rule = of_text(model.plan.id_rule)
    elif model.id is not None and model.id not in known and set(model.id.split(BETWEEN)) <= set(known):
        rule = RecordIds(tuple(model.id.split(BETWEEN)), AS_WRITTEN)
    if rule is None:
        return table, row_ids(table, model.id) if model.id is not None and model.id in known else None, 0
    found = identified(table, rule, None if link is None else read_link(link, rule.rule))
    return found.table, found.table.column(rule.name), found.without_link


def _with_weights(part: PartyResult, table: MatrixSource, link: MatrixSource | None) -> PartyData:
    with party_named(part.party or ""):
        data = new_data(part, table, link)
        labels = data.labels if part.index == part.plan.label_user else None
        weights = part.arrays["coefficients"].T, part.arrays["intercept"]
        return PartyData(data.table, labels, data.ids, weights, without_link=data.without_link)


def in_the_order_of(model: PartyResult, table: MatrixSource) -> MatrixSource:
    """The rows of a table as the result has them: by their ids where both have ids, else by position."""
    rows, ours = model.plan.m, model.arrays.get("row_ids")
    table, ids, _ = _identified(model, table)
    if ids is not None and ours is not None:
        place = {row: i for i, row in enumerate(ids.tolist())}
        missing = sum(row not in place for row in ours.tolist())
        if missing:
            raise RowsDiffer(f"{missing} of {rows} row ids of the result are not in the table", "give the same rows")
        table = table.reordered([place[row] for row in ours.tolist()])
    if table.shape[0] != rows:
        raise RowsDiffer(f"the table has {table.shape[0]} rows, the result has {rows}", "give the same rows")
    return table.without([name for name in (model.id,) if name is not None and name in (table.names or ())])
