"""Results of rules, outliers, CCA and PCR: written under names, read back as estimators, drawn for their reader."""

import csv
import json
import tomllib

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.studies import CLOSE, FEATURES, companies, hospitals
from tests.tolerances import RESULT_BAR, STATISTIC_BAR, assert_close, assert_each_close
from tests.unit.results.report.pages import page, study

import fedsvd
from fedsvd.studies.job_file import job_from

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore::UserWarning")


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    files = hospitals(tmp_path_factory.mktemp("chosen"))
    return files, study(files.job(task="pca", components="parallel", unit_variance=True, id="patient"))


@pytest.fixture(scope="module")
def cca(tmp_path_factory):
    files = companies(tmp_path_factory.mktemp("cca"))
    job = files.job(task="cca", id="patient", sort_by_id=True)
    text = job.read_text()
    job.write_text(text[: text.rindex("[[party]]")])  # bank and shop
    return files, study(job)


@pytest.fixture(scope="module")
def pcr(tmp_path_factory):
    files = hospitals(tmp_path_factory.mktemp("pcr"))
    return files, study(files.job(task="pcr", components=0.9, unit_variance=True, label="outcome", id="patient"))


def joint(files):
    """The outcome is a column like any other of a PCA."""
    return files.joint.drop(columns="patient").to_numpy()


def test_a_rule_writes_the_whole_spectrum_what_it_had_to_exceed_and_what_was_taken(chosen):
    files, out = chosen
    sigma = np.linalg.svd(StandardScaler().fit_transform(joint(files)), compute_uv=False)
    table = rows(out / "spectrum.csv")
    assert_close([float(row["singular_value"]) for row in table], sigma, CLOSE)
    taken = [row["taken"] == "True" for row in table]
    above = [float(row["singular_value"]) > float(row["threshold"]) for row in table]
    count = json.loads((out / "manifest.json").read_text())["facts"]["choice"]["count"]
    assert sum(taken) == count == above.index(False)
    assert np.load(out / "components.npy").shape == (count, 6)
    loaded = fedsvd.load(out / "parties" / "north")
    assert loaded.n_components == "parallel"
    assert loaded.choice_.count == loaded.n_components_ == count
    assert_close(loaded.loadings_, np.load(out / "loadings.npy"), RESULT_BAR)


def test_own_rows_have_t2_and_q_and_no_one_else_has_them(chosen):
    files, out = chosen
    assert not (out / "outliers.npy").exists()
    loaded = fedsvd.load(out / "parties" / "north")
    Z = StandardScaler().fit_transform(joint(files))
    _, s, Vt = np.linalg.svd(Z, full_matrices=False)
    k, n = loaded.n_components_, len(Z)
    T = Z @ Vt[:k].T
    own = {row["id"]: row for row in rows(out / "parties" / "north" / "outliers.csv")}
    places = [list(files.joint["patient"]).index(name) for name in own]
    t2, q = np.sum(T**2 / (s[:k] ** 2 / (n - 1)), axis=1), np.sum((Z - T @ Vt[:k]) ** 2, axis=1)
    assert_close([float(row["t2"]) for row in own.values()], t2[places], RESULT_BAR)
    assert_close([float(row["q"]) for row in own.values()], q[places], RESULT_BAR)
    limits = json.loads((out / "parties" / "north" / "manifest.json").read_text())["facts"]["outliers"]
    found = loaded.outliers(joint(files))
    assert_each_close([limits["t2_limit"], limits["q_limit"]], [found.t2_limit, found.q_limit], STATISTIC_BAR)
    assert limits["t2_beyond"] == np.sum(t2[places] > found.t2_limit)


def test_the_report_draws_the_rule_and_the_rows_that_stand_out(chosen):
    _, out = chosen
    mine = page(out / "parties" / "north")
    assert "outliers" in mine.sections
    assert "20 tables whose columns each party permuted" in mine.text
    assert "of 40 own rows are beyond the 95 % limit of T²" in mine.text
    assert 'class="stroke s2"' in mine.html
    assert 'class="box"' in mine.html
    assert "p0000" not in mine.html  # names of rows may be those of people
    assert "outliers" not in page(out).sections
    assert "outliers" not in page(out / "roles" / "csp").sections


def test_the_job_file_in_the_report_asks_for_the_same_rule(chosen, pcr, cca):
    for (files, out), components in ((chosen, "parallel"), (pcr, 0.9), (cca, None)):
        text = page(out).html
        code = text[text.index("[job]") : text.index("</pre>")].replace("&#34;", '"')
        job = job_from(tomllib.loads(code), files.folder)
        assert str(job.study.components) == str(components)


def test_correlations_tests_and_own_columns_are_written_and_read_back(cca):
    files, out = cca
    X, Y = files.joint[FEATURES[:2]].to_numpy(), files.joint[FEATURES[2:4]].to_numpy()
    Q = [np.linalg.qr(table - table.mean(axis=0))[0] for table in (X, Y)]
    rho = np.linalg.svd(Q[0].T @ Q[1], compute_uv=False)
    assert_close([float(row["correlation"]) for row in rows(out / "correlations.csv")], rho, CLOSE)
    assert len(rows(out / "wilks.csv")) == 2
    loaded = fedsvd.load(out)
    assert_close(loaded.correlations_, rho, CLOSE)
    assert_each_close(loaded.tests_[1].wilks, 1 - rho[1] ** 2, STATISTIC_BAR)
    assert_close(loaded.transform(np.hstack((X, Y))), fedsvd.load(out).U_[_places(files, out)], RESULT_BAR)
    own = fedsvd.load(out / "parties" / "bank")
    assert_close(own.variates(X, 0)[np.argsort(files.joint["patient"])], own.parties_[0].scores_, RESULT_BAR)
    with pytest.raises(fedsvd.errors.ConfigError, match="one party's columns"):
        own.transform(np.hstack((X, Y)))
    assert not (out / "weights.npy").exists()
    assert not {"weights.npy", "variates.npy"} & {path.name for path in (out / "roles" / "csp").iterdir()}


def _places(files, out):
    """Where the rows of the joint table are among those of the study, which are sorted by id."""
    order = np.argsort(files.joint["patient"].to_numpy(), kind="stable")
    return np.argsort(order, kind="stable")


def test_the_report_of_a_cca_shows_correlations_tests_and_own_loadings_alone(cca):
    _, out = cca
    mine, shared = page(out / "parties" / "shop"), page(out)
    assert "canonical" in mine.sections
    assert "canonical" in shared.sections
    assert "Wilks' lambda" in shared.text
    assert "Loadings of canonical variable 1" in mine.text
    assert "Loadings of canonical variable 1" not in shared.text
    assert "age" not in mine.text.split()
    assert "canonical" not in page(out / "roles" / "csp").sections


def test_a_regression_on_components_is_written_and_read_back(pcr):
    files, out = pcr
    twin = make_pipeline(StandardScaler(), PCA(0.9, svd_solver="full"), LinearRegression()).fit(files.D, files.y)
    loaded = fedsvd.load(out / "parties" / "west")
    assert loaded.n_components_ == twin[1].n_components_
    assert_close(loaded.predict(files.D), twin.predict(files.D), RESULT_BAR)
    table = rows(out / "component_coefficients.csv")
    assert_close([float(row["coef"]) for row in table[1:]], twin[-1].coef_, CLOSE)
    assert_each_close(loaded.inference_[0].standard_errors, [float(row["se"]) for row in table], STATISTIC_BAR)
    shown = page(out / "parties" / "west")
    assert {"spectrum", "components", "regression"} <= set(shown.sections)
    assert "Components as predictors of outcome" in shown.text
