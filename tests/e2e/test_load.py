"""Load: many studies at once over one CSP, and an upload far larger than the memory that both ends may use.

``benchmarks.run transport`` holds the transport's speed, and its memory, against a bare TLS socket.
"""

from pathlib import Path

import numpy as np
import pytest
from tests.e2e.commands import GENEROUS
from tests.e2e.federations import federation_of, split_table
from tests.e2e.outcomes import file_of
from tests.tolerances import assert_close, digits_lost, spectrum

from fedsvd.data.open import open_source
from fedsvd.policy.rules import Policy
from fedsvd.service.local import local_federation
from fedsvd.studies.job_file import job_from

PARTIES = ("a", "b", "c")
MIB = 1 << 20
TASKS = (
    ("svd", {}),
    ("pca", {"components": 2, "release": ["components", "mean", "spectrum"]}),
    ("lsa", {"components": 3}),
)


def expect_numpys(folder, task, options, D):
    """The singular values, or what PCA makes of them, are NumPy's on the joint table."""
    centred = D - D.mean(axis=0) if task == "pca" else D
    sigma = np.linalg.svd(centred, compute_uv=False)
    kept = options.get("components", len(sigma))
    bar = spectrum(*D.shape)
    assert_close(np.load(folder / "singular_values.npy"), sigma[:kept], bar, sigma[0])
    if task == "pca":
        assert_close(np.load(folder / "mean.npy"), D.mean(axis=0), bar, sigma[0])


@pytest.mark.slow
def test_one_csp_serves_twenty_studies_at_once_and_all_are_right(tmp_path):
    D, tables = split_table(300, 6, PARTIES)
    with federation_of(tmp_path, PARTIES, tables, patience=GENEROUS) as federation:
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES))
        jobs = [TASKS[number % len(TASKS)] for number in range(20)]
        with federation.connect() as line:
            ids = [line.submit(file_of(task, PARTIES, **options)) for task, options in jobs]
            for id in ids:
                line.wait(id, timeout=3 * GENEROUS)
            assert {line.job(id).attempt for id in ids} == {1}
        for id, (task, options) in zip(ids, jobs, strict=True):
            for name in PARTIES:
                expect_numpys(federation.folder(name, id), task, options, D)


def peak(process):
    """The most that was resident in a process, in bytes."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        pytest.skip("this system does not say how much memory another process has")
    return 1024 * int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1])


@pytest.mark.scale
def test_an_upload_of_two_gigabytes_holds_memory_under_the_budget_at_both_ends(tmp_path):
    rows, budget = 2_500_000, 512 * MIB
    whole = f"synthetic://{rows}x100?seed=7&label=y&noise=0"
    data = {"a": f"synthetic://{rows}x100?seed=7&columns=0:50", "b": f"{whole}&columns=50:100"}
    party = [{"name": name, "data": address} for name, address in data.items()]
    options = {"name": "upload", "task": "lr", "split": "vertical", "label": "y", "memory": budget}
    job = job_from({"job": options, "party": party}, tmp_path)
    with local_federation(job, policy=Policy.permissive(), scratch=tmp_path) as federation:
        before = {process.name: peak(process) for process in federation.processes}
        run = federation.run(job)
        grown = {process.name: peak(process) - before[process.name] for process in federation.processes}
        found = np.concatenate([np.load(run.folders[name] / "coefficients.npy").ravel() for name in data])
    sent = {link: count for told in run.record.progress.values() for link, count in told.bytes_by_link.items()}
    assert sent["user-1 -> csp"] > 2e9
    # Beside the budget for panels and batches: what the transport may hold, and the libraries that come in with use.
    held = {"csp/csp": 256 * MIB, "party/a": 128 * MIB, "party/b": 128 * MIB}
    assert all(grown[name] <= budget + most + 64 * MIB for name, most in held.items()), grown
    # Without noise a few rows determine the coefficients.
    panel = open_source(whole).rows(0, 1000)
    expected = np.linalg.lstsq(panel[:, :-1], panel[:, -1], rcond=None)[0]
    assert_close(found, expected, digits_lost(6))
