"""Hard spectra by steps, for any number of parties, split either way, from every source: values and vectors of LAPACK.

All of it is slow; the quick part covers each spectrum, each number of parties up to 20, each split and each source once
or more.
"""

import numpy as np
import pytest
import scipy.sparse
from tests.tolerances import ORTHONORMAL_BAR, assert_close, found_by_steps
from tests.unit.linalg.steps_cases import SPECTRA, of_spectrum

from fedsvd.protocol.tasks import Split, Task
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")

USERS, SPLITS, SOURCES = (2, 3, 20, 150), (Split.HORIZONTAL, Split.VERTICAL), ("dense", "sparse", "file")
MORE = {
    "copies": (lambda: of_spectrum([3.0, *[2.0] * 40, *np.linspace(1.5, 0.1, 40)], 90, 150), 34),
    "scale 1e-150": (lambda: SPECTRA["factors"][0]() * 1e-150, 6),
    "scale 1e140": (lambda: SPECTRA["factors"][0]() * 1e140, 6),
}
TABLES = {**SPECTRA, **MORE}


def stored(part, source, folder, number):
    if source == "dense":
        return part
    if source == "sparse":
        return scipy.sparse.csr_array(part)
    path = folder / f"{number}.npy"
    np.save(path, part)
    return path


def cases():
    """Every combination; a few of them are quick. 150 parties hold a record each, of other tables of this spectrum."""
    for number, name in enumerate(TABLES):
        for k in USERS:
            for split in SPLITS:
                for source in SOURCES:
                    if k > 3 and source != SOURCES[(number + k + (split is Split.VERTICAL)) % 3]:
                        continue  # what a source gives does not depend on how many there are
                    at = (number + (split is Split.VERTICAL)) % 3
                    quick = (
                        k == 2 + number % 2 and source == SOURCES[at] and (split is Split.VERTICAL) == (number % 4 > 1)
                    )
                    quick = quick or (name, k, source) == ("rank 5", 20, "sparse")
                    yield pytest.param(name, k, split, source, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "k", "split", "source"), list(cases()))
def test_the_top_by_steps_is_that_of_lapack_everywhere(name, k, split, source, tmp_path):
    make, r = TABLES[name]
    X = make()
    if len(X) < k:  # records are repeated in halves of their size: squares add up to the same
        copies = -(-k // len(X))
        X = np.concatenate([X] * copies) / np.sqrt(copies)
    parts = np.array_split(X, k)
    rows = split is Split.HORIZONTAL
    given = [stored(part if rows else part.T, source, tmp_path, i) for i, part in enumerate(parts)]
    results = Federation(given, Task.SVD, split, scheme="steps", components=r).run()
    first, unit = results[0], np.abs(X).max()
    s = np.linalg.svd(X / unit, compute_uv=False)
    rank, limit = len(first.sigma), found_by_steps(r, X.shape[1])
    assert rank >= min(r, np.count_nonzero(s > limit * s[0]))
    assert_close(first.sigma / unit, s[:rank], limit, s[0])
    own = np.concatenate([np.asarray(found.Vt_i).T for found in results])
    scaled, sigma = X / unit, first.sigma / unit
    for residual in (scaled.T @ own - first.U * sigma, scaled @ first.U - own * sigma):
        assert np.linalg.norm(residual, axis=0).max(initial=0.0) <= limit * s[0]
    for Q in (first.U, own):
        assert np.abs(Q.T @ Q - np.eye(rank)).max(initial=0.0) <= ORTHONORMAL_BAR
    assert all(np.array_equal(found.U, first.U) and np.array_equal(found.sigma, first.sigma) for found in results)
