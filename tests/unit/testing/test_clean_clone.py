"""A run of tests that leaves something in the clone fails and names it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]


def run(folder, body):
    """pytest with the suite's own conftest on one test with this body, in a clone of its own."""
    (folder / "tests").mkdir()
    (folder / "tests" / "__init__.py").touch()  # before a package of that name that another distribution installs
    shutil.copy(TESTS / "tiers.py", folder / "tests" / "tiers.py")
    shutil.copy(TESTS / "conftest.py", folder / "conftest.py")
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = -q -p no:cacheprovider -p no:randomly\n")
    (folder / "test_it.py").write_text(f"from pathlib import Path\n\ndef test_it(tmp_path):\n    {body}\n")
    command = [sys.executable, "-m", "pytest"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", ["scores.npy", "results/report.html"])
def test_a_test_that_writes_into_the_clone_fails_the_run(tmp_path, name):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "report.html").write_text("of the user")
    ran = run(tmp_path, f'Path("{name}").write_text("of a test")')
    assert ran.returncode == 1, ran.stdout
    assert "1 passed" in ran.stdout
    assert f"tests left files in the clone (they belong in tmp_path): {name}\n" in ran.stdout


def test_a_test_that_writes_into_its_own_folder_does_not(tmp_path):
    ran = run(tmp_path, '(tmp_path / "scores.npy").write_text("of a test")')
    assert ran.returncode == 0, ran.stdout
