"""Reports of small studies, and a reader that sees what a browser would: text, links, sections, drawings."""

from html.parser import HTMLParser
from pathlib import Path

from fedsvd.policy.rules import Policy
from fedsvd.results.report.page import render
from fedsvd.results.write import write_job
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import read_job
from fedsvd.studies.jobs import results_of, run_job

_VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """A page taken apart."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.tags, self.open, self.words, self.attributes = html, [], [], [], []
        self._skip = False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self._skip = tag == "style"
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self._skip = False

    def handle_data(self, data):
        if not self._skip:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def sections(self) -> list[str]:
        return [value for tag, name, value in self.attributes if (tag, name) == ("h2", "id")]

    def values(self, wanted: str) -> list[tuple[str, str]]:
        return [(tag, value) for tag, name, value in self.attributes if name == wanted]


def page(path: Path) -> Page:
    return Page((path / "report.html").read_text(encoding="utf-8"))


def study(job: Path, draw=render) -> Path:
    """The results folder of a job file, run in this process, with reports."""
    prepared = prepare(read_job(job))
    out = job.parent / "out"
    write_job(out, results_of(prepared, run_job(prepared, policy=Policy.permissive())), overwrite=True, draw=draw)
    return out
