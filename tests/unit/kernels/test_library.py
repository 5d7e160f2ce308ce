"""The compiled passes are made by the installation, are of this version, and are not needed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsvd.kernels import build, library

SOURCE = Path(build.__file__).with_name("passes.c").read_text()


def test_source_and_caller_have_the_same_version():
    assert int(re.search(r"#define VERSION (\d+)", SOURCE)[1]) == library.VERSION


def test_every_function_that_is_called_is_defined():
    for name in library.SIGNATURES:
        assert re.search(rf"^\w+ {name}\(", SOURCE, re.MULTILINE), name


def test_a_library_of_another_version_is_not_used(monkeypatch):
    if library.compiled() is None:
        pytest.skip("no C compiler was there at the installation")
    monkeypatch.setattr(library, "VERSION", library.VERSION + 1)
    assert library.compiled.__wrapped__() is None


def test_without_a_compiler_the_installation_says_so_and_goes_on(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "passes.so")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no C compiler" in build.build()
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho 'passes.c: error' >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setenv("CC", str(failing))
    assert build.build() == "the C compiler failed: passes.c: error"
    assert not (tmp_path / "passes.so").exists()


def test_what_is_compiled_can_be_loaded_by_another_process(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "passes.so")
    if why_not := build.build():
        pytest.skip(why_not)
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).passes_version())"
    command = [sys.executable, "-c", code, str(tmp_path / "passes.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert int(done.stdout) == library.VERSION


def test_an_array_is_found_where_numpy_says_it_lies():
    words = np.arange(24, dtype=np.uint64).reshape(6, 4)
    fixed = words.copy()
    fixed.flags.writeable = False
    for array in (words, fixed, words[1:, :], words[:, 2], words.T, words[:0], np.asfortranarray(words)):
        assert library.at(array) == array.__array_interface__["data"][0]
