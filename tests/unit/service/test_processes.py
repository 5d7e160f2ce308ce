"""Processes of one machine share its cores, and what a user set for all of them is shared, too."""

import pytest

from fedsvd.engine.device import cores
from fedsvd.service.processes import environment_for

NAMES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.mark.parametrize("roles", [2, 3, 4, 40])
def test_parties_share_the_cores_and_each_has_one_thread_at_least(roles, monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    share = max(1, cores() // (roles - 1))
    assert [environment_for(roles)[name] for name in NAMES] == [str(share)] * 3


@pytest.mark.parametrize(("given", "found"), [("1", "1"), ("0", "1"), ("4096", str(max(1, cores() // 2)))])
def test_a_number_of_threads_that_is_set_is_that_of_all_processes_together(given, found, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    assert environment_for(3)["OPENBLAS_NUM_THREADS"] == found
