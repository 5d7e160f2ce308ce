"""Tables whose records are matched by id before a study (``align``): what estimators make of ids and of the answer.

The parties' tables may have any records in any order. ``align`` is "server" or "ecdh", with ids normalised as
``[match]`` of a job file does by default (case folded, blanks trimmed), or a mapping with the words of ``[match]``.
Joint samples are then the common records; ``row_ids_`` names them, as the first party's table spells them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.prepare.identifiers import RecordIds, identified, of_text
from fedsvd.protocol import tasks
from fedsvd.studies.match_section import MatchSection
from fedsvd.studies.matching import AS_WRITTEN, Matched
from fedsvd.studies.problems import Problems
from fedsvd.types import Float, as_fix

Ids = NDArray[Any]
Align = str | Mapping[str, Any]
"""How records are matched: "server" or "ecdh", or the words of ``[match]``."""


def id_columns(id: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns of ids that a parameter names."""
    return () if id is None else (id,) if isinstance(id, str) else tuple(id)


def words_of(align: Align | None) -> MatchSection:
    """What a parameter ``align`` asks for, as ``[match]`` of a job file has it."""
    words = {"align": align} if isinstance(align, str) else dict(align or {})
    if align is not None and words.get("align") is None:
        raise ConfigError(
            "align does not say how records are matched", 'align={"align": "ecdh", "dates": ["born"]}, say'
        )
    if align is not None and words["align"] not in tuple(tasks.Align):
        raise ConfigError(f"align is {words['align']!r}", f"one of {', '.join(tasks.Align)}")
    try:
        return MatchSection.model_validate(words)
    except ValidationError as invalid:
        fault = invalid.errors(include_url=False, include_context=False)[0]
        word = next((f"align[{part!r}]" for part in fault["loc"]), "align")
        raise ConfigError(f"{word} is not usable", as_fix(fault["msg"])) from None


def record_ids_of(id: str | Sequence[str] | None, align: Align | None) -> RecordIds | None:
    """How ids are made of these columns; None where one column is read as it is, or there is none."""
    columns = id_columns(id)
    if align is not None and not columns:
        raise ConfigError("records are matched by ids, and no id is named", 'id="patient", say')
    if align is not None:
        return words_of(align).record_ids(columns)
    return RecordIds(columns, AS_WRITTEN) if len(columns) > 1 else None


def matching_rule(estimator: Any) -> RecordIds | None:
    """How this estimator matches records: as it was fitted, whatever made it, else as its parameters say."""
    plan = getattr(estimator, "plan_", None)
    if plan is not None and plan.align is not None and plan.id_rule:
        return of_text(plan.id_rule)
    return record_ids_of(estimator.id, estimator.align)


def identified_tables(
    sources: Sequence[MatrixSource], ids: RecordIds
) -> tuple[tuple[MatrixSource, ...], tuple[Ids, ...]]:
    """Every party's table without its id columns, and the ids of its rows; all that is wrong is one error."""
    problems, tables = Problems(), []
    for index, source in enumerate(sources, start=1):
        with problems.of(str(index)):
            tables.append(identified(source, ids).table)
    problems.expect_none()
    return tuple(tables), tuple(table.column(ids.name) for table in tables)


def spelt_ids(source: MatrixSource, ids: RecordIds) -> Ids:
    """The ids of a table's rows as it has them, (n,), or (n, columns) where several columns make one."""
    columns = [source.column(name) for name in ids.columns]
    return columns[0] if len(columns) == 1 else np.stack([column.astype(object) for column in columns], axis=1)


def joint_ids(matched: Matched, compared: Ids, spelt: Ids) -> Ids:
    """The ids of the joint samples in their order, as the first party's table spells them.

    ``compared`` are the ids of all its rows as they were compared: case folded, blanks trimmed, dates in one form.
    """
    place = {id: row for row, id in enumerate(compared.tolist())}
    found: Ids = spelt[[place[id] for id in np.asarray(matched.parties[0].ids).tolist()]]
    return found


def in_own_rows(predicted: Float, ids: Ids, matched: Matched, holder: int) -> Float:
    """Predictions for the rows of the label holder's table, NaN for records that not all parties have."""
    place = {id: row for row, id in enumerate(ids.tolist())}
    full = np.full((len(ids), *predicted.shape[1:]), np.nan)
    own = matched.parties[holder].ids
    full[[place[id] for id in ([] if own is None else own.tolist())]] = predicted
    return full


def common_positions(ids: Sequence[Ids]) -> list[NDArray[np.intp]]:
    """For every party the rows whose ids all have, in the order of the first party's; of tables in one process."""
    common = set(ids[0].tolist()).intersection(*(own.tolist() for own in ids[1:]))
    wanted = [id for id in ids[0].tolist() if id in common]
    places = ({id: row for row, id in enumerate(own.tolist())} for own in ids)
    return [np.array([place[id] for id in wanted], dtype=np.intp) for place in places]
