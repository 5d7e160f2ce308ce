"""Tables prepared as ``[prepare]`` of a job file prepares them, for the estimators: the same words in Python."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError, DataWarning, warn_caller
from fedsvd.estimators.tables import are_parties
from fedsvd.policy.rules import Policy
from fedsvd.prepare.at_home import renamed
from fedsvd.prepare.categories import MOST_LEVELS
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.described import described
from fedsvd.prepare.dictionary import dictionary_of, read_dictionary
from fedsvd.prepare.mapped import not_there, open_mapped
from fedsvd.prepare.propose import knots_of
from fedsvd.prepare.recipe import Recipe
from fedsvd.prepare.rule import LowRank
from fedsvd.prepare.site_term import with_site
from fedsvd.prepare.table_map import given_map
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.doubts import repeated_ids
from fedsvd.studies.job_data import in_order
from fedsvd.studies.job_dictionary import by_dictionary
from fedsvd.studies.match_section import MatchSection
from fedsvd.studies.parties import Extent, PartyData, misfits, one_order
from fedsvd.studies.prepare_section import LEAST_COUNT, PrepareSection
from fedsvd.studies.problems import Problems
from fedsvd.studies.stages import agree, home_table, preparation_study, prepared_for, recipes_of, with_counts
from fedsvd.studies.study_section import StudySection
from fedsvd.studies.table_columns import feature_names
from fedsvd.tasks.surface import Surface, in_words_of, spelt
from fedsvd.types import as_fix, near


@in_words_of(Surface.KEYWORDS)
def prepared(
    data: object,
    *,
    map: Any = None,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    missing: str = "error",
    constant: float = 0.0,
    penalty: float = LowRank().penalty,
    rounds: int = LowRank().rounds,
    rank: int | None = None,
    indicators: bool | Sequence[str] = False,
    ordinal: Mapping[str, Sequence[str]] | None = None,
    categories: str | Sequence[str] | Mapping[str, Mapping[str, Any]] = (),
    formula: str = "",
    combat: bool = False,
    preserve: Sequence[str] = (),
    covariates: Sequence[str] = (),
    centre: str = "none",
    scale: str = "none",
    minimum: int = LEAST_COUNT,
    most_levels: int = MOST_LEVELS,
    dictionary: str | Path | None = None,
    view: str | None = None,
    label: str | Sequence[str] = (),
    id: str | None = None,
    split: str = "horizontal",
    policy: Policy | None = None,
    scratch: str | Path | None = None,
) -> Any:
    """Tables as a study wants them; the words are those of a job file's ``[prepare]``.

    One table is prepared at home. Of a list, one table for each party, all are prepared together: what takes numbers of
    all parties is found in a session among them, in which each learns the joint numbers and no other party's own.

    Parameters
    ----------
    data : path, array, data frame or anything else that ``open_source`` takes, or a list with one for each party
    map : path, mapping, or a list with one for each table, optional
        How tables become what the study wants, before anything else: the keys of ``[table]`` of a ``site.toml``, or
        columns alone: ``{"sex": {"levels": {"1": "female", "2": "male"}}, "bili": {"factor": 17.1, "missing": [-9]}}``.
    columns : sequence of str
        The features, in this order; all columns where left out.
    drop : sequence of str
        Columns to leave out.
    rename : mapping, optional
        New names by old ones; comes first. Old names that the table does not have are skipped.
    missing : {"error", "drop", "constant", "mean", "low-rank"}
        What becomes of missing entries: refused, with their counts; their rows left out; ``constant`` in their place;
        the joint mean of their column in their place; completed by low-rank imputation (soft-impute) of all columns of
        numbers, which shows all parties their joint Gram matrix (with ``rank``, in ``rank`` + 8 directions a round) and
        takes ``Policy(consent_to_gram=True)``.
    constant : float
        What is filled in.
    penalty, rounds : float, int
        With ``missing="low-rank"``: by how much singular values are lowered, as a share of the largest, and how many
        sums it takes; an imputation that still moves then is refused.
    rank : int, optional
        With ``missing="low-rank"`` of many columns: how many singular values are above the penalty, at most. Rounds
        open products with ``rank + 8`` directions instead of the Gram matrix; more singular values are refused.
    indicators : bool or sequence of str
        With ``missing="constant"``: a column ``NAME_missing`` for every feature, or for these. With ``"mean"``: for
        every feature of which some party misses an entry, or for these.
    ordinal : mapping, optional
        The levels of a text column in order, which become 0, 1, 2, ...
    categories : str, sequence of str or mapping
        Text columns that become indicators of their joint levels; of a mapping, the values may have ``drop_first``,
        ``reference``, ``missing`` (the level that a missing entry is) or ``order`` (as ``ordinal``).
    formula : str
        Columns in the style of R and patsy: ``"y ~ age * C(sex) + site"``. ``table.column("y")`` reads the outcome;
        ``site`` is which party a row is of, "party 1", "party 2", ... in the order of the list.
    combat, preserve : bool, sequence of str
        Remove site effects by ComBat, but for what these covariates explain.
    covariates : sequence of str
        Columns that are partialled out of all others, and left out.
    centre, scale : {"none", "joint", "site"}
        Subtract means and divide by deviations of all parties together, or of each by itself.
    minimum : int
        Levels that are rarer over all parties are pooled as "other"; no mean of fewer entries is taken.
    most_levels : int
        Levels of one column, over all parties, that the sums have space for.
    dictionary : path, optional
        A consortium's ``dictionary.toml``: columns, levels, groups and knots are its own, and of a list joint counts
        say what is too rare. Without one, knots of ``ns(x)`` in a formula are quantiles of all tables given.
    view : str, optional
        With a dictionary and ``missing="drop"``: the view whose complete rows are taken.
    label, id : str or sequence of str
        Columns that are no features; ``table.column(name)`` reads them, of the rows that are left. A row whose label
        is missing is left out by ``missing="drop"``, and refused where entries are filled in.
    split : {"horizontal", "vertical"}
        Of a list: "vertical" where parties hold different columns, each of which is then prepared at home.
    policy : Policy, optional
        Of a list: what the owners allow.
    scratch : path, optional
        As in ``open_source``.

    Returns
    -------
    table : MatrixSource, or a list of them
        What estimators take, with ``shape``, ``names`` and ``column(name)``.

    Examples
    --------
    >>> import fedsvd
    >>> import pandas as pd
    >>> a = pd.DataFrame({"dose": [1.5, None, 0.5], "grade": ["low", "high", "low"], "outcome": [1.0, 2.0, 3.0]})
    >>> table = fedsvd.prepared(a, missing="drop", ordinal={"grade": ["low", "high"]}, label="outcome")
    >>> table.names, table.rows(0, 2).tolist(), table.column("outcome").tolist()
    (('dose', 'grade'), [[1.5, 0.0], [0.5, 0.0]], [1.0, 3.0])
    >>> b = pd.DataFrame({"dose": [1.0, 3.0, None], "grade": ["low", "high", "high"], "outcome": [5.0, 4.0, 3.0]})
    >>> words = {"missing": "mean", "categories": "grade", "minimum": 1, "label": "outcome"}
    >>> first, second = fedsvd.prepared([a, b], policy=fedsvd.Policy.permissive(), **words)
    >>> first.names, second.rows(0, 3).round(6).tolist()
    (('dose', 'grade_high', 'grade_low'), [[1.0, 0.0, 1.0], [3.0, 1.0, 0.0], [1.5, 1.0, 0.0]])
    """
    given: dict[str, Any] = {"columns": columns, "drop": drop, "missing": missing, "constant": constant}
    given |= {"indicators": indicators, "rename": dict(rename or {}), "ordinal": dict(ordinal or {})}
    given |= {"categories": categories, "formula": formula, "combat": combat, "preserve": preserve}
    given |= {"covariates": covariates, "centre": centre, "scale": scale, "minimum": minimum}
    given |= {"penalty": penalty, "rounds": rounds, "rank": rank, "most_levels": most_levels}
    given |= {} if view is None else {"view": view}
    section = _section(given)
    labels = (label,) if isinstance(label, str) else tuple(label)
    if split not in tuple(Split):
        raise ConfigError(f"split is {split!r}", f"one of {', '.join(Split)}")
    if not are_parties(data):
        found = [open_mapped(data, given_map(map), scratch)]
        _warn_of_maps(found, [map])
        (opened,), section = _described(found, section, dictionary, labels, id, Split(split))
        source = renamed(opened, section.rename)
        _expect_id([source], id)
        _warn_of_repeated([source], id, Split(split))
        if preparation_study(section, Split.HORIZONTAL) is not None:
            fault = "this preparation takes numbers of all parties' tables, and one table is given"
            raise ConfigError(fault, "give a list with every party's table, or run a job between the parties")
        return prepared_for(section, source, labels, id, alone=False).table
    assert isinstance(data, list | tuple)
    maps = map if isinstance(map, list | tuple) else [map] * len(data)
    if len(maps) != len(data):
        raise ConfigError(f"map has {len(maps)} entries for {len(data)} tables", "give one for each, None for as it is")
    tables = [open_mapped(each, given_map(words), scratch) for each, words in zip(data, maps, strict=True)]
    _warn_of_maps(tables, maps)
    tables, section = _described(tables, section, dictionary, labels, id, Split(split))
    sources = [
        renamed(with_site(source, section.joint, f"party {place}"), section.rename)
        for place, source in enumerate(tables, start=1)
    ]
    _expect_id(sources, id)
    _warn_of_repeated(sources, id, Split(split))
    alone = Split(split) is Split.VERTICAL
    recipes = _recipes(section, sources, labels, id, Split(split), policy)
    for place, recipe in enumerate(recipes, start=1):
        for text in () if recipe is None else recipe.findings:
            warn_caller(f"party {place}: {spelt(text, Surface.KEYWORDS)}", DataWarning)
    return [
        prepared_for(section, source, _held(labels, source) if alone else labels, id, alone, recipe).table
        for source, recipe in zip(sources, recipes, strict=True)
    ]


def _warn_of_repeated(sources: Sequence[MatrixSource], id: str | None, split: Split) -> None:
    """Point out ids that rows share where rows are split: estimators are given tables without the column of ids."""
    if isinstance(id, str) and split is Split.HORIZONTAL:
        for text in repeated_ids([source.column(id).astype(np.str_) for source in sources]):
            warn_caller(spelt(text, Surface.KEYWORDS), DataWarning)


def _expect_id(sources: Sequence[MatrixSource], id: str | None) -> None:
    """Every table has the id column that is named: without it the column of ids would be taken for data."""
    for place, source in enumerate(sources, start=1):
        names = names_of(source)
        if isinstance(id, str) and id not in names:
            fault = f"party {place}: the table has no column {id!r}, which is named as id"
            raise ConfigError(fault, f"check its name{near(id, names)}")


def _described(
    sources: Sequence[MatrixSource],
    section: PrepareSection,
    dictionary: str | Path | None,
    labels: tuple[str, ...],
    id: str | None,
    split: Split,
) -> tuple[list[MatrixSource], PrepareSection]:
    """The tables and the words by a dictionary: the one that is given, or one of the tables where splines need it."""
    words = {"name": "prepared", "task": Task.LR, "label": labels, "id": id, "split": split}
    study = StudySection.model_validate(words)
    parties = len(sources) if len(sources) > 1 else 0
    if dictionary is not None:
        agreed = read_dictionary(Path(dictionary))
        settled = by_dictionary(agreed, study, section, MatchSection(), None, parties)
        settled = settled if parties else settled.counted_by(None)
        needed = {*settled.rule.columns, *labels, *settled.rule.view}
        return [described(source, agreed, needed) for source in sources], settled
    splines = () if section.joint is None or section.joint.parsed is None else sorted(section.joint.parsed.splines)
    if not splines:
        return list(sources), by_dictionary(None, study, section, MatchSection(), None)
    made = {name: {"knots": _joint_knots(sources, name, section.rename)} for name in splines}
    return list(sources), section.described_by(dictionary_of({"columns": made}), {}, (), ())


def _joint_knots(sources: Sequence[MatrixSource], name: str, renames: Mapping[str, str]) -> list[int | float]:
    """Knots of a column at quantiles of all tables."""
    columns = [renamed(source, renames) for source in sources]
    held = [names_of(each) for each in columns]
    lacking = next((names for names in held if name not in names), None)
    if lacking is not None:
        fault = f"the table has no column {name!r}, which the formula reads"
        raise DataError(fault, f"check its names{near(name, lacking)}")
    values = [
        each.raw(slice(0, each.shape[0]), slice(at := names.index(name), at + 1))[:, 0]
        for each, names in zip(columns, held, strict=True)
    ]
    joint = np.concatenate(values)
    joint = joint[np.isfinite(joint)]
    spread = float(np.ptp(joint)) if joint.size else 0.0
    knots = knots_of(joint, 10.0 ** (math.floor(math.log10(spread)) - 2)) if spread > 0 else []
    if not knots:
        raise DataError(f"column {name!r} has too few values for a spline", "write poly(x, 2, raw=True), or a category")
    return knots


def _recipes(
    section: PrepareSection,
    sources: Sequence[MatrixSource],
    labels: tuple[str, ...],
    id: str | None,
    split: Split,
    policy: Policy | None,
) -> Sequence[Recipe | None]:
    """What the parties come to together; None for each where nothing takes a sum."""
    study = preparation_study(section, split)
    if study is None:
        return [None] * len(sources)
    problems, homes = Problems(), []
    for index, source in enumerate(sources, start=1):
        with problems.of(str(index)):
            homes.append(PartyData(with_counts(home_table(section, source, labels, id).table, source, section)))
    problems.expect_none()
    extents = {str(i): Extent(*each.table.shape, feature_names(each.table)) for i, each in enumerate(homes, start=1)}
    for misfit in misfits(split, extents):
        problems.note(misfit)
    problems.expect_none()
    order = one_order({name: extent.features for name, extent in extents.items()})
    homes = homes if order is None else [in_order(home, order) for home in homes]
    return recipes_of(agree(study, homes, policy=policy))


def _warn_of_maps(tables: Sequence[MatrixSource], maps: Sequence[object]) -> None:
    """Warn of columns that no table has whose map names them: a misspelt name changes nothing."""
    given = [given_map(words) for words in maps]
    for place, words in enumerate(given, start=1):
        if words not in given[: place - 1]:
            own = [each for each, other in zip(tables, given, strict=True) if other == words]
            for text in set.intersection(*({*not_there(each, words)} for each in own)):
                warn_caller(text if len(own) > 1 else f"party {place}: {text}", DataWarning)


def _section(given: Mapping[str, Any]) -> PrepareSection:
    try:
        return PrepareSection.model_validate(given)
    except ValidationError as invalid:
        fault = invalid.errors(include_url=False, include_context=False)[0]
        text = as_fix(fault["msg"])
        word = next((str(part) for part in fault["loc"]), "")
        if not word:  # what two words say together: the text is the fault
            said, semicolon, fix = text.partition("; ")
            raise ConfigError(said, fix if semicolon else "correct what fedsvd.prepared is given") from None
        raise ConfigError(f"{word} is not usable", text) from None


def _held(labels: tuple[str, ...], source: MatrixSource) -> tuple[str, ...]:
    """The labels that this party has, where columns are split."""
    return tuple(name for name in labels if name in (source.names or ()))
