"""Who takes part: one CSP, users 1..k, and a Trusted Authority when the plan names one."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache


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

    def __hash__(self) -> int:
        # The fields' own would go through Enum's, in Python; parties are keys of every table that a session moves by.
        return self.index

    def __str__(self) -> str:
        return f"user {self.index}" if self.role is Role.USER else self.role.upper()

    @cached_property
    def name(self) -> str:
        """A short, stable label: ``csp``, ``ta``, ``user-3``."""
        return f"user-{self.index}" if self.role is Role.USER else str(self.role)


NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?$"
"""What a party or a job may be called: safe as the name of a folder, and nothing that a shell would change."""

TA = Party(Role.TA)
CSP = Party(Role.CSP)
ALL = Party(Role.USER)
"""Every user but the sender: where a group-sealed message goes (step 9); no user has the number 0."""


@lru_cache(maxsize=1 << 10)  # one object for each: a table of parties finds it without comparing fields
def user(index: int) -> Party:
    """User ``index`` of 1..k."""
    return Party(Role.USER, index)


def party_called(name: str) -> Party:
    """The party of a ``Party.name``; ``ValueError`` for any other text."""
    found = re.fullmatch(r"user-([1-9]\d{0,8})", name)
    if found is not None:
        return user(int(found[1]))
    roles = {party.name: party for party in (CSP, TA)}
    if name not in roles:
        raise ValueError("not the name of a party")
    return roles[name]


def named(text: str, names: tuple[str, ...]) -> str:
    """The text with ``party 2``, ``user 2`` and ``user-2`` as ``party NAME``."""

    def name(found: re.Match[str]) -> str:
        index = int(found[2])
        word = "Party" if found[1][0].isupper() else "party"
        return f"{word} {names[index - 1]}" if 1 <= index <= len(names) else found[0]

    return re.sub(r"\b(party|user)[ -](\d+)\b", name, text, flags=re.IGNORECASE)
