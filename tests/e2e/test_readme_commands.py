"""The commands in README.md and docs/deployment.md, exactly as written, on files such as they speak of."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.e2e.commands import ENVIRONMENT, GENEROUS, Process, command, until
from tests.tolerances import RESULT_BAR, assert_close

ROOT = Path(__file__).parents[2]
HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")
# The command of the virtual environment that the tests run in.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def blocks(page: str, *tags: str) -> list[str]:
    """The code in a page's fences with one of these tags."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [code for tag, code in found if tag in tags]


def lines(page: str, word: str, *tags: str) -> list[str]:
    """The lines that begin with this word, comments taken off."""
    code = [line.partition("  #")[0].strip() for block in blocks(page, *tags) for line in block.splitlines()]
    return [line for line in code if line.startswith(f"{word} ")]


def shell(line: str, folder: Path, answer: str = "", **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**ENVIRONMENT, "PATH": PATH, **environment},
        input=answer,
        capture_output=True,
        text=True,
        timeout=GENEROUS,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    """The files that the README and the first job file of docs/job-file.md name."""
    rng = np.random.default_rng(2)
    (tmp_path / "data").mkdir()
    for name, rows in (("a", 150), ("b", 130), ("c", 170)):
        table = pd.DataFrame(rng.normal(size=(rows, 12)), columns=[f"x{j}" for j in range(12)])
        for place, ids in ((tmp_path, False), (tmp_path / "data", True)):
            if ids:
                table.insert(0, "patient", [f"{name}{i}" for i in range(rows)])
            write = table.to_parquet if name == "a" else table.to_csv
            write(place / f"{name}.{'parquet' if name == 'a' else 'csv'}", index=False)
    for name in ("trial-a", "trial-b"):
        table = pd.DataFrame(rng.normal(size=(200, 3)), columns=["age", "dose", "weight"])
        table["died"] = (rng.normal(size=200) < table["dose"]).astype(int)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "job.toml").write_text(blocks("docs/job-file.md", "toml")[0])
    return tmp_path


README = lines("README.md", "fedsvd", "", "sh")


def test_the_readme_has_commands():
    assert len(README) >= 4
    assert any("--env local" in line for line in README)


def test_the_readme_s_first_files_are_asked_for_and_written(tmp_path):
    (line,) = (line for line in README if line == "fedsvd init")
    ran = shell(line, tmp_path, "\n" * 30)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "job.toml").is_file()
    assert (tmp_path / "policy.toml").is_file()


@pytest.mark.parametrize("line", [line for line in README if line != "fedsvd init"])
def test_a_command_of_the_readme(folder, line):
    ran = shell(line, folder)
    assert ran.returncode == 0, ran.stderr
    if " audit " in line:
        assert (folder / "audit.html").is_file()
    elif " glm " in line:
        assert np.load(folder / "trial" / "coefficients.npy").shape == (1, 3)
    elif " plan " not in line and " look " not in line:
        asked = re.search(r"--out (\S+)", line)
        found = folder / (asked[1] if asked else "results/three-hospitals")
        expect_the_pca(folder, np.load(found / "mean.npy"), np.load(found / "components.npy"))


def dry_run(*targets):
    """What make would do, asked from outside of any make that runs these tests."""
    environment = {key: value for key, value in ENVIRONMENT.items() if not key.startswith("MAKE") and key != "MFLAGS"}
    command = ["make", "--no-print-directory", "-n", *targets]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=GENEROUS, check=True, env=environment
    ).stdout


def test_make_demo_ends_in_the_demo():
    assert dry_run("demo").splitlines()[-1].split()[-2:] == [".venv/bin/fedsvd", "demo"]
    targets = lines("README.md", "make", "")
    assert "make demo" in targets
    for line in targets:
        dry_run(*line.split()[1:])


def test_the_python_of_the_readme(folder):
    code = blocks("README.md", "python")[0]
    rng = np.random.default_rng(0)
    tables = {f"X_hospital_{name}": rng.normal(size=(120, 8)) for name in "abc"}
    names = {**tables, "X_new": rng.normal(size=(3, 8))}
    exec(compile(code, "README.md", "exec"), names)
    from sklearn.decomposition import PCA

    twin = PCA(5, svd_solver="full").fit(np.concatenate(list(tables.values())))
    assert_close(names["pca"].transform(names["X_new"]), twin.transform(names["X_new"]), RESULT_BAR)


class Office:
    """One folder with all institutions' folders; what they send each other is in the environment."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.csp = f"127.0.0.1:{free.getsockname()[1]}"
        self.folder = folder
        self.told = {"CSP": self.csp, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        self.commands = lines("docs/deployment.md", "fedsvd", "sh")
        self.running: list[Process] = []

    def written(self, beginning: str) -> str:
        (line,) = (line for line in self.commands if line.startswith(beginning))
        return line

    def run(self, line: str, answer: str = "") -> str:
        """A command as it is written; what it says."""
        ran = shell(line, self.folder, answer, **self.told)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def join(self, role: str, name: str) -> None:
        """A member joins by the page's commands, with its own role and name in them."""

        def own(line: str) -> str:
            line = line.replace("hospital-a", name).replace("party", role)
            return line + (" --address 127.0.0.1" if role == "csp" and " request " in line else "")

        asked = self.run(own(self.written("fedsvd join request")))
        self.told["REQUEST_FINGERPRINT"] = fingerprint(asked, "for the operator")
        self.run(own(self.written("fedsvd federation approve")))
        self.run(own(self.written("fedsvd join accept")))

    def start(self, line: str) -> None:
        process = Process(*line.split()[1:], cwd=self.folder, **self.told)
        self.running.append(process)
        until(lambda: process.out or process.popen.poll() is not None, "it never got ready")
        assert process.popen.poll() is None, process.err


def fingerprint(text: str, label: str) -> str:
    return re.search(rf"^{label}\s+((?:[0-9a-f]{{4}} ?){{16}})", text, re.MULTILINE)[1].strip()


@pytest.mark.slow
def test_three_hospitals_follow_the_deployment_page_to_the_letter(folder):
    office = Office(folder)
    founded = office.run(office.written("fedsvd federation init"))
    office.told["FEDERATION_FINGERPRINT"] = fingerprint(founded, "fingerprint")
    members = [("csp", "csp"), *(("party", name) for name in HOSPITALS), ("researcher", "researcher")]
    for role, name in members:
        office.join(role, name)
    (folder / "csp" / "site.toml").write_text(f'[csp]\nlisten = "{office.csp}"\n')
    for name, file in zip(HOSPITALS, ("a.parquet", "b.csv", "c.csv"), strict=True):
        site = folder / name / "site.toml"
        site.write_text(site.read_text().replace("# default = ", f'default = "../data/{file}" # '))
    try:
        office.start(office.written("fedsvd csp start"))
        for name in HOSPITALS:
            office.start(office.written("fedsvd party start").replace("hospital-a", name))
        examined = shell(office.written("fedsvd doctor"), folder, **office.told)
        wrong = re.findall(r"^│ (\S+)\s+│ FAILED", examined.stdout, re.MULTILINE)
        assert set(wrong) <= {"memory", "disk"}, examined.stdout  # the machine of the tests may be a small one
        office.told["JOB"] = re.search(r"submitted as ([0-9a-f]+)", office.run(office.written("fedsvd job submit")))[1]
        for name in HOSPITALS:
            office.run(office.written("fedsvd job approve").replace("hospital-a", name), "y\n")
        office.run(office.written("fedsvd job watch"))
        said = office.run(office.written("fedsvd job results"))
        found = folder / re.search(r"^results\s+(\S+)", said, re.MULTILINE)[1]
        expect_the_pca(folder, np.load(found / "mean.npy"), np.load(found / "components.npy"))
        expect_the_notebook_to_work(office)
    finally:
        for process in office.running:
            process.kill()


def expect_the_pca(folder: Path, mean: np.ndarray, components: np.ndarray) -> None:
    from sklearn.decomposition import PCA

    tables = [pd.read_parquet(folder / "a.parquet"), pd.read_csv(folder / "b.csv"), pd.read_csv(folder / "c.csv")]
    twin = PCA(len(components), svd_solver="full").fit(pd.concat(tables).to_numpy())
    assert_close(mean, twin.mean_, RESULT_BAR)
    assert_close(components, twin.components_, RESULT_BAR)


def expect_the_notebook_to_work(office: Office) -> None:
    """The page's Python submits one more job; the owners approve it as they would any other."""
    code = blocks("docs/deployment.md", "python")[0]
    script = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=office.folder,
        env={**ENVIRONMENT, **office.told},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        kit = office.folder / "researcher"
        listed = until(
            lambda: [each for each in jobs(kit) if each["job"] != office.told["JOB"]], "no job was submitted"
        )
        for name in HOSPITALS:
            said = command("job", "approve", listed[0]["job"], "--kit", office.folder / name, "--yes")
            assert said.returncode == 0, said.stderr
        out, err = script.communicate(timeout=GENEROUS)
        assert (script.returncode, out) == (0, "done\n"), err
    finally:
        script.kill()
        script.wait(GENEROUS)


def jobs(kit: Path) -> list[dict]:
    return json.loads(command("job", "list", "--kit", kit, "--format", "json").stdout)["jobs"]
