"""The audit as one HTML file that needs nothing else: no script, no font and no picture is fetched.

Text goes through Jinja's escaping; only drawings, whose text ``results.report.svg`` escapes, are put in as they are.
"""

from importlib.resources import files
from typing import Any

from fedsvd import __version__
from fedsvd.errors import MissingExtra
from fedsvd.lab.audit.audit import Audit
from fedsvd.lab.audit.drawings import drawn, widths_drawn


def template() -> Any:
    """The page without its content; an error that names the extra where Jinja is missing."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise MissingExtra("the page of an audit needs jinja2", "pip install 'fedsvd[report]'") from None
    source = files("fedsvd.lab.audit").joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source)


def render(audit: Audit, record: dict[str, Any], include_data: bool = False) -> str:
    """The whole page; ``record`` is the audit's, with parties called by their names."""
    pictures = [picture for finding in audit.findings for picture in finding.pictures]
    html: str = template().render(
        record=record,
        version=__version__,
        seconds=f"{audit.seconds:.0f} s",
        figures=[{"svg": drawn(picture), "title": picture.title} for picture in pictures],
        widths=widths_drawn(audit.widths) if audit.widths else "",
        include_data=include_data,
    )
    return html
