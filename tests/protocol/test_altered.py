"""Every alteration of every sum, in real sessions: FSVD-417 at the user that reads it, and nothing else changes.

The CSP is dishonest: it adds to payloads or tags, swaps batches, replays totals, answers users differently. Tags are
compared before anything else, so that it can stop a session and do nothing more (specification, section 2).
"""

from dataclasses import replace

import numpy as np
import pytest

from fedsvd.errors import PeerAborted, SumAltered, UnexpectedMessage
from fedsvd.protocol.machine import Abort
from fedsvd.protocol.messages import BatchRequest, Factors, PaddedBatch, Ready, SumReply, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.sums import null_space_sum, planned_sums
from fedsvd.protocol.tasks import Item, Mode
from fedsvd.secagg.sums import SumKind
from fedsvd.testing.federation import altering

from .cases import lr_horizontal, lr_lost_rank, lr_vertical, pca, predict, svd
from .stage import held, stop

ONE, TWO = user(1), user(2)
SCORED = (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)
SESSIONS = {
    "svd, mode A": svd,
    "svd, mode B": lambda: svd(mode=Mode.B),
    "svd under masks": lambda: svd(scheme="mask"),
    "pca": lambda: pca(unit_variance=True, release=(Item.COMPONENTS, Item.SPECTRUM, Item.MEAN)),
    "lr horizontal": lr_horizontal,
    "lr vertical": lambda: lr_vertical(release=SCORED),
    "lr of lost rank": lr_lost_rank,
    "predict": predict,
}
WORD_CHANGES = [1, -1, 2**61 - 1, 2**64, 2**126, 2**127, 3 * 5 * 7 * 11 * 13]
DIGIT_CHANGES = [1, 2**32, 2**61 - 1, 2**62, 2**63, 2**64 - 1]


def added(payload, change, wide, place=0):
    """The payload with ``change`` added to one word of 128 bits, or to one digit of a wide number."""
    altered = payload.copy()
    if wide:
        altered.flat[place] = (int(altered.flat[place]) + change) % 2**64
        return altered
    row = place % len(altered)
    total = (int(altered[row, 0]) + (int(altered[row, 1]) << 64) + change) % 2**128
    altered[row] = total % 2**64, total >> 64
    return altered


def sums_of(make):
    """The names of the sums of a session, with who reads each; the one that a lost rank adds among them."""
    federation = make()
    federation.run()
    return {
        message.name: party for party in federation.plan.users for _, message in federation.views.of(party, SumReply)
    }


ALL_SUMS = [(session, name, party) for session, make in SESSIONS.items() for name, party in sums_of(make).items()]


def sums_planned(federation):
    """Every sum there may be: the plan's own, and the one that a lost rank adds."""
    lost = [null_space_sum(federation.plan, rank) for rank in range(federation.plan.N)]
    return [*planned_sums(federation.plan), *filter(None, lost)]


def reading(federation, name, reader):
    """The user about to read this sum, with the honest reply; the session is stopped there."""
    stopped = stop(
        federation,
        lambda machine, sender, message: (
            machine.me == reader and isinstance(message, SumReply) and message.name == name
        ),
    )
    assert stopped is not None
    return stopped


def tried(machine, reply):
    """The error of opening this reply, or None; the machine is put back to where it waited."""
    state, request = machine.state, machine.waits_for
    (effect,) = machine.receive(CSP, reply)
    assert machine.state.name == "COMPUTING"  # a pass over the words; nothing has been done with them
    try:
        effect.work()
    except SumAltered as error:
        return error
    finally:
        machine.state = state
        assert machine.waits_for is request
    return None


def but_for_work(machine):
    """What the role holds, but for the computation that was left when it was put back."""
    return [(name, value) for name, value in held(machine) if name != "_then"]


@pytest.mark.parametrize(("session", "name", "reader"), ALL_SUMS, ids=lambda value: str(value))
def test_every_alteration_of_any_sum_is_refused_and_changes_no_state(session, name, reader):
    federation = SESSIONS[session]()
    stopped = reading(federation, name, reader)
    machine, honest = stopped.machine, stopped.message
    planned = next(each for each in sums_planned(federation) if each.name == name)
    wide, bound = planned.kind is SumKind.WIDE, planned.kind is SumKind.BOUND
    # Of a bound the low halves alone are read, and a change of a high half by itself means nothing.
    changes = DIGIT_CHANGES if wide else [c for c in WORD_CHANGES if not bound or c % 2**64]
    # The same reply is tried many times; the first sum's brings the data commitments, which come but once.
    assert isinstance(tried(machine, replace(honest, tag=honest.tag + np.uint64(1))), SumAltered)
    honest = replace(honest, commitments=())
    before, texts = but_for_work(machine), set()
    for change in changes:
        for place in (0, honest.payload.size // 2):
            payload = added(honest.payload, change, wide, place)
            for tag in (honest.tag, honest.tag + np.array([change % 2**64, 0, 0], np.uint64)):
                error = tried(machine, replace(honest, payload=payload, tag=tag))
                assert isinstance(error, SumAltered), (change, place)
                texts.add(str(error))
    for bit in range(0, planned.kind.tag_bits, 7):
        tag = honest.tag.copy()
        tag[bit // 64] ^= np.uint64(1 << bit % 64)
        texts.add(str(tried(machine, replace(honest, tag=tag))))
    for payload in (
        honest.payload[:-1],
        np.concatenate((honest.payload, honest.payload)),
        honest.payload.astype(float),
    ):
        texts.add(str(tried(machine, replace(honest, payload=payload))))
    assert len(texts) == 1
    assert next(iter(texts)).startswith("FSVD-417: ")
    assert but_for_work(machine) == before
    assert tried(machine, honest) is None  # the honest one still opens


@pytest.mark.parametrize("session", SESSIONS)
def test_an_altered_sum_ends_the_session_everywhere(session):
    for name, reader in sums_of(SESSIONS[session]).items():
        federation = SESSIONS[session]()

        def change(reply, name=name):
            wide = reply.payload.shape[1] != 2
            return (replace(reply, payload=added(reply.payload, 1, wide)) if reply.name == name else reply,)

        with pytest.raises(SumAltered):
            federation.run(meddle=altering(SumReply, change, to=reader))
        assert isinstance(federation.machines[reader].failure, SumAltered)
        others = [machine for party, machine in federation.machines.items() if party != reader]
        assert all(isinstance(machine.failure, PeerAborted) for machine in others if machine.state.name != "DONE")
        assert not federation.results


@pytest.mark.parametrize("name", ["mean", "bound", "energy", "norm"])
@pytest.mark.parametrize("mode", list(Mode))
def test_an_altered_statistic_stops_before_the_share_or_the_upload(name, mode):
    """A false norm would single a user out, a false mean shift it: neither gets as far as that."""

    def change(reply):
        wide = reply.payload.shape[1] != 2
        return (replace(reply, payload=added(reply.payload, 1, wide)) if reply.name == name else reply,)

    for victims in ([TWO], [ONE, TWO, user(3)]):
        federation = pca(3, unit_variance=True, mode=mode)
        order = [planned.name for planned in planned_sums(federation.assemble().plan)]

        def meddle(origin, to, message, victims=victims):
            return change(message) if isinstance(message, SumReply) and to in victims else (message,)

        with pytest.raises(SumAltered):
            federation.run(meddle=meddle)
        for victim in victims:  # who has the true total may go on, and gets no further without the others
            said = [message for origin, _, message in federation.sent if origin == victim]
            assert [message.name for message in said if isinstance(message, SumShare)] == order[: order.index(name) + 1]
            assert not any(isinstance(message, Ready | PaddedBatch) for message in said)
        kinds = {type(message) for _, _, message in federation.sent}
        assert not kinds & {BatchRequest, PaddedBatch, Factors}
        assert "gram" not in {message.name for _, _, message in federation.sent if isinstance(message, SumReply)}


def test_totals_swapped_between_batches_or_sums_are_refused():
    federation = svd()
    replies = {}

    def swapped(reply):
        replies[reply.name] = reply
        if reply.name != "orthogonality":
            return (reply,)
        gram = replies["gram"]
        return (replace(reply, payload=gram.payload, tag=gram.tag),)

    with pytest.raises(SumAltered):
        federation.run(meddle=altering(SumReply, swapped, to=TWO))


def test_a_total_of_another_session_is_refused():
    other, federation = svd(insecure_seed=bytes(32)), svd()
    other.run()
    old = {message.name: message for _, message in other.views.of(TWO, SumReply)}
    meddle = altering(
        SumReply, lambda reply: (replace(reply, payload=old[reply.name].payload, tag=old[reply.name].tag),), to=TWO
    )
    with pytest.raises(SumAltered):
        federation.run(meddle=meddle)


def test_a_share_left_out_put_in_twice_or_zeroed_is_refused():
    """The CSP adds up what it likes; the total does not carry the tag of what the users sent."""
    for change in (
        lambda share: replace(share, payload=np.zeros_like(share.payload)),
        lambda share: replace(share, payload=2 * share.payload, tag=2 * share.tag),
        lambda share: replace(share, payload=np.zeros_like(share.payload), tag=np.zeros_like(share.tag)),
    ):
        with pytest.raises(SumAltered):
            svd(3).run(meddle=altering(SumShare, lambda share, change=change: (change(share),), origin=TWO))


def test_a_sum_that_was_not_asked_for_is_not_opened():
    federation = svd()
    stopped = reading(federation, "norm", TWO)
    machine = stopped.machine
    (abort,) = machine.receive(CSP, replace(stopped.message, batch=1))
    assert isinstance(abort.error, UnexpectedMessage)
    assert abort == Abort(abort.error)  # and nothing is computed
