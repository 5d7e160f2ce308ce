"""A process that is told to stop stops, whichever thread hears it first and whatever it hangs in."""

import signal
import subprocess
import sys

import pytest

# The main thread waits for a lock, as that of every role does; the signal goes to another thread.
HEEDING = """
import signal, sys, threading, time
from fedsvd.cli import signals
stop = threading.Event()
signals.LONGEST_END = 0.5
signals.heed_signals(stop)

def told():
    for number in map(int, sys.argv[2:]):
        signal.pthread_kill(threading.get_ident(), number)
        time.sleep(0.2)

threading.Thread(target=told, daemon=True).start()
stop.wait()
if sys.argv[1] == "hangs":
    threading.Event().wait()
print("ended in order")
"""


def run(how, *numbers):
    words = [sys.executable, "-c", HEEDING, how, *(str(int(number)) for number in numbers)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_another_thread_hears_wakes_the_main_thread(number):
    ended = run("ends", number)
    assert (ended.returncode, ended.stdout) == (0, "ended in order\n")


def test_what_hangs_after_a_signal_is_left_and_shows_where_it_hung():
    ended = run("hangs", signal.SIGTERM)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "most recent call first" in ended.stderr


def test_a_second_signal_ends_the_process_at_once():
    assert run("hangs", signal.SIGTERM, signal.SIGINT).returncode == 128 + signal.SIGINT
