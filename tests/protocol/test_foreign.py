"""A foreign task is held to its declaration: what its script asks for beyond it is not sent, whatever it tries."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.protocol.cases import EVERY_KIND, every_kind, foreign, tables
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd.errors import ConfigError, FedSVDError, LocalProtocolError, ShapeError, UnexpectedMessage
from fedsvd.protocol.messages import Relay, SumReply, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.studies.foreign import ForeignStudy


def shares(session, of):
    return [message.name for origin, _, message in session.sent if isinstance(message, SumShare) and origin == of]


@pytest.mark.parametrize("k", [2, 3])
def test_every_kind_of_sum_gives_the_joint_numbers_to_every_user(k):
    session = foreign(k)
    joint = np.concatenate(tables(k))
    for found in session.run():
        assert_close(found.outputs["total"], joint.sum(axis=0), RESULT_BAR)
        bound, unit, part = found.outputs["bounds"]
        largest = np.abs(joint).max()
        assert largest < bound <= 2.0**16 * largest
        assert math.log2(bound) % 16 == 0
        exact = joint.sum(axis=0)[0] / 2
        assert abs(part - exact) <= k * unit * 2.0**-20  # each user rounds to 20 bits of the unit
        assert part != exact


def test_what_was_played_is_what_is_signed_two_rounds_of_the_four_that_were_declared():
    session = foreign(3, most=4)
    session.run()
    rounds = [f"{name} {number}" for number in (1, 2) for name in ("unit", "halved")]
    assert session.machines[user(2)].played == ("records", "sums", "largest", *rounds, "checked")


def asks_more(X_i):
    found = yield from every_kind(X_i)
    yield "rows", X_i.ravel()
    return found


def asks_twice(X_i):
    yield "records", [X_i.shape[1]]
    yield "records", [X_i.shape[1]]


def skips(X_i):
    yield "records", [X_i.shape[1]]
    yield "largest", [1.0]


def ends_early(X_i):
    total = yield "records", [X_i.shape[1]]
    return {"total": np.zeros(len(X_i)), "bounds": [total[0], 0.0, 0.0]}


def longer(X_i):
    yield "records", [X_i.shape[1], *X_i[0]]


def shorter(X_i):
    yield "records", [1]
    yield "sums", X_i.sum(axis=1)[:-1]


def too_many_rounds(X_i):
    yield "records", [1]
    yield "sums", X_i.sum(axis=1)
    yield "largest", [1.0]
    while True:
        yield "unit", [1.0]
        yield "halved", np.zeros(len(X_i))


def fractions(X_i):
    yield "records", [0.5]


def not_finite(X_i):
    yield "records", [1]
    yield "sums", np.full(len(X_i), np.nan)


def above_its_unit(X_i):
    script = every_kind(X_i)
    asked = next(script)
    while True:
        total = yield asked
        asked = script.send(total)
        if asked[0] == "checked":
            asked = "checked", [0.0, 1.5]


def gives(X_i):
    """A step of this name is no sum: it would be a message to one user."""
    yield "give", X_i.ravel()


def other_outputs(X_i):
    found = yield from every_kind(X_i)
    return {**found, "rows": X_i}


TRIES = [asks_more, asks_twice, skips, ends_early, longer, shorter, too_many_rounds, fractions, not_finite, gives]


@pytest.mark.parametrize("attempt", [*TRIES, above_its_unit, other_outputs])
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_script_that_tries_is_stopped_before_anything_undeclared_is_sent(attempt, everywhere):
    """At all users, or at one of three: the session ends, no user has a result, and no undeclared number was sent."""
    session = foreign(3, [attempt] * 3 if everywhere else [every_kind, attempt, every_kind], most=4)
    # A round more than the others' is declared, and so found by the CSP, which adds up nothing for one user.
    with pytest.raises(LocalProtocolError if everywhere or attempt is not too_many_rounds else FedSVDError) as refused:
        session.run()
    assert not session.released
    rounds = [f"{name} {number}" for number in range(1, 5) for name in ("unit", "halved")]
    declared = ("records", "sums", "largest", *rounds, "checked")
    played = shares(session, user(2))
    assert played == [name for name in declared if name in played]  # each once, in order
    sizes = {"records": 1, "checked": 2}
    for origin, _, message in session.sent:
        if isinstance(message, SumShare) and origin == user(2):
            assert len(message.payload) in (sizes.get(message.name, 4), 133)
    assert not any(str(value) in str(refused.value) for value in tables(3)[1].ravel().tolist())


def test_names_that_are_swapped_at_one_party_are_refused_at_that_party():
    def swaps(X_i):
        yield "sums", X_i.sum(axis=1)

    session = foreign(3, [every_kind, swaps, every_kind])
    with pytest.raises(LocalProtocolError, match="not the next step"):
        session.run()
    assert shares(session, user(2)) == []
    assert not session.released


def test_a_party_that_plays_one_round_less_ends_the_session_at_all_users():
    """Rounds follow from totals, which all users have: another number of them is a fault, and no one hangs."""

    def one_round(X_i):
        script = every_kind(X_i)
        asked, total, halved = next(script), None, 0
        while True:
            total = yield asked
            halved += asked[0] == "halved"
            asked = ("checked", [0.25, -1.0]) if halved == 1 and asked[0] == "halved" else script.send(total)

    session = foreign(3, [every_kind, one_round, every_kind])
    with pytest.raises(FedSVDError):
        session.run()
    assert not session.released


def test_no_message_goes_from_one_user_to_another_but_seeds_and_signatures():
    session = foreign(3)
    session.run()
    relayed = [m for origin, _, m in session.sent if isinstance(m, Relay) and origin == user(2)]
    assert len(relayed) == 2  # the digest of what it saw, and its signature


@pytest.mark.parametrize(
    ("undeclared", "found"),
    [
        (lambda share: Relay(share.plan, user(1), bytes(1000)), UnexpectedMessage),
        (lambda share: replace(share, name="rows"), UnexpectedMessage),
        (lambda share: replace(share, payload=np.tile(share.payload, 2)), ShapeError),
    ],
    ids=["a sealed message", "a sum", "more numbers"],
)
def test_an_honest_csp_passes_on_nothing_that_a_foreign_task_does_not_declare(undeclared, found):
    """Whatever the software of a user does: here it sends this in the place of its first share."""
    session, sent = foreign(3), []

    def meddle(origin, to, message):
        if isinstance(message, SumShare) and origin == user(2) and not sent:
            sent.append(undeclared(message))
            return sent
        return [message]

    with pytest.raises(FedSVDError):
        session.run(meddle=meddle)
    assert sent
    assert isinstance(session.machines[CSP].failure, found)
    assert not any(isinstance(message, SumReply) for _, _, message in session.sent)
    assert not session.released


def test_a_script_that_puts_a_record_where_a_total_belongs_is_not_noticed_and_this_is_stated():
    """The declaration says "the total of every feature"; one of two parties reads the other's first record."""

    def first_record(X_i):
        script = every_kind(X_i)
        asked = next(script)
        while True:
            try:
                total = yield asked if asked[0] != "sums" else ("sums", np.asarray(X_i)[:, 0])
                asked = script.send(total)
            except StopIteration as end:
                return end.value

    own, others = tables(2)
    found, _ = foreign(2, first_record).run()
    assert_close(found.outputs["total"] - own[0], others[0], RESULT_BAR)


def test_another_declaration_or_option_is_another_plan():
    plan = foreign(2).assemble().plan
    other = foreign(2)
    other.study = type(other.study)(other.study.task, foreign=ForeignStudy(EVERY_KIND, {"most": 5}))
    assert other.assemble().plan.digest != plan.digest
    assert plan.foreign.declaration == EVERY_KIND.digest


def test_a_foreign_task_without_its_module_says_so():
    session = foreign(2, [None, None])
    with pytest.raises(ConfigError, match="module"):
        session.run()
