"""What a researcher asked for, as one digest: the job file, who submitted it, who takes part, and a number used once.

The digest stands in the plan of every session of the job, hence in every message, signature and certificate: parties
that were shown different job files come to different plans, and no session key of theirs fits the others'. The
researcher signs the same bytes, so a CSP submits no job in a researcher's name; parties spend the number, so a CSP runs
no signed job a second time.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsvd.sealing.sign import SigningKey, sign, verify

PURPOSE = "job"


@dataclass(frozen=True)
class Asked:
    """A job as it is signed and approved; ``nonce`` is empty where all roles are one process."""

    file: Mapping[str, Any]  # without data, as it was submitted
    submitter: str
    members: tuple[str, ...]
    nonce: str = ""  # a number used once

    @property
    def content(self) -> bytes:
        """Canonical bytes: equal for equal jobs, whatever the order of keys."""
        parts = [self.file, self.submitter, list(self.members), self.nonce]
        return json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()

    @property
    def digest(self) -> str:
        """What plans and approvals hold."""
        return hashlib.sha256(b"fedsvd/job/2\x00" + self.content).hexdigest()

    def signed_by(self, key: SigningKey) -> str:
        """The submitter's signature, in hexadecimal."""
        return sign(key, PURPOSE, self.content).hex()

    def expect_signed(self, public: bytes, signature: str) -> None:
        """Raise ``NotSealed`` unless the holder of this key signed exactly this job."""
        try:
            content = bytes.fromhex(signature)
        except ValueError:
            content = b""
        verify(public, PURPOSE, self.content, content)


def bound_digest(asked: str, earlier: Sequence[Sequence[str]]) -> str:
    """What the plan of a later session of a job holds: the job's digest, and of each session before it its stage, its
    id and the digest of its plan."""
    content = json.dumps([asked, *map(list, earlier)], separators=(",", ":")).encode()
    return hashlib.sha256(b"fedsvd/job/sessions/1\x00" + content).hexdigest()
