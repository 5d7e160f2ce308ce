"""The audit as one HTML file that needs nothing else: no script, no font and no picture is fetched.

Text goes through Jinja's escaping; only drawings, whose text ``results.report.svg`` escapes, are put in as they are.
"""

from typing import Any

from fedsvd import __version__
from fedsvd.audit.audit import Audit
from fedsvd.audit.drawings import drawn, widths_drawn
from fedsvd.results.report.page import template_of


def template() -> Any:
    """The page without its content; an error that names the extra where Jinja is missing."""
    return template_of("fedsvd.audit")


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
