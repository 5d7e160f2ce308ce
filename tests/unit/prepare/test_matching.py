"""Record matching: Python sets decide which records are common; by keyed hashes and by commutative blinding."""

import time

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedsvd.data.open import open_source
from fedsvd.errors import AnswerRefused, NotSealed, RepeatedIds, ShapeError
from fedsvd.linalg.common_rows import common_rows
from fedsvd.prepare.blinding import Blinding, points_of, shuffled, unshuffled
from fedsvd.prepare.identifiers import IdRule, hashed, record_ids
from fedsvd.prepare.matching import MatchReport, checked_positions
from fedsvd.randomness.seed import Seed

KEY = Seed(bytes(range(32)))
P = 2**255 - 19


def matched(sets):
    return common_rows([hashed(np.array(ids, dtype=np.str_), KEY) for ids in sets])


def blinded_ring(sets, each=map):
    """The whole exchange of ``blinding.py``, as the parties would play it."""
    k = len(sets)
    factors = [Blinding(Seed(bytes([i + 1]) * 32)) for i in range(k)]
    lists, own_orders, last_orders = [], [], []
    for j, ids in enumerate(sets):
        points, order = factors[j].begin(points_of(hashed(np.array(ids, dtype=np.str_), KEY), each), each)
        for step in range(1, k):
            points = factors[(j + step) % k].apply(points, each)
        points, last = shuffled(points, Seed(bytes([99, j]) * 16))
        lists.append(points)
        own_orders.append(order)
        last_orders.append(last)
    found = common_rows(lists)
    positions = [unshuffled(unshuffled(found.positions[j], last_orders[j]), own_orders[j]) for j in range(k)]
    return found, positions


def expect_exact(sets, positions):
    """Every party has the records of the intersection, in one order."""
    common = set.intersection(*map(set, sets))
    orders = [[ids[place] for place in places.tolist()] for ids, places in zip(sets, positions, strict=True)]
    assert set(orders[0]) == common
    assert len(orders[0]) == len(common)
    assert all(order == orders[0] for order in orders)


ID_SETS = st.lists(st.lists(st.integers(0, 30).map(str), unique=True, min_size=1), min_size=2, max_size=4)


class TestByHashes:
    @given(sets=ID_SETS)
    @settings(deadline=None, max_examples=100)
    def test_common_records_are_those_of_python_sets_in_one_order(self, sets):
        found = matched(sets)
        expect_exact(sets, found.positions)
        assert found.sizes == tuple(map(len, sets))
        assert_array_equal(found.pairwise, [[len(set(a) & set(b)) for b in sets] for a in sets])

    def test_the_order_is_that_of_the_hashes_and_not_of_any_table(self):
        ids = [str(i) for i in range(200)]
        (places, _) = matched([ids, ids]).positions
        digests = hashed(np.array(ids), KEY)
        assert [digests[i].tobytes() for i in places] == sorted(row.tobytes() for row in digests)
        assert places.tolist() != list(range(200))

    def test_a_record_twice_is_refused(self):
        with pytest.raises(RepeatedIds):
            matched([["a", "b", "a"], ["a"]])

    def test_arrays_that_cannot_be_compared_are_refused(self):
        with pytest.raises(ShapeError):
            common_rows([np.zeros((2, 16), np.uint8)])
        with pytest.raises(ShapeError):
            common_rows([np.zeros((2, 16), np.uint8), np.zeros((2, 8), np.uint8)])

    def test_tables_with_other_spellings_and_duplicates_left_out_align_as_pandas_merges_them(self):
        rng = np.random.default_rng(3)
        a = pd.DataFrame({"pid": [f"P{i:03d} " for i in rng.permutation(80)], "x": rng.normal(size=80)})
        b = pd.DataFrame({"patient": [f" p{i:03d}" for i in rng.permutation(100)[:70]], "y": rng.normal(size=70)})
        sources = [open_source(a, drop=["pid"]), open_source(b, drop=["patient"])]
        ids = [record_ids(open_source(a), ["pid"], IdRule()), record_ids(open_source(b), ["patient"], IdRule())]
        found = common_rows([hashed(each, KEY) for each in ids])
        both = [
            source.reordered(checked_positions(places, source.shape[0]))
            for source, places in zip(sources, found.positions, strict=True)
        ]
        expected = a.assign(key=a["pid"].str.strip().str.lower()).merge(
            b.assign(key=b["patient"].str.strip().str.lower()), on="key"
        )
        rows = np.hstack([table.rows(0, found.count) for table in both])
        assert found.count == len(expected)
        assert_array_equal(rows[np.argsort(rows[:, 0])], expected.sort_values("x")[["x", "y"]].to_numpy())

    @pytest.mark.slow
    def test_a_million_records_of_three_parties_take_less_than_a_minute(self):
        rng = np.random.default_rng(1)
        numbers = [rng.permutation(1_200_000)[:1_000_000] for _ in range(3)]
        began = time.perf_counter()
        found = common_rows([hashed(each.astype(np.str_), KEY) for each in numbers])
        assert time.perf_counter() - began < 60
        expected = np.intersect1d(np.intersect1d(numbers[0], numbers[1]), numbers[2])
        for each, places in zip(numbers, found.positions, strict=True):
            assert_array_equal(np.sort(each[places]), expected)
            assert_array_equal(each[places], numbers[0][found.positions[0]])


class TestByBlinding:
    @given(sets=ID_SETS)
    @settings(deadline=None, max_examples=15)
    def test_common_records_are_those_of_python_sets_in_one_order(self, sets):
        _, positions = blinded_ring(sets)
        expect_exact(sets, positions)

    def test_factors_commute_and_are_x25519(self):
        a, b = Blinding(Seed(b"a" * 32)), Blinding(Seed(b"b" * 32))
        points = points_of(hashed(np.array(["1", "2", "3"]), KEY))
        assert_array_equal(a.apply(b.apply(points)), b.apply(a.apply(points)))
        secret = X25519PrivateKey.from_private_bytes(Seed(b"a" * 32).derive("blinding factor").reveal())
        expected = [secret.exchange(X25519PublicKey.from_public_bytes(row.tobytes())) for row in points]
        assert [row.tobytes() for row in a.apply(points)] == expected

    def test_points_are_on_the_curve_and_blinded_ones_too_so_that_no_bit_of_an_id_survives(self):
        points = points_of(hashed(np.array([str(i) for i in range(64)]), KEY))
        for rows in (points, Blinding(Seed(b"a" * 32)).apply(points)):
            for row in rows:
                u = int.from_bytes(row.tobytes(), "little")
                assert pow(u**3 + 486662 * u**2 + u, (P - 1) // 2, P) == 1

    def test_a_party_finds_none_of_its_records_in_what_it_compares(self):
        ids = [str(i) for i in range(50)]
        lists, _ = blinded_ring([ids, ids])
        factor = Blinding(Seed(bytes([1]) * 32))
        own = factor.apply(points_of(hashed(np.array(ids), KEY)))
        assert lists.count == 50
        # Not blinded by all parties, one's own points equal none of the lists.
        other = Blinding(Seed(bytes([2]) * 32)).apply(own)
        assert not {row.tobytes() for row in own} & {row.tobytes() for row in other}

    def test_a_point_of_low_order_is_refused(self):
        with pytest.raises(NotSealed, match="no point of the curve"):
            Blinding(Seed(b"a" * 32)).apply(np.zeros((1, 32), np.uint8))
        with pytest.raises(ShapeError):
            Blinding(Seed(b"a" * 32)).apply(np.zeros((1, 16), np.uint8))

    def test_a_factor_does_not_show(self):
        factor = Blinding(Seed(b"a" * 32))
        assert repr(factor) == "Blinding(<redacted>)"
        with pytest.raises(TypeError):
            factor.__reduce__()


class TestAtAParty:
    def test_positions_that_no_honest_csp_sends_are_refused(self):
        for wrong in ([3], [-1], [1, 1], [[0]]):
            with pytest.raises(AnswerRefused):
                checked_positions(np.array(wrong, np.int64), 3)
        assert checked_positions(np.array([2, 0], np.int64), 3).tolist() == [2, 0]
        assert not checked_positions(np.zeros(0, np.int64), 3).size

    def test_the_report_adds_up(self):
        report = MatchReport(records=100, without_link=10, matched=70)
        assert report.elsewhere_unknown == 20
        assert str(report) == (
            "70 of 100 records are common to all parties; 10 are not in the linkage map; "
            "20 are unknown to another party"
        )


@pytest.mark.slow
def test_blinding_a_hundred_thousand_records_of_two_parties_takes_less_than_a_minute_on_two_cores():
    rng = np.random.default_rng(1)
    sets = [rng.permutation(6000)[:5000].astype(np.str_).tolist() for _ in range(2)]
    began = time.process_time()
    _, positions = blinded_ring(sets)
    # Time grows with the number of records, and parts are independent: 20 times as many, shared by two cores.
    assert (time.process_time() - began) * 20 / 2 < 60
    expect_exact(sets, positions)
