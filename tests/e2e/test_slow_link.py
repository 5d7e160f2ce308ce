"""The local rung over a slow link, by every method this machine has: the same results, only later."""

import numpy as np
import pytest
from tests.tolerances import spectrum

from fedsvd.errors import ConfigError
from fedsvd.lab.network.link import METHODS, open_link
from fedsvd.policy.rules import Policy
from fedsvd.service.local import local_federation
from fedsvd.studies.job_file import job_from

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", METHODS)
def test_a_study_over_a_slow_link_is_exact_and_leaves_nothing_behind(tmp_path, method):
    D = np.random.default_rng(11).normal(size=(240, 12))
    for name, part in zip("ab", np.split(D, [100]), strict=True):
        np.save(tmp_path / f"{name}.npy", part)
    data = [{"name": name, "data": str(tmp_path / f"{name}.npy")} for name in "ab"]
    job = job_from({"job": {"name": "slow", "task": "svd"}, "party": data}, tmp_path)
    try:
        opened = open_link(100e6, 0.05, method)
        link = opened.__enter__()
    except ConfigError as error:
        pytest.skip(f"not on this machine: {error.fault}")
    try:
        with local_federation(job, policy=Policy.permissive(), scratch=tmp_path, wiring=link) as federation:
            run = federation.run(job)
            sigma = np.linalg.svd(D, compute_uv=False)
            for folder in run.folders.values():
                found = np.load(folder / "singular_values.npy")
                np.testing.assert_allclose(found, sigma, rtol=0, atol=spectrum(*D.shape) * sigma[0])
    finally:
        opened.__exit__(None, None, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "b.npy"]
