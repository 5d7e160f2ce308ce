"""Threads that answer calls: all there before the first, and no more of them used than are needed."""

import threading
import weakref
from concurrent.futures import CancelledError

import pytest
from tests.network import GENEROUS, until

from fedsvd.transport.workers import Workers


@pytest.fixture
def workers():
    made = Workers(8, "test")
    made.start()
    yield made
    made.shutdown()


def test_tasks_one_after_the_other_are_done_by_one_thread(workers):
    """Python's own pool would use all eight."""
    until(lambda: sum(thread.name.startswith("test_") for thread in threading.enumerate()) == 8)
    by = [workers.submit(threading.current_thread).result(GENEROUS) for _ in range(1)]
    for _ in range(40):
        until(lambda: workers.idle == 8)
        by.append(workers.submit(threading.current_thread).result(GENEROUS))
    assert len(set(by)) == 1


def test_tasks_beyond_the_threads_wait_and_all_are_done(workers):
    gate = threading.Event()
    held = [workers.submit(gate.wait, GENEROUS) for _ in range(8)]
    more = [workers.submit(pow, 2, place) for place in range(20)]
    assert not any(task.done() for task in more)
    gate.set()
    assert [task.result(GENEROUS) for task in more] == [2**place for place in range(20)]
    assert all(task.result(GENEROUS) for task in held)


def test_an_error_is_the_tasks_and_the_thread_goes_on(workers):
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            workers.submit(lambda: 1 / 0).result(GENEROUS)
    assert workers.submit(pow, 2, 3).result(GENEROUS) == 8


def test_an_idle_thread_holds_nothing_of_its_last_task(workers):
    class Large:
        pass

    large = Large()
    seen = weakref.ref(large)
    workers.submit(id, large).result(GENEROUS)
    until(lambda: workers.idle == 8)
    del large
    until(lambda: seen() is None)


def test_after_a_stop_nothing_is_taken_and_what_waited_is_cancelled():
    workers, gate = Workers(1, "test"), threading.Event()
    workers.start()
    running = workers.submit(gate.wait, GENEROUS)
    until(running.running)
    waiting = workers.submit(pow, 2, 3)
    workers.shutdown(cancel_futures=True)
    with pytest.raises(CancelledError):
        waiting.result(GENEROUS)
    with pytest.raises(RuntimeError):
        workers.submit(pow, 2, 3)
    gate.set()
    assert running.result(GENEROUS)


def test_where_not_all_threads_can_be_started_none_is_left(monkeypatch):
    started = []

    class Few(threading.Thread):
        def start(self):
            if len(started) == 3:
                raise RuntimeError("can't start new thread")
            started.append(self)
            super().start()

    monkeypatch.setattr(threading, "Thread", Few)
    with pytest.raises(RuntimeError):
        Workers(5, "few").start()
    for thread in started:
        thread.join(GENEROUS)
        assert not thread.is_alive()
