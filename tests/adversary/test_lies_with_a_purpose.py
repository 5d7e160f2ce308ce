"""Lies that follow a thought: a CSP that knows what it wants users to believe, or to show.

A singular value that is too small, a rank or a null space that is not there, rows called equal. True vectors that do
not lead: ``test_order.py``. What is refused is refused before anything is released; what passes is stated in the threat
model.
"""

import contextlib
import warnings
from dataclasses import replace

import numpy as np
import pytest
from tests.adversary.test_a_lying_csp import federation, rows, studies
from tests.tolerances import assert_close, digits_lost

from fedsvd.errors import FedSVDError, PrivacyWarning
from fedsvd.protocol.messages import Aborted, Factors, RowIds, Solution
from fedsvd.protocol.tasks import Split, Task
from fedsvd.testing.federation import Federation, altering


def with_a_weak_direction(strong):
    """Three users; of the fourth direction user ``strong`` has a thousand times as much as the others."""
    rng = np.random.default_rng(strong)
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    sizes = np.array([1.0, 1.0, 1.0, 1e-11, 1e-13])
    tables = [rng.standard_normal((6, 5)) * sizes for _ in range(3)]
    tables[strong][:, 3] *= 1e3
    return [T @ Q.T for T in tables]


@pytest.mark.parametrize("study", [{"components": 4}, {"components": 4, "scheme": "mask"}])
@pytest.mark.parametrize("claimed", [2.5e-13, 1e-300])
def test_a_singular_value_that_is_claimed_too_small_does_not_show_whose_direction_it_is(study, claimed):
    """Divided by it, one user's own part would overflow its sum, and that user alone would stop."""
    warnings.simplefilter("ignore", PrivacyWarning)
    told = []
    for strong in range(3):
        session = Federation(with_a_weak_direction(strong), Task.SVD, Split.HORIZONTAL, **study)

        def smaller(said: Factors):
            sigma = said.sigma_scaled.copy()
            sigma[3] = sigma[0] * claimed
            return [replace(said, sigma_scaled=sigma)]

        with contextlib.suppress(FedSVDError):  # it may end, where the value is below rounding
            session.run(meddle=altering(Factors, smaller))
        told.append({(str(o), m.code, m.stage) for o, _, m in session.sent if isinstance(m, Aborted)})
    assert told[0] == told[1] == told[2]
    assert {code for _, code, _ in told[0]} <= {"FSVD-305", "FSVD-415", "FSVD-418"}


def regression_on(tables):
    return Federation(tables, Task.LR, Split.HORIZONTAL, labels=[T @ np.arange(4.0) + T[:, 0] ** 2 for T in tables])


@pytest.mark.parametrize("null", ["zero", "random", "beside w'"])
def test_a_rank_that_is_claimed_too_low_is_refused(null):
    def lower(said: Solution):
        w = said.w_masked / np.linalg.norm(said.w_masked)
        column = {"zero": 0.0 * w, "random": np.eye(4)[:, :1], "beside w'": np.linalg.svd(w)[0][:, 1:2]}[null]
        return [replace(said, null_masked=column, rank=said.rank - 1)]

    session = regression_on(rows(0, 7, 5))
    with pytest.raises(FedSVDError) as stopped:
        session.run(meddle=altering(Solution, lower))
    assert stopped.value.code == ("FSVD-418" if null == "zero" else "FSVD-305")
    assert not session.released


def test_a_rank_that_is_claimed_too_high_passes_with_a_solution_that_is_not_the_least_one_and_this_is_stated():
    """The normal equations hold for it; nothing of the users' data goes to the CSP by it."""
    tables = [np.column_stack((T[:, :3], T[:, 2])) for T in rows(0, 7, 5)]

    def higher(said: Solution):
        assert said.null_masked.shape == (4, 1)
        return [replace(said, w_masked=said.w_masked + said.null_masked, null_masked=np.zeros((4, 0)), rank=4)]

    honest = regression_on(tables).run()[0]
    found = regression_on(tables).run(meddle=altering(Solution, higher))[0]
    assert np.linalg.norm(found.coefficients) > np.linalg.norm(honest.coefficients)
    joint = np.concatenate(tables)
    fitted = [joint @ each.coefficients[0] + each.intercept[0] for each in (honest, found)]
    assert_close(fitted[1], fitted[0], digits_lost(5))


@pytest.mark.parametrize("name", ["lsa, B, split columns", "svd, masks"])
def test_rows_that_differ_and_are_called_equal_are_found_before_anything_is_released(name):
    """The CSP compares the hashes of ids, and may say of them what it likes; users have them in their digests."""
    study = studies(0)[name]
    first, second = study["ids"]
    session = federation(study | {"ids": [first, second[::-1]]})
    sent: list[RowIds] = []

    def as_the_first(said: RowIds):
        sent.append(said)
        return [sent[0]]

    with pytest.raises(FedSVDError) as stopped:
        session.run(meddle=altering(RowIds, as_the_first))
    assert stopped.value.code == "FSVD-419"
    assert not session.released
