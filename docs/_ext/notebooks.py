"""The examples' notebooks with outputs: ``python docs/_ext/notebooks.py`` runs them and stores what they show.

Names of examples after the command run those alone. Each is run in a copy of its folder, so that tables and results do
not stay behind. What would differ from run to run or from machine to machine (times, versions) is not stored, and the
notebooks print no such number: a test runs them again and compares the text.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = "notebook.ipynb"


def executed(folder: Path) -> Any:
    """The notebook of a folder after a run there."""
    notebook = nbformat.read(folder / NOTEBOOK, as_version=4)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, resources=where, record_timing=False).execute()
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def copied(name: str, target: Path) -> Path:
    """A fresh copy of an example, without what earlier runs left in it."""
    left = shutil.ignore_patterns("data", "results", "rehearsal")
    return shutil.copytree(EXAMPLES / name, target / name, ignore=left)


def text(notebook: Any) -> list[str]:
    """What each cell with code shows, as text; pictures by their description."""
    return [
        "".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def main(*names: str) -> None:
    for path in sorted(EXAMPLES.glob(f"*/{NOTEBOOK}")):
        if names and path.parent.name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            notebook = executed(copied(path.parent.name, Path(folder)))
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
