"""A dishonest CSP on a real line, where an authority deals: what it swaps, keeps or invents is found out.

All roles run here, over mutual TLS, each with its own kit. In every case the job ends broken, with a code, and no party
has results or has uploaded anything.
"""

import threading
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from time import monotonic, sleep

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.identity.temporary import temporary_federation
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.protocol.keys import spelt_prekey
from fedsvd.protocol.messages import PaddedBatch, Relayed, SumShare
from fedsvd.protocol.parties import user
from fedsvd.randomness.seed import Seed
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.service import csp as csp_node
from fedsvd.service.api import About, Enlist, Submit
from fedsvd.service.csp import CspNode
from fedsvd.service.enlist import ticket_of
from fedsvd.service.member_node import MemberNode
from fedsvd.service.records import EnlistedFacts, JobState
from fedsvd.service.site import Site

GENEROUS = 120.0
EVE = Seed(b"E" * 32)
MEMBERS = ("party/a", "party/b", "authority/ta")
FILE = {
    "job": {"name": "study", "task": "svd"},
    "masks": {"scheme": "mask"},  # where an authority deals what the parties need: not in the sum family
    "authority": {"name": "ta"},
    "party": [{"name": "a"}, {"name": "b"}],
}


@pytest.fixture
def kits(tmp_path):
    made = temporary_federation(tmp_path, ("a", "b"), with_authority=True, now=datetime.now(UTC), researcher="res")
    for number, name in enumerate("ab"):
        kit = made[f"party/{name}"]
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(number).normal(size=(60, 4)))
        (kit / "site.toml").write_text(f'[data]\ndefault = "{tmp_path / f"{name}.npy"}"\n')
        (kit / "policy.toml").write_text(spelt_policy(Policy.permissive()))
    return made


@contextmanager
def federation(kits, kind=CspNode, members=MEMBERS):
    """A CSP of this kind and these members, running while the block lasts."""
    site = Site.at(kits["csp/csp"])
    key = site.kit.signing_key
    csp = kind(site.listening("127.0.0.1:0"), site.authenticate, site.state, patience=GENEROUS, identity=key)
    csp.start()
    with ExitStack() as stack:
        stack.callback(csp.stop)
        for name in members:
            stack.enter_context(member(kits[name], name, csp.port))
        yield csp


@contextmanager
def member(kit, name, port):
    site = Site.at(kit, yes=True)
    dialling = site.dialling(f"127.0.0.1:{port}", GENEROUS)
    node = MemberNode(name, dialling, site.kit.signing_key, site.facts(), site, site.state)
    thread = threading.Thread(target=node.run, daemon=True)
    thread.start()
    try:
        yield node
    finally:
        node.stop()
        thread.join(GENEROUS)


def submit(csp):
    return csp._submit("researcher/res", Submit(file=FILE)).id


def ended(csp, id):
    deadline = monotonic() + GENEROUS
    while (job := csp.jobs.get(id)).state in (JobState.RECRUITING, JobState.RUNNING):
        assert monotonic() < deadline, "it hangs"
        sleep(0.02)
    return job


def expect_nothing_gained(kits, job, code):
    assert job.state is JobState.BROKEN
    told = [f"{failure.code} {failure.text}" for failure in job.failures]
    assert any(code in each for each in told), told  # who failed, or the CSP who heard of it first
    assert not any((kits[f"party/{name}"] / "results").exists() for name in "ab")


class Listening(ServiceProvider):
    """Notes the kinds of message that the CSP has heard in any session of this test."""

    heard: list

    def receive(self, sender, message):
        self.heard.append(type(message))
        return super().receive(sender, message)


@pytest.fixture(autouse=True)
def heard(monkeypatch):
    kept = []
    monkeypatch.setattr(Listening, "heard", kept, raising=False)
    monkeypatch.setattr(csp_node, "ServiceProvider", Listening)
    yield kept
    assert not {PaddedBatch, SumShare} & set(kept)


def with_prekey(asked, prekey):
    """The same question, in which a member says another prekey."""
    return asked.model_copy(update={"facts": asked.facts.also(EnlistedFacts(prekey=prekey))})


class Swapping(CspNode):
    """Puts a prekey of its own in the place of party b's, under whose signature it can."""

    def _enlist(self, caller, asked):
        if caller == "party/b":
            own = spelt_prekey(AgreementKey(EVE), user(2), ticket_of(asked.id, asked.attempt), SigningKey(EVE))
            asked = with_prekey(asked, own)
        return super()._enlist(caller, asked)


def test_a_swapped_prekey_gets_no_letter(kits, heard):
    with federation(kits, Swapping) as csp:
        job = ended(csp, submit(csp))
    expect_nothing_gained(kits, job, "FSVD-416")
    assert Relayed not in heard


class Stale(CspNode):
    """Shows, in a second attempt, the prekey and signature that party b gave in the first."""

    first: str | None = None

    def _enlist(self, caller, asked):
        if caller == "party/b":
            if self.first is None:
                self.first = asked.facts.prekey
                asked = with_prekey(asked, "")  # which ends the first attempt
            else:
                asked = with_prekey(asked, self.first)
        return super()._enlist(caller, asked)


def test_a_prekey_of_an_earlier_attempt_gets_no_letter(kits):
    with federation(kits, Stale) as csp:
        id = submit(csp)
        ended(csp, id)
        csp._resume("researcher/res", About(id=id))
        job = ended(csp, id)
        assert job.attempt == 2
    expect_nothing_gained(kits, job, "FSVD-416")


class Hoarding(Listening):
    """Delivers to every user the letter that the authority left for it in the first session of this CSP."""

    kept: dict

    def _keys_gathered(self):
        first = self.kept.setdefault("session", self.plan.session)
        if self.plan.session == first:
            self.kept.update(self._deposited)
        else:
            self._deposited = {party: self.kept[party] for party in self._deposited}
        return super()._keys_gathered()


def test_letters_of_another_job_do_not_open(kits, monkeypatch):
    """The first job is one that never comes to an upload: the parties of the second job are those of the first."""
    kept = {}
    monkeypatch.setattr(Hoarding, "kept", kept, raising=False)
    monkeypatch.setattr(csp_node, "ServiceProvider", Hoarding)
    with federation(kits, members=("authority/ta",)) as csp:
        earlier = {name: Site.at(kits[name]) for name in ("party/a", "party/b")}
        id = submit(csp)
        for number, (name, site) in enumerate(earlier.items(), 1):
            key = AgreementKey(Seed(bytes([number]) * 32))
            prekey = spelt_prekey(key, user(number), ticket_of(id, 1), site.kit.signing_key)
            facts = site.facts().also(EnlistedFacts(rows=60, columns=4, prekey=prekey))
            csp._enlist(name, Enlist(id=id, attempt=1, facts=facts))
        deadline = monotonic() + GENEROUS
        while len(kept) < 3:
            assert monotonic() < deadline
            sleep(0.02)
        csp._stop("researcher/res", About(id=id))
        with member(kits["party/a"], "party/a", csp.port), member(kits["party/b"], "party/b", csp.port):
            job = ended(csp, submit(csp))
    expect_nothing_gained(kits, job, "FSVD-416")


def test_an_authority_that_is_shown_another_plan_does_not_serve_the_users(kits):
    """Its offer is signed for the plan it saw; users take no other's."""

    class TwoFaced(CspNode):
        def _job(self, caller, asked):
            record = super()._job(caller, asked)
            if caller == "authority/ta" and record.plan:
                return record.changed(plan=record.plan.model_copy(update={"certain_bound": True}))
            return record

    with federation(kits, TwoFaced) as csp:
        job = ended(csp, submit(csp))
    expect_nothing_gained(kits, job, "FSVD-413")


class Inventive(CspNode):
    """Writes into its record that party b enlisted, with what b said of itself for another job."""

    def _submit(self, caller, asked):
        record = super()._submit(caller, asked)
        site = Site.at(self.kit_of_b)
        facts = site.facts().also(EnlistedFacts(rows=60, columns=4, label=False, features=""))
        self.jobs.enlist(record.id, "party/b", 1, facts)
        return record


def test_a_party_whose_owner_did_not_approve_does_not_come_though_the_record_says_so(kits, monkeypatch):
    monkeypatch.setattr(Inventive, "kit_of_b", kits["party/b"], raising=False)
    monkeypatch.setattr(Site, "approved", lambda self, record: self.caller != "party/b")
    with federation(kits, Inventive) as csp:
        id = submit(csp)
        deadline = monotonic() + GENEROUS
        while csp.jobs.get(id).state is JobState.RECRUITING:
            assert monotonic() < deadline
            sleep(0.02)
        sleep(1.5)  # several looks of party b's at the job
        job = csp.jobs.get(id)
        assert "party/b" not in job.finished
        assert not (Site.at(kits["party/b"]).state / "checkpoints").exists()
        csp._stop("researcher/res", About(id=id))


def test_honest_roles_finish_the_same_study(kits, heard):
    """So that the tests above cannot pass because nothing works here."""
    with federation(kits) as csp:
        job = ended(csp, submit(csp))
    assert job.state is JobState.DONE
    assert SumShare in heard
    heard.clear()
    X = np.concatenate([np.load(kits["party/a"].parent / f"{name}.npy") for name in "ab"])
    (found,) = kits["party/a"].glob("results/*/singular_values.npy")
    assert_close(np.load(found), np.linalg.svd(X, compute_uv=False), digits_lost(4))
