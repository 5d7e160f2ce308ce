"""A cursor over a peer's bytes that cannot run past their end.

Law of this file: every malformed byte is the one error ``MalformedFrame``, with one text. An error that said what was
wrong would answer questions a peer has no business asking.
"""

from fedsvd.errors import MalformedFrame


def malformed() -> MalformedFrame:
    """The one answer to anything that is not well-formed."""
    return MalformedFrame("a message is not well-formed", "check that all parties run the same version")


class Reader:
    """Takes bytes from the front; never copies, never writes, never reads past the end."""

    def __init__(self, body: bytes | memoryview) -> None:
        self._view = memoryview(body).cast("B").toreadonly()
        self._place = 0

    @property
    def left(self) -> int:
        return len(self._view) - self._place

    def take(self, count: int) -> memoryview:
        """The next ``count`` bytes."""
        if not 0 <= count <= self.left:
            raise malformed()
        start, self._place = self._place, self._place + count
        return self._view[start : self._place]

    def end(self) -> None:
        """There must be nothing left."""
        if self.left:
            raise malformed()
