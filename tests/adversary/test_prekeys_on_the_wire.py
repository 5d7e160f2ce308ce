"""A dishonest CSP on a real line, where an authority deals: what it swaps, keeps or invents is found out.

All roles run here, over mutual TLS, each with its own kit. In every case the job ends broken, with a code, and no party
has results or has uploaded anything.
"""

import itertools
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, sleep

import numpy as np
import pytest
from tests.e2e.commands import GENEROUS
from tests.e2e.federations import federation_of
from tests.tolerances import assert_close, digits_lost

from fedsvd.identity.kit import Kit
from fedsvd.protocol.keys import spelt_prekey
from fedsvd.protocol.messages import PaddedBatch, Relay, Relayed, SumShare
from fedsvd.protocol.parties import TA, user
from fedsvd.randomness.seed import Seed
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.service import api
from fedsvd.service import csp as csp_node
from fedsvd.service.client import signed
from fedsvd.service.csp import CspNode
from fedsvd.service.enlist import ticket_of
from fedsvd.service.records import EnlistedFacts, JobState
from fedsvd.service.site import Site

EVE = Seed(b"E" * 32)
MEMBERS = ("party/a", "party/b", "authority/ta")
FILE = {
    "job": {"name": "study", "task": "svd"},
    "masks": {"scheme": "mask"},  # where an authority deals what the parties need: not in the sum family
    "authority": {"name": "ta"},
    "party": [{"name": "a"}, {"name": "b"}],
}


@pytest.fixture
def roles(tmp_path):
    """A federation of two parties, of which nothing runs yet."""
    tables = {name: np.random.default_rng(number).normal(size=(60, 4)) for number, name in enumerate("ab")}
    with federation_of(tmp_path, ("a", "b"), tables, patience=GENEROUS) as made:
        yield made


@pytest.fixture
def kits(roles):
    return roles.kits


@contextmanager
def running(roles, kind=CspNode, members=MEMBERS):
    """A CSP of this kind and these members, running while the block lasts."""
    with roles.csp_node(kind) as csp, roles.member_nodes(*members):
        yield csp


@pytest.fixture
def submit(kits):
    """Submits the study, under the researcher's signature; its id."""
    numbers = itertools.count()

    def submitted(csp):
        asked = signed(Kit.read(kits["researcher/res"]), FILE, f"{next(numbers):032x}")
        return csp.handle(api.SUBMIT, "researcher/res", asked).id

    return submitted


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

    def handle(self, verb, caller, asked):
        if verb is api.ENLIST and caller == "party/b":
            own = spelt_prekey(AgreementKey(EVE), user(2), ticket_of(asked.id, asked.attempt), SigningKey(EVE))
            asked = with_prekey(asked, own)
        return super().handle(verb, caller, asked)


def test_a_swapped_prekey_gets_no_sealed_message(roles, kits, heard, submit):
    with running(roles, Swapping) as csp:
        job = ended(csp, submit(csp))
    expect_nothing_gained(kits, job, "FSVD-416")
    assert Relayed not in heard


class Stale(CspNode):
    """Shows, in a second attempt, the prekey and signature that party b gave in the first."""

    first: str | None = None

    def handle(self, verb, caller, asked):
        if verb is api.ENLIST and caller == "party/b":
            if self.first is None:
                self.first = asked.facts.prekey
                asked = with_prekey(asked, "")  # which ends the first attempt
            else:
                asked = with_prekey(asked, self.first)
        return super().handle(verb, caller, asked)


def test_a_prekey_of_an_earlier_attempt_gets_no_sealed_message(roles, kits, submit):
    with running(roles, Stale) as csp:
        id = submit(csp)
        ended(csp, id)
        csp.handle(api.RESUME, "researcher/res", api.About(id=id))
        job = ended(csp, id)
        assert job.attempt == 2
    expect_nothing_gained(kits, job, "FSVD-416")


class Hoarding(Listening):
    """Delivers to every user the sealed message that the authority left for it in the first session of this CSP."""

    kept: dict

    def receive(self, sender, message):
        if sender == TA and isinstance(message, Relay):
            if self.plan.session == self.kept.setdefault("session", self.plan.session):
                self.kept[message.to] = message.sealed
            else:
                message = replace(message, sealed=self.kept[message.to])
        return super().receive(sender, message)


def test_sealed_messages_of_another_job_do_not_open(roles, kits, monkeypatch, submit):
    """The first job is one that never comes to an upload: the parties of the second job are those of the first."""
    kept = {}
    monkeypatch.setattr(Hoarding, "kept", kept, raising=False)
    monkeypatch.setattr(csp_node, "ServiceProvider", Hoarding)
    with running(roles, members=("authority/ta",)) as csp:
        earlier = {name: Site.at(kits[name]) for name in ("party/a", "party/b")}
        id = submit(csp)
        for number, (name, site) in enumerate(earlier.items(), 1):
            key = AgreementKey(Seed(bytes([number]) * 32))
            prekey = spelt_prekey(key, user(number), ticket_of(id, 1), site.kit.signing_key)
            facts = site.facts().also(EnlistedFacts(rows=60, columns=4, prekey=prekey))
            csp.handle(api.ENLIST, name, api.Enlist(id=id, attempt=1, facts=facts))
        deadline = monotonic() + GENEROUS
        while len(kept) < 3:
            assert monotonic() < deadline
            sleep(0.02)
        csp.handle(api.STOP, "researcher/res", api.About(id=id))
        with roles.member_nodes("party/a", "party/b"):
            job = ended(csp, submit(csp))
    expect_nothing_gained(kits, job, "FSVD-416")


def test_an_authority_that_is_shown_another_plan_does_not_serve_the_users(roles, kits, submit):
    """Its offer is signed for the plan it saw; users take no other's."""

    class TwoFaced(CspNode):
        def handle(self, verb, caller, asked):
            answer = super().handle(verb, caller, asked)
            if verb is api.JOB and caller == "authority/ta" and answer.plan:
                return answer.changed(plan=answer.plan.model_copy(update={"certain_bound": True}))
            return answer

    with running(roles, TwoFaced) as csp:
        job = ended(csp, submit(csp))
    expect_nothing_gained(kits, job, "FSVD-413")


class Inventive(CspNode):
    """Writes into its record that party b enlisted, with what b said of itself for another job."""

    def handle(self, verb, caller, asked):
        answer = super().handle(verb, caller, asked)
        if verb is api.SUBMIT:
            site = Site.at(self.kit_of_b)
            facts = site.facts().also(EnlistedFacts(rows=60, columns=4, label=False, features=""))
            self.jobs.enlist(answer.id, "party/b", 1, facts)
        return answer


def test_a_party_whose_owner_did_not_approve_does_not_come_though_the_record_says_so(roles, kits, monkeypatch, submit):
    monkeypatch.setattr(Inventive, "kit_of_b", kits["party/b"], raising=False)
    monkeypatch.setattr(Site, "approved", lambda self, record: self.caller != "party/b")
    with running(roles, Inventive) as csp:
        id = submit(csp)
        deadline = monotonic() + GENEROUS
        while csp.jobs.get(id).state is JobState.RECRUITING:
            assert monotonic() < deadline
            sleep(0.02)
        sleep(1.5)  # several looks of party b's at the job
        job = csp.jobs.get(id)
        assert "party/b" not in job.finished
        assert not (Site.at(kits["party/b"]).state / "checkpoints").exists()
        csp.handle(api.STOP, "researcher/res", api.About(id=id))


def test_honest_roles_finish_the_same_study(roles, kits, heard, submit):
    """So that the tests above cannot pass because nothing works here."""
    with running(roles) as csp:
        job = ended(csp, submit(csp))
    assert job.state is JobState.DONE
    assert SumShare in heard
    heard.clear()
    X = np.concatenate([np.load(roles.root / f"{name}.npy") for name in "ab"])
    (found,) = kits["party/a"].glob("results/*/singular_values.npy")
    assert_close(np.load(found), np.linalg.svd(X, compute_uv=False), digits_lost(4))
