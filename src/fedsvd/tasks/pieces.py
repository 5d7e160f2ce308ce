"""Matrices that are opened in pieces of twelve bits: those of models, and of regression tables, by few digits."""

from fedsvd.protocol.model import PIECE_BITS, PIECES, more_digits
from fedsvd.protocol.steps import PlannedStep, What, digits, maybe


def pieces(name: str, P: int, what: What = What.INFORMATION, matrices: int = 1) -> tuple[PlannedStep, ...]:
    """Symmetric matrices of P columns in pieces of twelve bits, each of what the pieces before have left."""
    body: tuple[PlannedStep, ...] = ()
    for piece in range(PIECES, 0, -1):
        more = (maybe(more_digits(piece), *body),) if body else ()
        body = (digits(f"{name} {piece}", matrices * P * (P + 1) // 2, PIECE_BITS, what), *more)
    return body
