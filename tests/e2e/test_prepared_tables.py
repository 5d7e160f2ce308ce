"""Messy files of three hospitals as processes of their own, on one machine and between institutions."""

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA
from tests.e2e.commands import answered, until
from tests.e2e.federations import federation_of
from tests.e2e.outcomes import expect_equal, simulated
from tests.messy import PARTIES, PREPARE, messy_hospitals, numbers, record, write_job
from tests.tolerances import RESULT_BAR, assert_close

STUDY = {"components": 2, "release": ["components", "mean", "spectrum"]}


def expect_scikit_learns(folder, joint):
    expected = PCA(svd_solver="full", n_components=2).fit(numbers(joint).dropna())
    assert_close(np.load(folder / "explained_variance.npy"), expected.explained_variance_, RESULT_BAR)


@pytest.mark.slow
def test_messy_files_run_as_processes_and_what_was_left_out_stays_with_its_party(tmp_path):
    joint = messy_hospitals(tmp_path)
    job = write_job(tmp_path, record(tmp_path, PREPARE, **STUDY))
    answered("run", job, "--env", "local", "--consent", cwd=tmp_path)
    results = tmp_path / "results" / "messy"
    expect_scikit_learns(results, joint)
    report = json.loads((results / "parties" / "west" / "manifest.json").read_text())["facts"]["prepared"]
    assert report["rows_dropped"] == int(numbers(joint)[310:].isna().any(axis=1).sum())
    assert "rows_dropped" not in (results / "manifest.json").read_text()


@pytest.mark.slow
def test_between_institutions_a_site_renames_its_own_columns_and_its_owner_is_shown_the_preparation(tmp_path):
    joint = messy_hospitals(tmp_path)
    agreed = {key: value for key, value in PREPARE.items() if key != "rename"}
    with federation_of(tmp_path, tuple(PARTIES)) as federation:
        for name, file in PARTIES.items():
            lines = f'[data]\ndefault = "{tmp_path / file}"\n'
            lines += '[table.map]\n"Fläche" = "mean area"\n' if name == "west" else ""
            (federation.kits[f"party/{name}"] / "site.toml").write_text(lines, encoding="utf-8")
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES if name != "west"))
        job = write_job(tmp_path, record(None, agreed, **STUDY))
        at = ("--csp", federation.csp)
        id = answered("job", "submit", job, "--kit", federation.kits["researcher/res"], *at)["job"]
        shown = answered("job", "approve", id, "--kit", federation.kits["party/west"], "--yes", *at)
        assert "rows with a missing entry are left out" in shown["prepare"]
        assert "rows were left out for missing entries" in shown["prepared_here"]
        federation.start("party/west")
        answered("job", "watch", id, "--kit", federation.kits["researcher/res"], *at)
        expected = simulated(record(tmp_path, PREPARE, **STUDY), tmp_path / "sim")
        for name in PARTIES:
            until(lambda name=name: list((federation.kits[f"party/{name}"] / "results").glob("*/manifest.json")))
            expect_equal(federation.folder(name, id), expected / "parties" / name)
        expect_scikit_learns(federation.folder("north", id), joint)
        for path in (federation.kits["csp/csp"] / "state").rglob("*"):
            assert not path.is_file() or "Fläche".encode() not in path.read_bytes(), path
