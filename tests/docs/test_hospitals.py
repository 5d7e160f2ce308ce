"""The page about hospitals, typed from its first command to its last, at the places it names.

What is read out is read from what the command before printed; a line with ``hospital-a`` is typed by every hospital.
"""

import re
import socket

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from tests.docs.snippets import BLOCK, DOCS
from tests.e2e.commands import Process, until
from tests.e2e.test_readme_commands import fingerprint, shell
from tests.tolerances import RESULT_BAR, assert_close

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")
TABLE = load_breast_cancer()


def commands(page):
    blocks = [code for language, code in BLOCK.findall(page) if language == "sh"]
    return [line for block in blocks for line in block.splitlines()]


class Places:
    """All places in one folder, and what was read out between them."""

    def __init__(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder, self.told, self.requests = folder, {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}, {}
        self.running = []

    def type(self, line):
        line = line.replace("csp.example.org:7443", f"127.0.0.1:{self.port}").replace("csp.example.org", "127.0.0.1")
        if line.startswith("fedsvd federation approve"):
            self.told["REQUEST_FINGERPRINT"] = self.requests[line.split()[3].partition("/")[0]]
        if " start " in line:
            self.start(line)
            return
        ran = shell(line, self.folder, "y\n", **self.told)
        if line.startswith("fedsvd doctor"):  # the machine of the tests may be a small one
            wrong = re.findall(r"^│ (\S+)\s+│ FAILED", ran.stdout, re.MULTILINE)
            assert set(wrong) <= {"memory", "disk"}, ran.stdout
            return
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        if line.startswith("fedsvd federation init"):
            self.told["FEDERATION_FINGERPRINT"] = fingerprint(ran.stdout, "fingerprint")
        if line.startswith("fedsvd join request"):
            self.requests[line.split()[4]] = fingerprint(ran.stdout, "for the operator")
        if line.startswith("fedsvd join accept --kit csp"):
            (self.folder / "csp" / "site.toml").write_text(f'[csp]\nlisten = "127.0.0.1:{self.port}"\n')

    def start(self, line):
        process = Process(*line.split()[1:], cwd=self.folder, **self.told)
        self.running.append(process)
        until(lambda: process.out or process.popen.poll() is not None, "it never got ready")
        assert process.popen.poll() is None, process.err


@pytest.mark.slow
def test_hospitals_follow_the_page_from_its_first_command_to_results(tmp_path):
    (tmp_path / "data").mkdir()
    for name, rows in zip(HOSPITALS, np.split(TABLE.data, [200, 350]), strict=True):
        pd.DataFrame(rows, columns=TABLE.feature_names).to_csv(tmp_path / "data" / f"{name}.csv", index=False)
    places = Places(tmp_path)
    try:
        for line in commands((DOCS / "howto" / "hospitals.md").read_text(encoding="utf-8")):
            for name in HOSPITALS if "hospital-a" in line and "fedsvd init" not in line else HOSPITALS[:1]:
                places.type(line.replace("hospital-a", name) if "fedsvd init" not in line else line)
    finally:
        for process in places.running:
            process.kill()
    twin = PCA(5, svd_solver="full").fit(TABLE.data)
    for name in HOSPITALS:
        (found,) = (tmp_path / name / "results").iterdir()
        assert_close(np.abs(np.load(found / "components.npy")), np.abs(twin.components_), RESULT_BAR)
        assert (found / "report.html").is_file()
