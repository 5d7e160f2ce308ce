"""Where data sets are found on this machine, and how a missing one is fetched from its official place.

Folders are looked at in this order: the one that was named, ``$FEDSVD_DATA``, ``data`` in the working folder,
``../shared/data``, and the user's cache, where fetched files go. Nothing is downloaded unless fetching was asked for.
Content is checked against the catalogue's SHA-256 whichever way it came.
"""

import gzip
import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from fedsvd.errors import DataError
from fedsvd_lab.datasets.catalogue import ALL, DataFile, DataSet

Opener = Callable[[str], bytes]
_PATIENCE = 60.0


def download(url: str) -> bytes:
    """The bytes behind an https address."""
    if not url.startswith("https://"):
        raise DataError(f"{url} is not an https address", "fetch it yourself and name its folder with --data")
    with urlopen(url, timeout=_PATIENCE) as answer:
        content: bytes = answer.read()
    return content


@dataclass(frozen=True)
class Library:
    """The data sets of one machine: folders to look in, and how to fetch, or None to never do it."""

    folders: tuple[Path, ...]
    opener: Opener | None = None

    @classmethod
    def here(cls, folder: Path | None = None, fetch: bool = False) -> "Library":
        """The folders of this machine; with ``fetch`` what is missing is downloaded."""
        if folder is not None and not folder.is_dir():
            raise DataError(f"{folder} is not a folder", "name the folder that holds wine/, mnist/ and ml-100k/")
        return cls(tuple(_usual(folder)), download if fetch else None)

    def read(self, data_set: DataSet, name: str) -> bytes:
        """The content of one file of a data set, plain, as the catalogue knows it."""
        file = next(file for file in data_set.files if file.name == name)
        for folder in self.folders:
            content = _stored(folder / data_set.name / name)
            if content is not None:
                return _checked(file, content, str(folder / data_set.name))
        return self._fetched(data_set, file)

    def has(self, name: str) -> bool:
        """Whether every file of a data set lies in one of the folders."""
        places = [folder / name for folder in self.folders]
        files = ALL[name].files
        return all(
            any((place / part).exists() for place in places for part in (file.name, f"{file.name}.gz"))
            for file in files
        )

    def _fetched(self, data_set: DataSet, file: DataFile) -> bytes:
        if self.opener is None:
            looked = ", ".join(map(str, self.folders)) or "nowhere"
            raise DataError(
                f"the data set {data_set.name} is not on this machine ({file.name}; looked in {looked})",
                f"--data FOLDER or FEDSVD_DATA where you have it, or --fetch to download it from {file.url} "
                f"(licence: {data_set.licence})",
            )
        try:
            archive = self.opener(file.url)
        except (URLError, OSError, TimeoutError) as fault:
            reason = getattr(fault, "reason", None) or type(fault).__name__
            raise DataError(
                f"{file.url} could not be fetched: {reason}", "try again, or bring the file and name it with --data"
            ) from None
        if not file.member:
            self._store(data_set.name, file.name, _checked(file, gzip.decompress(archive), file.url))
        else:
            with zipfile.ZipFile(io.BytesIO(archive)) as members:
                for other in data_set.files:
                    self._store(data_set.name, other.name, _checked(other, members.read(other.member), file.url))
        content = _stored(self.folders[-1] / data_set.name / file.name)
        assert content is not None, "it was just written"
        return content

    def _store(self, folder: str, name: str, content: bytes) -> None:
        place = self.folders[-1] / folder
        place.mkdir(parents=True, exist_ok=True)
        half = place / f".{name}.part"
        half.write_bytes(content)
        half.replace(place / name)


def _usual(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    if named := os.environ.get("FEDSVD_DATA"):
        yield Path(named)
    yield Path("data")
    yield Path("../shared/data")
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedsvd" / "data"


def _stored(path: Path) -> bytes | None:
    zipped = path.with_name(f"{path.name}.gz")
    if path.is_file():
        return path.read_bytes()
    try:
        return gzip.decompress(zipped.read_bytes()) if zipped.is_file() else None
    except (gzip.BadGzipFile, EOFError):
        raise DataError(f"{zipped} is damaged", "copy it again") from None


def _checked(file: DataFile, content: bytes, where: str) -> bytes:
    lines = b"".join(sorted(content.splitlines(keepends=True))) if file.sorted_lines else content
    if hashlib.sha256(lines).hexdigest() != file.sha256:
        raise DataError(
            f"{file.name} from {where} is not the file this study knows: its SHA-256 differs",
            f"take it from {file.url}",
        )
    return content
