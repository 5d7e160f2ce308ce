"""Arrays on disk: they behave like arrays, and little of them is in memory however much of them is met."""

import numpy as np
import pytest

from fedsvd.storage.mapped_array import MappedArray, scratch_array

MIB = 1 << 20


def mapped_bytes():
    """What of this process's maps is in memory now."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    if "RssFile" not in lines:
        pytest.skip("this system does not say how much of its maps a process has in memory")
    return 1024 * sum(int(lines[name].split()[0]) for name in ("RssFile", "RssShmem"))


@pytest.fixture
def lines(tmp_path):
    """Sixty-four lines of a megabyte, of which one may stay in memory."""
    return scratch_array((64, MIB // 8), 4 * MIB, tmp_path)


def test_an_array_within_its_budget_or_without_a_scratch_folder_is_in_memory(tmp_path):
    assert type(scratch_array((3, 4), 96, tmp_path)) is np.ndarray
    assert type(scratch_array((3, 4), 95, None)) is np.ndarray
    assert isinstance(scratch_array((3, 4), 95, tmp_path), MappedArray)


def test_passes_along_and_across_the_layout_leave_little_in_memory(lines):
    before, most = mapped_bytes(), 0
    for number in range(64):
        lines[number] = number
        most = max(most, mapped_bytes())
    for start in range(0, MIB // 8, 4096):
        part = lines[:, start : start + 4096]
        lines[:, start : start + 4096] = part + 1.0
        most = max(most, mapped_bytes())
    for number in range(0, 64, 2):
        assert lines[number : number + 2].sum() == (2 * number + 3) * MIB / 8
        most = max(most, mapped_bytes())
    assert most - before <= 6 * MIB


def test_a_slice_across_the_layout_reads_and_writes_what_an_array_would(lines):
    rng = np.random.default_rng(5)
    expected = rng.normal(size=lines.shape)
    lines[:] = expected
    block = rng.normal(size=(20, 700))
    lines[3:23, 1000:1700] = block
    lines.T[5000:5300, 40:50] = block[:10, :300].T
    lines[:, 9000:9600] *= 2.0
    expected[3:23, 1000:1700] = block
    expected.T[5000:5300, 40:50] = block[:10, :300].T
    expected[:, 9000:9600] *= 2.0
    assert np.array_equal(lines, expected)
    assert np.array_equal(lines[:, 500:9500], expected[:, 500:9500])
    assert np.array_equal(lines.T[500:9500], expected.T[500:9500])
    assert np.array_equal(lines[2:5, 7], expected[2:5, 7])


def test_what_is_computed_from_it_is_a_plain_array(lines):
    for made in (lines[:2] * 2.0, lines[[0, 3]], lines[:, :600], lines[:3].T @ np.eye(3)):
        assert type(made) is np.ndarray
    assert isinstance(lines[:2].T, MappedArray)
    assert isinstance(lines[0].sum(), float)


def test_the_file_goes_with_the_array_and_not_before_a_view_of_it(tmp_path):
    view = scratch_array((16, MIB // 8), MIB, tmp_path)[:3].T
    view[:, 1] = 7.0
    assert np.all(view[:, 1] == 7.0)
    assert not list(tmp_path.iterdir())  # nameless from the start
