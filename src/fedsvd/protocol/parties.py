"""Who takes part: one CSP, users 1..k, and a Trusted Authority when the plan names one."""

import re
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The three roles of the paper (section 3)."""

    TA = "ta"
    CSP = "csp"
    USER = "user"


@dataclass(frozen=True, order=True)
class Party:
    """A participant of one session; users are numbered from 1."""

    role: Role
    index: int = 0

    def __str__(self) -> str:
        return f"user {self.index}" if self.role is Role.USER else self.role.upper()

    @property
    def name(self) -> str:
        """A short, stable label: ``csp``, ``ta``, ``user-3``."""
        return f"user-{self.index}" if self.role is Role.USER else str(self.role)


TA = Party(Role.TA)
CSP = Party(Role.CSP)
ALL = Party(Role.USER)
"""Every user but the sender: where a group-sealed message goes (step 9); no user has the number 0."""


def user(index: int) -> Party:
    """User ``index`` of 1..k."""
    return Party(Role.USER, index)


def named(text: str, names: tuple[str, ...]) -> str:
    """The text with ``party 2``, ``user 2`` and ``user-2`` as ``party NAME``."""

    def name(found: re.Match[str]) -> str:
        index = int(found[2])
        word = "Party" if found[1][0].isupper() else "party"
        return f"{word} {names[index - 1]}" if 1 <= index <= len(names) else found[0]

    return re.sub(r"\b(party|user)[ -](\d+)\b", name, text, flags=re.IGNORECASE)
