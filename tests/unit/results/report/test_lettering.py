"""Text is measured for the widest common font, and what is cut or placed by that measure fits."""

import string
from itertools import pairwise

import numpy as np
import pytest
from tests.tolerances import digits_lost
from tests.unit.results.report.fonts import widest

from fedsvd.results.report.lettering import SIZE, in_columns, placed, shortened, text_width
from fedsvd.results.report.svg import Scale, covering, spaced_ticks

LATIN = string.ascii_letters + string.digits + string.punctuation + " ÄÖÜßéñçøåœ·–—…→×±²"
LONG = "Körpertemperatur morgens, gemessen im Ohr"  # 41 characters


@pytest.mark.parametrize("bold", [False, True])
def test_no_line_of_text_is_wider_in_a_real_font_than_it_is_said_to_be(bold):
    rng = np.random.default_rng(0)
    lines = ["".join(rng.choice(list(LATIN), size=rng.integers(1, 40))) for _ in range(200)]
    for line in [*lines, "age", "mean concave points", "WWWW", "mmmm", "-0.0966", "1.5e-06", LONG]:
        assert text_width(line, bold=bold) >= SIZE * widest(line, bold), line


def test_words_of_one_font_are_not_given_twice_the_place():
    for words in ("mean concave points", "hospital-a", "systolic blood pressure"):
        assert text_width(words) <= 1.4 * SIZE * widest(words)


@pytest.mark.parametrize("words", ["平均赤血球ヘモグロビン濃度", "Щедрый Жёлтый", "αβγ", "🏥🏥"])
def test_other_scripts_are_given_a_full_square_or_nearly(words):
    assert text_width(words) >= 0.9 * SIZE * len(words)


def test_a_combining_mark_takes_no_place():
    assert text_width("e\u0301") == text_width("e")


def test_a_name_that_fits_is_not_changed_and_one_that_does_not_is_cut_in_its_middle():
    assert shortened("age", 100.0) == "age"
    cut = [shortened(f"{LONG} {place}", 120.0) for place in range(3)]
    assert len(set(cut)) == 3  # they differ at their ends alone
    assert all(text_width(name) <= 120.0 and name.startswith("Kö") and "…" in name for name in cut)
    assert shortened(LONG, 1.0) == "…"


def test_entries_of_a_legend_stand_beside_each_other_and_go_on_below():
    names = ["upload", "keys and prekeys", "answer", "control"]
    places = list(in_columns(names, 260.0, 30.0))
    assert places[0] == (0.0, 0)
    assert max(line for _, line in places) >= 1
    for (x, line), (other, below), name in zip(places[:-1], places[1:], names[:-1], strict=True):
        assert below > line or other >= x + text_width(name) + 30.0
    assert all(x + text_width(name) <= 260.0 for (x, _), name in zip(places, names, strict=True))


def boxes(wanted, found):
    for (words, _), spot in zip(wanted, found, strict=True):
        if spot is not None:
            yield spot[0], spot[1] - SIZE, spot[0] + SIZE * widest(words), spot[1] + SIZE / 4


@pytest.mark.parametrize("seed", range(5))
def test_names_of_points_neither_overlap_nor_cover_a_mark_nor_leave_the_frame(seed):
    rng = np.random.default_rng(seed)
    marks = [tuple(map(float, place)) for place in rng.normal([210, 160], [60, 40], size=(12, 2))]
    wanted = [(f"measurement {j}" if j % 2 else "wwwwwwwwwwwwwwwww", mark) for j, mark in enumerate(marks)]
    found = placed(wanted, marks, (40.0, 20.0, 410.0, 280.0))
    drawn = list(boxes(wanted, found))
    assert len(drawn) >= 4
    for j, (left, top, right, bottom) in enumerate(drawn):
        assert (left >= 40.0, top >= 20.0, right <= 410.0, bottom <= 280.0) == (True,) * 4
        assert not [x for x, y in marks if left < x < right and top < y < bottom]
        for other in drawn[:j]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_a_name_without_a_free_place_is_left_out():
    mark = (100.0, 100.0)
    assert placed([("a name", mark)] * 10, [], (0.0, 0.0, 200.0, 200.0))[-1] is None


@pytest.mark.parametrize(
    ("low", "high", "across"), [(-0.3, 0.4, 150.0), (-0.3, 0.4, 60.0), (1000.0, 1000.5, 300.0), (0.0, 3e-7, 200.0)]
)
def test_numbers_of_an_axis_do_not_touch_and_differ_from_each_other(low, high, across):
    scale = Scale(low, high, 0.0, across)
    found = spaced_ticks(scale)
    assert len(found) >= 2
    assert len({label for _, label in found}) == len(found)
    for value, label in found:
        assert low <= value <= high or value == pytest.approx(low) or value == pytest.approx(high)
        assert abs(float(label) - value) <= digits_lost(6) * (high - low)
    ends = [(scale(value), SIZE * widest(label) / 2) for value, label in found]
    for (a, half), (b, other) in pairwise(ends):
        assert b - other > a + half
    if low < 0:
        assert "0" in {label for _, label in found}


def test_a_scale_ends_at_round_numbers_and_is_hardly_longer_than_its_data():
    assert covering(-0.271, 0.375) == pytest.approx((-0.3, 0.4))
    assert covering(0.0, 0.261) == pytest.approx((0.0, 0.3), abs=0.05)
    low, high = covering(-0.2, 0.6)
    assert (low, high) == pytest.approx((-0.2, 0.6))
