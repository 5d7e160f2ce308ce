"""The simulation gives every role its turns, adds up what the players counted, and never leaves a session hanging."""

from dataclasses import replace

import numpy as np
import pytest
from tests.protocol.cases import svd

from fedsvd.engine.simulate import Simulation
from fedsvd.errors import NotFinite, NumericalError, ProtocolError
from fedsvd.protocol.messages import Aborted, BatchRequest, PaddedBatch, SumReply
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Mode
from fedsvd.roles.user.work import Work
from fedsvd.testing.federation import altering
from fedsvd.transport.loopback import Hub

ONE, TWO = user(1), user(2)


def nothing(message):
    return ()


@pytest.mark.parametrize("kind", [SumReply, BatchRequest, PaddedBatch])
def test_a_message_that_never_arrives_ends_in_an_error_that_names_who_waits(kind):
    federation = svd(mode=Mode.B)
    link = {"origin": TWO} if kind is PaddedBatch else {"to": TWO}
    with pytest.raises(ProtocolError, match=r"no message is left, and .*User\(user 2, [A-Z]+\).* still wait"):
        federation.run(meddle=altering(kind, nothing, **link))


def test_a_computation_that_fails_ends_the_session_for_all(monkeypatch):
    monkeypatch.setattr(Work, "panels", lambda work, *asked: _fail(NumericalError("lost its digits", "scale")))
    federation = svd()
    with pytest.raises(NumericalError, match="lost its digits"):
        federation.run()
    states = {party: machine.state.name for party, machine in federation.machines.items()}
    assert set(states.values()) == {"ABORTED"}
    (_, told), *_ = federation.views.of(CSP, Aborted)
    assert (told.code, told.stage) == ("FSVD-300", "computing")


def test_what_is_wrong_with_a_partys_own_data_is_not_told_to_the_others(monkeypatch):
    fault = NotFinite("3 entries are missing, the first in column 'hiv_status'", "fill them in")
    monkeypatch.setattr(Work, "panels", lambda work, *asked: _fail(fault))
    federation = svd()
    with pytest.raises(NotFinite):
        federation.run()
    for party in (CSP, ONE, TWO):
        for _, told in federation.views.of(party, Aborted):
            assert told.code in ("FSVD-201", "FSVD-415")
            assert set(vars(told)) == {"plan", "code", "stage"}
            assert told.stage.isalpha()


def _fail(error):
    raise error


def test_results_bytes_and_seconds_are_kept_by_party():
    federation = svd(mode=Mode.B)
    session = federation.assemble()
    run = Simulation(session.machines, Hub(), record=True).run()
    assert set(run.results) == {CSP, ONE, TWO}
    assert set(run.meter.messages) == {(CSP, user(1)), (CSP, user(2)), (user(1), CSP), (user(2), CSP)}
    assert {party for party, _ in run.seconds} == {CSP, user(1), user(2)}
    assert {(CSP, "factorise"), (user(1), "right vectors")} <= set(run.seconds)
    assert all(seconds >= 0 for seconds in run.seconds.values())
    heard = sum(len(messages) for messages in run.views.received.values())
    assert heard == sum(run.meter.messages.values())


def test_parties_that_work_at_the_same_time_come_to_the_same_numbers():
    """Only the order of deliveries differs, and no result may depend on it."""
    alone = Simulation(svd(4).assemble().machines, Hub()).run()
    for threads in (2, 3, 8):
        together = Simulation(svd(4).assemble().machines, Hub(), parallel=threads).run()
        assert together.meter == alone.meter
        for party in (ONE, TWO):
            np.testing.assert_array_equal(together.results[party].U, alone.results[party].U)
            np.testing.assert_array_equal(together.results[party].Vt_i, alone.results[party].Vt_i)


def test_a_fault_while_others_work_is_raised_when_they_have_ended_their_turn(monkeypatch):
    fault = NotFinite("3 entries are missing", "fill them in")
    monkeypatch.setattr(Work, "panels", lambda work, *asked: _fail(fault))
    session = svd().assemble()
    with pytest.raises(NotFinite):
        Simulation(session.machines, Hub(), parallel=2).run()
    assert all(machine.over for machine in session.machines)


def test_nothing_is_recorded_unless_asked_for():
    session = svd().assemble()
    assert Simulation(session.machines, Hub()).run().views is None


def test_the_cause_is_raised_and_not_its_echo():
    """User 2's fault reaches user 1 and the CSP as ``PeerAborted``; who called wants the fault."""
    federation = svd(3)
    wrong = altering(SumReply, lambda said: (replace(said, name="mean"),), to=TWO)
    with pytest.raises(ProtocolError) as caught:
        federation.run(meddle=wrong)
    assert caught.value is federation.machines[TWO].failure
    assert caught.value.code == "FSVD-411"
