"""Foreign tasks that are installed here: found by entry point, hashed by RECORD, never imported (ADR 0065).

A distribution brings a task by an entry point of the group ``fedsvd.tasks``, ``NAME = "module:function"``, and by its
declaration, a file ``NAME.json``. Both are read as text. The hash is of every file that the distribution installed, as
it is on the disk now, and of its entry points; not of NumPy or other dependencies, whose versions are shown instead.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distributions, version
from pathlib import Path

from fedsvd.errors import ConfigError, ReleaseRefused

GROUP = "fedsvd.tasks"
_LARGEST = 1 << 20  # bytes of a file: a task is source that its owner reads
_CODE = (".so", ".pyd", ".dylib", ".dll", ".pyc", ".pth")


@dataclass(frozen=True, repr=False)
class Installed:
    """A task of one distribution: its text, and what its owner's policy names it by."""

    name: str
    distribution: str  # name and version
    module: str
    function: str
    declaration: str  # the JSON text
    files: dict[str, bytes]  # by path, as in RECORD
    requires: tuple[str, ...]  # dependencies with their versions here
    folder: Path  # in which its files are

    def __repr__(self) -> str:
        return f"Installed({self.name}, {self.distribution})"

    @property
    def hash(self) -> str:
        """``sha256:...`` of all files and of the entry point: the same wherever the same source is installed."""
        lines = [f"{path} {hashlib.sha256(content).hexdigest()}\n" for path, content in sorted(self.files.items())]
        entry = f"{GROUP} {self.name} = {self.module}:{self.function}\n"
        return f"sha256:{hashlib.sha256(''.join([entry, *lines]).encode()).hexdigest()}"

    @property
    def sources(self) -> dict[str, str]:
        """The modules, by path."""
        return {path: content.decode() for path, content in self.files.items() if path.endswith(".py")}

    def expect_hash(self, allowed: str) -> None:
        """Raise unless this is what the policy names."""
        if self.hash != allowed:
            raise ReleaseRefused(
                f"the task {self.name} as it is installed here has the hash {self.hash}, the policy allows {allowed}",
                f"read what changed (fedsvd tasks show {self.name}), then write its hash, or install the other version",
            )


def installed_names() -> tuple[str, ...]:
    """The names of all foreign tasks that are installed here; nothing of them is imported."""
    return tuple(sorted({entry.name for _, entry in _entries()}))


def installed_task(name: str) -> Installed:
    """The task of this name, read and not imported."""
    found = [(holder, entry) for holder, entry in _entries() if entry.name == name]
    if not found:
        known = ", ".join(installed_names()) or "none is"
        raise ConfigError(f"the task {name} is not installed here", f"pip install its distribution; installed: {known}")
    if len(found) > 1:
        both = ", ".join(sorted(_called(holder) for holder, _ in found))
        raise ConfigError(f"the task {name} is installed twice: {both}", "uninstall one of them")
    holder, entry = found[0]
    if not re.fullmatch(r"[A-Za-z_][\w.]*", entry.module) or not re.fullmatch(r"[A-Za-z_]\w*", entry.attr or ""):
        raise ConfigError(f"the entry point of {name} is no function", f'{name} = "module:script"')
    files = _files(name, holder)
    texts = [content for path, content in files.items() if path.rpartition("/")[2] == f"{name}.json"]
    if len(texts) != 1:
        raise ConfigError(
            f"{_called(holder)} has {len(texts)} files {name}.json among those it installed",
            "one declaration in its package; an editable install has none: pip install it as it is",
        )
    module = f"{entry.module.replace('.', '/')}"
    if not {f"{module}.py", f"{module}/__init__.py"} & set(files):
        raise ConfigError(f"{_called(holder)} did not install the module {entry.module}", "check its entry point")
    text, folder = _text(texts[0], name), Path(str(holder.locate_file("")))
    return Installed(name, _called(holder), entry.module, entry.attr, text, files, _requires(holder), folder)


def _entries() -> Iterator[tuple[Distribution, EntryPoint]]:
    seen: set[str] = set()
    for holder in distributions():
        called = str(holder.metadata["Name"])
        if called in seen:  # shadowed by the same distribution earlier on the path
            continue
        seen.add(called)
        yield from ((holder, entry) for entry in holder.entry_points if entry.group == GROUP)


def _files(name: str, holder: Distribution) -> dict[str, bytes]:
    """Every file that the distribution installed, but for what an installer writes about it."""
    found = {}
    for listed in holder.files or ():
        path = listed.as_posix()
        folder = path.partition("/")[0]
        if folder.endswith((".dist-info", ".egg-info")) or "/__pycache__/" in f"/{path}":
            continue
        if listed.is_absolute() or ".." in listed.parts or path.endswith(_CODE):
            raise ConfigError(
                f"{_called(holder)}, which brings the task {name}, installs {path}",
                "a task is source in a package of its own, which its owner can read: no scripts, no compiled code",
            )
        found[path] = _content(Path(str(holder.locate_file(listed))), path, holder)
        if listed.hash is not None and listed.hash.mode == "sha256":
            _expect_recorded(found[path], listed.hash.value, path, holder)
    return found


def _content(path: Path, called: str, holder: Distribution) -> bytes:
    try:
        content = path.read_bytes() if path.stat().st_size <= _LARGEST else None
    except OSError:
        raise ConfigError(f"{called} of {_called(holder)} cannot be read", "install it again") from None
    if content is None:
        raise ConfigError(
            f"{called} of {_called(holder)} is larger than {_LARGEST:,} bytes", "leave it out of the task"
        )
    return content


def _expect_recorded(content: bytes, recorded: str, path: str, holder: Distribution) -> None:
    from base64 import urlsafe_b64encode

    if urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=") != recorded.rstrip("="):
        raise ConfigError(f"{path} of {_called(holder)} is not as it was installed", "install it again, and read it")


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"the declaration {name}.json is no UTF-8 text", "write it again") from None


def _called(holder: Distribution) -> str:
    return f"{holder.metadata['Name']} {holder.version}"


def _requires(holder: Distribution) -> tuple[str, ...]:
    found = []
    for line in holder.requires or ():
        name = re.split(r"[\s;<>=!~\[(]", line.strip(), maxsplit=1)[0]
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} (not installed)")
    return tuple(found)
