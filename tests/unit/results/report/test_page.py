"""A report stands alone, says what its reader may know, and nothing that is another's."""

import re
import tomllib
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from tests.studies import CLOSE, FEATURES, companies, hospitals
from tests.tolerances import A_FIFTH_OF_A_PIXEL, PRINTED_BAR, assert_close
from tests.unit.results.report.pages import page, study

from fedsvd.protocol import messages
from fedsvd.protocol.parties import CSP
from fedsvd.results.report.accounts import STEPS
from fedsvd.results.report.page import render
from fedsvd.results.write import read_result
from fedsvd.studies.job_file import job_from

PARTY_SECTIONS = {"study", "spectrum", "components", "samples", "outliers", "accounts"}
PARTY_SECTIONS |= {"model", "certificate", "learned", "repeat"}


@pytest.fixture(scope="module")
def pca(tmp_path_factory):
    files = hospitals(tmp_path_factory.mktemp("pca"))
    release = ["components", "mean", "spectrum"]
    return files, study(files.job(task="pca", components=3, release=release, id="patient"))


def whole(files):
    """The joint table as it is factorised: the outcome is a column like any other."""
    return files.joint.drop(columns="patient").to_numpy()


def everyone(out):
    return [out, *(out / "parties" / name for name in ("north", "south", "west")), out / "roles" / "csp"]


def test_every_reader_has_a_report_and_it_is_in_the_manifest(pca):
    _, out = pca
    for folder in everyone(out):
        assert (folder / "report.html").is_file()
        assert '"report.html"' in (folder / "manifest.json").read_text()
    read_result(out)  # which compares every hash


def test_a_report_asks_nobody_for_anything(pca):
    _, out = pca
    for folder in everyone(out):
        found = page(folder)
        assert not {"script", "link", "img", "iframe", "object", "embed"} & set(found.tags)
        assert not found.values("src") + found.values("srcset") + found.values("data")
        assert all(value.startswith("#") for _, value in found.values("href"))
        assert "url(" not in found.html
        assert "@import" not in found.html
        assert ("meta", "default-src 'none'; style-src 'unsafe-inline'") in found.values("content")


def test_a_report_is_small_and_well_formed(pca):
    _, out = pca
    for folder in everyone(out):
        found = page(folder)
        assert found.open == []
        assert len(found.html) < 200_000
        ids = [value for _, value in found.values("id")]
        assert len(ids) == len(set(ids))
        assert {value[1:] for _, value in found.values("href")} <= set(ids)


def test_a_party_reads_of_the_study_the_spectrum_its_scores_the_costs_and_who_learned_what(pca):
    _, out = pca
    found = page(out / "parties" / "north")
    assert set(found.sections) == PARTY_SECTIONS
    for words in ("Report", "north (40 rows), south (35 rows), west (45 rows)", "explained variance", "plan digest"):
        assert words.lower() in found.text.lower()
    assert (
        "Every party can compute the sum of the others' Gram matrices (6 x 6) in the top 3 of 6 directions."
        in found.text
    )
    assert "10.1145/3534678.3539402" in found.text


def test_the_numbers_are_those_of_the_joint_table(pca):
    files, out = pca
    twin = PCA(3).fit(whole(files))
    text = page(out / "parties" / "south").text
    assert f"{100 * twin.explained_variance_ratio_[0]:.1f} %" in text
    for value in twin.singular_values_:
        assert f"{value:.6g}" in text
    loading = twin.components_[0][np.abs(twin.components_[0]).argmax()]
    assert f"{loading:.3g}" in text


def test_the_csps_report_holds_no_component_and_no_name_of_a_column(pca, tmp_path):
    files, out = pca
    drawn = []
    job = hospitals(tmp_path).job(task="pca", components=3, id="patient")
    study(job, lambda subject: drawn.append(subject) or render(subject))
    (subject,) = [subject for subject in drawn if subject.reader == CSP]
    assert (dict(subject.arrays), subject.features, dict(subject.facts), subject.id) == ({}, None, {}, None)
    found = page(out / "roles" / "csp")
    assert set(found.sections) == {"study", "accounts", "model", "certificate", "learned", "repeat"}
    assert not [name for name in FEATURES if re.search(rf"\b{name}\b", found.text)]
    assert not re.search(r"p\d{4}", found.text)
    twin = PCA(3).fit(whole(files))
    told = {float(word) for word in re.findall(r"-?\d+\.\d{2,}", found.text)}
    for secret in (*twin.components_.ravel(), *twin.singular_values_, *twin.mean_):
        assert f"{secret:.6g}" not in found.html
        assert not [value for value in told if value and abs(value / secret - 1) < PRINTED_BAR]


def test_a_partys_report_has_nothing_of_another_party(pca):
    _, out = pca
    found = page(out / "parties" / "north")
    assert not re.search(r"p\d{4}", found.text)  # rows are not named, not even one's own
    tables = " ".join(found.words)
    assert "south →" not in tables
    assert "→ south" not in tables
    # Own rows three times, as scores, in the biplot and among those that stand out, and the features.
    assert len(re.findall(r"M[\d. -]+h0", found.html)) == 3 * 40 + len(FEATURES) + 1


def test_what_all_share_has_no_scores(pca):
    _, out = pca
    assert "samples" not in page(out).sections


def test_the_job_file_in_a_report_is_a_job_file(pca):
    _, out = pca
    code = re.search(r"<pre[^>]*>(.*?)</pre>", page(out).html, re.DOTALL)[1].replace("&#34;", '"')
    job = job_from(tomllib.loads(code), out)
    assert (job.study.task, job.study.components, job.study.id) == ("pca", 3, "patient")
    assert [party.name for party in job.parties] == ["north", "south", "west"]


def test_without_a_spectrum_the_report_says_so(tmp_path):
    files = hospitals(tmp_path)
    found = page(study(files.job(task="pca", components=2, id="patient")) / "parties" / "west")
    assert "the study released no singular values" in found.text
    assert "Spectrum" not in found.text


def test_lsa_shows_neighbours_and_a_map(tmp_path):
    files = hospitals(tmp_path)
    out = study(files.job(task="lsa", components=2, id="patient"))
    found = page(out / "parties" / "west")
    assert {"neighbours", "components", "samples"} <= set(found.sections)
    _, s, Vt = np.linalg.svd(whole(files), full_matrices=False)
    points = (Vt[:2] * s[:2, None]).T
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    names = [*FEATURES, "outcome"]
    cosines = unit @ unit[0]
    nearest = max((j for j in range(1, 6)), key=lambda j: cosines[j])
    table = found.html[found.html.index("By cosine in the latent space") :]
    row = re.search(r'<th scope="row">age</th><td>(.*?)</td>', table)[1]
    assert row.startswith(f"{names[nearest]} ({cosines[nearest]:.2f})")


def test_a_label_holder_reads_its_coefficients_r2_and_residuals_and_the_others_only_their_own(tmp_path):
    files = companies(tmp_path)
    release = ["coefficients", "intercept", "score"]
    keys = {"split": "vertical", "label": "outcome", "label_party": "insurer", "id": "patient", "sort_by_id": True}
    out = study(files.job(task="lr", release=release, **keys))
    twin = LinearRegression().fit(files.D, files.y)
    found = page(out / "parties" / "insurer")
    assert f"R² {twin.score(files.D, files.y):.6g}" in found.text
    assert "Residuals of outcome" in found.text
    assert f"{twin.coef_[4]:.3g}" in found.text
    other = page(out / "parties" / "bank")
    assert "R²" not in other.text
    assert f"{twin.coef_[0]:.3g}" in other.text
    assert not [name for name in FEATURES[2:] if re.search(rf"\b{name}\b", other.text)]
    residuals = np.load(out / "parties" / "insurer" / "residuals.npy")
    order = np.argsort(files.joint["patient"].to_numpy(), kind="stable")
    np.testing.assert_allclose(residuals[:, 0], (files.y - twin.predict(files.D))[order], rtol=0, atol=CLOSE * 200)


def test_with_split_rows_every_party_reads_the_residuals_of_its_own_rows(tmp_path):
    files = hospitals(tmp_path)
    out = study(files.job(task="lr", label="outcome", id="patient"))
    twin = LinearRegression().fit(files.D, files.y)
    own = np.load(out / "parties" / "south" / "residuals.npy")
    np.testing.assert_allclose(own[:, 0], (files.y - twin.predict(files.D))[40:75], rtol=0, atol=CLOSE * 200)
    assert "on your own rows" in page(out / "parties" / "south").text
    assert not (out / "fitted.npy").exists()


def test_loadings_have_one_scale_that_the_page_explains(pca):
    files, out = pca
    found = page(out / "parties" / "north")
    twin = PCA(3).fit(whole(files))
    low, high = map(float, re.search(r"All bars have one scale, (-?[\d.]+) to (-?[\d.]+):", found.text).groups())
    assert low <= twin.components_.min() < 0 < twin.components_.max() <= high
    assert high - low <= 2 * (twin.components_.max() - twin.components_.min())  # and it is not much longer
    drawings = re.findall(r'<svg [^>]*aria-label="Loadings of component \d">?.*?</svg>', found.html)
    places = set()
    for picture, row in zip(drawings, twin.components_, strict=True):
        axis = dict(re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle"[^>]*>(-?[\d.]+)<', picture))
        pairs = sorted((float(value), float(x)) for x, value in axis.items())
        places.add(tuple(pairs))
        unit = (pairs[-1][1] - pairs[0][1]) / (pairs[-1][0] - pairs[0][0])
        drawn = [
            (float(w), float(says))
            for w, says in re.findall(r'width="([\d.]+)"[^>]*><title>[^:]*: (-?[\d.e-]+)', picture)
        ]
        assert_close(sorted(value for _, value in drawn), sorted(row), PRINTED_BAR, 1.0)
        assert_close([w for w, _ in drawn], [max(abs(v) * unit, 0.5) for _, v in drawn], A_FIFTH_OF_A_PIXEL, 1.0)
    assert len(places) == 1


def test_scores_fill_their_panel(pca):
    _, out = pca
    picture = re.search(r'<svg [^>]*aria-label="Scores: own records".*?</svg>', page(out / "parties" / "north").html)[0]
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture).groups())
    points = np.array(re.findall(r"M([\d.]+) ([\d.]+)h0", picture), dtype=float)
    assert np.ptp(points[:, 0]) > 0.75 * width
    assert np.ptp(points[:, 1]) > 0.6 * height  # the rest is for the axes and their labels


def test_names_cannot_become_markup(tmp_path):
    files = hospitals(tmp_path)
    for name in ("north.csv", "west.tsv"):
        path = tmp_path / name
        path.write_text(path.read_text().replace("dose", "<b>dose</b>&", 1))
    table = pd.read_parquet(tmp_path / "south.parquet").rename(columns={"dose": "<b>dose</b>&"})
    table.to_parquet(tmp_path / "south.parquet", index=False)
    html = page(study(files.job(task="pca", components=2, id="patient"))).html
    assert "<b>" not in html
    assert "&lt;b&gt;dose&lt;/b&gt;&amp;" in html


def test_a_fault_of_the_drawing_costs_the_picture_and_not_the_result(tmp_path, caplog):
    def broken(subject):
        raise ZeroDivisionError("secret 0.123")

    files = hospitals(tmp_path)
    out = study(files.job(task="pca", components=2, id="patient"), broken)
    assert read_result(out).rank == 2
    assert not (out / "report.html").exists()
    assert "no report was drawn: ZeroDivisionError" in caplog.text
    assert "0.123" not in caplog.text


def test_thousands_of_rows_are_thinned_and_the_caption_says_so(tmp_path):
    rng = np.random.default_rng(3)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(5000, 4)))
    job = tmp_path / "job.toml"
    parties = "".join(f'[[party]]\nname = "{name}"\ndata = "{name}.npy"\n' for name in "ab")
    job.write_text(f'[job]\nname = "long"\ntask = "pca"\ncomponents = 2\n{parties}')
    found = page(study(job) / "parties" / "a")
    assert "(1667 of 5000 are drawn)" in found.text
    assert len(found.html) < 150_000


def test_one_component_and_rows_that_are_all_alike_are_drawn(tmp_path):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.ones((12, 2)))
    job = tmp_path / "job.toml"
    parties = "".join(f'[[party]]\nname = "{name}"\ndata = "{name}.npy"\n' for name in "ab")
    job.write_text(f'[job]\nname = "flat"\ntask = "svd"\ncomponents = 1\n{parties}')
    found = page(study(job) / "parties" / "a")
    assert "no map to draw" in found.text
    assert "nan" not in found.html


def test_every_message_that_carries_numbers_has_a_step_of_its_own():
    heavy = {
        kind.__name__
        for kind in vars(messages).values()
        if isinstance(kind, type)
        and issubclass(kind, messages.Message)
        and any(
            "Float" in str(each.type) or "Ring" in str(each.type) or "bytes" in str(each.type) for each in fields(kind)
        )
    }
    inside = {"Aborted"}
    brief = {"Finished", "Countersigned"}  # a digest, a signature
    assert heavy - inside - brief <= set(STEPS)
    assert set(STEPS) <= set(vars(messages))


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_a_model_begins_with_its_table_and_forest_whatever_else_was_asked_for(tmp_path, family):
    rng = np.random.default_rng(11)
    asked = {"quality": "true", "roc": "1"} if family == "binomial" else {}
    lines = ["[job]", 'name = "odds"', 'task = "glm"', f'family = "{family}"', 'label = "y"']
    lines += [f"{key} = {value}" for key, value in asked.items()]
    for name in ("north", "south", "west"):
        x = rng.normal(size=(120, 2))
        y = x[:, 0] + rng.logistic(size=120)
        frame = pd.DataFrame(x, columns=["age", "bili"]).assign(y=(y > 0).astype(int) if asked else y)
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        lines += ["[[party]]", f'name = "{name}"', f'data = "{name}.csv"']
    (tmp_path / "job.toml").write_text("\n".join(lines))
    html = page(study(tmp_path / "job.toml") / "parties" / "north").html
    _, _, after = html.partition('<main id="main">')
    places = [after.index(tag) for tag in ("<h2", "<caption>", "<figure>", "<p>")]
    assert places == sorted(places)
    assert ("Over all parties, on the rows of the fit" in after) is bool(asked)
