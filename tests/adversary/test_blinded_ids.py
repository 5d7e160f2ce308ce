"""A matching by blinded points, attacked by what a user can multiply and by what the CSP can answer (ADR 0051).

In 0.2.0 user 1 compared the sets. With a factor of its own for each of its ids it found, id by id, which party had
what, also below the least overlap. The CSP compares now: these tests do the same again with all that user 1 opens, show
that the method works on what the CSP sees, and try every answer that a CSP can give instead of the right one.
"""

import numpy as np
import pytest

from fedsvd.errors import FedSVDError
from fedsvd.linalg.common_rows import Common, common_rows
from fedsvd.prepare.blinding import POINT_BYTES, Blinding, multiplied
from fedsvd.protocol.keys import SessionKeys
from fedsvd.protocol.matching import answer_rows
from fedsvd.protocol.messages import IdHashes, Relayed
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Align, Split, Task
from fedsvd.roles.service_provider import matching as csp_matching
from fedsvd.roles.user import matching
from fedsvd.testing.federation import Federation

COMMON = [f"p{n}" for n in range(12)]
SETS = [
    [*COMMON, "only 2 has it", "only 3 has it", "no one has it"],
    [*COMMON, "only 2 has it", "b0", "b1", "b2"],
    [*COMMON, "only 3 has it", "c0", "c1", "c2", "c3"],
]
OWNERS = {"only 2 has it": {2}, "only 3 has it": {3}, "no one has it": set()} | {name: {2, 3} for name in COMMON}


def federation(sets=SETS, least=10):
    tables = [np.zeros((len(ids), 1)) for ids in sets]
    return Federation(tables, Task.MATCH, Split.VERTICAL, ids=sets, align=Align.ECDH, least_overlap=least)


def one_to_each(row):
    """A factor that user 1 takes for the id in this row of its hashes alone."""
    return bytes([row + 1]) * 32


class Eager:
    """A user 1 that blinds each of its ids by a factor of its own, and remembers all that it opens."""

    def __init__(self, monkeypatch, names):
        self.opened, self.ids, self._names = [], [], list(names)
        owners, start, opens, begin = {}, SessionKeys.__init__, SessionKeys.open, Blinding.begin
        hashes = matching.own_hashes

        def begun(keys, me, *rest):
            owners[id(keys)] = me
            start(keys, me, *rest)

        def opened(keys, origin, sealed):
            content = opens(keys, origin, sealed)
            if owners[id(keys)] == user(1):
                self.opened.append(content)
            return content

        def own(work):
            words, order = hashes(work)
            if work.i == 0:
                self.ids = [self._names[place] for place in order]
            return words, order

        def blinded(factor, points, each=map):
            if len(points) != len(self._names):
                return begin(factor, points, each)
            self.honest = factor
            rows = [multiplied(one_to_each(row) + point.tobytes()) for row, point in enumerate(points)]
            mixed = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, POINT_BYTES)
            return mixed, np.arange(len(mixed))

        monkeypatch.setattr(SessionKeys, "__init__", begun)
        monkeypatch.setattr(SessionKeys, "open", opened)
        monkeypatch.setattr(Blinding, "begin", blinded)
        monkeypatch.setattr(matching, "own_hashes", own)

    def sets(self):
        """Whatever it opened that can be read as points."""
        found = (content for content in self.opened if len(content) > POINT_BYTES and len(content) % POINT_BYTES == 0)
        return [np.frombuffer(content, np.uint8).reshape(-1, POINT_BYTES) for content in found]

    def found(self, sets):
        """Of each of its ids how many of these sets have it: f (a H) is a (f H), whatever the others multiplied."""
        by_us = [{row.tobytes() for row in self.honest.apply(each)} for each in sets]
        found = {}
        for row, name in enumerate(self.ids):
            theirs = [{multiplied(one_to_each(row) + point.tobytes()) for point in each} for each in sets]
            pairs = ((i, j) for i in range(len(sets)) for j in range(len(sets)) if i != j)
            found[name] = len({j for i, j in pairs if by_us[i] & theirs[j]})
        return found


def test_user_1_with_one_factor_to_each_id_finds_none_of_them_in_what_it_opens(monkeypatch):
    eager = Eager(monkeypatch, SETS[0])
    run = federation()
    with pytest.raises(FedSVDError, match="FSVD-212"):
        run.run()
    assert eager.sets()  # others' sets went through its hands
    assert set(eager.found(eager.sets()).values()) == {0}
    assert not run.released


def test_user_1_with_one_factor_to_each_guess_learns_of_no_guess_and_only_its_own_common_records(monkeypatch):
    """Enough records under its usual factor, a factor of its own for each guess: these are not common, and no more."""
    eager = Eager(monkeypatch, SETS[0])
    usual = Blinding.begin

    def some(factor, points, each=map):
        mixed, order = usual(factor, points, each)
        if len(points) == len(SETS[0]):
            mixed = mixed.copy()
            honest = np.array([name in COMMON for name in eager.ids])
            mixed[honest] = factor.apply(points[honest], each)
        return mixed, order

    monkeypatch.setattr(Blinding, "begin", some)
    found = federation().run()[0]
    assert {SETS[0][place] for place in found.positions} == set(COMMON)
    assert set(eager.found(eager.sets()).values()) == {0}


def test_the_csp_with_a_user_that_gives_each_id_its_own_factor_reads_who_has_it_and_this_is_stated(monkeypatch):
    """Outside of the model, and why it is stated: it also shows that the method above finds what there is to find."""
    eager = Eager(monkeypatch, SETS[0])
    run = federation()
    with pytest.raises(FedSVDError, match="FSVD-212"):
        run.run()
    sets = [np.ascontiguousarray(said.hashed).view(np.uint8) for _, said in run.views.of(CSP, IdHashes)]
    assert eager.found(sets) == {name: len(owners) for name, owners in OWNERS.items()}


def test_no_user_opens_its_own_set_again_nor_two_sets_that_all_have_blinded(monkeypatch):
    """So there is nothing to compare at a user, whatever it multiplies by."""
    opened, owners = {user(i): set() for i in (1, 2, 3)}, {}
    start, opens = SessionKeys.__init__, SessionKeys.open

    def begun(keys, me, *rest):
        owners[id(keys)] = me
        start(keys, me, *rest)

    def recorded(keys, origin, sealed):
        content = opens(keys, origin, sealed)
        opened.get(owners[id(keys)], set()).update(
            content[at : at + POINT_BYTES] for at in range(0, len(content), POINT_BYTES)
        )
        return content

    monkeypatch.setattr(SessionKeys, "__init__", begun)
    monkeypatch.setattr(SessionKeys, "open", recorded)
    run = federation()
    run.run()
    compared = [np.ascontiguousarray(said.hashed).view(np.uint8) for _, said in run.views.of(CSP, IdHashes)]
    assert len(compared) == len(opened) == sum(map(bool, opened.values()))
    for seen in opened.values():
        assert not any(row.tobytes() in seen for each in compared for row in each)


# --- A CSP that answers otherwise ------------------------------------------------------------------------------------
def answers(monkeypatch, change):
    """The CSP gives ``change(sets, positions)`` in place of the positions."""

    def lying(arrays):
        found = common_rows(arrays)
        places = change(arrays, [each.copy() for each in found.positions])
        return Common(tuple(places), found.sizes, found.pairwise)

    monkeypatch.setattr(csp_matching, "common_rows", lying)


def withheld_from_one(arrays, positions):
    return [positions[0][:-1], *positions[1:]]


def exchanged_at_one(arrays, positions):
    positions[1][[0, 1]] = positions[1][[1, 0]]
    return positions


def not_common(arrays, positions):
    spare = [np.setdiff1d(np.arange(len(rows)), own)[:1] for rows, own in zip(arrays, positions, strict=True)]
    return [np.append(own, more) for own, more in zip(positions, spare, strict=True)]


@pytest.mark.parametrize("change", [withheld_from_one, exchanged_at_one, not_common])
def test_a_csp_that_names_different_points_to_users_is_found_before_any_hears_of_its_own_records(monkeypatch, change):
    answers(monkeypatch, change)
    run = federation()
    with pytest.raises(FedSVDError, match="FSVD-419"):
        run.run()
    assert not run.released
    places = 8 * answer_rows(run.plan)
    sets = {POINT_BYTES * count for count in run.plan.counts}
    assert places not in sets
    lengths = {len(said.sealed) for party in run.plan.users for _, said in run.views.of(party, Relayed)}
    overhead = min(lengths & {size + more for size in sets for more in range(64)}) - min(sets)
    assert places + overhead not in lengths


def test_a_csp_that_withholds_a_common_record_from_all_is_not_noticed_and_this_is_stated(monkeypatch):
    answers(monkeypatch, lambda arrays, positions: [each[1:] for each in positions])
    for ids, found in zip(SETS, federation().run(), strict=True):
        named = {ids[place] for place in found.positions}
        assert named < set(COMMON)
        assert len(named) == len(COMMON) - 1


def test_a_csp_that_answers_below_the_least_overlap_is_refused_by_users_who_pass_nothing_on(monkeypatch):
    monkeypatch.setattr(csp_matching, "expect_overlap", lambda plan, common: None)
    run = federation(least=len(COMMON) + 1)
    with pytest.raises(FedSVDError, match="FSVD-212"):
        run.run()
    assert not run.released
    honest = federation(least=len(COMMON) + 1)
    monkeypatch.undo()
    with pytest.raises(FedSVDError, match="FSVD-212"):
        honest.run()
    for party in run.plan.users:
        assert len(run.views.of(party, Relayed)) == len(honest.views.of(party, Relayed))
