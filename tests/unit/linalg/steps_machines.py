"""Parties of ``steps_cases.play`` on machines of their own: another LAPACK driver, another number of BLAS threads."""

from contextlib import contextmanager

import scipy.linalg

from fedsvd.linalg import backend, leading
from fedsvd.linalg.golub_kahan import Space
from fedsvd.linalg.pools import one_pool

_OWN_SVD, _OWN_EIGH = backend.svd, leading.eigh
MACHINES = (("gesdd", "evr", 1), ("gesvd", "evx", 4))  # SVD, eigenvalues, threads


@contextmanager
def machine(number):
    """This machine's drivers and threads for what happens inside."""
    svd_driver, eigh_driver, threads = MACHINES[number % len(MACHINES)]

    def svd(A):
        return scipy.linalg.svd(A, full_matrices=False, lapack_driver=svd_driver)

    def eigh(A, **asked):
        return _OWN_EIGH(A, driver=eigh_driver, **asked)

    backend.svd = leading.svd = svd
    leading.eigh = eigh
    try:
        with one_pool(threads):
            yield
    finally:
        backend.svd = leading.svd = _OWN_SVD
        leading.eigh = _OWN_EIGH


class Elsewhere:
    """A space whose methods are played on one machine; spaces that follow from it are there too."""

    def __init__(self, space, number):
        self._space, self._number = space, number

    def __getattr__(self, name):
        with machine(self._number):
            found = getattr(self._space, name)
        if not callable(found):
            return found

        def played(*given, **asked):
            with machine(self._number):
                result = found(*given, **asked)
            return Elsewhere(result, self._number) if isinstance(result, Space) else result

        return played
