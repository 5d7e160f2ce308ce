"""What a result carries about itself: how exact it is, what moved, how long it took; no value of the result."""

from dataclasses import asdict, dataclass, field
from typing import Any

from fedsvd.types import Digest

ACCOUNTS = ("bytes_by_link", "messages_by_link", "seconds_by_stage", "began_by_stage", "bytes_by_kind", "peak_memory")


@dataclass(frozen=True)
class Certificate:
    """Verified before release by the CSP; bytes and seconds as the runtime saw them."""

    plan_digest: Digest
    residual: float
    orthogonality: float
    rank: int
    versions: dict[str, str]
    bytes_by_link: dict[str, int] = field(default_factory=dict)
    messages_by_link: dict[str, int] = field(default_factory=dict)
    seconds_by_stage: dict[str, float] = field(default_factory=dict)
    began_by_stage: dict[str, float] = field(default_factory=dict)  # seconds after the role's own beginning
    bytes_by_kind: dict[str, int] = field(default_factory=dict)  # "user-1: PaddedBatch"
    peak_memory: dict[str, int] = field(default_factory=dict)
    """The most bytes that a role's process held in main memory, where the role has a process of its own."""

    @property
    def bytes_total(self) -> int:
        return sum(self.bytes_by_link.values())

    @property
    def seconds_total(self) -> float:
        return sum(self.seconds_by_stage.values())

    def record(self) -> dict[str, Any]:
        """The certificate as plain values, for JSON."""
        return {**asdict(self), "bytes_total": self.bytes_total, "seconds_total": self.seconds_total}
