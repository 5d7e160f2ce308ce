"""Record matching (specification, section 9): Python sets decide what is common; a CSP or a user that lies is found."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.cost.estimate import predict
from fedsvd.engine.simulate import Simulation
from fedsvd.errors import (
    AnswerRefused,
    ConfigError,
    LocalProtocolError,
    NotSealed,
    PeerAborted,
    RepeatedIds,
    RepeatedShare,
    SplitView,
    TooFewCommon,
    UnexpectedMessage,
)
from fedsvd.protocol.matching import EMPTY, answer_rows, exchanges, padded_answer, positions_in, sealed_parts
from fedsvd.protocol.messages import CommonRows, IdHashes, Relay, Relayed
from fedsvd.protocol.parties import ALL, CSP, user
from fedsvd.protocol.relayed import SEAL_BYTES
from fedsvd.protocol.tasks import Align, Split, Task
from fedsvd.roles.user import matching
from fedsvd.testing.federation import Federation, shuffled
from fedsvd.transport.loopback import Hub


def federation(sets, align, **asked):
    tables = [np.zeros((len(ids), 1)) for ids in sets]
    asked = {"least_overlap": 1, **asked}
    return Federation(tables, Task.MATCH, Split.VERTICAL, ids=list(map(list, sets)), align=align, **asked)


def some_sets(k, rng, size=30, of=40):
    return [[f"id {number}" for number in rng.permutation(of)[: size + who]] for who in range(k)]


def named(sets, results):
    """The ids that every party's positions name."""
    return [[ids[place] for place in result.positions] for ids, result in zip(sets, results, strict=True)]


SETS = st.integers(2, 5).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 12).map(str), unique=True, min_size=1), min_size=k, max_size=k)
)


class TestTheAnswer:
    @pytest.mark.parametrize("align", list(Align))
    @given(sets=SETS)
    @settings(max_examples=25, deadline=None)
    def test_common_records_are_those_of_python_sets_in_one_order(self, align, sets):
        found = named(sets, federation(sets, align, least_overlap=0).run())
        assert set(found[0]) == set.intersection(*map(set, sets))
        assert len(found[0]) == len(set(found[0]))
        assert all(order == found[0] for order in found)

    @pytest.mark.parametrize("align", list(Align))
    @pytest.mark.parametrize("k", [2, 3, 4, 5])
    @pytest.mark.parametrize("memory", [None, 512])
    def test_any_number_of_parties_and_of_messages_gives_the_same(self, align, k, memory):
        sets = some_sets(k, np.random.default_rng(k))
        run = federation(sets, align, memory=memory)
        found = named(sets, run.run(shuffled(k)))
        assert set(found[0]) == set.intersection(*map(set, sets))
        assert all(order == found[0] for order in found)
        assert run.certificate.bytes_by_link == predict(run.plan).bytes_by_link
        assert run.certificate.messages_by_link == predict(run.plan).messages_by_link

    def test_the_order_is_neither_that_of_a_table_nor_of_the_ids(self):
        ids = [f"{number:03d}" for number in range(100)]
        for align in Align:
            (first, _) = federation([ids, ids[::-1]], align).run()
            assert first.positions.tolist() != list(range(100))
            assert np.array_equal(np.sort(first.positions), np.arange(100))

    def test_the_order_of_one_session_says_nothing_of_another(self):
        ids = [f"{number:03d}" for number in range(50)]
        orders = []
        for seed in (b"\x01", b"\x02"):
            run = federation([ids, ids], Align.SERVER, insecure_seed=seed * 32)
            orders.append(run.run()[0].positions.tolist())
        assert orders[0] != orders[1]

    def test_all_users_sign_what_they_agree_on(self):
        run = federation(some_sets(3, np.random.default_rng(1)), Align.ECDH)
        run.run()
        bodies = {machine.agreement.body for party, machine in run.machines.items() if party != CSP}
        assert len(bodies) == 1
        (body,) = bodies
        assert body.count(b"match") == 1
        assert len(run.machines[user(1)].agreement.signatures) == 4

    def test_positions_with_an_empty_place_before_them_name_no_record(self):
        run = federation([["a", "b", "c"], ["a", "b", "c"]], Align.SERVER)
        run.run()
        answer = padded_answer(run.plan, np.array([2, 0]))
        assert positions_in(answer).tolist() == [2, 0]
        answer[0], answer[2] = EMPTY, 0
        assert positions_in(answer).tolist() == [-1, 0]


def sealed_like(length):
    """Bytes as long as a sealed message of this content."""
    return bytes(SEAL_BYTES + length)


class TestRefusals:
    @pytest.mark.parametrize("align", list(Align))
    def test_too_small_an_overlap_ends_it_without_its_size(self, align):
        sets = [["a", "b", "c", "x"], ["a", "b", "c", "y"]]
        run = federation(sets, align, least_overlap=4)
        with pytest.raises((TooFewCommon, PeerAborted)) as caught:
            run.run()
        assert "FSVD-212" in str(caught.value)
        assert "3" not in str(caught.value)
        assert not run.released
        assert not run.views.of(user(2), CommonRows)
        federation(sets, align, least_overlap=3).run()

    @pytest.mark.parametrize("align", list(Align))
    def test_a_repeated_id_is_refused_at_home(self, align):
        with pytest.raises(RepeatedIds) as caught:
            federation([["a", "b", "a"], ["a"]], align).run()
        assert "1 of party 1's 3" in str(caught.value)

    @pytest.mark.parametrize("align", list(Align))
    def test_a_party_that_sends_an_id_twice_all_the_same_is_found(self, align, monkeypatch):
        def twice(work):
            words, order = honest(work)
            words[1] = words[0]
            return words, order

        honest = matching.own_hashes
        monkeypatch.setattr(matching, "own_hashes", twice)
        with pytest.raises((RepeatedIds, PeerAborted), match="FSVD-209"):
            federation([["a", "b", "c"], ["a", "b", "c"]], align).run()

    def test_a_set_of_another_size_than_the_plan_says_is_refused(self):
        sets = [["a", "b", "c"], ["a", "b", "c"]]

        def longer(origin, to, message):
            if isinstance(message, IdHashes) and origin == user(1):
                return [type(message)(message.plan, message.batch, np.vstack((message.hashed, message.hashed[:1] + 1)))]
            return [message]

        with pytest.raises((UnexpectedMessage, PeerAborted), match="FSVD-411"):
            federation(sets, Align.SERVER).run(meddle=longer)

    def test_a_batch_twice_is_refused(self):
        machine = federation([["a"], ["a"]], Align.SERVER).assemble().machines[0]
        machine.state = machine.STATES.PREPARING
        batch = IdHashes(machine.plan.digest, 0, np.zeros((1, 2), np.uint64))
        machine.receive(user(1), Relay(machine.plan.digest, user(2), sealed_like(64)))  # seeds
        machine.receive(user(1), Relay(machine.plan.digest, ALL, sealed_like(8 + 32)))  # the commitment
        assert machine.receive(user(1), batch) == ()
        (abort,) = machine.receive(user(1), batch)
        assert isinstance(abort.error, RepeatedShare)

    @pytest.mark.parametrize(("align", "words"), [(Align.SERVER, 4), (Align.ECDH, 2)])
    def test_hashes_where_the_plan_matches_by_points_are_refused_and_points_where_it_does_by_hashes(self, align, words):
        run = federation([["a"], ["a"]], align)
        machine = run.assemble().machines[0]
        machine.state = machine.STATES.PREPARING
        (abort,) = machine.receive(user(1), IdHashes(machine.plan.digest, 0, np.zeros((1, words), np.uint64)))
        assert isinstance(abort.error, UnexpectedMessage)

    def test_sets_of_ids_where_the_plan_matches_none_are_refused(self):
        machine = Federation([np.ones((2, 2))] * 2).assemble().machines[0]
        machine.state = machine.STATES.PREPARING
        (abort,) = machine.receive(user(1), IdHashes(machine.plan.digest, 0, np.zeros((2, 2), np.uint64)))
        assert isinstance(abort.error, UnexpectedMessage)

    def test_a_matching_needs_a_way_split_columns_and_ids(self):
        with pytest.raises(ConfigError, match="without a way"):
            Federation([np.zeros((2, 1))] * 2, Task.MATCH, ids=[["a", "b"]] * 2).assemble()
        with pytest.raises(ConfigError, match="columns are split"):
            Federation([np.zeros((2, 1))] * 2, Task.SVD, Split.HORIZONTAL, align=Align.SERVER).assemble()
        with pytest.raises(ConfigError, match="no row ids"):
            Federation([np.zeros((2, 1))] * 2, Task.MATCH, align=Align.SERVER).assemble()


def answered(change):
    """A CSP that changes the places it sends to user 1."""

    def meddle(origin, to, message):
        if isinstance(message, CommonRows) and to == user(1):
            places = message.places.copy()
            change(places)
            return [CommonRows(message.plan, message.batch, places)]
        return [message]

    return meddle


def _twice(places):
    places[1] = places[0]


def _outside(places):
    places[0] = 3


def _negative(places):
    places[0] = 2**64 - 2


def _another(places):
    places[0], places[1] = places[1], places[0]


def _fewer(places):
    places[-1] = EMPTY


class TestALyingCSP:
    SETS = (["a", "b", "c"], ["c", "b", "a"])

    @pytest.mark.parametrize("change", [_twice, _outside, _negative])
    def test_places_twice_or_outside_of_the_table_are_refused(self, change):
        run = federation(self.SETS, Align.SERVER)
        with pytest.raises((AnswerRefused, PeerAborted), match="FSVD-418"):
            run.run(meddle=answered(change))
        assert not run.released

    @pytest.mark.parametrize("change", [_another, _fewer])
    def test_other_records_in_the_same_places_are_found_when_users_compare_what_they_saw(self, change):
        run = federation(self.SETS, Align.SERVER)
        with pytest.raises((SplitView, PeerAborted), match="FSVD-419"):
            run.run(meddle=answered(change))
        assert not run.released

    def test_a_sealed_set_that_was_changed_does_not_open(self):
        def changed(origin, to, message):
            # The seeds, a commitment of every user, then sets.
            if isinstance(message, Relayed) and to == user(1) and len(message.sealed) > 100:
                return [Relayed(message.plan, message.origin, message.sealed[:-1] + b"\x00")]
            return [message]

        with pytest.raises((NotSealed, PeerAborted), match="FSVD-416"):
            federation([[str(n) for n in range(9)]] * 2, Align.ECDH).run(meddle=changed)

    def test_more_sealed_messages_than_the_plan_has_are_not_relayed(self):
        run = federation([["a"], ["a"]], Align.ECDH)
        machine = run.assemble().machines[0]
        machine.state = machine.STATES.PREPARING
        machine.receive(user(1), Relay(machine.plan.digest, user(2), sealed_like(64)))
        assert machine.failure is None
        machine.receive(user(1), Relay(machine.plan.digest, user(2), sealed_like(64)))  # the seeds a second time
        assert isinstance(machine.failure, UnexpectedMessage)


class TestALyingUser:
    def test_one_that_passes_other_places_on_to_the_owner_of_a_set_is_found(self, monkeypatch):
        """The set of user 2 has 7 records, and its last user turns the places around before it passes them on."""
        honest, times = matching.unshuffled, []

        def turned(positions, order):
            found = honest(positions, order)
            times.extend([True] * (len(order) == 7))
            return found[::-1] if len(order) == 7 and len(times) == 1 else found

        monkeypatch.setattr(matching, "unshuffled", turned)
        ids = [str(n) for n in range(6)]
        run = federation([ids, [*ids, "6"], ids], Align.ECDH)
        with pytest.raises((SplitView, PeerAborted), match="FSVD-419"):
            run.run()
        assert len(times) == 2
        assert not run.released

    def test_a_set_of_another_length_is_refused(self, monkeypatch):
        honest = matching.points_of

        def short(hashes, each=map):
            points = honest(hashes, each)
            return points[:-1] if len(points) == 4 else points

        monkeypatch.setattr(matching, "points_of", short)
        # Its own software does not send it: the plan has another length there.
        with pytest.raises(LocalProtocolError, match="FSVD-401"):
            federation([["a", "b", "c", "d"], ["a", "b", "c"]], Align.ECDH).run()


def test_every_set_goes_once_through_every_user_and_each_length_follows_from_the_plan():
    run = federation(some_sets(4, np.random.default_rng(2)), Align.ECDH)
    run.run()
    plan = run.plan
    sets = [(origin, to, size) for origin, to, size in exchanges(plan) if size != 8 * answer_rows(plan)]
    for j, count in enumerate(plan.counts):
        through = [origin for origin, _, size in sets if size == 32 * count]
        assert sorted(through) == sorted({j, *through})
        assert len(through) >= plan.k - 1
    assert sealed_parts(plan) == max(sum(origin == i for origin, _, _ in exchanges(plan)) for i in range(plan.k))


def test_users_that_are_quicker_than_the_dealer_of_the_seed_are_heard_later():
    """User 3 gets a commitment of user 2 before the seed it is sealed under."""
    session = federation(some_sets(3, np.random.default_rng(3)), Align.ECDH).assemble()
    run = Simulation(session.machines, Hub(shuffled(11)), deferred=True).run()
    assert len(run.results) == 4
