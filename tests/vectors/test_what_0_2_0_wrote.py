"""What fedsvd 0.2.0 wrote and sent: it opens, or is refused by its version, and is never called damaged or a fraud.

All of it was written by version 0.2.0: ``results-0.2.0/north`` by ``fedsvd run`` (the part of party north of a PCA of
24 records of three parties), ``state-0.2.0`` by its ``Jobs``, ``Sessions``, ``AuditLog``, ``Approvals`` and
``Checkpoint``; ``calls.json`` has questions, answers, a message and a frame as they were sent; ``kit-0.2.0`` is the kit
of party north in a throw-away federation that never existed longer than it took to write.
"""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import fedsvd
from fedsvd.compress.checkpoint import Checkpoint
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, NotAuthenticated, OtherVersion, StorageError
from fedsvd.identity.kit import Kit
from fedsvd.policy.policy_file import read_policy
from fedsvd.protocol.plan import PROTOCOL
from fedsvd.service import api
from fedsvd.service.approvals import Approvals
from fedsvd.service.client import CspClient, Refused
from fedsvd.service.jobs import Jobs
from fedsvd.service.records import JobState
from fedsvd.service.submitter import submitter_of
from fedsvd.storage.journal import Journal, Nonces, Sessions, verify_audit
from fedsvd.wire.codec import decode
from fedsvd.wire.frame import decode_frame, session_of

HERE = Path(__file__).parent
RESULTS, STATE, KIT = HERE / "results-0.2.0" / "north", HERE / "state-0.2.0", HERE / "kit-0.2.0"
CALLS = json.loads((STATE / "calls.json").read_text())
BOTH = rf"fedsvd 0\.2 or older, and here is fedsvd {fedsvd.__version__} with protocol {PROTOCOL}"


@pytest.fixture
def state(tmp_path):
    shutil.copytree(STATE, tmp_path / "state")
    return tmp_path / "state"


class Line:
    """A line to a CSP that answers with this."""

    csp = b""

    def __init__(self, reply):
        self.reply = reply

    def call(self, method, body):
        return self.reply.encode() if isinstance(self.reply, str) else self.reply(body)

    def close(self):
        return None


# --- on the wire ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["submit", "enlist", "wait", "now"])
def test_a_question_of_an_old_caller_is_answered_with_both_versions(verb):
    with pytest.raises(OtherVersion, match=f"the caller is {BOTH}") as refused:
        api.read_question(CALLS[verb].encode())
    # As 0.2.0 reads the answer: an error with a code, a fault and a fix.
    said = json.loads(api.written_error(refused.value))["error"]
    assert (said["code"], "pip install" in said["fix"]) == ("FSVD-505", True)


@pytest.mark.parametrize(("verb", "reply"), [("now", "answer to now"), ("submit", "answer to submit")])
def test_an_answer_of_an_old_csp_is_refused_by_its_version(verb, reply):
    client = CspClient(Line(CALLS[reply]))
    with pytest.raises(OtherVersion, match=f"the CSP is {BOTH}"):
        client.now() if verb == "now" else client.job("22")


def test_an_error_of_an_old_csp_is_refused_by_its_version_first():
    client = CspClient(Line('{"error": {"code": "FSVD-414", "fault": "a message is not well-formed", "fix": ""}}'))
    with pytest.raises(OtherVersion, match=BOTH):
        client.now()


@pytest.mark.parametrize("later", [4, 99])
def test_a_later_version_is_named_whatever_else_its_calls_hold(later):
    mark = {"protocol": later, "fedsvd": "1.2.3\x1b[2J"}
    with pytest.raises(OtherVersion, match=rf"fedsvd 1\.2\.3\?\[2J with protocol {later}"):
        api.read_question(json.dumps({**mark, "ask": "unheard of", "with": 3, "more": []}).encode())
    with pytest.raises(OtherVersion, match=f"with protocol {later}"):
        CspClient(Line(json.dumps({**mark, "answered": "otherwise"}))).now()


def test_a_csp_of_this_version_is_understood():
    def answered(body):
        api.read_question(body)
        return api.written_answer(api.Clock(now="2026-01-01T00:00:00+00:00", fedsvd=fedsvd.__version__))

    assert CspClient(Line(answered)).now().fedsvd == fedsvd.__version__
    refused = api.written_error(StorageError("full", "free disk space"))
    with pytest.raises(Refused, match="full"):
        CspClient(Line(lambda body: refused)).now()


@pytest.mark.parametrize("read", [decode_frame, session_of])
def test_a_frame_of_another_version_is_refused_by_it_and_not_called_malformed(read):
    frame = bytes.fromhex(CALLS["frame"])
    with pytest.raises(OtherVersion, match=BOTH):
        read(frame)
    with pytest.raises(OtherVersion, match="protocol 4"):
        read(frame[:4] + b"\x04" + frame[5:])


def test_a_message_of_another_version_is_refused_by_it():
    message = bytes.fromhex(CALLS["message"])
    with pytest.raises(OtherVersion, match=BOTH):
        decode(message)
    with pytest.raises(OtherVersion, match="protocol 200"):
        decode(message[:4] + b"\xc8" + message[5:])


# --- on disk ----------------------------------------------------------------------------------------------------------


def test_results_are_refused_by_their_version_and_their_arrays_can_be_read():
    with pytest.raises(StorageError) as caught:
        fedsvd.load(RESULTS)
    assert "written by fedsvd 0.2.0, under protocol 2" in caught.value.fault
    assert "damaged" not in str(caught.value)
    assert "pip install fedsvd==0.2.0" in caught.value.fix
    assert np.load(RESULTS / "components.npy").shape == (2, 3)


def test_the_ledger_of_a_csp_opens_and_a_job_in_it_that_no_one_signed_says_what_to_do(state):
    jobs = Jobs(Journal(state / "csp-ledger.jsonl"))
    assert [job.state for job in jobs.all()] == [JobState.DONE, JobState.RECRUITING]
    with pytest.raises(NotAuthenticated) as refused:
        submitter_of(None, jobs.get("22"))
    assert "submitted with fedsvd 0.2 or older, submit it again" in refused.value.fix


def test_the_ledger_the_audit_log_and_the_approvals_of_a_party_open(state):
    ledger = Journal(state / "party-ledger.jsonl")
    with pytest.raises(Exception, match="this session was opened before"):
        Sessions(ledger).claim("cd" * 16)
    Nonces(ledger).spend("researcher/res", "00" * 16, "11", "d")
    assert verify_audit(state / "audit.jsonl") == 1
    job = Jobs(Journal(state / "csp-ledger.jsonl")).get("22")
    assert Approvals(state / "approvals").of(job) is None  # it was for a job without a number
    assert Approvals(state / "approvals").changed(job)


def test_a_checkpoint_opens_and_one_of_a_later_version_is_refused_by_it(state):
    source, path = open_source(np.load(STATE / "table.npy")), state / "pass.factor"
    assert Checkpoint(path).load(source, None).done == 2
    later = b"FSVD-CP7" + path.read_bytes()[8:-32]
    path.write_bytes(later + hashlib.sha256(later).digest())
    with pytest.raises(StorageError, match="of another version of fedsvd"):
        Checkpoint(path).load(source, None)


def test_a_kit_opens_with_its_policy_and_its_pins_are_refused_by_their_version(tmp_path):
    folder = tmp_path / "kit"
    shutil.copytree(KIT, folder)
    folder.chmod(0o700)
    for path in folder.iterdir():
        path.chmod(0o600)
    kit = Kit.read(folder)
    assert str(kit.identity) == "party/north"
    assert kit.revocations() is not None
    policy = folder / "policy.toml"
    for key in ("least_changed", "versions_per_year"):  # rules that are no more, each refused with what is instead
        with pytest.raises(ConfigError, match=f"{key} in .* is no rule any more") as gone:
            read_policy(policy)
        assert "remember" in gone.value.fix
        lines = policy.read_text().splitlines()
        policy.write_text("\n".join(line for line in lines if not line.startswith(key)))
    assert read_policy(policy).parties_for_full == 3
    with pytest.raises(StorageError, match=r"pins\.toml is of fedsvd 0\.2") as refused:
        kit.pins()
    assert "damaged" not in str(refused.value)
    text = (folder / "pins.toml").read_text()
    for name in ("csp/csp", "party/south", "researcher/res"):  # what the error says to write
        assert f'"{name}"' in refused.value.fix
        text = text.replace(name.partition("/")[2] + " =", f'"{name}" =').replace(
            f'"{name.partition("/")[2]}"', f'"{name}"'
        )
    (folder / "pins.toml").write_text(text)
    assert set(kit.pins()) == {"csp/csp", "party/north", "party/south", "researcher/res"}
