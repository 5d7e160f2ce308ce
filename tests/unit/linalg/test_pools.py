"""How many threads the BLAS has: the same from every thread, for a session that any thread starts."""

import os
import subprocess
import sys
import threading

import pytest

from fedsvd.linalg import pools

SESSION = """
import threading
from pathlib import Path

import numpy as np

from fedsvd.data.open import open_source
from fedsvd.linalg import pools
from fedsvd.protocol.tasks import Split, Task
from fedsvd.service.doctor_checks import this_machine
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study

reported = max(int(blas["num_threads"]) for blas in this_machine(Path(".")).blas)
X = np.random.default_rng(0).standard_normal((4200, 40))
seen, failed, busy, started = set(), [], threading.Event(), threading.Event()


def meanwhile():
    with pools.one_thread():
        busy.set()
        started.wait()


def session():
    try:
        parties = [PartyData(open_source(part)) for part in (X[:, :25], X[:, 25:])]
        planned = pools.available()
        started.set()
        other.join()
        run_study(Study(Task.SVD, Split.VERTICAL), parties, progress=lambda *stage: seen.add(pools.threads()))
        assert planned == reported, (planned, reported)
    except BaseException as error:
        failed.append(error)


other = threading.Thread(target=meanwhile)
other.start()
busy.wait()
worker = threading.Thread(target=session)
worker.start()
worker.join()
assert not failed, failed
print(reported, max(seen), pools.threads())
"""


@pytest.mark.parametrize("count", [1, 2])
def test_a_session_from_a_worker_thread_has_the_threads_that_doctor_reports(count):
    """Another thread is inside ``one_thread`` when it starts: what it finds then is not what it plans with."""
    if count > len(os.sched_getaffinity(0)):
        pytest.skip("fewer cores than threads")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(count)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SESSION],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(count)] * 3


def in_a_thread(work):
    found = []
    worker = threading.Thread(target=lambda: found.append(work()))
    worker.start()
    worker.join()
    return found[0]


def test_a_limit_holds_in_other_threads_and_ends_with_its_block():
    before = pools.threads()
    with pools.one_thread():
        assert in_a_thread(pools.threads) == 1
        assert in_a_thread(pools.available) == before == pools.available()
    assert in_a_thread(pools.threads) == before == pools.threads()


LAST = """
import threading

from threadpoolctl import threadpool_limits

from fedsvd.linalg import pools

before, inside, leave = pools.threads(), threading.Event(), threading.Event()


def hold():
    with pools.one_thread():
        inside.set()
        leave.wait()


worker = threading.Thread(target=hold)
with pools.one_pool():
    worker.start()
    inside.wait()
print(before, pools.threads(), pools.available())
leave.set()
worker.join()
print(pools.threads())


def limited():
    with threadpool_limits(1, "blas"):
        print(pools.threads())


other = threading.Thread(target=limited)
other.start()
other.join()
print(pools.threads())
"""


def test_a_limit_that_a_worker_leaves_last_leaves_all_as_it_was():
    # Two threads of the BLAS, also where tests have one. A thread of the caller may then set a limit of its own.
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", LAST], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "1", "2", "2", "1", "2"]


SMALL = """
from fedsvd.linalg import pools

with pools.small_work(1e6):
    few = pools.threads()
    with pools.small_work(1e6):
        within = pools.threads()
with pools.small_work(1e9):
    many = pools.threads()
print(few, within, many, pools.threads())
"""


def test_calls_of_few_operations_have_one_thread_and_others_all():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", SMALL], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "2", "2"]


REFLECTED = """
import numpy as np
import scipy.linalg

from fedsvd.linalg import pools
from fedsvd.linalg.householder import reflect

reflected = scipy.linalg.lapack.dormqr


def counted(*arguments):
    print(pools.threads())
    return reflected(*arguments)


scipy.linalg.lapack.dormqr = counted
for n in (200, 1000):
    V, tau = np.zeros((n, n), order="F"), np.zeros(n)
    reflect(V, tau, np.ones((n, n), order="F"), side="L", transposed=False)
"""


def test_reflectors_of_a_few_hundred_rows_are_applied_by_one_thread():
    # 200 x 200 takes one thread a millisecond; two took 30 on two busy cores, waiting for each other in every product.
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", REFLECTED], env=environment, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()[:1]) == {"1"}
    assert set(done.stdout.split()[1:]) == {"2"}


@pytest.mark.parametrize(("given", "found"), [(None, "22"), ("26", "26")])
def test_threads_of_the_blas_sleep_soon_unless_the_user_says_otherwise(given, found):
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    environment |= {"OPENBLAS_THREAD_TIMEOUT": given} if given else {}
    code = "import os, fedsvd; print(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found
