"""Whether numbers that go with a party's rows are what a study can use: targets of a model, weights."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, DataError, NotFinite, RepeatedIds, ShapeError
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.tasks import Robust
from fedsvd.statistics.families import family_named
from fedsvd.types import Float


def expect_target(about: ModelPlan, labels: Float) -> None:
    """Raise ``DataError`` unless these labels fit the model: its target, and weights where it has some."""
    y = labels[:, 0]
    if about.classes:
        whole = np.all((y == np.floor(y)) & (y >= 0) & (y < about.classes))
        if not whole:
            raise DataError("a row has another class than those of the study", "name all of them: classes = [...]")
    else:
        family_named(str(about.family), about.link).expect(y)
    if about.weighted and not np.all(labels[:, -1] > 0.0):
        raise DataError("a weight is not above 0", "leave out rows without weight")


def expect_rows(
    who: str, rows: int, weights: Float | None, clusters: NDArray[Any] | None, *, weighted: bool, robust: Robust | None
) -> None:
    """Refuse weights and clusters that are not there, or are none: rows of weight 0 are left out before."""
    if weighted != (weights is not None):
        fault = "brings weights that the study does not have" if weights is not None else "has no weights"
        raise ConfigError(f"{who} {fault}", "name the column of weights for all parties, or for none")
    if weights is not None and weights.shape != (rows,):
        raise ShapeError(f"{who} has weights of shape {weights.shape} for {rows} rows", "give one for each row")
    if weights is not None and not (np.isfinite(weights).all() and np.all(weights > 0.0)):
        raise NotFinite(f"{who} has weights that are missing, not finite or not above 0", "leave these rows out")
    if robust is Robust.CLUSTER and (clusters is None or clusters.shape != (rows,)):
        raise ConfigError(f"{who} has no cluster for each of its {rows} rows", "name the column of clusters")


def expect_distinct(ids: NDArray[Any], whose: str) -> None:
    """Raise ``RepeatedIds`` where two rows have one id; the CSP could not see it."""
    repeated = len(ids) - len(np.unique(ids.astype(np.str_)))
    if repeated:
        raise RepeatedIds(f"{repeated} of {whose} row ids occur more than once", "keep one row for each id")
