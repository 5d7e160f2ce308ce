"""What all tests share: the settings of hypothesis, the libraries that numerical code runs on, and a clean clone.

A deadline measures the machine, not the code, so there is none. On a developer's machine examples are fresh at every
run, so that new ones are found; a CI (which sets ``CI``) must not fail for what the commit under test did not change.
A run that leaves files in the clone fails: tests write into ``tmp_path``.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from tests import tiers

settings.register_profile("workshop", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "workshop")


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a command stores is stored for these tests alone; no pipe is as wide as the terminal that started them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("COLUMNS", raising=False)
        yield


@dataclass(frozen=True)
class Library:
    """An array library: NumPy itself, the letter of the array API standard, or PyTorch (on a GPU if there is one)."""

    name: str
    xp: Any
    device: Any = None

    def array(self, A: Any) -> Any:
        """These numbers in this library; in the memory, and the memory order, of ``A`` where the library allows it."""
        A = np.asarray(A)
        backwards = min(A.strides, default=0) < 0
        return self.xp.asarray(A.copy() if backwards and self.name == "torch" else A, device=self.device)

    def numpy(self, A: Any) -> NDArray[Any]:
        """The numbers of one of this library's arrays; refuses those of another."""
        kind = type(A).__module__.partition(".")[0]
        assert kind == self.name.replace("-", "_"), f"{kind} array where {self.name} was asked for"
        return np.asarray(A.cpu() if self.name == "torch" else A)


def _library(name: str) -> Library:
    if name == "numpy":
        return Library(name, np)
    if name == "array-api-strict":
        return Library(name, pytest.importorskip("array_api_strict"))
    torch = pytest.importorskip("torch")
    return Library(name, torch, "cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session", params=["numpy", "array-api-strict", pytest.param("torch", marks=pytest.mark.torch)])
def library(request: pytest.FixtureRequest) -> Library:
    """Every library that kernels must run on."""
    return _library(request.param)


@pytest.fixture(scope="session", params=["array-api-strict", pytest.param("torch", marks=pytest.mark.torch)])
def foreign(request: pytest.FixtureRequest) -> Library:
    """Every library but NumPy, for tests that compare with NumPy's own answer."""
    return _library(request.param)


CACHES = {"__pycache__", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".benchmarks"}
CLONE = pytest.StashKey[frozenset[tuple[str, int]]]()


@pytest.fixture
def mixing_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of the mask family have mixing masks on both sides, at lengths where they would be haar."""
    monkeypatch.setattr("fedsvd.studies.planning.HAAR_LEFT_LIMIT", 0)
    monkeypatch.setattr("fedsvd.studies.planning.HAAR_RIGHT_LIMIT", 0)


def contents(root: Path) -> frozenset[tuple[str, int]]:
    """What lies in a clone besides caches of tools, and of ``results`` everything with its time."""
    top = ((path.name, 0) for path in root.iterdir() if path.name not in CACHES)
    results = ((path.relative_to(root).as_posix(), path.stat().st_mtime_ns) for path in root.glob("results/**/*"))
    return frozenset((*top, *results))


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.stash[CLONE] = contents(session.config.rootpath)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Files that appeared in the clone fail the run; whose they are, only the names can say."""
    before = session.config.stash.get(CLONE, None)
    if before is None or session.exitstatus != pytest.ExitCode.OK:
        return
    if new := sorted({name for name, _ in contents(session.config.rootpath) - before}):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.ensure_newline()
        reporter.write_line(f"tests left files in the clone (they belong in tmp_path): {', '.join(new)}", red=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Two workers more than cores, because many tests wait for other processes; an answer given to xdist goes first."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else (os.cpu_count() or 1) + 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cases beyond those of ``make test`` are marked ``full``; what a chaos test is a case of goes with its report.

    ``benchmarks.chaos`` makes a table of the latter.
    """
    for item in tiers.beyond(items):
        item.add_marker(pytest.mark.full)
    for item in items:
        for mark in item.iter_markers("chaos"):
            kind, case, *outcome = mark.args
            item.user_properties += [("kind", kind), ("case", case), *(("outcome", text) for text in outcome)]
