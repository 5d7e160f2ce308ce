"""What the documentation tells people to type works as written, and gives what the page says."""

import re
import socket
import subprocess

import numpy as np
import pytest
from tests.docs.snippets import DOCS, script_of, typed
from tests.tolerances import RESULT_BAR, assert_close

TUTORIAL = "tutorial/first-study.md"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_first_rung_of_the_tutorial_as_typed(tmp_path):
    text, _, _ = page(TUTORIAL).partition("## Second rung")
    said = typed(text, tmp_path)
    assert float(re.search(r"largest difference: (\S+)", said)[1]) < RESULT_BAR
    reports = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("report.html"))
    assert "results/three-hospitals/parties/hospital-a/report.html" in reports
    assert "results/three-hospitals/roles/csp/report.html" in reports


@pytest.mark.slow
def test_the_whole_tutorial_as_typed(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    said = typed(page(TUTORIAL).replace("7443", str(port)), tmp_path, 600.0)
    assert "done" in said
    (found,) = (tmp_path / "hospital-a" / "results").iterdir()
    first = np.load(tmp_path / "results" / "three-hospitals" / "components.npy")
    assert_close(np.load(found / "components.npy"), first, RESULT_BAR)
    assert_close(np.load(tmp_path / "results" / "local" / "components.npy"), first, RESULT_BAR)
    assert (found / "report.html").is_file()
    (seen,) = (tmp_path / "csp" / "results").iterdir()
    assert (seen / "report.html").is_file()
    assert not list(seen.glob("*.npy"))


@pytest.mark.parametrize("name", [pytest.param("bank-and-telco", marks=pytest.mark.slow), "genotypes", "ratings"])
def test_a_how_to_as_typed(name, tmp_path):
    said = typed(page(f"howto/{name}.md"), tmp_path)
    assert said
    assert list(tmp_path.glob("results/*/parties/*/report.html"))


@pytest.mark.slow
def test_the_how_to_of_a_cluster_as_typed(tmp_path):
    said = typed(page("howto/dask.md"), tmp_path)
    assert float(re.search(r"largest difference: (\S+)", said)[1]) < RESULT_BAR


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.relative_to(DOCS).as_posix())
def test_every_block_of_a_typed_page_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    opened = re.findall(r"^```(.*)$", text, re.MULTILINE)
    assert len(opened) % 2 == 0
    if path.parent.name in ("tutorial", "howto"):
        assert all(opened[::2]), "a block without a language is neither run nor marked as text"
        assert script_of(text)


def test_a_page_that_takes_too_long_leaves_no_service_behind(tmp_path):
    with pytest.raises(AssertionError, match="not done after 2 s\nstarted"):
        typed("```sh\n(sleep 60; touch late) & echo $! > pid; echo started; sleep 60\n```", tmp_path, 2.0)
    status = ["ps", "-o", "stat=", "-p", (tmp_path / "pid").read_text().strip()]
    assert subprocess.run(status, capture_output=True, text=True, check=False).stdout[:1] in (
        "",
        "Z",
    )  # gone, or a zombie
