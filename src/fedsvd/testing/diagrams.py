"""Diagrams of the role tables, in Mermaid, made from the tables themselves: ``python -m fedsvd.testing.diagrams``.

A test fails when ``docs/diagrams`` is not what this file would write.
"""

import sys
from pathlib import Path

from fedsvd.protocol.machine import Machine, Row
from fedsvd.protocol.parties import Role
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


def diagram(name: str) -> str:
    """One role as a page: its states and what leads from one to the next, then the table itself."""
    machine, title, role = ROLES[name]
    rows = list(machine.TABLE.values())
    lines = [
        f"# {title}",
        "",
        "Made from the role's table by `python -m fedsvd.testing.diagrams`; do not edit. Whatever is not shown here",
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


def write(root: Path) -> None:
    """All diagrams, below the root of a checkout."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in ROLES:
        (folder / f"{name}.md").write_text(diagram(name), encoding="utf-8")


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
