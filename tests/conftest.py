"""What all tests share: how hypothesis works in this house, and the libraries that numerical code runs on.

A deadline measures the machine, not the code, so there is none. On a developer's machine examples are fresh at every
run, so that new ones are found; a CI (which sets ``CI``) must not fail for what the commit under test did not change.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray

settings.register_profile("workshop", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "workshop")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a command stores for the user is stored for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a chaos test is a case of goes with its report: ``benchmarks.chaos`` makes a table of them."""
    for item in items:
        for mark in item.iter_markers("chaos"):
            kind, case, *outcome = mark.args
            item.user_properties += [("kind", kind), ("case", case), *(("outcome", text) for text in outcome)]
