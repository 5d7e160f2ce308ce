"""What Matplotlib draws fits: axes reach as far as marks, rows stand off the frame, names do not cover each other."""

import matplotlib as mpl
import numpy as np
import pytest

from fedsvd.results.drawings.axes import on_axes
from fedsvd.results.drawings.picture import Dots, Effect, Named, Picture, Plane, Rows

mpl.use("Agg")


def drawn(body):
    from matplotlib.figure import Figure

    return on_axes(Picture("scores", "a title", "a caption", body), Figure().add_subplot())


@pytest.mark.parametrize(("shift", "lines"), [(350.0, 1), (0.0, 2)])
def test_an_axis_does_not_reach_for_a_zero_that_no_mark_is_near(shift, lines):
    points = np.random.default_rng(2).normal((shift, 0.0), size=(50, 2))
    ax = drawn(Plane("fitted", "residual", (Dots(points),), zero=True))
    assert len(ax.lines) == lines
    assert ax.get_xlim()[0] > shift - 10.0


def test_rows_of_a_forest_stand_off_the_frame():
    effects = tuple(Effect(f"x{j}", 1.0, 0.5, 2.0, "", "1.00 (0.50 to 2.00)") for j in range(3))
    low, high = sorted(drawn(Rows(effects, True, True, "odds ratio")).get_ylim())
    assert low < -0.3
    assert high > 2.3


def test_names_that_would_cover_each_other_are_written_once():
    points = np.array([[0.0, 1.0], [0.001, 0.001], [0.002, 0.0], [1.0, 0.0]])
    ax = drawn(Plane("component 1", "component 2", (Named(points, ("a", "b", "c", "d"), arrows=True),)))
    assert [each.get_text() for each in ax.texts if each.get_text()] == ["a", "b", "d"]


def test_a_long_name_does_not_run_into_one_whose_point_is_far():
    points = np.array([[1.0, 0.0], [0.6, 0.01], [0.0, 1.0]])
    ax = drawn(Plane("1", "2", (Named(points, ("systolic pressure", "body mass index at all", "age"), arrows=True),)))
    boxes = [each.get_window_extent() for each in ax.texts if each.get_text()]
    assert [each.get_text() for each in ax.texts if each.get_text()] == ["systolic pressure", "age"]
    assert not boxes[0].overlaps(boxes[1])
