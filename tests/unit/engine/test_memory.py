"""A process that was told to gives back what it frees."""

import subprocess
import sys

import pytest

_HEAPS = """
import ctypes, sys, threading
from fedsvd.engine.memory import bound_heap
if sys.argv[2] == "bound" and not bound_heap():
    sys.exit(77)
libc = ctypes.CDLL(None)
if not hasattr(libc, "malloc_info"):
    sys.exit(77)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
together = threading.Barrier(12)
def run():
    together.wait()
    libc.malloc(ctypes.c_size_t(1 << 16))
    together.wait()
threads = [threading.Thread(target=run) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
print(open(sys.argv[1]).read().count("<heap nr="))
"""


def heaps(tmp_path, how):
    """How many heaps twelve threads of a process use."""
    words = [sys.executable, "-c", _HEAPS, str(tmp_path / how), how]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode == 77:
        pytest.skip("the C library is not glibc")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_threads_of_a_bounded_process_share_two_heaps(tmp_path):
    assert heaps(tmp_path, "free") > 2
    assert heaps(tmp_path, "bound") == 2
