"""What each role sees of a matching of records (docs/threat-model.md): no more than is stated there.

The CSP sees hashes without a key (``server``) or points without a factor (``ecdh``), and how the sets overlap. A party
learns which of its own records are common, and nothing of records it does not have; the row check of a study, by
itself, answers no question about members.
"""

from functools import cache

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.adversary.scores import uniform_bytes
from tests.tolerances import ACCEPTED

from fedsvd.errors import PeerAborted, RowsDiffer
from fedsvd.prepare.identifiers import hashed
from fedsvd.protocol.messages import CommonRows, IdHashes, KeyBook, KeyOffer, Relay, Relayed, RowIds
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Align, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.testing.federation import Federation

SIZES = (60, 70, 80)
SETS = {
    "all common": [[f"p{n}" for n in range(size)] for size in SIZES],
    "none common": [[f"{who} {n}" for n in range(size)] for who, size in enumerate(SIZES)],
    "some common": [[f"p{n + 30 * who}" for n in range(size)] for who, size in enumerate(SIZES)],
    "long ids": [["x" * 300 + str(n) for n in range(size)] for size in SIZES],
}


@cache
def recorded(name, align, seed=7):
    sets = SETS[name]
    run = Federation(
        [np.zeros((len(ids), 1)) for ids in sets],
        Task.MATCH,
        Split.VERTICAL,
        ids=sets,
        align=align,
        insecure_seed=bytes([seed]) * 32,
    )
    run.run()
    return run


def lengths(view, receiver):
    """Who sent what to this party, with every length; not one number of it."""
    return sorted(
        (
            who.name,
            type(said).__name__,
            [getattr(v, "shape", len(v) if isinstance(v, bytes) else None) for v in vars(said).values()],
        )
        for who, said in view.received[receiver]
    )


@pytest.mark.parametrize("name", SETS)
def test_lengths_of_all_that_the_csp_gets_in_a_matching_by_blinded_points_follow_from_the_plan(name):
    """Other ids, none or all of them common: the same messages of the same lengths, and sealed bytes of one law."""
    reference, other = recorded("all common", Align.ECDH), recorded(name, Align.ECDH, 8)
    assert lengths(reference.views, CSP) == lengths(other.views, CSP)
    assert other.views.kinds(CSP) <= {KeyOffer, Relay, IdHashes, type(other.views.received[CSP][-1][1])}
    sealed = b"".join(said.sealed[9:] for _, said in other.views.of(CSP, Relay))
    words = np.frombuffer(sealed[: len(sealed) // 8 * 8], np.uint64)
    assert uniform_bytes(words) > ACCEPTED


@pytest.mark.parametrize("name", SETS)
def test_of_blinded_points_the_csp_learns_sizes_and_overlaps_and_nothing_else_of_the_ids(name):
    """What it can compute is which points are equal, a function of sizes and overlaps; the rest is noise."""
    run = recorded(name, Align.ECDH)
    sets = [{row.tobytes() for row in said.hashed} for _, said in run.views.of(CSP, IdHashes)]
    truth = [set(ids) for ids in SETS[name]]
    assert sorted(map(len, sets)) == sorted(map(len, truth))
    by_size = sorted(sets, key=len)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert len(by_size[i] & by_size[j]) == len(truth[i] & truth[j])
    assert len(set.intersection(*sets)) == len(set.intersection(*truth))
    # A point is a number below 2^255 - 19: its 32nd byte has one bit less.
    distinct = np.frombuffer(b"".join(set.union(*sets)), np.uint8).reshape(-1, 32)[:, :24]
    assert uniform_bytes(np.ascontiguousarray(distinct).view("<u8")) > ACCEPTED


def test_points_of_one_set_come_to_the_csp_in_an_order_that_says_nothing_of_a_table():
    """The same ids in the same rows at two users: the points that are equal lie in other places in the two sets."""
    ids = [f"p{n}" for n in range(200)]
    run = Federation(
        [np.zeros((200, 1))] * 2, Task.MATCH, Split.VERTICAL, ids=[ids, ids], align=Align.ECDH, least_overlap=1
    )
    run.run()
    first, second = (list(map(bytes, said.hashed.view(np.uint8))) for _, said in run.views.of(CSP, IdHashes))
    places = np.array([second.index(row) for row in first])
    assert spearmanr(places, np.arange(200)).pvalue > ACCEPTED


@pytest.mark.parametrize("align", list(Align))
@pytest.mark.parametrize("name", SETS)
def test_the_csps_answers_to_a_matching_have_one_length_however_many_records_are_common(name, align):
    for party in (user(1), user(2), user(3)):
        (answer,) = [said for _, said in recorded(name, align).views.of(party, CommonRows)]
        assert answer.places.shape == (min(SIZES),)


def test_the_csp_sees_hashes_of_ids_in_an_order_that_says_nothing_of_a_table():
    run = recorded("some common", Align.SERVER)
    for _, said in run.views.of(CSP, IdHashes):
        words = said.hashed
        assert uniform_bytes(words) > ACCEPTED
        assert np.array_equal(np.lexsort(words.T), np.arange(len(words)))


def test_the_csp_has_no_key_to_try_an_id_with():
    """What it hears holds no seed under which the hash of a known id is among the hashes."""
    run = recorded("all common", Align.SERVER)
    heard = {row.tobytes() for _, said in run.views.of(CSP, IdHashes) for row in said.hashed}
    blobs = [value for _, said in run.views.received[CSP] for value in vars(said).values() if isinstance(value, bytes)]
    keys = {blob[start : start + 32] for blob in blobs for start in range(max(1, len(blob) - 31))}
    for key in (key for key in keys if len(key) == 32):
        for seed in (Seed(key), Seed(key).derive("checks")):
            assert hashed(np.array(["p0"]), seed).tobytes() not in heard


def test_the_csp_learns_how_sets_of_hashes_overlap_and_this_is_stated():
    run = recorded("some common", Align.SERVER)
    sets = [{row.tobytes() for row in said.hashed} for _, said in run.views.of(CSP, IdHashes)]
    truth = [set(ids) for ids in SETS["some common"]]
    by_size = sorted(sets, key=len)
    assert len(by_size[0] & by_size[1]) == len(truth[0] & truth[1])
    assert len(by_size[0] & by_size[2]) == len(truth[0] & truth[2])


@pytest.mark.parametrize("align", list(Align))
def test_what_a_party_holds_after_a_matching_is_which_of_its_own_records_are_common(align):
    run = recorded("some common", align)
    common = set.intersection(*map(set, SETS["some common"]))
    for party, ids in zip(run.plan.users, SETS["some common"], strict=True):
        result = run.results[party]
        assert {ids[place] for place in result.positions} == common
        assert set(vars(result)) == {"positions", "records"}


def test_records_of_others_that_are_not_common_change_nothing_that_the_csp_sends_a_party():
    """Records of others that are not common: other ids, the same answer."""
    first = recorded("some common", Align.SERVER)
    changed = [list(ids) for ids in SETS["some common"]]
    common = set.intersection(*map(set, changed))
    changed[1] = [id if id in common else f"other {id}" for id in changed[1]]
    second = Federation(
        [np.zeros((len(ids), 1)) for ids in changed],
        Task.MATCH,
        Split.VERTICAL,
        ids=changed,
        align=Align.SERVER,
        insecure_seed=bytes([7]) * 32,
    )
    second.run()
    for party in (user(1), user(3)):
        answers = [[said.places for _, said in run.views.of(party, CommonRows)] for run in (first, second)]
        assert all(np.array_equal(*pair) for pair in zip(*answers, strict=True))


def test_a_party_is_sent_sealed_messages_places_and_keys_alone():
    for align in Align:
        kinds = recorded("some common", align).views.kinds(user(2))
        assert {kind.__name__ for kind in kinds} <= {
            "Begin",
            "KeyBook",
            "Relayed",
            "CommonRows",
            "Countersigned",
        }


def test_a_matching_says_which_guessed_ids_are_real_and_this_is_stated():
    """A party that brings guesses to a matching learns which are real: that is stated, and why sets have a size."""
    real, guesses = [f"p{n}" for n in range(20)], ["p3", "no one", "p11"]
    run = Federation(
        [np.zeros((20, 1)), np.zeros((3, 1))],
        Task.MATCH,
        Split.VERTICAL,
        ids=[real, guesses],
        align=Align.ECDH,
        least_overlap=1,
    )
    found = run.run()[1]
    assert {guesses[place] for place in found.positions} == {"p3", "p11"}


def test_the_row_check_alone_answers_no_question_about_a_member():
    """One guessed id, in the other's table or not, or all but one of them: the same messages, end and texts."""
    rows, ends = 30, []
    ours = [f"patient-{row}" for row in range(rows)]
    others = [f"x{row}" for row in range(1, rows)]
    for guess in (["patient-5", *others], ["patient-99", *others], [*ours[:-1], "patient-99"]):
        rng = np.random.default_rng(1)
        run = Federation([rng.normal(size=(rows, 3))] * 2, Task.SVD, ids=[ours, guess], check_ids=True)
        with pytest.raises((RowsDiffer, PeerAborted)):
            run.run()
        assert [said.hashed.shape for _, said in run.views.of(CSP, RowIds)] == [(4,), (4,)]
        assert run.views.kinds(user(2)) <= {KeyBook, Relayed, type(run.views.received[user(2)][-1][1])}
        texts = [str(machine.failure) for machine in run.machines.values()]
        assert not any("patient" in text or "1" in text.replace("FSVD-415", "") for text in texts)
        ends.append((texts, lengths(run.views, user(1)), lengths(run.views, user(2)), lengths(run.views, CSP)))
    assert ends[0] == ends[1] == ends[2]


def test_outside_of_a_matching_no_message_carries_a_hash_of_a_single_id():
    rng = np.random.default_rng(1)
    ids = [f"patient-{row}" for row in range(12)]
    run = Federation([rng.normal(size=(12, 3))] * 2, Task.SVD, ids=[ids, ids], check_ids=True)
    run.run()
    kinds = {kind for party in (CSP, user(1), user(2)) for kind in run.views.kinds(party)}
    assert not kinds & {IdHashes, CommonRows}
