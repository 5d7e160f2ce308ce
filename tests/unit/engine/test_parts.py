"""Parts worked on in processes of their own: the same bytes as here, errors as here, and no process left behind."""

import gc
import subprocess
import sys

import numpy as np
import pytest

from fedsvd.engine import parts
from fedsvd.errors import LocalProtocolError, NotSealed
from fedsvd.prepare.blinding import Blinding, points_of
from fedsvd.prepare.identifiers import hashed
from fedsvd.randomness.seed import Seed


@pytest.fixture
def each(monkeypatch):
    monkeypatch.setattr(parts, "WORTH_SHARING", 1)
    monkeypatch.setattr("fedsvd.prepare.blinding.PART", 8)
    return parts.each_in_processes(2)


HASHES = hashed(np.array([str(number) for number in range(40)]), Seed(b"k" * 32))


def test_processes_give_the_same_bytes_in_the_same_order(each):
    points = points_of(HASHES)
    assert np.array_equal(points_of(HASHES, each), points)
    factor = Blinding(Seed(b"a" * 32))
    assert np.array_equal(factor.apply(points, each), factor.apply(points))


def test_an_error_there_is_the_error_here(each):
    with pytest.raises(NotSealed, match="no point of the curve"):
        Blinding(Seed(b"a" * 32)).apply(np.zeros((16, 32), np.uint8), each)
    assert np.array_equal(points_of(HASHES, each), points_of(HASHES)), "and the processes go on"


def test_processes_end_with_what_refers_to_them(each):
    points_of(HASHES, each)
    running = list(each.running)
    assert len(running) == 2
    assert all(process.poll() is None for process in running)
    del each
    gc.collect()


def test_no_process_is_left_when_the_session_is_over(monkeypatch):
    monkeypatch.setattr(parts, "WORTH_SHARING", 1)
    each = parts.each_in_processes(2)
    each(parts.WORK["points_in"], [b"\x10\x00" + bytes(16)] * 3)
    running = list(each.running)
    del each
    gc.collect()
    assert [process.poll() for process in running] == [0, 0]


def test_a_process_that_is_killed_is_said_and_does_not_hang(each):
    points_of(HASHES, each)
    for process in each.running:
        process.kill()
        process.wait()
    with pytest.raises(LocalProtocolError, match="ended before its time"):
        points_of(HASHES, each)


def test_small_sets_and_single_cores_need_no_process():
    assert parts.each_in_processes(1) is None
    each = parts.each_in_processes(2)
    points_of(HASHES, each)
    assert each.running == []


def test_a_script_without_a_guard_is_not_run_again(tmp_path):
    """multiprocessing would import the caller's script in every process."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\n"
        "from fedsvd.engine import parts\n"
        "from fedsvd.prepare.blinding import points_of\n"
        "parts.WORTH_SHARING = 1\n"
        "points_of(np.zeros((9000, 16), np.uint8), parts.each_in_processes(2))\n"
        "print('once')\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "once\n"
