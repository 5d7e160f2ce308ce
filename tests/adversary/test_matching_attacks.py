"""Attacks on a matching of records, on the plans that the planner makes: a deviating CSP, a deviating user, guesses.

A CSP that drops, repeats, exchanges or replays what it relays is found, and nothing is released. What a user that
deviates learns is stated: whether ids that it brings are in the other sets. What ends a session early says no more.
"""

import numpy as np
import pytest

from fedsvd.errors import FedSVDError, PeerAborted, SplitView
from fedsvd.linalg.common_rows import Common, common_rows
from fedsvd.prepare.blinding import Blinding, points_of
from fedsvd.prepare.identifiers import hashed
from fedsvd.protocol.messages import CommonRows, IdHashes, Relayed
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Align, Split, Task
from fedsvd.roles.service_provider import matching as csp_matching
from fedsvd.roles.user import matching
from fedsvd.testing.federation import Federation

IDS = [f"p{n}" for n in range(24)]
SETS = [IDS[:20], IDS[2:24], IDS[1:21]]


def federation(sets=SETS, align=Align.ECDH, least=10, seed=7):
    tables = [np.zeros((len(ids), 1)) for ids in sets]
    asked = {"align": align, "least_overlap": least, "insecure_seed": bytes([seed]) * 32}
    return Federation(tables, Task.MATCH, Split.VERTICAL, ids=sets, **asked)


def sets_of(run, to):
    """The sealed sets and answers that were relayed to a user, in order; seeds and commitments are shorter."""
    return [said for _, said in run.views.of(to, Relayed) if len(said.sealed) > 150]


def ended(run, meddle):
    """The code with which a session ended; nothing was released."""
    with pytest.raises(FedSVDError) as caught:
        run.run(meddle=meddle)
    assert not run.released
    return caught.value.code


# --- A CSP that relays otherwise -------------------------------------------------------------------------------------
def test_a_set_that_is_dropped_ends_the_session():
    """The user that waits for it hears what comes next as that set, and it does not open."""
    dropped = []

    def meddle(origin, to, message):
        if isinstance(message, Relayed) and to == user(2) and len(message.sealed) > 150 and not dropped:
            dropped.append(message)
            return []
        return [message]

    assert ended(federation(), meddle) == "FSVD-416"


@pytest.mark.parametrize("of", [1, 2, 3])
def test_a_set_that_comes_twice_does_not_open_the_second_time(of):
    def meddle(origin, to, message):
        twice = isinstance(message, Relayed) and to == user(of) and len(message.sealed) > 150
        return [message, message] if twice else [message]

    assert ended(federation(), meddle) == "FSVD-416"


def test_two_sets_of_one_user_in_another_order_do_not_open():
    held = []

    def meddle(origin, to, message):
        if isinstance(message, Relayed) and to == user(1) and len(message.sealed) > 150 and len(held) < 2:
            held.append(message)
            return held[::-1] if len(held) == 2 else []
        return [message]

    same_size = [IDS[:20]] * 3  # two sets of the same user, of the same length
    assert ended(federation(same_size), meddle) == "FSVD-416"


def test_a_set_of_an_earlier_session_does_not_open():
    earlier = federation(seed=1)
    earlier.run()
    old = sets_of(earlier, user(3))[0]

    def meddle(origin, to, message):
        replayed = isinstance(message, Relayed) and to == user(3) and len(message.sealed) == len(old.sealed)
        return [Relayed(message.plan, message.origin, old.sealed)] if replayed else [message]

    assert ended(federation(seed=2), meddle) == "FSVD-416"


def test_a_set_that_is_said_to_be_another_users_does_not_open():
    """What user 2 sealed to user 3 reaches user 1 as user 3's."""
    taken = []

    def meddle(origin, to, message):
        if isinstance(message, Relayed) and len(message.sealed) > 150:
            if to == user(3) and message.origin == user(2):
                taken.append(message.sealed)
            if to == user(1) and message.origin == user(3) and taken:
                return [Relayed(message.plan, message.origin, taken[0])]
        return [message]

    assert ended(federation([IDS[:20]] * 3), meddle) == "FSVD-416"


def test_hashes_of_an_earlier_session_are_none_of_this_one():
    """The key is the session's: with another one no record is common, and the session ends with that."""
    earlier = federation(align=Align.SERVER, seed=1)
    earlier.run()
    old = {who: said.hashed for who, said in earlier.views.of(CSP, IdHashes)}

    def meddle(origin, to, message):
        if isinstance(message, IdHashes) and origin == user(2):
            return [IdHashes(message.plan, message.batch, old[user(2)])]
        return [message]

    assert ended(federation(align=Align.SERVER, seed=2), meddle) == "FSVD-212"


# --- A CSP that answers otherwise ------------------------------------------------------------------------------------
def test_one_that_withholds_a_common_record_from_all_is_not_noticed_and_names_no_other(monkeypatch):
    def withheld(arrays):
        found = common_rows(arrays)
        return Common(tuple(each[1:] for each in found.positions), found.sizes, found.pairwise)

    monkeypatch.setattr(csp_matching, "common_rows", withheld)
    common = set.intersection(*map(set, SETS))
    for ids, found in zip(SETS, federation(align=Align.SERVER).run(), strict=True):
        named = {ids[place] for place in found.positions}
        assert named < common
        assert len(named) == len(common) - 1


def test_one_that_names_a_record_that_is_not_common_is_found(monkeypatch):
    """For each user some other record in one place: their hashes differ, whatever it names."""

    def invented(arrays):
        found = common_rows(arrays)
        more = [np.setdiff1d(np.arange(len(rows)), own)[:1] for rows, own in zip(arrays, found.positions, strict=True)]
        pairs = zip(found.positions, more, strict=True)
        return Common(tuple(np.append(own, new) for own, new in pairs), found.sizes, found.pairwise)

    monkeypatch.setattr(csp_matching, "common_rows", invented)
    run = federation(align=Align.SERVER)
    with pytest.raises((SplitView, PeerAborted), match="FSVD-419"):
        run.run()
    assert not run.released


# --- Guesses ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("guesser", [1, 2, 3])
@pytest.mark.parametrize("align", list(Align))
def test_a_few_guesses_among_made_up_ids_get_no_answer_whether_they_are_right_or_wrong(align, guesser):
    """Fewer than the least overlap: the guesser, whichever user it is, hears the same and holds nothing."""
    heard = []
    for guess in ("p5", "no one"):
        sets = [IDS[:20], [*IDS[:5], *(f"q{n}" for n in range(15))]]
        sets.insert(guesser - 1, [guess, *(f"made up {n}" for n in range(19))])
        run = federation(sets, align)
        with pytest.raises(FedSVDError, match="FSVD-212"):
            run.run()
        assert not run.released
        assert not run.views.of(user(guesser), CommonRows)
        received = run.views.received[user(guesser)]
        heard.append([(type(said).__name__, len(getattr(said, "sealed", b""))) for _, said in received])
    assert heard[0] == heard[1]


def test_guesses_next_to_enough_common_records_are_answered_and_this_is_stated():
    known, guesses = IDS[:12], ["p15", "no one"]
    run = federation([IDS[:20], [*known, *guesses]])
    found = run.run()[1]
    assert {[*known, *guesses][place] for place in found.positions} == {*known, "p15"}


@pytest.mark.parametrize("align", list(Align))
def test_no_user_sees_an_overlap_of_two_sets(align):
    run = federation(align=align)
    run.run()
    for party in run.plan.users:
        assert set(vars(run.results[party])) == {"positions", "records"}


# --- A user that deviates --------------------------------------------------------------------------------------------
def test_the_same_point_twice_in_its_own_set_is_found(monkeypatch):
    honest = matching.points_of

    def twice(hashes, each=map):
        points = honest(hashes, each)
        if len(points) == 22:  # user 2
            points = points.copy()
            points[3] = points[4]
        return points

    monkeypatch.setattr(matching, "points_of", twice)
    assert ended(federation(), None) == "FSVD-209"


def test_the_same_point_twice_in_a_set_that_it_passes_on_is_found(monkeypatch):
    honest = Blinding.apply

    def twice(self, points, each=map):
        made = honest(self, points, each)
        if len(points) == 20 and not seen:
            seen.append(True)
            made = made.copy()
            made[0] = made[1]
        return made

    seen = []
    monkeypatch.setattr(Blinding, "apply", twice)
    assert ended(federation([IDS[:20], IDS[2:24], IDS[1:22]]), None) == "FSVD-209"


def test_one_that_puts_an_id_of_its_own_into_a_set_it_passes_on_is_found_when_digests_are_compared(monkeypatch):
    """User 1's first point becomes that of p23, which users 2 and 3 have: user 1 is given a record in its place."""
    sets = [IDS[:20], [*IDS[:18], "p23"], [*IDS[:19], "p23", "x"]]
    honest = matching.shuffled
    factors = []
    start = Blinding.__init__
    monkeypatch.setattr(Blinding, "__init__", lambda self, seed: factors.append(self) or start(self, seed))

    def substituted(points, seed):
        if len(points) == 20:  # the set of user 1, with all factors on it; its last user shuffles it
            point = points_of(hashed(np.array(["p23"]), keys[0]))
            for factor in factors:
                point = factor.apply(point)
            points = points.copy()
            points[0] = point[0]
        return honest(points, seed)

    keys = []
    own = matching.own_hashes
    monkeypatch.setattr(matching, "own_hashes", lambda work: keys.append(work.checks) or own(work))
    monkeypatch.setattr(matching, "shuffled", substituted)
    assert ended(federation(sets), None) == "FSVD-419"


@pytest.mark.parametrize("word", [b"\x00" * 32, (1).to_bytes(32, "little")])
def test_a_point_of_low_order_is_refused(monkeypatch, word):
    """It becomes zero under every factor, and would show whose record is in which place."""
    honest = matching.points_of

    def low(hashes, each=map):
        points = honest(hashes, each).copy()
        points[0] = np.frombuffer(word, np.uint8)
        return points

    monkeypatch.setattr(matching, "points_of", low)
    assert ended(federation(), None) == "FSVD-416"
