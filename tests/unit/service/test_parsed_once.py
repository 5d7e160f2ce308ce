"""A job file and the files of a site are parsed once in a process, and again only where a person has changed them."""

import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import numpy as np
import pytest

from fedsvd.identity.temporary import temporary_federation
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.service import site as site_module
from fedsvd.service import site_file
from fedsvd.service.client import Connection
from fedsvd.service.csp import CspNode
from fedsvd.service.member_node import MemberNode
from fedsvd.service.records import JobState
from fedsvd.service.site import Site
from fedsvd.storage.toml import Reread
from fedsvd.studies import job_file

PARTIES = ("a", "b", "c")
MOST = 3  # parses of one file in one process
GENEROUS = 120.0


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


@pytest.fixture
def kits(tmp_path):
    kits = temporary_federation(tmp_path / "kits", PARTIES, researcher="r", now=datetime.now(UTC))
    for seed, name in enumerate(PARTIES):
        kit = kits[f"party/{name}"]
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(seed).normal(size=(120, 4)))
        (kit / "site.toml").write_text(f'[data]\ndefault = "{tmp_path / name}.npy"\n')
        (kit / "policy.toml").write_text(spelt_policy(Policy(consent_to_gram=True)))
    return kits


@contextmanager
def member(kit, name, address):
    site = Site.at(kit, yes=True)
    node = MemberNode(name, site.dialling(address, GENEROUS), site.kit.signing_key, site.facts(), site, site.state)
    thread = threading.Thread(target=node.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        node.stop()
        thread.join(GENEROUS)


def test_a_job_of_three_parties_parses_each_file_a_few_times(kits, parsed):
    csp = Site.at(kits["csp/csp"])
    key = csp.kit.signing_key
    node = CspNode(
        csp.listening("127.0.0.1:0"),
        csp.authenticate,
        csp.state,
        patience=GENEROUS,
        allow=csp.expect_allowed,
        identity=key,
    )
    node.start()
    address = f"127.0.0.1:{node.port}"
    file = {"job": {"name": "once", "task": "svd"}, "party": [{"name": name} for name in PARTIES]}
    try:
        with ExitStack() as stack:
            for name in PARTIES:
                stack.enter_context(member(kits[f"party/{name}"], f"party/{name}", address))
            researcher = stack.enter_context(Connection(kits["researcher/r"], address))
            done = researcher.watch(researcher.submit(file), timeout=GENEROUS)
        assert done.state is JobState.DONE, done.failures
    finally:
        node.stop()
    # All five roles are one process here: the researcher parses its own file, and all others share one parse.
    assert 1 <= parsed["once"] <= MOST, parsed
    for name in PARTIES:
        for file in ("site.toml", "policy.toml"):
            assert 1 <= parsed[kits[f"party/{name}"] / file] <= MOST, parsed


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
