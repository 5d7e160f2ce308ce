"""A table that is rewritten while a study runs: it ends with FSVD-211, or is of the table as it was.

The study runs in this process, and its own reports of progress say when the file is written to.
"""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd.data.open import open_source
from fedsvd.errors import SourceChanged
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study

rng = np.random.default_rng(3)
ROWS, COLUMNS = 60, 5
TABLES = [rng.normal(size=(ROWS, COLUMNS)) + 3.0 for _ in range(2)]
OTHER = rng.normal(size=(ROWS, COLUMNS)) - 5.0
MOMENTS = range(0, 40, 3)


def _write(path, table):
    names = [f"v{j}" for j in range(COLUMNS)]
    if path.suffix == ".npy":
        np.save(path, table)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(names, table.T, strict=True))), path)
    else:
        pd.DataFrame(table, columns=names).to_csv(path, index=False, float_format="%.17g")


class Rewriter:
    """Writes another table over a file at the n-th report of progress, and sets its time back."""

    def __init__(self, path, content, moment):
        self.path, self.content, self.moment, self.count, self.written = path, content, moment, 0, False

    def __call__(self, who, stage, done, total):
        if self.count == self.moment:
            before = self.path.stat()
            with self.path.open("r+b") as file:
                file.write(self.content)
            os.utime(self.path, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.written = True
        self.count += 1


def _spectrum(split, tables):
    joint = np.concatenate(tables, axis=0 if split is Split.HORIZONTAL else 1)
    return np.linalg.svd(joint, compute_uv=False)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".csv"])
@pytest.mark.parametrize("split", list(Split))
def test_a_study_whose_table_is_rewritten_ends_with_fsvd_211_or_is_of_the_table_as_it_was(
    tmp_path, split, suffix, moment
):
    paths = [tmp_path / f"{name}{suffix}" for name in ("a", "b", "other")]
    for path, table in zip(paths, (*TABLES, OTHER), strict=True):
        _write(path, table)
    rewrite = Rewriter(paths[1], paths[2].read_bytes(), moment)
    study = Study(Task.SVD, split=split, check_ids=False)
    parties = [PartyData(open_source(path)) for path in paths[:2]]
    try:
        outcome = run_study(study, parties, progress=rewrite, policy=Policy.permissive())
    except SourceChanged:
        assert rewrite.written
    else:
        # The moment never came, or the study was over but for signatures.
        expected = _spectrum(split, TABLES)
        for party in outcome.parties:
            assert_close(party.sigma, expected, RESULT_BAR, expected[0])
        assert not rewrite.written or rewrite.count - moment <= 4


def test_the_moments_that_are_tried_lie_within_the_study(tmp_path):
    for name, table in zip("ab", TABLES, strict=True):
        np.save(tmp_path / f"{name}.npy", table)
    parties = [PartyData(open_source(tmp_path / f"{name}.npy")) for name in "ab"]
    count = Rewriter(tmp_path / "a.npy", b"", -1)
    run_study(
        Study(Task.SVD, split=Split.VERTICAL, check_ids=False), parties, progress=count, policy=Policy.permissive()
    )
    assert count.count > 10
