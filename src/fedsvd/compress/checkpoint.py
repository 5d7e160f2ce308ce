"""A compression pass on disk, so that a killed one resumes.

A checkpoint is one file, replaced atomically: the factor so far, how many columns it holds, the shift, and digests of
the first panel and of the last one absorbed. On resume both panels are read again and compared, which costs two
panels, not a pass; a source that changed elsewhere goes unnoticed, so a changed source must be given a new
checkpoint. The factor is as confidential as the data: the file has mode 0600 and belongs next to the data.
"""

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.errors import DataChanged, StorageError
from fedsvd.linalg.device import Device
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.storage.faults import what_helps
from fedsvd.types import Float

_MAGIC = b"FSVD-CP1"
_HEADER = struct.Struct("<8sQQQQ32s32s32s")  # magic, m, n_i, done, width, first, last, shift


@dataclass(frozen=True, repr=False)
class Progressed:
    """A pass after ``done`` columns, the last ``width`` of which came in one panel."""

    factor: StreamingFactor
    done: int = 0
    width: int = 0
    last: bytes = b""  # digest of the last panel

    def __repr__(self) -> str:
        return f"Progressed(done={self.done})"


class Checkpoint:
    """Where a pass is kept, and every how many columns."""

    def __init__(self, path: Path, every: int = 1_000_000) -> None:
        self.path = Path(path)
        self._every = every
        self._saved = 0

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(self.path.name + ".new")

    def due(self, done: int) -> bool:
        """Whether enough columns went by since the last save."""
        return done - self._saved >= self._every

    def save(self, state: Progressed, source: MatrixSource, shift: Float | None) -> None:
        """Replace the file by this state; a kill at any moment leaves the old one or the new one."""
        m, n_i = source.shape
        first = panel_digest(source.columns(0, min(n_i, state.width)))
        header = _HEADER.pack(_MAGIC, m, n_i, state.done, state.width, first, state.last, _shift_digest(shift))
        body = header + state.factor.to_bytes()
        temporary = self._temporary
        try:
            # What an earlier kill left there is not written into: it would keep its mode, or be a link elsewhere.
            temporary.unlink(missing_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(body + hashlib.sha256(body).digest())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except OSError as error:
            fault = f"cannot write the checkpoint {self.path.name}: {error.strerror or type(error).__name__}"
            raise StorageError(fault, what_helps(error)) from error
        self._saved = state.done

    def load(self, source: MatrixSource, shift: Float | None, device: Device | None = None) -> Progressed | None:
        """The state a killed pass left behind, or None; refuses one of other data or another shift."""
        self._saved = 0
        try:
            blob = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read the checkpoint {self.path.name}", "check that it is your file") from error
        body, digest = blob[:-32], blob[-32:]
        whole = hashlib.sha256(body).digest() == digest  # in every version the last 32 bytes are that of the rest
        if whole and body[:7] == _MAGIC[:7] and body[:8] != _MAGIC:
            raise StorageError(
                f"the checkpoint {self.path.name} is of another version of fedsvd ({body[7:8]!r}, here {_MAGIC[7:]!r})",
                "open it with the version that wrote it, or delete it; the pass starts again",
            )
        if len(body) < _HEADER.size or body[:8] != _MAGIC or not whole:
            raise StorageError(f"the checkpoint {self.path.name} is damaged", "delete it; the pass starts again")
        _, m, n_i, done, width, first, last, shifted = _HEADER.unpack_from(body)
        if (m, n_i) != source.shape or shifted != _shift_digest(shift):
            raise DataChanged(f"the checkpoint {self.path.name} belongs to another pass", "delete it and start again")
        panels = (panel_digest(source.columns(0, min(n_i, width))), panel_digest(source.columns(done - width, done)))
        if panels != (first, last):
            raise DataChanged(f"the data behind the checkpoint {self.path.name} changed", "delete it and start again")
        self._saved = done
        on = None if device is None else device.like
        return Progressed(StreamingFactor.from_bytes(body[_HEADER.size :], on), done, width, last)

    def remove(self) -> None:
        """Forget the pass, and what a kill left of the next state of it."""
        self.path.unlink(missing_ok=True)
        self._temporary.unlink(missing_ok=True)


def panel_digest(X: Float) -> bytes:
    """SHA-256 of a panel's shape and numbers."""
    digest = hashlib.sha256(struct.pack("<QQ", *X.shape))
    digest.update(np.ascontiguousarray(X, dtype="<f8").data)
    return digest.digest()


def _shift_digest(shift: Float | None) -> bytes:
    return bytes(32) if shift is None else panel_digest(shift[:, None])
