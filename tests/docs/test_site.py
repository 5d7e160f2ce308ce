"""The documentation becomes web pages without a warning; they load nothing from elsewhere, and nothing is cut off."""

import re
import shutil
import subprocess
import sys

import pytest
from docs._ext import api_pages
from tests.browser import COLLISIONS, Browser
from tests.docs.snippets import DOCS

FOLLOWED = (
    "index",
    "tutorial/first-study",
    "howto/hospitals",
    "deployment",
    "reference/cli",
    "reference/api/FederatedLogisticRegression",
    "errors/FSVD-110",
    "diagrams/user",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    source = shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("_build"))
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", source, folder / "site"]
    built = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stderr
    return folder / "site"


def names(site):
    return sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html"))


def test_the_site_has_the_pages_that_are_made_from_the_program(site):
    assert {"index.html", "reference/cli.html", "reference/api.html", "errors/FSVD-110.html"} <= set(names(site))
    assert {f"reference/api/{name}.html" for name in (*api_pages.TASKS, *api_pages.OTHERS)} <= set(names(site))
    page = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    commands = re.sub(r"<[^>]+>", "", page)  # a command's words stand in elements of their own
    for command in ("fedsvd init", "fedsvd job watch", "fedsvd csp start", "fedsvd report"):
        assert command in commands


def test_no_page_loads_anything_from_elsewhere(site):
    for page in names(site):
        text = (site / page).read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|link)[^>]*?(?:src|href)="(https?:[^"]+)"', text)
        assert not [url for url in fetched if "canonical" not in url], page


def test_the_menu_has_the_four_parts_of_the_documentation(site):
    menu = re.search(r'<ul class="bd-navbar-elements.*?</ul>', (site / "index.html").read_text(encoding="utf-8"), re.S)[
        0
    ]
    assert re.sub(r"<[^>]+>", " ", menu).split() == ["Tutorial", "How-to", "guides", "Reference", "Explanation"]


def test_a_sidebar_that_is_there_has_links(site):
    seen = 0
    for page in names(site):
        text = (site / page).read_text(encoding="utf-8")
        sidebar = re.search(
            r'<div class="sidebar-primary-items__start.*?<div class="sidebar-primary-items__end', text, re.S
        )
        if "Section Navigation" in text:
            seen += 1
            assert re.search(r'aria-label="Section Navigation".*?<a class="reference internal"', sidebar[0], re.S), page
    assert seen > 20


CUT_OFF = """(() => {
  const scrolls = node => { for (; node && node !== document.body; node = node.parentElement)
      if (['auto', 'scroll'].includes(getComputedStyle(node).overflowX)) return true; return false; };
  const found = [];
  for (const node of document.querySelectorAll('.bd-article pre, .bd-article code, .bd-article img, .bd-article p')) {
    const right = Math.max(...[...node.getClientRects()].map(box => box.right));
    if (right > innerWidth + 1 && !scrolls(node)) found.push(node.textContent.slice(0, 60));
  }
  for (const node of document.querySelectorAll('.highlight-sh pre, .highlight-text pre'))
    if (node.scrollWidth > node.clientWidth + 1) found.push('clipped: ' + node.textContent.slice(0, 60));
  return found;
})()"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 390])
def test_no_command_is_clipped_and_no_label_of_a_drawing_touches_another(site, width):
    browser = Browser()
    try:
        browser.size(width, 900)
        for page in FOLLOWED:
            browser.visit((site / f"{page}.html").as_uri())
            assert browser.evaluate("document.documentElement.scrollWidth") <= width, page
            assert browser.evaluate(CUT_OFF) == [], page
            browser.evaluate("document.querySelectorAll('.bd-header, .bd-sidebar').forEach(node => node.remove())")
            assert browser.evaluate(COLLISIONS) == [], page
            browser.screenshot(f"site-{page.replace('/', '-')}-{width}")
    finally:
        browser.close()


def test_options_in_commands_are_not_broken_at_their_hyphens(site):
    page = (site / "tutorial" / "first-study.html").read_text(encoding="utf-8")
    assert '<span class="whole">--components</span>' in page
