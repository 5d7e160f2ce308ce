"""The page that goes from files to a manuscript: its numbers are R's, as recorded, and what it makes is what it shows.

``tests/vectors/manuscript.R`` read the tables that the page makes, all hospitals in one.
"""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from tests.tolerances import COX_ERRORS_BAR, PRINTED_BAR, STATISTIC_BAR, assert_close

from .snippets import DOCS, ROOT, typed

sys.path.insert(0, str(DOCS / "_ext"))

import manuscript_figure

PAGE = (DOCS / "howto" / "manuscript.md").read_text(encoding="utf-8")
R = json.loads((ROOT / "tests" / "vectors" / "manuscript-r.json").read_text(encoding="utf-8"))
ARMS = ("penicillamine", "placebo")
TIMES = (2, 4, 6, 8, 10)


def row(start):
    """The cells of a row of the page's tables, without its heading."""
    (found,) = re.findall(rf"^\| {re.escape(start)} \|(.*)\|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in found.split("|")]


def numbers(cell):
    return [float(word) for word in re.findall(r"-?[\d.]+", cell)]


def agree(shown, exact):
    """Whether a number as shown is this one, rounded to its digits."""
    shown = shown.strip()
    return float(shown) == round(exact, len(shown.partition(".")[2]))


def test_what_the_page_says_of_r_is_what_r_said():
    for a, arm in enumerate(ARMS):
        shown = [cell.partition(" ")[0] for cell in row(f"{arm}, R (std. error)")]
        assert all(map(agree, shown, R["survival_at"][a]))
    for term, ratio in zip(
        ("age", "edema", "log(bili)", "log(albumin)", "log(protime)"), R["cox"]["ratio"], strict=True
    ):
        shown = row(term)
        assert all(map(agree, [shown[2], *shown[3].split(" to ")], ratio)), term
    terms = ("(intercept)", "year", "arm[T.placebo]", "year:arm[T.placebo]")
    for term, theirs in zip(terms, R["mixed"]["table"], strict=True):
        assert all(map(agree, row(term)[3:], theirs)), term
    assert numbers(row("age, mean (SD)")[1]) == [round(R["age"][key][0], 1) for key in ("mean", "sd")]
    assert numbers(row("women")[3])[0] == R["women"][1]


@pytest.mark.slow
def test_the_page_as_typed_has_the_numbers_of_r_and_the_figure_shown(tmp_path):
    typed(PAGE, tmp_path)
    for name in ("table-1.docx", "table-2.docx", "table-3.docx", "figure-1.svg", "figure-2.svg"):
        assert (tmp_path / name).stat().st_size > 0
    results = tmp_path / "results"

    described = pd.read_csv(results / "table-1" / "table_1.csv", dtype=str).set_index("variable")
    assert described.loc["n", list(ARMS)].astype(int).tolist() == R["n"]
    women = described.loc["sex = f (%)", list(ARMS)]
    assert [int(cell.partition(" ")[0]) for cell in women] == R["women"]
    for column in ("age", "bili"):
        cells = [numbers(cell) for cell in described.loc[f"{column} (mean (SD))", list(ARMS)]]
        expected = np.column_stack((R[column]["mean"], R[column]["sd"])).round(1)
        assert np.array_equal(cells, expected)

    errors = np.array(R["survival_error"])
    for name, off in (("curves", 0.1), ("curves-in-fives", 1.5)):
        curves = pd.read_csv(results / name / "curves.csv")
        found = [curves[(curves["strata"] == arm) & curves["time"].isin(TIMES)]["estimate"] for arm in ARMS]
        assert (np.abs(np.array(found) - R["survival_at"]) <= off * errors).all()
        shown = [row(f"{arm}, {'exact counts' if name == 'curves' else 'counts in fives'}") for arm in ARMS]
        assert all(map(agree, np.ravel(shown).tolist(), np.ravel(found).tolist()))

    cox = pd.read_csv(results / "risk" / "coefficients.csv")
    assert_close((cox["coef"] - R["cox"]["coef"]) / R["cox"]["se"], np.zeros(5), STATISTIC_BAR, 1.0)
    assert_close(cox["se"] / R["cox"]["se"], np.ones(5), COX_ERRORS_BAR)

    mixed, theirs = pd.read_csv(results / "visits" / "coefficients.csv"), np.array(R["mixed"]["table"])
    assert_close((mixed["coef"] - theirs[:, 0]) / theirs[:, 1], np.zeros(4), PRINTED_BAR, 1.0)
    assert (np.abs(mixed["df"] - theirs[:, 2]) < 1.0).all()
    drawn = manuscript_figure.drawn(tmp_path)
    assert manuscript_figure.FIGURE.read_text(encoding="utf-8") == drawn, "run `python docs/_ext/manuscript_figure.py`"
