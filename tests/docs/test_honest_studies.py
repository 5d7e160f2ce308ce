"""The page of honest studies is what the rules say now: none is refused, and most of them are fine."""

import json

import pytest
from tests.honest import ASKS, FINE, OF_DATA, PAGE, REFUSED, lines, of_data, page

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def made():
    return page()


def test_the_page_is_what_the_rules_say_now(made):
    assert PAGE.read_text(encoding="utf-8") == made, "run `python -m tests.honest`"


def test_no_honest_study_is_refused_and_two_thirds_are_fine(made):
    lines = [line for line in made.splitlines() if line.startswith("| ") and "verdict" not in line]
    verdicts = [line.split("|")[-2].strip().partition(":")[0] for line in lines]
    assert len(verdicts) >= 15
    assert REFUSED not in verdicts
    assert verdicts.count(ASKS) == len(verdicts) - verdicts.count(FINE)
    assert 3 * verdicts.count(FINE) >= 2 * len(verdicts)


@pytest.mark.slow
def test_verdicts_on_images_and_ratings_are_as_recorded():
    assert lines(of_data()) == json.loads(OF_DATA.read_text(encoding="utf-8"))
