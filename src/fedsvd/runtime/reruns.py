"""What a party brought to earlier runs: keyed fingerprints of its records, on its own disk and nowhere else.

Two runs that differ by one record give that record away (05-privacy), so a run whose records differ from an earlier
one's by a few is refused before anything is sent. The same records again are no new information. Where columns are
split a single column can be told apart as well as a record, so columns are remembered, too.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from fedsvd.errors import ReleaseRefused, StorageError
from fedsvd.identity import files
from fedsvd.protocol.release import Policy, record_fingerprints, rerun_findings
from fedsvd.protocol.tasks import Split
from fedsvd.randomness.seed import Seed
from fedsvd.runtime.folder import private_file
from fedsvd.runtime.party_data import PartyData
from fedsvd.types import Ring

_PANEL_BYTES = 1 << 24
_KEY = "key"


class EarlierRuns:
    """The memory of one party, in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = files.private_folder(folder)

    def consider(self, run: str, data: PartyData, split: Split, policy: Policy) -> None:
        """Raise ``ReleaseRefused`` where a run with this data says too much beside an earlier one; reads all of it."""
        if policy.changed_records == 0 or data.table.made_up:
            return
        for kind, new in self._fingerprints(data, split).items():
            found = rerun_findings(self._earlier(kind), new, policy)
            if found:
                raise ReleaseRefused(
                    f"this run is below the policy: {found[0]}",
                    "bring the records of the earlier run, or many new ones, or change policy.toml if you agree to it",
                )
            with private_file(self._fresh(f"{run}.{kind}.coming")) as file:
                np.save(file, new, allow_pickle=False)

    def begin(self, run: str) -> None:
        """A run that was considered begins: from now on it is an earlier one."""
        for coming in sorted(self._folder.glob(f"{run}.*.coming")):
            kind = coming.suffixes[-2].lstrip(".")
            new = np.load(coming, allow_pickle=False)
            if any(np.array_equal(new, old) for old in self._earlier(kind)):
                coming.unlink()  # resumed, or the same study again
                continue
            number = len(list(self._folder.glob(f"{run}-*.{kind}.npy")))
            os.replace(coming, self._folder / f"{run}-{number}.{kind}.npy")

    def _fingerprints(self, data: PartyData, split: Split) -> Mapping[str, Ring]:
        key = self._key()
        kinds = {"rows": np.concatenate(list(_by_rows(data, key)))}
        if split is Split.VERTICAL:
            kinds["columns"] = np.concatenate(list(_by_rows(PartyData(data.table.T), key)))
        return kinds

    def _earlier(self, kind: str) -> Iterator[Ring]:
        for path in sorted(self._folder.glob(f"*.{kind}.npy")):
            try:
                yield np.load(path, allow_pickle=False)
            except (OSError, ValueError, EOFError):
                raise StorageError(f"{path} is damaged", "restore it from a backup: it protects your records") from None

    def _fresh(self, name: str) -> Path:
        path = self._folder / name
        path.unlink(missing_ok=True)  # of a run that was considered and never began
        return path

    def _key(self) -> Seed:
        path = self._folder / _KEY
        if not path.exists():
            files.create(path, Seed.fresh().reveal())
        return Seed(files.read_secret(path))


def _by_rows(data: PartyData, key: Seed) -> Iterator[Ring]:
    """One fingerprint to each row of the table with its labels, panel by panel."""
    rows, columns = data.table.shape
    height = max(1, _PANEL_BYTES // (8 * columns))
    for start in range(0, rows, height):
        panel = data.table.rows(start, min(start + height, rows))
        if data.labels is not None:
            panel = np.hstack((panel, data.labels[start : start + height]))
        yield record_fingerprints(panel, key)
