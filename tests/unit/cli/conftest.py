"""What the tests of the command line share: a way to call it, and files to call it on."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from tests.studies import Files, companies, hospitals
from typer.testing import CliRunner

from fedsvd.cli.main import cli


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON object it must be."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1
        return json.loads(self.out)


@pytest.fixture
def fedsvd():
    """Calls the command with these words."""

    def call(*words: object) -> Said:
        result = CliRunner().invoke(cli, [str(word) for word in words])
        return Said(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def by_rows(tmp_path, monkeypatch) -> Files:
    monkeypatch.chdir(tmp_path)
    return hospitals(tmp_path)


@pytest.fixture
def by_columns(tmp_path, monkeypatch) -> Files:
    monkeypatch.chdir(tmp_path)
    return companies(tmp_path)
