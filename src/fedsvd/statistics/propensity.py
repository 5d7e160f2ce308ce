"""Propensity weights, and how alike they make two groups: scores, weights at home, balance of covariates from sums.

    e           the probability that a record was treated, by a model of all covariates
    overlap     1 - e of the treated, e of the others: bounded, most where both might have happened
    ATE         1 / e and 1 / (1 - e); ATT: 1 and e / (1 - e)

Balance is said as R's ``cobalt`` says it: differences of means, of numbers over a deviation before weighting, of 0/1
columns as they are; ratios of variances of the treated and the others; effective sizes, ``(sum w)^2 / sum w^2``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import DataError, NotConverged
from fedsvd.statistics.families import family_named
from fedsvd.statistics.undefined import Undefined
from fedsvd.types import Float

MOST_OF_GROUP = 0.2
"""Of the own weight of a group, in one record; of a group below ten records twice what each has on average."""

PSEUDO = Undefined("weights by a propensity score are no counts of records: the data has no likelihood with them")
_NEAREST = 2.0**-50  # of a score to 0 or 1


def expect_treated(treated: Float, outcome: Float, event: Float | None, effect: str) -> None:
    """Raise ``DataError`` unless these are treatments and outcomes of this family."""
    if not np.isin(treated, (0.0, 1.0)).all():
        raise DataError("a treatment is neither 0 nor 1", "code it: 1 where a record was treated, 0 where not")
    if event is None:
        family_named(effect).expect(outcome)
    elif not np.isin(event, (0.0, 1.0)).all():
        raise DataError("an event is neither 0 nor 1", "code it: 1 where the event was seen, 0 where follow-up ended")


@dataclass(frozen=True)
class Weighting:
    """How scores become weights; all of it is public."""

    estimand: str
    stabilised: bool
    limits: tuple[float, ...]  # of trimming, up to that of the study
    fewest: int  # records, or persons, of a group that a party leaves out between two of them, where it leaves out one
    share: float  # of all records that were treated

    def weights(self, score: Float, treated: Float, of_person: NDArray[np.intp] | None = None) -> Float:
        """Of each record, 0 where it is left out."""
        e = np.clip(score, _NEAREST, 1.0 - _NEAREST)
        if self.estimand == "overlap":
            found = np.where(treated == 1.0, 1.0 - e, e)
        elif self.estimand == "ATE":
            found = np.where(treated == 1.0, 1.0 / e, 1.0 / (1.0 - e))
        else:
            found = np.where(treated == 1.0, 1.0, e / (1.0 - e))
        if self.stabilised:
            found = found * np.where(treated == 1.0, self.share, 1.0 - self.share)
        return np.where(left_out(score, treated, self.limits, self.fewest, of_person), 0.0, found)


def left_out(
    score: Float, treated: Float, limits: Sequence[float], fewest: int, of_person: NDArray[np.intp] | None = None
) -> NDArray[np.bool_]:
    """Own records whose scores are nearest to 0 or 1: by group all beyond the last limit, and a few more.

    Two studies with different limits differ in the records between these. Where a party has 1 to 4 of a group there,
    it leaves out the next ones of its own too, until they are ``fewest``; persons, where these have several rows.
    """
    found = np.zeros(len(score), dtype=bool)
    nearest = np.minimum(score, 1.0 - score)
    for group in (0.0, 1.0):
        own = np.flatnonzero(treated == group)
        order = own[np.argsort(nearest[own], kind="stable")]
        who, out = order if of_person is None else of_person[order], 0
        for limit in sorted(limits):
            beyond = int(np.count_nonzero(nearest[own] < limit))
            if beyond > out:
                first = np.sort(np.unique(who[out:], return_index=True)[1])  # the first row of each further one
                out = max(beyond, out + 1 + int(first[min(fewest, len(first)) - 1]))
        found[order[:out]] = True
    return found


def stands_out(weights: Float, treated: Float, of_person: NDArray[np.intp] | None = None) -> bool:
    """Whether one own record, or person with all its rows, has too much of its group's weight, or a group has none."""
    for rows in (treated == group for group in (0.0, 1.0)):
        own = weights[rows]
        if of_person is not None:
            own = np.bincount(np.unique(of_person[rows], return_inverse=True)[1], weights=own)
        most = max(MOST_OF_GROUP, min(1.0, 2.0 / max(1, len(own))))
        if len(own) and not 0.0 < float(own.max()) <= most * float(own.sum()):
            return True
    return False


def refused() -> NotConverged:
    """A party's home test failed: the same words whatever the data."""
    return NotConverged(
        f"one record would have more than {MOST_OF_GROUP:.0%} of a group's weight at a party",
        'take estimand = "overlap", fewer covariates, or trim = 0.1',
    )


def own_moments(Z: Float, treated: Float, weights: Float) -> Float:
    """Own sums of columns and of their squares, (2, 2, 2, columns): without and with weights, by group, by power."""
    found = np.zeros((2, 2, 2, Z.shape[1]))
    for group in (0, 1):
        rows = Z[treated == group]
        for place, w in enumerate((np.ones(len(rows)), weights[treated == group])):
            found[place, group] = w @ rows, w @ np.square(rows)
    return found


@dataclass(frozen=True, repr=False)
class Balance:
    """Means and variances of covariates in both groups, without and with weights; the treated are the second group."""

    estimand: str
    names: tuple[str, ...]
    binary: tuple[bool, ...]
    means: Float  # (2, 2, columns): without and with weights, by group
    variances: Float
    sizes: Float  # (2, 2): records, and effective sizes with weights

    @classmethod
    def of(
        cls,
        estimand: str,
        names: Sequence[str],
        binary: NDArray[np.bool_],
        moments: Float,
        sizes: Float,
        sums: Float,
        centre: Float,
    ) -> "Balance":
        """From joint sums about ``centre``; ``sums`` are those of weights and of their squares, (2, 2) by group."""
        total = np.stack((sizes, sums[0]))[:, :, None]  # records, and their weights
        squares = np.stack((sizes, sums[1]))[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            means = moments[:, :, 0] / total
            spread = moments[:, :, 1] / total - np.square(means)
            variances = np.maximum(spread, 0.0) / (1.0 - squares / np.square(total))
        effective = np.stack((sizes, np.square(sums[0]) / sums[1]))
        return cls(estimand, tuple(names), tuple(map(bool, binary)), means + centre, variances, effective)

    @property
    def differences(self) -> Float:
        """Of the treated less the others, (2, columns), in deviations where a column is no code of 0 and 1."""
        before = self.variances[0]
        scale = np.sqrt(before[1] if self.estimand == "ATT" else before.mean(axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Float = (self.means[:, 1] - self.means[:, 0]) / np.where(self.binary, 1.0, scale)
        return found

    def columns(self) -> dict[str, list[Any]]:
        """As ``cobalt`` names them; ratios of variances are of numbers."""
        found: dict[str, list[Any]] = {
            "covariate": list(self.names),
            "Type": ["Binary" if code else "Contin." for code in self.binary],
        }
        differences = self.differences
        for place, word in enumerate(("Un", "Adj")):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(self.binary, np.nan, self.variances[place, 1] / self.variances[place, 0])
            found |= {f"M.0.{word}": self.means[place, 0].tolist(), f"M.1.{word}": self.means[place, 1].tolist()}
            found |= {f"Diff.{word}": differences[place].tolist(), f"V.Ratio.{word}": ratio.tolist()}
        return found

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        numbers = {name: _plain(getattr(self, name)) for name in ("means", "variances", "sizes")}
        return {"estimand": self.estimand, "names": list(self.names), "binary": list(self.binary), **numbers}


def balance_of(said: Mapping[str, Any]) -> Balance:
    """The balance that ``record`` describes."""
    numbers = {name: np.array(said[name], dtype=np.float64) for name in ("means", "variances", "sizes")}
    return Balance(said["estimand"], tuple(said["names"]), tuple(said["binary"]), **numbers)


def _plain(values: Float) -> list[Any]:
    """Nested lists, None where a number is not defined."""
    if values.ndim > 1:
        return [_plain(each) for each in values]
    return [float(value) if math.isfinite(value) else None for value in values]
