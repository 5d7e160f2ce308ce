"""``fedsvd verify`` on what a run among local processes leaves: the shared folder, and each party's."""

import re
import shutil

import numpy as np
import pytest
from tests.e2e.commands import command

JOB = """
[job]
split = "horizontal"
name = "factors"
task = "pca"
components = 2

[[party]]
name = "north"
data = "north.csv"

[[party]]
name = "south"
data = "south.csv"

[[party]]
name = "west"
data = "west.csv"
"""
FOLDERS = (".", "parties/north", "parties/west")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("local"), np.random.default_rng(4)
    for name in ("north", "south", "west"):
        rows = rng.normal(size=(120, 4))
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header="age,dose,weight,height", comments="")
    (folder / "job.toml").write_text(JOB, encoding="utf-8")
    ran = command("run", "job.toml", "--env", "local", "--quiet", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return folder / "results/factors"


def verified(folder):
    return command("verify", str(folder), cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize("which", FOLDERS)
def test_verify_names_what_changed_in_the_folders_of_a_local_run(results, which, tmp_path):
    def changed(name, change):
        shutil.copytree(results, tmp_path / name)
        folder = tmp_path / name / which
        change(folder)
        return verified(folder)

    def altered(folder):
        path = folder / "components.npy"
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(bytes(content))

    assert changed("same", lambda folder: None).returncode == 0
    for name, change, said in (
        ("altered", altered, r"components\.npy was altered"),
        ("removed", lambda folder: (folder / "components.npy").unlink(), r"components\.npy is missing"),
        ("added", lambda folder: (folder / "coefficients.csv").write_text("x"), r"coefficients\.csv was added"),
    ):
        found = changed(name, change)
        assert found.returncode == 1, name
        assert re.search(said, " ".join(found.stderr.split())), name


@pytest.mark.slow
@pytest.mark.parametrize("task", ["svd", "lr"])
def test_the_folders_of_a_run_on_split_columns_are_those_that_were_signed(task, tmp_path):
    """Left vectors are of all; the shared folder has them without the row ids of the party it was copied from."""
    rng = np.random.default_rng(5)
    for number, name in enumerate(("north", "south", "west")):
        rows = np.column_stack([np.arange(150), rng.normal(size=(150, 3))])
        header = "id," + ",".join(f"v{number}{place}" for place in range(2)) + (",y" if name == "west" else ",z")
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header=header, comments="")
    kind = f'task = "{task}"\nid = "id"\n' + ('label = "y"' if task == "lr" else "")
    job = JOB.replace('"horizontal"', '"vertical"').replace('task = "pca"\ncomponents = 2', kind)
    (tmp_path / "job.toml").write_text(job, encoding="utf-8")
    ran = command("run", "job.toml", "--env", "local", "--quiet", "--consent", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    results = tmp_path / "results/factors"
    for which in FOLDERS:
        found = verified(results / which)
        assert found.returncode == 0, found.stderr
        assert "report.html" not in found.stdout
    with (results / "report.html").open("a", encoding="utf-8") as page:
        page.write("<p>R2 = 1</p>")
    assert "report.html was altered" in " ".join(verified(results).stderr.split())
