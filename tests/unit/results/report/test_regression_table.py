"""The report of a regression with inference: the table of statsmodels, a forest plot, and reasons instead of dashes."""

import re

import numpy as np
import pytest
from tests.studies import FEATURES, hospitals
from tests.tolerances import A_FIFTH_OF_A_PIXEL, PRINTED_BAR, assert_close
from tests.unit.results.report.pages import page, study
from tests.unit.statistics.tables import fitted

from fedsvd.results.drawings.picture import Effect, Picture, Rows
from fedsvd.results.report import charts, svg

KEYS = {"task": "lr", "label": "outcome", "id": "patient", "inference": True}


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    files = hospitals(tmp_path_factory.mktemp("rows"))
    return files, study(files.job(**KEYS))


def test_every_reader_has_the_table_of_the_joint_data(regression):
    files, out = regression
    expected = fitted(files.D, files.y)
    for folder in (out, out / "parties" / "north"):
        text = page(folder).text
        assert "Coefficients of outcome" in text
        for j, name in enumerate(["(intercept)", *FEATURES]):
            assert f"{name} {expected.params[j]:.5g} {expected.bse[j]:.5g} {expected.tvalues[j]:.3f}" in text
        assert f"log-likelihood {expected.llf:.6g}" in text
        assert f"adjusted R2 {expected.rsquared_adj:.6g}" in text


def test_the_csp_has_no_word_of_it(regression):
    _, out = regression
    assert "Coefficients of" not in page(out / "roles" / "csp").text


def test_the_forest_plot_has_effects_for_each_deviation_of_a_feature_largest_first(regression):
    files, out = regression
    expected = fitted(files.D, files.y)
    deviations = files.D.std(axis=0, ddof=1)
    found = page(out)
    drawing = re.search(r'<svg[^>]*aria-label="Effects on outcome".*?</svg>', found.html, re.DOTALL)[0]
    order = np.argsort(-np.abs(expected.params[1:] * deviations))
    titles = re.findall(r"<circle[^>]*><title>([^<]*)</title>", drawing)
    assert [title.split(":")[0] for title in titles] == [FEATURES[j] for j in order]
    numbers = [[float(number) for number in re.findall(r"-?\d[\d.e-]*", title.split(":")[1])] for title in titles]
    low, high = expected.conf_int().T
    wanted = [[expected.params[1 + j], low[1 + j], high[1 + j], deviations[j]] for j in order]
    assert_close(np.array(numbers), np.array(wanted), PRINTED_BAR)


def test_points_and_intervals_lie_where_their_numbers_are():
    effects = (Effect("a", 2.0, 1.0, 3.0, "a"), Effect("b", -1.0, -2.5, 0.5, "b"))
    drawing = charts.drawn(Picture("forest", "Effects", "", Rows(effects, intervals=True)))
    dots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', drawing)]
    ends = [
        [float(x) for x in pair] for pair in re.findall(r'd="M([\d.]+) [\d.]+L([\d.]+) [\d.]+" class="stroke', drawing)
    ]
    zero = float(re.search(r'd="M([\d.]+) [^"]*" class="zero"', drawing)[1])
    unit = (dots[0] - zero) / 2.0
    assert abs(dots[1] - (zero - unit)) <= 2 * A_FIFTH_OF_A_PIXEL
    for (left, right), each in zip(ends, effects, strict=True):
        assert abs(left - (zero + unit * each.low)) <= 2 * A_FIFTH_OF_A_PIXEL
        assert abs(right - (zero + unit * each.high)) <= 2 * A_FIFTH_OF_A_PIXEL
    assert max(map(max, ends)) < svg.WIDTH


def test_long_names_stand_above_their_intervals():
    names = ["a question of a survey that is a whole sentence, and then some", "b"]
    effects = tuple(Effect(name, 1.0, 0.5, 1.5, name) for name in names)
    drawing = charts.drawn(Picture("forest", "Effects", "", Rows(effects, intervals=True)))
    starts = re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="start" class="name"', drawing)
    assert starts == ["4", "4"]


def test_a_ridge_has_its_bars_and_the_reason_why_there_is_no_forest_plot(tmp_path):
    out = study(hospitals(tmp_path).job(alpha=2.0, **KEYS))
    found = page(out)
    assert "Effects on outcome" not in found.html
    assert "Not defined for outcome: a penalty shrinks the coefficients" in found.text
    assert "Orange bars are negative" in found.text


def test_the_job_file_in_the_report_asks_for_inference_again(regression):
    _, out = regression
    assert "inference = true" in page(out).html.replace("&#34;", '"')
