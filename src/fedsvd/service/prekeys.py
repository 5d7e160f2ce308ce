"""A party's prekeys on disk: made when it enlists, read once, when its session begins, and gone from then on.

The private half must outlive the process: the authority seals to it and goes, and the party may be started only then.
It is a file of mode 0600, one to each attempt at a job. Whoever steals it before the session, and has what the CSP
relayed, learns what the authority knows of this session, the masks; pads, and with them single shares, stay hidden.
"""

from collections.abc import Collection
from pathlib import Path

from fedsvd.errors import LocalProtocolError
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.service.enlist import plain_id
from fedsvd.storage import private

_SUFFIX = ".prekey"


class Prekeys:
    """The prekeys of one party that wait for their sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, id: str, attempt: int) -> AgreementKey:
        """The prekey of this attempt: a new one, or the one made before if the question comes again."""
        path = self._path(id, attempt)
        private.private_folder(self._folder)
        if not path.exists():
            # Replaced whole: half a key that a kill left behind would be a key of few bits.
            private.replace(path, Seed.fresh().reveal())
        return AgreementKey(Seed(private.read_secret(path)))

    def take(self, id: str, attempt: int) -> AgreementKey:
        """The prekey of this attempt, for the last time."""
        path = self._path(id, attempt)
        if not path.exists():
            raise LocalProtocolError("the prekey of this attempt is not here, or was used", "resume the job")
        secret = private.read_secret(path)
        private.erase(path)
        return AgreementKey(Seed(secret))

    def keep_only(self, wanted: Collection[tuple[str, int]]) -> None:
        """Erase the prekeys of attempts that will never begin."""
        kept = {self._path(id, attempt).name for id, attempt in wanted}
        for path in self._folder.glob(f"*{_SUFFIX}"):
            if path.name not in kept:
                private.erase(path)

    def _path(self, id: str, attempt: int) -> Path:
        return self._folder / f"{plain_id(id)}-{int(attempt)}{_SUFFIX}"
