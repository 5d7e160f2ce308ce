"""A table prepared as ``[prepare]`` of a job file prepares it, for the estimators: the same words in Python."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.prepare.at_home import prepared_at_home, renamed
from fedsvd.studies.prepare_section import PrepareSection


def prepared(
    data: object,
    *,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    missing: str = "error",
    constant: float = 0.0,
    indicators: bool | Sequence[str] = False,
    ordinal: Mapping[str, Sequence[str]] | None = None,
    label: str | Sequence[str] = (),
    id: str | None = None,
    scratch: str | Path | None = None,
) -> MatrixSource:
    """A party's table as a study wants it, prepared at home; the words are those of a job file's ``[prepare]``.

    Parameters
    ----------
    data : path, array, data frame or anything else that ``open_source`` takes
    columns : sequence of str
        The features, in this order; all columns where left out.
    drop : sequence of str
        Columns to leave out.
    rename : mapping, optional
        New names by old ones; comes first. Old names that the table does not have are skipped.
    missing : {"error", "drop", "constant"}
        What becomes of missing entries: refused, with their counts; their rows left out; ``constant`` in their place.
    constant : float
        What is filled in.
    indicators : bool or sequence of str
        With ``missing="constant"``: a column ``NAME_missing`` for every feature, or for these.
    ordinal : mapping, optional
        The levels of a text column in order, which become 0, 1, 2, ...
    label, id : str or sequence of str
        Columns that are no features; ``table.column(name)`` reads them, of the rows that are left. A row whose label
        is missing is left out by ``missing="drop"``, and refused by ``"constant"``.
    scratch : path, optional
        As in ``open_source``.

    Returns
    -------
    table : MatrixSource
        What estimators take, with ``shape``, ``names`` and ``column(name)``.

    Examples
    --------
    >>> import fedsvd
    >>> import pandas as pd
    >>> a = pd.DataFrame({"dose": [1.5, None, 0.5], "grade": ["low", "high", "low"], "outcome": [1.0, 2.0, 3.0]})
    >>> table = fedsvd.prepared(a, missing="drop", ordinal={"grade": ["low", "high"]}, label="outcome")
    >>> table.names, table.rows(0, 2).tolist(), table.column("outcome").tolist()
    (('dose', 'grade'), [[1.5, 0.0], [0.5, 0.0]], [1.0, 3.0])
    """
    given: dict[str, Any] = {"columns": columns, "drop": drop, "missing": missing, "constant": constant}
    given |= {"indicators": indicators, "rename": dict(rename or {}), "ordinal": dict(ordinal or {})}
    try:
        section = PrepareSection.model_validate(given)
    except ValidationError as invalid:
        fault = invalid.errors(include_url=False, include_context=False)[0]
        word = next((str(part) for part in fault["loc"]), "preparation")
        raise ConfigError(f"{word} is not usable", fault["msg"].removeprefix("Value error, ")) from None
    labels = (label,) if isinstance(label, str) else tuple(label)
    source = renamed(open_source(data, scratch=scratch), section.rename)
    return prepared_at_home(source, section.rule, labels, id).table
