"""Records that match between parties that hold different columns: what a party sends, gets back, and does with it.

``align = "server"``: every party sends one keyed hash for each record (``identifiers.hashed``); the CSP, which has no
key, sorts them (``linalg.common_rows``) and returns to every party the positions of the common records in the order of
the hashes, which says nothing to those without the key. The CSP learns sizes and overlaps, parties learn which of their
own records are common. ``align = "ecdh"`` is in ``blinding.py``: there it compares points that every party has blinded.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import AnswerRefused


@dataclass(frozen=True)
class MatchReport:
    """How many of a party's records were matched, and why others were not."""

    records: int
    without_link: int  # the linkage map has no entity for them
    matched: int

    def record(self) -> dict[str, int]:
        """For the owner's own results: counts of its own table, which no message carries."""
        return {
            "records": self.records,
            "matched": self.matched,
            "without_link": self.without_link,
            "unknown_elsewhere": self.elsewhere_unknown,
        }

    @classmethod
    def of_record(cls, record: Mapping[str, int]) -> "MatchReport":
        """The report that a record describes."""
        return cls(record["records"], record["without_link"], record["matched"])

    @property
    def elsewhere_unknown(self) -> int:
        """Records that some other party does not have."""
        return self.records - self.without_link - self.matched

    def __str__(self) -> str:
        text = f"{self.matched} of {self.records} records are common to all parties"
        if self.without_link:
            text += f"; {self.without_link} are not in the linkage map"
        if self.elsewhere_unknown:
            text += f"; {self.elsewhere_unknown} are unknown to another party"
        return text


def checked_positions(positions: NDArray[np.int64], records: int) -> NDArray[np.intp]:
    """Positions as an honest CSP, or the user that passes them on, sends them: of the set, none twice."""
    inside = positions.ndim == 1 and (
        not positions.size or (int(positions.min()) >= 0 and int(positions.max()) < records)
    )
    if not inside or len(np.unique(positions)) != len(positions):
        raise AnswerRefused(
            "common records were named that are in no place of the set, or one twice",
            "stop and ask the operator of the CSP",
        )
    return positions.astype(np.intp)
