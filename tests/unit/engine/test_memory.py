"""A process that was told to gives back what it frees."""

import subprocess
import sys

import pytest

_CHURN = """
import sys, threading
import numpy as np
from fedsvd.engine.memory import bound_heap
if sys.argv[1] == "bound" and not bound_heap():
    sys.exit(77)
def resident():
    with open("/proc/self/status") as file:
        return 1024 * int(next(line for line in file if line.startswith("RssAnon")).split()[1])
before = resident()
def work(kept):
    arrays = [np.ones((1 << 20) // 8) for _ in range(16)]  # 16 MiB in pieces of 1 MiB
    kept.append(arrays[-1][:100].copy())  # what is alive at the end of a heap
gates, kept = [], []
start = threading.Barrier(16)
def run():
    start.wait()
    work(kept)
    start.wait()
threads = [threading.Thread(target=run) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
large = [np.ones((24 << 20) // 8) for _ in range(4)]  # below what glibc maps by itself after a while
del large
print(resident() - before)
"""


def left_behind(how):
    """Bytes that a process holds after sixteen threads have come and gone."""
    done = subprocess.run([sys.executable, "-c", _CHURN, how], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode == 77:
        pytest.skip("the C library has no mallopt")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_freed_memory_goes_back_to_the_system():
    assert left_behind("bound") <= 64 << 20
