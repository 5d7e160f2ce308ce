"""Computations at the same time: all have ended when the caller goes on, whatever happened in any of them."""

import signal
import subprocess
import sys
import threading
from time import monotonic, sleep

import pytest

from fedsvd.engine.simulate import run_concurrently, uninterrupted


def endless(began, ended):
    began.set()
    try:
        while True:
            sleep(0.001)
    finally:
        ended.append(True)


def fails_after(began, error):
    assert began.wait(10)
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("here"), SystemExit(3)])
def test_an_exception_here_stops_the_others_before_it_leaves(error):
    before, began, ended = set(threading.enumerate()), threading.Event(), []
    with pytest.raises(type(error)):
        run_concurrently(
            [lambda: fails_after(began, error), lambda: endless(began, ended), lambda: endless(began, ended)]
        )
    assert len(ended) in (1, 2)  # the third may not have begun, and then never does
    assert not set(threading.enumerate()) - before


def test_a_computation_that_has_not_begun_when_the_others_are_stopped_never_begins():
    before = set(threading.enumerate())
    for _ in range(50):
        with pytest.raises(KeyboardInterrupt):
            run_concurrently([lambda: fails_after(_set(), KeyboardInterrupt()), lambda: sleep(0)])
    assert not set(threading.enumerate()) - before


def _set():
    event = threading.Event()
    event.set()
    return event


def test_an_error_elsewhere_is_raised_here_when_all_have_ended():
    ended = []

    def slow():
        sleep(0.2)
        ended.append(True)

    def fails():
        raise ValueError("there")

    with pytest.raises(ValueError, match="there"):
        run_concurrently([slow, fails, slow])
    assert len(ended) == 2


def test_a_destructor_that_swallows_the_exception_does_not_save_the_thread():
    began, ended = threading.Event(), []

    def stubborn():
        swallowed = False
        began.set()
        while True:
            try:
                sleep(0.001)
            except BaseException:
                ended.append(monotonic())
                if swallowed:
                    raise
                swallowed = True

    with pytest.raises(KeyboardInterrupt):
        run_concurrently([lambda: fails_after(began, KeyboardInterrupt()), stubborn])
    assert len(ended) == 2


def test_elsewhere_than_in_the_main_thread_no_handler_of_signals_is_touched():
    ran = []

    def block():
        with uninterrupted():
            ran.append(True)

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert ran


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL, lambda number, frame: None])
def test_handlers_of_signals_are_as_they_were_afterwards(handler):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, handler)
    try:
        with uninterrupted():
            assert signal.getsignal(signal.SIGTERM) not in (handler, before[signal.SIGTERM])
        assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGINT) is before[signal.SIGINT]
    finally:
        signal.signal(signal.SIGTERM, before[signal.SIGTERM])


INTERRUPTED = """
import signal
from fedsvd.engine.simulate import uninterrupted

signal.signal(signal.SIGINT, signal.default_int_handler)  # a build may have started us with it ignored
try:
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
        print("the block ended")
except KeyboardInterrupt:
    print("then it came")
"""


def test_an_interruption_waits_for_the_block_and_then_comes():
    """In a process of its own: a signal that is late would end the worker that runs the tests."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n") == ["the block ended", "then it came", ""]


def test_a_handler_that_is_not_pythons_is_left_alone(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    changed = []
    monkeypatch.setattr(signal, "signal", lambda *how: changed.append(how))
    run_concurrently([lambda: None, lambda: None])
    assert not changed
