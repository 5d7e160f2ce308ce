"""Columns of two values that one party codes otherwise: 1 and 2 where the others have 0 and 1.

No unit says it: the mean of such a column is a frequency, and differs between sites. But where all tables are at hand
the two values are compared, and where means alone are known those of the others together lie between their two values,
and so not between two that are greater or less.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.suspects import Finding
from fedsvd.data.written import map_line
from fedsvd.errors import AtHome
from fedsvd.types import Float

_OF_RARER = 2  # entries
_ROUNDED = 1e-6  # of means that follow from sums of rounded numbers


def two_values(least: Float, most: Float, of_two: NDArray[np.bool_]) -> Float:
    """The two values of each column, NaN for columns of more."""
    return np.where(of_two, np.stack([least, most]), np.nan)


def of_both(one: Float | None, two: Float | None) -> Float | None:
    """Those of the rows of both together."""
    if one is None or two is None:
        return two if one is None else one
    ends = np.stack([np.minimum(one[0], two[0]), np.maximum(one[1], two[1])])
    same = [(each == ends[0]) | (each == ends[1]) for each in (*one, *two)]
    return two_values(ends[0], ends[1], np.all(same, axis=0))


def often(means: Float, counts: Float, ends: Float | None) -> NDArray[np.bool_]:
    """Columns whose rarer value of two has enough entries for the two to be a coding."""
    if ends is None:
        return np.ones(len(counts), dtype=bool)
    wide = ends[1] - ends[0]
    share = (means - ends[0]) / np.where(wide > 0.0, wide, np.nan)
    return np.asarray(np.minimum(share, 1.0 - share) * counts > _OF_RARER - 0.5)


def coded_apart(
    names: Sequence[str], ends: Mapping[str, Float | None], enough: Mapping[str, NDArray[np.bool_]]
) -> Iterator[Finding]:
    """Of tables that are all at hand, those whose column of two values has others than most tables.

    Of columns that have ``enough`` entries: any measurement of two rows has two values. Zeros and twos next to zeros
    and ones are small counts.
    """
    if any(each is None for each in ends.values()):
        return
    for j, name in enumerate(names):
        pairs = {who: (float(each[0, j]), float(each[1, j])) for who, each in ends.items() if each is not None}
        held = Counter(pair for who, pair in pairs.items() if pair[0] < pair[1] and enough[who][j])
        if len(held) < 2 or any(np.isnan(least) for least, _ in pairs.values()):
            continue
        usual = held.most_common(1)[0][0]
        for who, own in pairs.items():
            counts = own[0] == usual[0] == 0.0
            if own[0] < own[1] and own != usual and enough[who][j] and not counts:
                words = _recoded(own, usual)
                yield Finding(
                    name,
                    f"column {name!r} of {who} has two values, and so it has elsewhere, but not the same two: another "
                    f"coding? If so, code it as there ({map_line(name, words)} in the map of the table); else all is "
                    "well",
                    words,
                    who,
                )


def coded_here(names: Sequence[str], ends: Float | None, others: Float, enough: NDArray[np.bool_]) -> Iterator[AtHome]:
    """Of a party's own table, columns of two values between which the others' mean does not lie.

    Of columns that have ``enough`` entries: two of a measurement are two values too. A log has the line of the map
    without its numbers, which are differences of entries.
    """
    if ends is None:
        return
    wide = np.where(enough, ends[1] - ends[0], 0.0)
    for j in np.flatnonzero(wide > 0.0).tolist():
        least, most, there = float(ends[0, j]), float(ends[1, j]), float(others[j])
        if least - _ROUNDED <= there <= most + _ROUNDED or not np.isfinite(there):
            continue
        by = float(wide[j]) if there > most else -float(wide[j])
        words: dict[str, object] = {"offset": by} if least <= there - by <= most else {"factor": ..., "offset": ...}
        unnamed = dict.fromkeys(words, ...)
        yield AtHome(
            *(
                f"column {names[j]!r} has two values here, and the mean at the other sites together is not between "
                "them: another coding, here or at one of them? Compare it with the coding that the study agreed on. "
                f"Where it is another one, code it so ({map_line(names[j], said)} in the map of the table); where it "
                "is that one, nothing is to be done"
                for said in (words, unnamed)
            )
        )


def _recoded(own: tuple[float, float], usual: tuple[float, float]) -> dict[str, object]:
    """What makes the usual two values of one's own, the lesser of the lesser."""
    factor = (usual[1] - usual[0]) / (own[1] - own[0])
    words = {"factor": factor, "offset": usual[0] - factor * own[0]}
    return {key: value for key, value in words.items() if value != (1.0 if key == "factor" else 0.0)}
