"""A results folder that fedsvd 0.1.0 wrote: it is refused with a text that says why, and its files can be read.

``results-0.1.0/north`` was written by ``fedsvd run`` of version 0.1.0: the part of party north of a PCA with two
components, of 24 records of three parties. Its plan is one of protocol 1, whose schemes this version does not have.
"""

from pathlib import Path

import numpy as np
import pytest

import fedsvd
from fedsvd.errors import StorageError
from fedsvd.results.folder import read_manifest

OLD = Path(__file__).with_name("results-0.1.0") / "north"


def test_a_result_of_version_0_1_0_is_refused_by_its_version():
    with pytest.raises(StorageError) as caught:
        fedsvd.load(OLD)
    assert "written by fedsvd 0.1.0, under protocol 1" in caught.value.fault
    assert "damaged" not in str(caught.value)
    assert "pip install fedsvd==0.1.0" in caught.value.fix
    assert ".npy" in caught.value.fix


def test_its_files_are_as_they_were_written_and_arrays_read_as_they_are():
    record = read_manifest(OLD)  # which compares every hash
    assert record["format"] == "fedsvd-results/1"
    components, scores = np.load(OLD / "components.npy"), np.load(OLD / "scores.npy")
    assert (components.shape, scores.shape) == ((2, 3), (8, 2))


def test_a_damaged_folder_of_version_0_1_0_is_damaged_first_of_all(tmp_path):
    for path in OLD.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "mean.npy").write_bytes(b"")
    with pytest.raises(StorageError, match=r"mean\.npy is not as it was written"):
        fedsvd.load(tmp_path)
