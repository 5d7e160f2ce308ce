"""The documentation becomes web pages without a warning, and they load nothing from elsewhere."""

import re
import shutil
import subprocess
import sys

import pytest
from tests.docs.snippets import DOCS


def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    source = shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("_build"))
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", source, tmp_path / "site"]
    built = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stderr
    pages = {page.relative_to(tmp_path / "site").as_posix() for page in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "reference/cli.html", "reference/api.html", "errors/FSVD-110.html"} <= pages
    page = (tmp_path / "site" / "reference" / "cli.html").read_text(encoding="utf-8")
    commands = re.sub(r"<[^>]+>", "", page)  # a command's words stand in elements of their own
    for command in ("fedsvd init", "fedsvd job watch", "fedsvd csp start", "fedsvd report"):
        assert command in commands
    for page in sorted(pages):
        text = (tmp_path / "site" / page).read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|link)[^>]*?(?:src|href)="(https?:[^"]+)"', text)
        assert not [url for url in fetched if "canonical" not in url], page
