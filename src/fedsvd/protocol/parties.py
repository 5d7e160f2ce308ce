"""Who takes part: one CSP, users 1..k, and a Trusted Authority when the plan names one."""

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
