"""``report.html``: one file that needs nothing else, drawn for one reader from what that reader may see.

No script, no font, no picture is fetched, and the page's own content security policy forbids it. Text goes through
Jinja's escaping; only drawings, whose text ``svg.py`` escapes, are put in as they are.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from fedsvd.errors import MissingExtra
from fedsvd.results.report.accounts import accounts, against_the_model
from fedsvd.results.report.findings import findings
from fedsvd.results.report.subject import TASKS, Subject, reader_name
from fedsvd.results.report.words import certificate, how_to_repeat, what_was_computed, who_learned_what

REPORT = "report.html"


def render(subject: Subject) -> str:
    """The whole page."""
    sections = [
        what_was_computed(subject),
        *findings(subject),
        accounts(subject),
        against_the_model(subject),
        certificate(subject),
        who_learned_what(subject),
        how_to_repeat(subject),
    ]
    html: str = _template().render(
        subject=subject,
        task=TASKS[subject.plan.task],
        reader=reader_name(subject),
        residual=f"{subject.certificate.residual:.1e}",
        sections=sections,
    )
    return html


@cache
def _template() -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise MissingExtra("a report needs jinja2", "pip install 'fedsvd[report]'") from None
    source = files("fedsvd.results.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source)
