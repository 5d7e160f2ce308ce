"""Which version a peer is of: the first thing that is looked at, in a form that every version can read.

These places are the same in all versions from 3 on, and never change:

    question, answer, error    JSON objects with ``"protocol": whole number`` and ``"fedsvd": text`` at the top
    frame, message             the byte after the magic (``FSVF``, ``FSVD``) is the protocol

Peers up to fedsvd 0.2 have neither: their questions have no such keys, their frames and messages the bytes 1 and 2. A
peer of another protocol gets FSVD-505 with both versions, before anything else that it sent is read.
"""

from collections.abc import Mapping
from typing import Any

from fedsvd import __version__
from fedsvd.errors import OtherVersion, printable
from fedsvd.protocol.plan import PROTOCOL

MARK = {"protocol": PROTOCOL, "fedsvd": __version__}
"""What stands at the top of every question and every answer."""

_OLDEST = "fedsvd 0.2 or older"
_FIX = "run one version at the CSP and at all members: fedsvd --version, pip install fedsvd==VERSION"


def expect_version(said: object, whose: str) -> None:
    """Raise ``OtherVersion`` unless a question or an answer is of our protocol."""
    mark: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    protocol = mark.get("protocol")
    if protocol == PROTOCOL:
        return
    theirs = _OLDEST
    if isinstance(protocol, int):
        theirs = f"fedsvd {printable(str(mark.get('fedsvd', '?')), 40)} with protocol {protocol}"
    raise _other(whose, theirs)


def expect_byte(found: int, whose: str = "a peer") -> None:
    """The same for the byte of a frame or a message."""
    if found != PROTOCOL:
        raise _other(whose, _OLDEST if found < PROTOCOL else f"a fedsvd with protocol {found}")


def _other(whose: str, theirs: str) -> OtherVersion:
    return OtherVersion(f"{whose} is {theirs}, and here is fedsvd {__version__} with protocol {PROTOCOL}", _FIX)
