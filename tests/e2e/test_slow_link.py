"""Studies over slow lines: the same results, only later."""

import numpy as np
import pytest
from tests.e2e.federations import federation_of, split_table
from tests.e2e.outcomes import expect_simulated, file_of
from tests.proxies import Proxy
from tests.tolerances import spectrum

from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Policy
from fedsvd.service.local import local_federation
from fedsvd.studies.job_file import job_from
from fedsvd_lab.network.link import METHODS, open_link

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")]
THIN = 3_000.0  # bytes a second


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


@pytest.mark.chaos("a thin line", "3 kB/s for one party, patience 30 s", "right, only later; nothing resumed")
def test_a_study_over_a_thin_line_ends_right(tmp_path):
    """What was seen before: no frame got through in the time of a call, and the party was taken for dead."""
    _, tables = split_table(300, 60, ("a", "b"))
    with federation_of(tmp_path, ("a", "b"), tables, patience=30.0) as federation:
        federation.start("csp/csp", "party/a")
        with Proxy(federation.port, THIN) as proxy, federation.connect() as researcher:
            federation.via["party/b"] = proxy.address
            federation.start("party/b")
            id = researcher.submit(file_of("pca", ("a", "b"), components=3))
            assert researcher.wait(id, timeout=500).state == "done"
            assert proxy.carried / THIN > 30.0  # seconds: longer than patience
        expect_simulated(federation, id, "pca", components=3)
