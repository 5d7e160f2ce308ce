"""No message of a session is longer than its plan allows for, and what a peer may claim follows from the plan (F14)."""

import numpy as np
import pytest

from fedsvd.cost.traffic import longest_message
from fedsvd.data.open import open_source
from fedsvd.engine.simulate import Simulation
from fedsvd.errors import MalformedFrame
from fedsvd.protocol.messages import Begin
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import assemble
from fedsvd.studies.study import Study
from fedsvd.transport.calls import bundle
from fedsvd.transport.loopback import Hub
from fedsvd.transport.session import SessionLinks
from fedsvd.wire.codec import encode
from fedsvd.wire.frame import Frame

MIB = 1 << 20


def session(task=Task.SVD, split=Split.HORIZONTAL, shape=(40, 30), **options):
    rng = np.random.default_rng(3)
    labels = rng.normal(size=(shape[0], 1)) if task is Task.LR else None
    first = PartyData(open_source(rng.normal(size=shape)), labels)
    second = PartyData(open_source(rng.normal(size=shape)), labels if split is Split.HORIZONTAL else None)
    if task is Task.LR:
        options |= {"targets": 1, "label_user": 1 if split is Split.VERTICAL else 0}
    return assemble(Study(task, split, **options), [first, second], Seed.fresh())


@pytest.mark.parametrize("task", [Task.SVD, Task.PCA, Task.LR])
@pytest.mark.parametrize("split", [Split.HORIZONTAL, Split.VERTICAL])
def test_no_message_of_a_session_is_longer_than_its_plan_allows(task, split):
    if (task, split) == (Task.PCA, Split.VERTICAL):
        pytest.skip("PCA is of split rows")
    running = session(task, split, **({"components": 3} if task is Task.PCA else {}))
    longest = []
    for machine in running.machines:
        receive = machine.receive

        def heard(sender, message, receive=receive):
            if not isinstance(message, Begin):
                longest.append(sum(len(memoryview(part).cast("B")) for part in encode(message)))
            return receive(sender, message)

        machine.receive = heard
    Simulation(running.machines, Hub()).run()
    assert 0 < max(longest) <= longest_message(running.plan) <= 2 * max(longest) + 16 * MIB


def test_a_message_that_claims_64_gib_is_refused_at_its_first_frame():
    plan = session().plan
    links = SessionLinks(plan.session, {"party/a": user(1)}, 256 * MIB, longest_message(plan))
    frame = Frame(plan.session, 0, 0, 1 << 16, 64 << 30, bytes(MIB))
    with pytest.raises(MalformedFrame):
        links.push(user(1), bundle([frame]))
