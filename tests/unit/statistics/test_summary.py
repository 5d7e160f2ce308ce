"""Tables for people: every number that is there is shown, what is not defined is said, and names cannot do harm."""

import math

import numpy as np
import pandas as pd
import pytest
from tests.unit.statistics.driving import drive

from fedsvd.errors import ShapeError
from fedsvd.statistics import glm, multinomial
from fedsvd.statistics.families import LOGIT
from fedsvd.statistics.inference import infer
from fedsvd.statistics.robust import robust, score_rows
from fedsvd.statistics.summary import INTERCEPT, glm_summary, linear_summary, multinomial_summary, printed_ratio
from fedsvd.statistics.undefined import NO_FREEDOM, PENALISED


def linear(n=40, alpha=0.0, twice=False, level=0.95):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    X = np.column_stack((X, X[:, 0])) if twice else X
    y = X[:, 0] + rng.normal(size=n)
    R = np.linalg.qr(np.column_stack((np.ones(n), X, y)), mode="r")
    return infer(R, n, alpha=alpha, level=level)[0], X, y


def test_the_columns_make_a_data_frame_of_the_model():
    model, _, _ = linear()
    frame = pd.DataFrame(linear_summary(model, ["age", "dose"], "outcome").columns()).set_index("name")
    assert list(frame.index) == [INTERCEPT, "age", "dose"]
    assert list(frame.columns) == ["coefficient", "std error", "t", "P>|t|", "2.5%", "97.5%"]
    assert np.array_equal(frame["coefficient"], model.coefficients)
    assert np.array_equal(frame["P>|t|"], model.p)
    assert np.array_equal(frame[["2.5%", "97.5%"]], model.intervals)


def test_the_text_has_a_line_for_each_coefficient_and_all_facts():
    model, _, _ = linear(level=0.9)
    text = str(linear_summary(model, ["age", "dose"], "outcome"))
    for piece in ("outcome", INTERCEPT, "age", "dose", "R2", f"{model.r2:.6g}", "AIC", f"{model.aic:.6g}", "5%", "95%"):
        assert piece in text
    assert f"{model.coefficients[1]:.5g}" in text
    assert "Note" not in text
    assert len({len(line) for line in text.splitlines() if set(line) == {"="}}) == 1


@pytest.mark.parametrize(("settings", "reason"), [({"alpha": 1.0}, PENALISED), ({"n": 3}, NO_FREEDOM)])
def test_what_is_not_defined_is_a_dash_and_a_note(settings, reason):
    model, X, _ = linear(**settings)
    summary = linear_summary(model, [f"x{k}" for k in range(X.shape[1])])
    assert all(math.isnan(value) for value in summary.cells["std error"])
    assert f"Note: {reason.reason}." in " ".join(summary.text().split())  # in lines as wide as the table
    assert reason.reason in summary.to_html()
    row = next(line for line in summary.text().splitlines() if line.startswith("x0"))
    assert row.split()[2:] == ["-"] * 5
    assert "nan" not in summary.text()


def test_an_aliased_column_is_named_and_the_others_have_their_rows():
    model, X, _ = linear(twice=True)
    summary = linear_summary(model, [f"x{k}" for k in range(X.shape[1])])
    last = f"x{X.shape[1] - 1}"
    assert f"Note: aliased: {last} (" in summary.text()
    lines = {line.split()[0]: line.split()[1:] for line in summary.text().splitlines() if line.startswith("x")}
    assert lines[last] == ["-"] * 6
    assert "-" not in lines["x0"]


def test_robust_errors_are_named():
    model, X, y = linear()
    text = linear_summary(robust(model, score_rows(X, y, model, "HC3"), "HC3"), ["a", "b"]).text()
    assert "HC3" in text
    assert "P>|z|" in text


def test_names_are_escaped_and_control_characters_are_not_shown():
    model, _, _ = linear()
    summary = linear_summary(model, ["<script>alert(1)</script>", "\x1b[31mred"], "<b>")
    assert "<script>" not in summary.to_html()
    assert "&lt;script&gt;" in summary.to_html()
    assert "\x1b" not in summary.text()
    assert summary._repr_html_() == summary.to_html()


def test_generalised_linear_models_have_a_table_too():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = (rng.random(200) < 0.5).astype(float)
    model, _ = drive(glm.fit(LOGIT), lambda request, rows: glm.contribution(request, LOGIT, X[rows], y[rows]), 200)
    summary = glm_summary(model, ["age", "dose"], "died")
    assert summary.cells["z"] == tuple(model.z)
    for piece in ("binomial", "logit", "deviance", f"{model.null_deviance:.6g}", "died", "P>|z|"):
        assert piece in summary.text()


def test_several_classes_have_their_rows_one_after_the_other():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 3, size=200)
    model, _ = drive(
        multinomial.fit(3, 2), lambda request, rows: multinomial.contribution(request, X[rows], y[rows], 3), 200
    )
    summary = multinomial_summary(model, ["age", "dose"], ["mild", "severe", "fatal"])
    assert summary.names[0] == f"severe: {INTERCEPT}"
    assert summary.names[-1] == "fatal: dose"
    assert summary.cells["coefficient"][-1] == model.coefficients[-1, -1]
    assert "mild" in summary.text()
    with pytest.raises(ShapeError):
        multinomial_summary(model, ["age", "dose"], ["mild", "severe"])


def test_as_many_names_as_coefficients():
    model, _, _ = linear()
    with pytest.raises(ShapeError, match="names"):
        linear_summary(model, ["age"])


@pytest.mark.parametrize(
    ("three", "text"),
    [
        ((1.26, 0.73, 2.18), "1.26 (0.73 to 2.18)"),
        ((1.0036154, 1.0002153, 1.007027), "1.004 (1.000 to 1.007)"),
        ((0.9999539, 0.999612, 1.000296), "1.0000 (0.9996 to 1.0003)"),
        ((0.0123456, 0.001, 0.15), "0.0123 (0.001 to 0.15)"),
        ((245.2, 21.99, 2734.4), "245 (21.99 to 2734)"),
        ((5.0, 0.2, math.inf), "5.00 (0.20 to beyond 1e304)"),
    ],
)
def test_a_ratio_has_the_decimals_that_tell_it_from_the_ends_of_its_interval(three, text):
    assert printed_ratio(*three) == text
