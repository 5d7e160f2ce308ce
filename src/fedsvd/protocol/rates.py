"""How fast a machine is, as a handful of rates, and how much work there is to do at each of them.

``Machine`` holds rates, ``Work`` amounts under the same names; seconds are one divided by the other. The default rates
are those of one slow core: a plan printed with them promises too little. ``runtime.calibration`` measures the machine
at hand in about a second.
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Work:
    """Amounts of work, additive; the names are those of ``Machine``."""

    gemm: float = 0.0
    solve: float = 0.0
    qr: float = 0.0
    svd: float = 0.0
    reflect: float = 0.0
    blocks: float = 0.0
    dct: float = 0.0
    memory: float = 0.0
    normals: float = 0.0
    aes: float = 0.0
    encode: float = 0.0
    keys: float = 0.0
    scalars: float = 0.0
    messages: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __mul__(self, times: float) -> "Work":
        return Work(**{f.name: times * getattr(self, f.name) for f in fields(self)})

    @property
    def flops(self) -> float:
        """Floating-point operations of dense linear algebra."""
        return self.gemm + self.solve + self.qr + self.svd + self.reflect + self.blocks


@dataclass(frozen=True)
class Machine:
    """Rates of one machine, in what the comment says per second."""

    gemm: float = 8e9  # flops of matrix products
    solve: float = 6e9  # flops of triangular solves, rank updates and Cholesky
    qr: float = 4e9  # flops of Householder QR
    svd: float = 3e9  # flops of a dense SVD, 14 m n^2 + 8 n^3
    reflect: float = 5e9  # flops of products with long reflectors
    blocks: float = 3e9  # flops of products with the narrow blocks of mixing masks
    dct: float = 3e8  # numbers through one cosine transform, times log2 of its length
    memory: float = 1e9  # bytes of fresh arrays written by simple operations
    normals: float = 2e7  # normal numbers
    aes: float = 5e8  # bytes of keystream added to words
    encode: float = 4e8  # bytes of floats turned into words, or back
    keys: float = 3e3  # key agreements or signatures checked
    scalars: float = 5e4  # numbers through Python one by one: exact sums, row ids
    messages: float = 1e4  # messages handled

    def seconds(self, work: Work) -> float:
        """How long this machine takes over the work."""
        return float(sum(getattr(work, f.name) / getattr(self, f.name) for f in fields(self)))


DEFAULT = Machine()
