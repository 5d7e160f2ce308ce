"""The picture of who says what to whom, made from the role tables: ``python -m fedsvd.testing.figures``.

A test fails when ``docs/figures/messages.svg`` is not what this file would write. Messages stand in the order in which
``protocol/messages.py`` defines them, which is the order of the steps.
"""

import sys
from pathlib import Path

from fedsvd.protocol import messages
from fedsvd.protocol.messages import Aborted, Begin, Message
from fedsvd.protocol.parties import Role
from fedsvd.results.report import svg
from fedsvd.testing.diagrams import ROLES

FIGURE = Path("docs") / "figures" / "messages.svg"
_INSIDE = (Begin, Aborted)  # between a role and its own player, or from any party at any time
_LINES = {Role.USER: 110.0, Role.CSP: 380.0, Role.TA: 650.0}
_NAMES = {Role.USER: "a user (party)", Role.CSP: "the CSP", Role.TA: "the authority, if any"}
_SOMETIMES = (
    "RowIds",
    "RowsAgree",
    "RowsRequest",
    "FactorRows",
    "Solution",
)
_STEP = 30.0
_STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#1b2130}.axis{fill:#545d6e}.frame{stroke:#8a93a3}"
    ".arrow{stroke:#2563c9;stroke-width:1.5;fill:none;marker-end:url(#tip)}.some{stroke-dasharray:6 4}"
    ".paper{fill:#fff}.tip{fill:#2563c9}</style>"
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
)


def messages_sent() -> list[tuple[str, Role, Role]]:
    """Every message with who sends it and who receives it, in the order of the steps."""
    kinds = [kind for kind in vars(messages).values() if isinstance(kind, type) and issubclass(kind, Message)]
    found = []
    for kind in kinds:
        for machine, _, receiver in ROLES.values():
            senders = {row.sender for row in machine.TABLE.values() if row.message is kind}
            found += [(kind.__name__, sender, receiver) for sender in Role if sender in senders and kind not in _INSIDE]
    return found


def sequence() -> str:
    """The drawing."""
    rows = messages_sent()
    height = 70.0 + _STEP * len(rows)
    parts = [_STYLE, svg.rect(0, 0, 760, height, "paper")]
    for role, x in _LINES.items():
        parts += [svg.text(x, 22, _NAMES[role], anchor="middle"), svg.line(x, 34, x, height - 12, "frame")]
    for j, (name, sender, receiver) in enumerate(rows):
        y, start, stop = 62.0 + _STEP * j, _LINES[sender], _LINES[receiver]
        css = "arrow some" if name in _SOMETIMES or Role.TA in (sender, receiver) else "arrow"
        parts.append(svg.line(start, y, stop, y, css))
        parts.append(svg.text((start + stop) / 2, y - 6, name, anchor="middle", css="axis"))
    return svg.drawing("Messages between a user, the CSP and the authority, in order", 760, height, parts) + "\n"


def write(root: Path) -> None:
    """The figure, below the root of a checkout."""
    path = root / FIGURE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(sequence(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
