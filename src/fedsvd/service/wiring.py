"""How the processes of the local rung reach each other: where the CSP listens, and which address others dial.

The lab puts slow links in between (``lab.network``); here is the wiring that everybody else has.
"""

from typing import Protocol

LOOPBACK = "127.0.0.1"


class Wiring(Protocol):
    """Places for the CSP and for members, and the addresses between them."""

    @property
    def host(self) -> str:
        """Where the CSP listens; its certificate is made out for this address."""

    def before(self, role: str) -> tuple[str, ...]:
        """What stands before a role's command, such as the words that enter a network namespace."""

    def from_members(self, port: int) -> str:
        """The address at which members reach the CSP."""

    def from_here(self, port: int) -> str:
        """The address at which this process reaches the CSP."""


class Loopback:
    """Everybody on this machine, with nothing in between."""

    host = LOOPBACK

    def before(self, role: str) -> tuple[str, ...]:
        return ()

    def from_members(self, port: int) -> str:
        return f"{LOOPBACK}:{port}"

    def from_here(self, port: int) -> str:
        return f"{LOOPBACK}:{port}"
