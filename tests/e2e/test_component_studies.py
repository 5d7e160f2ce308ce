"""Parallel analysis and canonical correlations between processes: kits, approvals, commands."""

import json

import numpy as np
import pytest
from tests.e2e.commands import answered
from tests.e2e.federations import federation_of, split_table
from tests.tolerances import RESULT_BAR, VALUES_BAR, assert_close

import fedsvd
from fedsvd.policy.rules import Policy


def ran(federation, root, parties, **job):
    """The folder of each party after a job that all owners agreed to beforehand, submitted and watched by commands."""
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in job.items())
    (root / "job.toml").write_text(f"[job]\n{lines}" + "".join(f'[[party]]\nname = "{name}"\n' for name in parties))
    at = ("--kit", federation.kits["researcher/res"], "--csp", federation.csp)
    id = answered("job", "submit", root / "job.toml", *at)["job"]
    answered("job", "watch", id, *at)
    return [federation.folder(name, id) for name in parties]


@pytest.mark.slow
def test_three_hospitals_choose_components_by_parallel_analysis(tmp_path):
    parties = ("a", "b", "c")
    D, tables = split_table(330, 5, parties)
    with federation_of(tmp_path, parties, tables, policy=Policy(records_for_full=50)) as federation:
        federation.start("csp/csp", *(f"party/{name}" for name in parties))
        folders = ran(federation, tmp_path, parties, name="scree", task="pca", components="parallel")
    found = [fedsvd.load(folder) for folder in folders]
    sigma = np.linalg.svd(D - D.mean(axis=0), compute_uv=False)
    assert len({pca.n_components_ for pca in found}) == 1
    for pca in found:
        assert pca.n_components_ == max(1, np.argmin(sigma > pca.choice_.threshold))
        assert_close(np.append(pca.singular_values_, pca.left_out_singular_values_), sigma, VALUES_BAR)
        assert_close(pca.choice_.threshold, found[0].choice_.threshold, VALUES_BAR)


@pytest.mark.slow
def test_two_institutions_compute_canonical_correlations(tmp_path):
    parties = ("bank", "telco")
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 4)) + 3.0
    tables = {"bank": X, "telco": X[:, :3] @ rng.normal(size=(3, 3)) + 2 * rng.normal(size=(150, 3))}
    with federation_of(tmp_path, parties, tables) as federation:
        federation.start("csp/csp", *(f"party/{name}" for name in parties))
        folders = ran(federation, tmp_path, parties, name="both", task="cca", ids="trust")
    Q = [np.linalg.qr(table - table.mean(axis=0))[0] for table in tables.values()]
    rho = np.linalg.svd(Q[0].T @ Q[1], compute_uv=False)
    for folder, table in zip(folders, tables.values(), strict=True):
        found = fedsvd.load(folder)
        assert_close(found.correlations_, rho, VALUES_BAR)
        assert len(found.tests_) == 3
        (own,) = found.parties_
        assert_close((table - table.mean(axis=0)) @ own.weights_, own.scores_, RESULT_BAR)
