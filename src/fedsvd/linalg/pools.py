"""Which threads multiply: how many the BLAS has, and how to have fewer for a while.

All large products and factorisations go through SciPy's BLAS (``blas.py``); inside ``one_pool`` NumPy's own, where it
is another library, has one thread and does not spin on a core. How many threads a pool starts with is the library's
affair: it honours OPENBLAS_NUM_THREADS, OMP_NUM_THREADS and the affinity of the process.

A limit holds for all threads of the process. Of several limits at the same time, in one thread or in several, the
lowest holds; when the last one ends, all is as it was before the first. This is the one file of the core with a lock.

The wheels' OpenBLAS has one number of threads for the process, whichever thread sets or reads it. A BLAS on OpenMP has
one for each thread that calls it: there a thread that only does pieces of work calls ``follow`` before each. And
because limits come and go with other threads' work, what is planned for a whole session asks ``available``, not
``threads``: read while another session is inside ``one_thread``, that would be one, and stay so.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import scipy
from threadpoolctl import ThreadpoolController

WORTH_SHARING = 256
"""The narrowest side of a product, or the side of a factorisation, from which two threads are quicker than one."""
_SMALL = 1 << 24  # floating-point operations of a call that one thread is done with before others are awake


@cache
def loaded_libraries() -> tuple[Any, ...]:
    assert scipy.linalg.blas  # loaded when first asked for; what is not loaded yet is not found here
    return tuple(library for library in ThreadpoolController().lib_controllers if library.user_api == "blas")


@cache
def computing_libraries() -> tuple[Any, ...]:
    """The libraries that products go through: SciPy's where it has one of its own, else all there are."""
    own = tuple(library for library in loaded_libraries() if "scipy.libs" in str(library.filepath))
    return own or loaded_libraries()


def threads() -> int:
    """How many threads large products and factorisations have now."""
    return max((int(library.num_threads) for library in computing_libraries()), default=1)


def available() -> int:
    """How many threads they have when no limit of ours holds, whatever other threads of the process do now."""
    with _lock:
        counts = [_natural.get(library) if _limits else None for library in computing_libraries()]
        found = zip(counts, computing_libraries(), strict=True)
        return max((count or int(library.num_threads) for count, library in found), default=1)


def follow() -> None:
    """Have the limits that hold now in the calling thread, too, where a BLAS counts for each thread by itself."""
    if _counts_by_thread():
        with _lock:
            _apply()


@cache
def _counts_by_thread() -> bool:
    """Whether a loaded BLAS is on OpenMP; elsewhere sixteen threads would wait for the lock before every piece."""
    return any(getattr(library, "threading_layer", "openmp") == "openmp" for library in loaded_libraries())


@contextmanager
def one_thread() -> Iterator[None]:
    """One BLAS thread for what happens inside, in every thread of the process."""
    with _limited(dict.fromkeys(loaded_libraries(), 1)):
        this = object()
        _alone.append(this)
        try:
            yield
        finally:
            _alone.remove(this)


def one_pool(count: int | None = None) -> AbstractContextManager[None]:
    """``count`` threads, or as many as there are, for the library that computes; one for every other."""
    computing = computing_libraries()
    limits = {library: 1 for library in loaded_libraries() if library not in computing}
    if count is not None:
        limits |= dict.fromkeys(computing, max(1, count))
    return _limited(limits)


def small_products(*sides: int) -> AbstractContextManager[None]:
    """One BLAS thread for what happens inside, where the products are too small to be worth sharing."""
    return one_thread() if min(sides) < WORTH_SHARING else nullcontext()


def small_work(operations: float) -> AbstractContextManager[None]:
    """One BLAS thread for a call of so few operations that sharing them is not worth it; else as it is.

    Threads that helped with a call spin for a while before they sleep, on cores that other threads could use.
    """
    return one_thread() if operations < _SMALL and not _alone else nullcontext()


_alone: list[object] = []  # the limits to one thread that hold now
_lock = threading.Lock()
_limits: list[dict[Any, int]] = []  # those that hold now
_natural: dict[Any, int] = {}  # threads of a library before the first limit


@contextmanager
def _limited(limits: dict[Any, int]) -> Iterator[None]:
    # Not threadpoolctl's own ``limit``, which looks through all libraries again: this stands around calls of 100 us.
    libraries = loaded_libraries()
    with _lock:
        if not _limits:
            _natural.update({library: int(library.num_threads) for library in libraries})
        _limits.append(limits)
        _apply()
    try:
        yield
    finally:
        with _lock:
            _limits.remove(limits)  # this one or an equal one, which is the same
            _apply()


def _apply() -> None:
    for library, natural in _natural.items():
        wanted = min((limits[library] for limits in _limits if library in limits), default=natural)
        if int(library.num_threads) != (wanted := min(wanted, natural)):
            # Since threadpoolctl 3.8 one thread of the process "controls" OpenBLAS, and what others set is ignored
            # without a word. Ours set under a lock, and the last to leave a limit must be able to lift it.
            release = getattr(library, "clear_controlling_thread", lambda force: None)
            release(force=True)
            library.set_num_threads(wanted)
            release(force=True)  # so that a limit of the caller's own holds afterwards
