"""What a pre-flight check says: a name, whether all is well, what was found, and the fix where it is not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fedsvd.errors import FedSVDError


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    text: str
    fix: str = ""


def well(name: str, text: str) -> Check:
    return Check(name, True, text)


def ill(name: str, text: str, fix: str) -> Check:
    return Check(name, False, text, fix)


def of_error(name: str, error: FedSVDError) -> Check:
    """An error of ours is a finding: it has a fault and a fix already."""
    return Check(name, False, f"{error.code}: {error.fault}", error.fix)


def attempt(name: str, work: Callable[[], str]) -> Iterator[Check]:
    """The check that some work gets done; what it returns is what is said of it."""
    try:
        yield well(name, work())
    except FedSVDError as error:
        yield of_error(name, error)
