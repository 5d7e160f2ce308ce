"""The examples' job files are valid, and their notebooks run from an empty folder to what is stored in them."""

import re
import sys

import pytest
from tests.docs.snippets import DOCS, ROOT

from fedsvd.studies.job_file import read_job

EXAMPLES = ROOT / "examples"
STUDIES = {"hospitals": "pca", "bank-and-telco": "lr", "outcome": "glm", "genotypes": "pca", "films": "lsa"}
STUDIES["federations"] = "lr"
PACKAGES = {"group_variance"}  # to install, with tests of its own: tests/e2e/test_foreign_task.py
REPORTS = {"federations": "rehearsal/east/results/*/report.html"}
"""Where a notebook leaves its report, if not where a run of its job file does."""
OTHERS = sorted(STUDIES.keys() - {"hospitals"})


@pytest.fixture(scope="module")
def notebooks():
    pytest.importorskip("nbclient")
    sys.path.insert(0, str(DOCS / "_ext"))
    import notebooks

    return notebooks


def stored(name):
    return pytest.importorskip("nbformat").read(EXAMPLES / name / "notebook.ipynb", as_version=4)


def test_there_are_six_each_with_a_job_a_script_and_a_notebook():
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == STUDIES.keys() | PACKAGES
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name, task in STUDIES.items():
        folder = EXAMPLES / name
        assert read_job(folder / "job.toml").study.task == task
        assert {path.name for path in folder.iterdir()} >= {"job.toml", "make_data.py", "notebook.ipynb"}
        assert f"[{name}]({name})" in readme


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
# One kernel start is enough for a quick answer: the other studies run as their how-to pages are typed.
@pytest.mark.parametrize("name", ["hospitals", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_notebook_runs_from_an_empty_folder_and_shows_what_is_stored(notebooks, name, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = notebooks.copied(name, tmp_path)
    shown = notebooks.text(notebooks.executed(folder))
    assert "difference" in "".join(shown)
    assert len(list(folder.glob(REPORTS.get(name, f"results/{name}/report.html")))) == 1
    assert shown == notebooks.text(stored(name)), "run `python docs/_ext/notebooks.py`"


@pytest.mark.parametrize("name", STUDIES)
def test_a_notebook_is_stored_with_its_outputs_in_order_and_without_errors_or_warnings(name):
    cells = [cell for cell in stored(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell.outputs for cell in cells), "a cell that shows nothing"
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}
    assert "error" not in {output.output_type for output in outputs}
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("name", STUDIES)
def test_a_stored_notebook_names_no_path_version_or_time_of_a_machine(name):
    path = EXAMPLES / name / "notebook.ipynb"
    notebook = stored(name)
    assert dict(notebook.metadata.language_info) == {"name": "python"}
    assert not [cell for cell in notebook.cells if "execution" in cell.metadata]
    plain = re.sub(r'"image/png": "[^"]*"', "", path.read_text(encoding="utf-8"))
    assert not re.findall(r"(?<![\w.<:/])/(?:[\w.-]+/)+[\w.-]*|[A-Z]:\\\\|site-packages|[Tt]raceback", plain)
    assert path.stat().st_size < 200_000
