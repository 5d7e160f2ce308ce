"""Diagrams of the role tables, made from the tables themselves: ``python docs/_ext/role_pages.py`` writes them all.

``docs/diagrams`` has the states of each role in Mermaid, ``docs/figures/messages.svg`` who says what to whom, in the
order in which ``protocol/messages.py`` defines messages, which is the order of the steps. Tests fail when one is stale.
"""

import sys
from pathlib import Path

from fedsvd.protocol import messages
from fedsvd.protocol.machine import Machine, Row
from fedsvd.protocol.messages import Aborted, Begin, Message
from fedsvd.protocol.parties import Role
from fedsvd.results.report import svg
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.roles.trusted_authority import TrustedAuthority
from fedsvd.roles.user.role import User

FOLDER = Path("docs") / "diagrams"
# File name to role, what people call it, and its name among the senders.
ROLES: dict[str, tuple[type[Machine], str, Role]] = {
    "trusted-authority": (TrustedAuthority, "The Trusted Authority", Role.TA),
    "service-provider": (ServiceProvider, "The Computation Service Provider", Role.CSP),
    "user": (User, "A user", Role.USER),
}
_SENDERS = {Role.TA: "the TA", Role.CSP: "the CSP", Role.USER: "a user"}
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


def diagram(name: str) -> str:
    """One role as a page: its states and what leads from one to the next, then the table itself."""
    machine, title, role = ROLES[name]
    rows = list(machine.TABLE.values())
    lines = [
        f"# {title}",
        "",
        "Made from the role's table by `python docs/_ext/role_pages.py`; do not edit. Whatever is not shown here",
        "aborts the session: a missing row is the error. So does `Aborted` from any party, in every state.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> NEW",
        *_arrows(rows, machine),
        "    DONE --> [*]",
        "```",
        "",
        "| in state | receives | from | goes to | and on to |",
        "|---|---|---|---|---|",
        *(_line(row, machine, role) for row in rows),
        "",
    ]
    return "\n".join(lines)


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
    """All of them, below the root of a checkout."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in ROLES:
        (folder / f"{name}.md").write_text(diagram(name), encoding="utf-8")
    (root / FIGURE).parent.mkdir(parents=True, exist_ok=True)
    (root / FIGURE).write_text(sequence(), encoding="utf-8")


def _arrows(rows: list[Row], machine: type[Machine]) -> list[str]:
    """One arrow for each pair of states, with all messages that lead along it."""
    along: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for state in _ordered(row, machine):
            arriving = along.setdefault((row.state.name, state), [])
            if row.message.__name__ not in arriving:
                arriving.append(row.message.__name__)
    return [f"    {start} --> {stop}: {', '.join(arriving)}" for (start, stop), arriving in along.items()]


def _line(row: Row, machine: type[Machine], role: Role) -> str:
    sender = "itself" if row.sender is role else _SENDERS[row.sender]
    cells = (row.state.name, row.message.__name__, sender, f"`{row.handler.__name__}`")
    return f"| {' | '.join(cells)} | {', '.join(_ordered(row, machine))} |"


def _ordered(row: Row, machine: type[Machine]) -> list[str]:
    return [state.name for state in machine.STATES if state in row.leads_to]


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
