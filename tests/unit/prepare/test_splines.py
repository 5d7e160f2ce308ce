"""Natural splines: the basis that R prints, the space that truncated powers span, straight lines beyond the knots."""

import numpy as np
import pandas as pd
import pytest
from tests.tolerances import RESULT_BAR, SEVEN_DIGITS, STATISTIC_BAR, assert_close

import fedsvd
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError
from fedsvd.prepare.formula import parse
from fedsvd.prepare.formula_table import FormulaTable
from fedsvd.prepare.job_made import job_made
from fedsvd.prepare.recipe import of_record
from fedsvd.prepare.rule import Rule
from fedsvd.prepare.script import play_together, prepare, prepared_again
from fedsvd.prepare.splines import natural_spline
from fedsvd.randomness.seed import Seed

KNOTS = (58.0, 60.8, 63.6, 66.4, 69.2, 72.0)
# R 4: ns(women$height, df = 5), whose heights are 58 to 72: rows 1 to 7 and the last, as it prints them.
WOMEN = """
0.000000e+00 0.000000e+00  0.00000000 0.00000000  0.0000000000
7.592323e-03 0.000000e+00 -0.08670223 0.26010669 -0.1734044626
6.073858e-02 0.000000e+00 -0.15030440 0.45091320 -0.3006088020
2.047498e-01 6.073858e-05 -0.16778345 0.50335034 -0.3355668952
4.334305e-01 1.311953e-02 -0.13244035 0.39732106 -0.2648807067
6.256681e-01 8.084305e-02 -0.07399720 0.22199159 -0.1479943948
6.477162e-01 2.468416e-01 -0.02616007 0.07993794 -0.0532919575
0.000000e+00 0.000000e+00 -0.14285714 0.42857143  0.7142857143
"""


def basis(x, knots=KNOTS):
    return np.column_stack([natural_spline(np.asarray(x, float), knots, j) for j in range(1, len(knots))])


def powers(x, knots):
    """Natural splines by hand: x, and cubes behind knots whose second and third powers cancel beyond the last."""
    last, before = knots[-1], knots[-2]

    def cubes(knot):
        return (np.maximum(x - knot, 0.0) ** 3 - np.maximum(x - last, 0.0) ** 3) / (last - knot)

    return np.column_stack([np.ones_like(x), x, *(cubes(knot) - cubes(before) for knot in knots[:-2])])


def test_the_basis_is_that_of_r():
    printed = np.array([[float(word) for word in line.split()] for line in WOMEN.strip().splitlines()])
    found = basis([58, 59, 60, 61, 62, 63, 64, 72])
    assert np.max(np.abs(found - printed)) <= SEVEN_DIGITS


@pytest.mark.parametrize("knots", [KNOTS, (0.0, 0.1, 4.0), (-3.0, -2.5, 10.0, 11.0, 400.0)])
def test_the_columns_span_natural_splines_and_are_straight_beyond_the_knots(knots):
    width = knots[-1] - knots[0]
    x = np.linspace(knots[0] - width, knots[-1] + width, 400)
    by_hand, found = powers(x, knots), np.column_stack([np.ones_like(x), basis(x, knots)])
    by_hand /= np.linalg.norm(by_hand, axis=0)
    Q = np.linalg.qr(by_hand).Q
    assert np.linalg.matrix_rank(found) == by_hand.shape[1] == len(knots)
    assert_close(found, Q @ (Q.T @ found), STATISTIC_BAR)  # the cubes of one knot are nearly those of the next
    ends = basis(knots[0] - width * np.array([3.0, 2.0, 1.0]), knots)
    assert_close(ends[0] - ends[1], ends[1] - ends[2], RESULT_BAR)


def parts():
    rng = np.random.default_rng(3)
    return [pd.DataFrame({"y": rng.normal(size=30), "x": rng.uniform(50, 80, 30)}) for _ in range(3)]


def test_a_formula_takes_knots_of_the_rule_and_a_recipe_remembers_them():
    rule = Rule(formula="y ~ ns(x) + x:ns(x)", knots=(("x", KNOTS),))
    frames = parts()
    first, *_ = play_together([prepare(open_source(each), rule, Seed(bytes(32))) for each in frames])
    assert first.table.names[:5] == tuple(f"ns(x)[{j}]" for j in range(1, 6))
    assert_close(first.table.rows(0, 30)[:, :5], basis(frames[0]["x"]), RESULT_BAR)
    stored = of_record(first.recipe.record())
    new = prepared_again(open_source(frames[1]), Rule(formula=rule.formula), stored).table
    assert_close(new.rows(0, 30)[:, :5], basis(frames[1]["x"]), RESULT_BAR)


def test_in_one_process_knots_are_quantiles_of_all_tables_without_a_word():
    x = np.arange(0.0, 101.0)
    frames = [pd.DataFrame({"x": part, "y": 2.0 * part}) for part in (x[:30], x[30:70], x[70:])]
    found = fedsvd.prepared(frames, formula="y ~ ns(x)", policy=fedsvd.Policy.permissive())
    values = np.vstack([table.rows(0, table.shape[0]) for table in found])
    assert_close(values, basis(x, (5.0, 35.0, 65.0, 95.0)), RESULT_BAR)


def test_a_dictionary_that_is_given_has_the_knots_levels_and_counts(tmp_path):
    words = '[columns.x]\nknots = [0, 10, 100]\n[columns.y]\n[columns.g]\nlevels = ["a", "b", "c", "d"]\npool = true\n'
    (tmp_path / "dictionary.toml").write_text(words)
    frame = pd.DataFrame({"x": np.arange(40.0), "y": 1.0, "g": np.resize(["a", "b", "c"], 40)})
    frame.loc[0, "g"] = "d"
    how = {"dictionary": tmp_path / "dictionary.toml", "policy": fedsvd.Policy.permissive()}
    found = fedsvd.prepared([frame] * 3, formula="y ~ ns(x) + g", **how)
    assert found[0].names == ("ns(x)[1]", "ns(x)[2]", "g[T.b]", "g[T.other]")
    assert_close(found[0].rows(0, 40)[:, :2], basis(frame["x"], (0.0, 10.0, 100.0)), RESULT_BAR)
    with pytest.raises(ConfigError, match="which is not in the dictionary"):
        fedsvd.prepared([frame] * 3, formula="y ~ z", **how)


def test_splines_are_made_by_the_job_and_have_knots():
    source = open_source(parts()[0])
    table = FormulaTable(source, parse("y ~ ns(x)"), {}, knots={"x": KNOTS[:3]})
    assert job_made(table) == {"ns(x)[1]": (), "ns(x)[2]": ()}
    with pytest.raises(ConfigError, match=r"ns\(x\), and 'x' has no knots[^\n]*\n?.*\[columns.NAME\]"):
        FormulaTable(source, parse("y ~ ns(x)"), {})
