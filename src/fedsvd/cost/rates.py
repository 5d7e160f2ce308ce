"""How fast a machine is, as a handful of rates, and how much work there is to do at each of them.

``Rates`` holds the rates of one core, ``Work`` amounts under the same names; seconds are one divided by the other.
``Gains`` says how much faster each kind of work is with all threads. The default rates are typical ones of one core,
without threads; ``cost.calibration`` measures the machine at hand in about two seconds.

A ``Piece`` is local work of a role with the arrays it needs and leaves; ``steps_of`` adds up what is alive with each.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Work:
    """Amounts of work, additive; the names are those of ``Rates``."""

    gemm: float = 0.0
    narrow: float = 0.0
    solve: float = 0.0
    qr: float = 0.0
    svd: float = 0.0
    reflect: float = 0.0
    blocks: float = 0.0
    drawn: float = 0.0
    dct: float = 0.0
    memory: float = 0.0
    normals: float = 0.0
    aes: float = 0.0
    encode: float = 0.0
    filled: float = 0.0
    hashed: float = 0.0
    keys: float = 0.0
    scalars: float = 0.0
    messages: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __mul__(self, times: float) -> "Work":
        return Work(**{f.name: times * getattr(self, f.name) for f in fields(self)})

    @property
    def flops(self) -> float:
        """Floating-point operations of dense linear algebra; with few columns they are about what is counted."""
        return self.gemm + self.narrow + self.solve + self.qr + self.svd + self.reflect + self.blocks


@dataclass(frozen=True)
class Gains:
    """How much faster than one thread all threads together are, kind by kind; what is not named here has one thread."""

    gemm: float = 1.0
    narrow: float = 1.0
    solve: float = 1.0
    qr: float = 1.0
    svd: float = 1.0
    reflect: float = 1.0
    blocks: float = 1.0
    drawn: float = 1.0
    dct: float = 1.0
    normals: float = 1.0
    aes: float = 1.0
    encode: float = 1.0
    filled: float = 1.0


@dataclass(frozen=True)
class Rates:
    """Rates of one core of a machine, in what the comment says per second, and what its threads gain."""

    gemm: float = 3e10  # flops of matrix products
    narrow: float = 2e10  # numbers of a matrix times few columns, each times eight more than there are columns
    solve: float = 1.5e10  # flops of triangular solves, rank updates and Cholesky
    qr: float = 1.5e10  # flops of Householder QR
    svd: float = 2.5e10  # flops of a dense SVD, 14 m n^2 + 8 n^3
    reflect: float = 2e10  # flops of products with long reflectors
    blocks: float = 1.5e10  # flops of products with the narrow blocks of mixing masks
    drawn: float = 2e7  # normal numbers of such blocks, drawn and made reflectors
    dct: float = 1e9  # numbers of lines mixed, for each cosine transform, times log2 of its length
    memory: float = 4e9  # bytes of fresh arrays written by simple operations
    normals: float = 3e7  # normal numbers
    aes: float = 3e9  # bytes of keystream added to words
    encode: float = 3e9  # bytes of floats turned into words, or back
    filled: float = 8e8  # bytes of floats turned into words whose last bits are random
    hashed: float = 4e8  # bytes, by SHA-256
    keys: float = 2e4  # key agreements or signatures checked
    scalars: float = 2e5  # numbers through Python one by one: exact sums, row ids
    messages: float = 7e3  # messages handled, at either end, with what Python does of the step between two of them
    cores: int = 1  # that compute at the same time
    threads: int = 1  # of a role that computes alone
    gains: Gains = Gains()  # of several threads

    def seconds(self, work: Work, threads: int = 1) -> float:
        """How long this machine takes over the work with ``threads`` of its threads."""
        kinds = [(f.name, getattr(work, f.name) / getattr(self, f.name)) for f in fields(work)]
        return float(sum(seconds / self._gain(name, threads) for name, seconds in kinds))

    def _gain(self, kind: str, threads: int) -> float:
        """What ``threads`` gain: by Amdahl's law from what all of them do."""
        all_of_them = getattr(self.gains, kind, 1.0)
        if threads <= 1:
            return 1.0
        if threads >= self.threads or all_of_them <= 1.0:
            return float(all_of_them)
        alone = max(0.0, (1 / all_of_them - 1 / self.threads) / (1 - 1 / self.threads))
        return float(1 / (alone + (1 - alone) / threads))


DEFAULT = Rates()


@dataclass(frozen=True)
class Piece:
    """Local work of one stage: how much, and the numbers of its arrays at the peak, on top of what is held before.

    ``keeps`` are arrays that stay, by name with their numbers, ``frees`` those that are dropped when it is done. Users
    of one process do what is done ``once`` together: it is the same for all of them.
    """

    stage: str
    work: Work = Work()
    numbers: float = 0.0
    keeps: tuple[tuple[str, float], ...] = ()
    frees: tuple[str, ...] = ()
    once: bool = False


@dataclass(frozen=True)
class Step:
    """One stage of a role: its name, its work, and the bytes alive at its peak."""

    stage: str
    work: Work
    alive: int
    once: bool = False


def steps_of(pieces: Iterable[Piece]) -> list[Step]:
    """The steps of one role, with what it holds between them."""
    steps, held = [], dict[str, float]()
    for piece in pieces:
        alive = int(8 * (sum(held.values()) + piece.numbers))
        steps.append(Step(piece.stage, piece.work, alive, piece.once))
        for name in piece.frees:
            held.pop(name, None)
        held.update(piece.keeps)
    return steps
