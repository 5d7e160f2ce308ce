"""A job file and the files of a site are parsed once in a process, and again only where a person has changed them."""

from collections import Counter

import numpy as np
import pytest
from tests.e2e.commands import GENEROUS
from tests.e2e.federations import federation_of

from fedsvd.policy.rules import Policy
from fedsvd.service import site as site_module
from fedsvd.service import site_file
from fedsvd.service.records import JobState
from fedsvd.storage.toml import Reread
from fedsvd.studies import job_file

PARTIES = ("a", "b", "c")
MOST = 3  # parses of one file in one process


@pytest.fixture
def parsed(monkeypatch):
    """How often each file was parsed: job files by the name of the job, the others by their paths."""
    counted = Counter()
    expect_short, read_toml, read_policy = job_file.expect_short, site_file.read_toml, site_module.read_policy

    def job(record):
        counted[record["job"]["name"]] += 1
        expect_short(record)

    def toml(path, example):
        counted[path] += 1
        return read_toml(path, example)

    def policy(path):
        counted[path] += 1
        return read_policy(path)

    monkeypatch.setattr(job_file, "expect_short", job)  # every parse begins with it
    monkeypatch.setattr(site_file, "read_toml", toml)
    monkeypatch.setattr(site_module, "read_policy", policy)
    return counted


def test_a_job_of_three_parties_parses_each_file_a_few_times(tmp_path, parsed):
    tables = {name: np.random.default_rng(seed).normal(size=(120, 4)) for seed, name in enumerate(PARTIES)}
    file = {"job": {"name": "once", "task": "svd"}, "party": [{"name": name} for name in PARTIES]}
    how = {"how": "threads", "patience": GENEROUS}
    with federation_of(tmp_path, PARTIES, tables, Policy(consent_to_gram=True), **how) as federation:
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES))
        with federation.connect() as researcher:
            done = researcher.watch(researcher.submit(file), timeout=GENEROUS)
        assert done.state is JobState.DONE, done.failures
    # All five roles are one process here: the researcher parses its own file, and all others share one parse.
    assert 1 <= parsed["once"] <= MOST, parsed
    for name in PARTIES:
        for file in ("site.toml", "policy.toml"):
            assert 1 <= parsed[federation.kits[f"party/{name}"] / file] <= MOST, parsed


def test_a_file_that_changed_is_parsed_again_and_one_that_did_not_is_not(tmp_path):
    path, reads = tmp_path / "file", []

    def read():
        reads.append(path.read_text() if path.exists() else None)
        return reads[-1]

    file = Reread(path, read)
    assert [file.get(), file.get()] == [None, None]
    path.write_text("one")
    assert [file.get(), file.get(), file.get()] == ["one"] * 3
    path.write_text("three")
    assert [file.get(), file.get()] == ["three"] * 2
    path.unlink()
    assert file.get() is None
    assert reads == [None, "one", "three", None]
