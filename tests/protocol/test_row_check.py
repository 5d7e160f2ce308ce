"""The row check (step 2) answers one question, whether all columns of ids are equal, and no question about members."""

import numpy as np
import pytest

from fedsvd.data.open import open_source
from fedsvd.engine.simulate import Simulation
from fedsvd.errors import PeerAborted, RepeatedIds, RowsDiffer
from fedsvd.protocol.messages import RowIds
from fedsvd.protocol.tasks import Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import seeding
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import assemble
from fedsvd.studies.study import Study
from fedsvd.transport.loopback import Hub

ROWS = 30


def session(*ids):
    rng = np.random.default_rng(1)
    parties = [PartyData(open_source(rng.normal(size=(ROWS, 4))), ids=np.array(own)) for own in ids]
    return assemble(Study(Task.SVD, Split.VERTICAL, check_ids=True), parties, Seed.fresh())


def ended(running):
    """What every role says of its end."""
    with pytest.raises((RowsDiffer, PeerAborted)):
        Simulation(running.machines, Hub()).run()
    return [str(machine.failure) for machine in running.machines if machine.failure is not None]


OURS = [f"patient-{row}" for row in range(ROWS)]


@pytest.mark.parametrize("guessed", [1, 2, ROWS])
def test_rows_that_differ_in_one_id_or_in_all_give_the_same_answer(guessed):
    """F10: in 0.1.0 the number of differing rows said whether a guessed id is among the others': 60 of 60."""
    guess = [f"guess-{row}" if row < guessed else OURS[row] for row in range(ROWS)]
    texts = ended(session(OURS, OURS, guess))
    assert any("FSVD-208" in text for text in texts)
    assert texts == ended(session(OURS, OURS, OURS[::-1]))
    assert not any(sign.isdigit() for text in texts for sign in text.replace("FSVD-208", "").replace("FSVD-415", ""))


def test_one_hash_leaves_a_site_however_many_rows_there_are():
    """Hashes of single rows would show the CSP which rows two parties share."""
    running = session(OURS, OURS)
    said = []
    for machine in running.machines:
        receive = machine.receive
        machine.receive = lambda sender, message, receive=receive: said.append(message) or receive(sender, message)
    Simulation(running.machines, Hub()).run()
    (first, second) = (message.hashed for message in said if isinstance(message, RowIds))
    assert first.nbytes == 32
    assert np.array_equal(first, second)


def test_repeated_ids_are_refused_at_home_before_anything_is_said():
    with pytest.raises(RepeatedIds):
        session([*OURS[1:], OURS[1]], [*OURS[1:], OURS[1]])


def test_a_fault_in_the_row_ids_is_one_before_any_sum(monkeypatch):
    """By its stage a site decides whether an approval is spent: nothing of the data has gone into a sum yet."""

    def repeated(ids, seed):
        raise RepeatedIds("an id occurs twice", "use one row for each id")

    monkeypatch.setattr(seeding, "hashed_ids", repeated)
    running = session(OURS, OURS)
    with pytest.raises(RepeatedIds):
        Simulation(running.machines, Hub()).run()
    assert {machine.stage for machine in running.machines[1:]} == {"SEEDING"}
