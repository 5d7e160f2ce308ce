"""The four examples are whole, and their notebooks run from an empty folder to their own comparison with joint data."""

import shutil

import pytest
from tests.docs.snippets import ROOT

from fedsvd.runtime.job import read_job

EXAMPLES = ROOT / "examples"
STUDIES = {"hospitals": "pca", "bank-and-telco": "lr", "genotypes": "pca", "films": "lsa"}
OTHERS = sorted(STUDIES.keys() - {"hospitals"})


def test_there_are_four_each_with_a_job_a_script_and_a_notebook():
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(STUDIES)
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name, task in STUDIES.items():
        folder = EXAMPLES / name
        assert read_job(folder / "job.toml").study.task == task
        assert {path.name for path in folder.iterdir()} >= {"job.toml", "make_data.py", "notebook.ipynb"}
        assert f"[{name}]({name})" in readme


def executed(name, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    folder = shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("data", "results"))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(folder / "notebook.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are kept without their outputs"
    client.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return folder, notebook


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
# One kernel start is enough for a quick answer: the other studies run as their how-to pages are typed.
@pytest.mark.parametrize("name", ["hospitals", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_notebook_runs_from_an_empty_folder(name, tmp_path, monkeypatch):
    folder, notebook = executed(name, tmp_path, monkeypatch)
    said = "".join(str(output) for cell in notebook.cells for output in cell.get("outputs", []))
    assert "difference" in said
    assert (folder / "results" / name / "report.html").is_file()
