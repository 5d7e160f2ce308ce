"""The tree in ``errors.py``, the index of errors and the heads of their pages are made from the classes."""

from pathlib import Path

import pytest
from docs._ext.error_pages import PAGES, kinds, written

ROOT = Path(__file__).parents[2]


def test_what_is_made_from_the_classes_is_up_to_date():
    stale = [path.name for path, text in written(ROOT).items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `python docs/_ext/error_pages.py` and commit"


def test_every_error_has_a_page_and_every_page_an_error():
    pages = {path.stem for path in (ROOT / PAGES).glob("FSVD-*.md")}
    assert pages == {kind.code for kind in kinds()}


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_page_says_how_it_looks_and_what_to_do(kind):
    page = (ROOT / PAGES / f"{kind.code}.md").read_text(encoding="utf-8")
    assert "## What to do" in page
    assert f"{kind.code}: " in page
