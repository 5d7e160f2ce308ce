"""Users and the CSP are held to the steps of their plan; what a script asks for beyond them is not sent."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from tests.protocol.cases import CASES, predict

from fedsvd.errors import FedSVDError, LocalProtocolError, PrivacyWarning, UnexpectedMessage
from fedsvd.protocol.messages import Relay, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.relayed import SEAL_BYTES
from fedsvd.protocol.steps import SUMS, listed
from fedsvd.roles.user import prediction
from fedsvd.roles.user.requests import Give, Sum
from fedsvd.sealing import seal


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", list(CASES))
def test_a_session_sums_what_its_plan_lists_and_signs_what_was_played(name, k):
    warnings.simplefilter("ignore", PrivacyWarning)
    session = CASES[name](k)
    session.run()
    shares = [m.name for origin, _, m in session.sent if isinstance(m, SumShare) and origin == user(1) and not m.batch]
    planned = [step.name for step in listed(session.plan.steps) if step.kind in SUMS]
    assert [name for name in planned if name in shares] == shares
    assert session.machines[user(1)].played == tuple(shares)


def test_the_csp_knows_how_much_a_seal_adds():
    assert SEAL_BYTES == seal.OVERHEAD


def giving(work, script=prediction.script):
    """A prediction that also gives this user's rows to user 1."""
    if work.i:
        yield Give(0, np.concatenate([X for _, X in work.row_panels("rows")]).tobytes())
    return (yield from script(work))


def asking_more(work, script=prediction.script):
    found = yield from script(work)
    yield Sum("norm", lambda batch: np.zeros((1, 2), np.uint64))
    return found


@pytest.mark.parametrize("script", [giving, asking_more])
def test_a_script_that_asks_for_more_than_its_plan_is_stopped_before_anything_of_it_is_sent(script, monkeypatch):
    """In 0.2.0 the session ended well, and user 1 had the rows of the others."""
    monkeypatch.setattr(prediction, "script", script)
    session = predict(3)
    with pytest.raises(LocalProtocolError, match="next"):
        session.run()
    assert not session.released
    given = [m for origin, _, m in session.sent if isinstance(m, Relay) and origin != user(1) and m.to == user(1)]
    seeds = SEAL_BYTES + 32
    assert all(len(message.sealed) == seeds for message in given)  # of the tags, by the label holder


@pytest.mark.parametrize("length", [1, SEAL_BYTES + 32, SEAL_BYTES + 40, 1 << 20])
def test_an_honest_csp_passes_on_no_sealed_message_that_the_plan_does_not_have(length):
    """Whatever the software of a user does: here it sends one more message, after the seeds."""
    session = predict(3)
    sent = []

    def meddle(origin, to, message):
        if isinstance(message, SumShare) and origin == user(2) and not sent:
            sent.append(Relay(message.plan, user(1), bytes(length)))
            return [sent[0], message]
        return [message]

    with pytest.raises(FedSVDError):
        session.run(meddle=meddle)
    assert sent
    assert isinstance(session.machines[CSP].failure, UnexpectedMessage)
    assert not session.released


def test_a_plan_with_other_steps_is_another_plan():
    plan = predict(2).assemble().plan
    assert replace(plan, steps=plan.steps[:-1]).digest != plan.digest
