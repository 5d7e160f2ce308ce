"""Every test of a kernel runs twice: with the compiled passes, and with NumPy in their place."""

import pytest

from fedsvd.kernels import carried, library, lines, words


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    if request.param == "numpy":
        without(monkeypatch)
    elif library.compiled() is None:
        pytest.skip("no C compiler was there at the installation")
    return request.param


def without(monkeypatch):
    for module in (carried, lines, words):
        monkeypatch.setattr(module, "compiled", lambda: None)
