"""What the documentation tells people to type works as written, and gives what the page says."""

import re
import socket
import subprocess

import numpy as np
import pytest
from tests.docs.snippets import DOCS, script_of, typed
from tests.tolerances import RESULT_BAR, STATISTIC_BAR, assert_close

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


@pytest.mark.slow
def test_the_advice_of_the_page_about_text_columns_works(tmp_path):
    """FSVD-202: leave the column out, in Python; or as the id that it is."""
    rng = np.random.default_rng(5)
    for name in "ab":
        rows = (f"ward-{row},{','.join(map(repr, rng.normal(size=3).tolist()))}" for row in range(120))
        (tmp_path / f"{name}.csv").write_text("\n".join(["ward,x,y,z", *rows]) + "\n")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page("errors/FSVD-202.md"), re.MULTILINE | re.DOTALL)
    assert "(2, 3)" in typed(f"```python\n{code}print(pca.components_.shape)\n```\n", tmp_path)
    typed("```sh\nfedsvd pca --party a.csv --party b.csv --id ward\n```\n", tmp_path)


@pytest.mark.slow
def test_a_dictionary_as_typed(tmp_path):
    said = typed(page("howto/dictionary.md"), tmp_path)
    assert "The table fits the dictionary." in said
    assert float(re.search(r"largest difference: (\S+)", said)[1]) < RESULT_BAR


@pytest.mark.slow
def test_components_outliers_and_two_tables_as_typed(tmp_path):
    said = typed(page("howto/components.md"), tmp_path)
    assert "patient 7 is beyond" in said
    found = np.load(tmp_path / "results" / "scree" / "components.npy")
    assert found.shape == (3, 8)
    X, Y = (np.loadtxt(tmp_path / f"{name}.csv", delimiter=",", skiprows=1)[:, 1:] for name in ("bank", "telco"))
    Q = [np.linalg.qr(own - own.mean(axis=0))[0] for own in (X, Y)]
    rho = np.linalg.svd(Q[0].T @ Q[1], compute_uv=False)
    assert_close(np.load(tmp_path / "results" / "cca" / "correlations.npy"), rho, RESULT_BAR)


def test_a_federation_in_five_commands_as_typed(tmp_path):
    text = page("tutorial/rehearsal.md")
    assert len(re.findall(r"^fedsvd ", "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)), re.MULTILINE)) == 5
    said = typed(text, tmp_path)
    assert "three-hospitals" in said
    for name in ("hospital-a", "hospital-b", "hospital-c"):
        (found,) = (tmp_path / "first" / name / "results").iterdir()
        assert (found / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "genotypes",
        "ratings",
        "regression-table",
        "outcome",
        "survival",
        "table-1",
        "mixed-models",
        "ordinal-and-counts",
        "propensity",
    ],
)
def test_a_how_to_as_typed(name, tmp_path):
    said = typed(page(f"howto/{name}.md"), tmp_path)
    assert said
    assert list(tmp_path.glob("results/*/parties/*/report.html"))


@pytest.mark.slow
def test_the_job_of_the_bank_and_the_telco_runs_where_policies_are_enforced(tmp_path):
    typed(page("howto/bank-and-telco.md"), tmp_path)
    runs = (tmp_path / "results" / run / "parties" / "bank" / "coefficients.npy" for run in ("credit", "local"))
    fitted = [np.load(path) for path in runs]
    (trial,) = (tmp_path / "trial" / "bank" / "results").iterdir()
    for found in (fitted[1], np.load(trial / "coefficients.npy")):
        assert_close(found, fitted[0], RESULT_BAR)


@pytest.mark.slow
def test_the_how_to_of_messy_tables_as_typed(tmp_path):
    said = typed(page("howto/messy-tables.md"), tmp_path)
    differences = [float(number) for number in re.findall(r"largest difference: (\S+)", said)]
    assert len(differences) == 3
    assert max(differences) < STATISTIC_BAR
    shown = " ".join(said.split())
    for text in ("160 of 160 records of column 'sex'", "17.1: mg/dL to umol/L", "has 6 entries -9", "{ width = 6 }"):
        assert text in shown, text
    assert "P>|z|" in said
    assert len(list(tmp_path.glob("results/died/parties/*/report.html"))) == 3
    assert "joint mean" in (tmp_path / "results" / "formula" / "manifest.json").read_text(encoding="utf-8")
    assert "rows with a missing entry are left out" in said
    assert list(tmp_path.glob("results/two-hospitals/parties/*/report.html"))


@pytest.mark.slow
def test_the_how_to_of_single_cells_as_typed(tmp_path):
    said = typed(page("howto/single-cells.md"), tmp_path)
    assert float(re.search(r"largest difference: (\S+)", said)[1]) < RESULT_BAR
    before, by_site, by_combat = map(float, re.findall(r"sites apart by (\S+)", said))
    assert before > 1 > 10 * max(by_site, by_combat)


@pytest.mark.slow
def test_the_how_to_of_parts_and_queries_as_typed(tmp_path):
    said = typed(page("howto/duckdb.md"), tmp_path)
    spectrum, coefficients = map(float, re.findall(r"largest difference: (\S+)", said))
    assert max(spectrum, coefficients) < STATISTIC_BAR


@pytest.mark.slow
def test_the_how_to_of_matching_records_as_typed(tmp_path):
    said = typed(page("howto/matching.md"), tmp_path)
    assert float(re.search(r"largest difference: (\S+)", said)[1]) < RESULT_BAR
    assert "230 of 260 records are common to all parties" in said
    assert list(tmp_path.glob("results/three-parties/parties/*/report.html"))


@pytest.mark.slow  # a federation is started; test_fit_between_institutions.py has the same fits on threads
def test_the_how_to_of_federations_as_typed(tmp_path):
    said = typed(page("howto/federations.md"), tmp_path)
    files = sorted((tmp_path / "first" / "data").glob("*.csv"))
    D = np.concatenate([np.loadtxt(path, delimiter=",", skiprows=1) for path in files])
    sigma = np.linalg.svd((D - D.mean(axis=0)) / D.std(axis=0), compute_uv=False)
    explained = (sigma**2 / np.sum(sigma**2))[:3].round(6).tolist()
    assert f"explained here: {explained}" in said
    assert f"explained at hospital-a: {explained}" in said
    assert f"explained for the researcher: {explained}" in said
    assert "it waits for the owners" in said
    assert re.findall(r"parties with scores.*: (\d)", said) == ["3", "0", "1"]


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
