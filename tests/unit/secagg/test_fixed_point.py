"""The laws of the encoding, against exact fractions; and overflow is always an error, never a clip."""

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import digits_lost

from fedsvd.errors import ConfigError, FixedPointOverflow, ShapeError
from fedsvd.secagg.batches import CHUNK
from fedsvd.secagg.fixed_point import bound, decode, encode, exponent

BOUNDS = st.floats(1e-300, 1e300)
UNITS = st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=20)


def power(f):
    return Fraction(2) ** f


@pytest.mark.parametrize(
    ("B", "f"),
    [
        (0.0, 0),
        (1.0, 62),
        (2.0, 61),
        (0.5, 63),
        (3.0, 60),
        (4.0, 60),
        (math.nextafter(4.0, 5.0), 59),
        (math.nextafter(4.0, 3.0), 60),
        (2.0**62, 0),
        (2.0**63, -1),
        (5e-324, 62 + 1074),
        (1.7e308, 62 - 1024),
    ],
)
def test_the_exponent_is_62_less_the_bounds_own_rounded_up(B, f):
    assert exponent(B) == f


@settings(deadline=None)
@given(B=st.floats(5e-324, 1e300), terms=st.integers(1, 1000))
def test_the_exponent_uses_all_of_the_range_and_no_more(B, terms):
    f = exponent(B, terms)
    total = Fraction(B * terms)
    assert power(f) * total <= 2**62 < power(f + 1) * total


@pytest.mark.parametrize(
    ("c", "F", "w_m", "w_n", "B"),
    [
        (1.5, 2.0, 1, 1, 3.0),
        (1.5, 2.0, 64, 64, 3.0),
        (1.0, 2.0, 128, 128, 1.0),
        (1.0, 10.0, 4096, 1024, 0.3125),
        (1.25, 0.0, 7, 9, 0.0),
    ],
)
def test_the_bound_is_c_F_less_what_wide_masks_spread(c, F, w_m, w_n, B):
    assert bound(c, F, w_m, w_n) == pytest.approx(B, rel=digits_lost(1))


@pytest.mark.parametrize("arguments", [(1.0, -1.0, 1, 1), (0.0, 1.0, 1, 1), (1.0, math.nan, 1, 1), (1.0, 1.0, 0, 1)])
def test_a_bound_of_nonsense_is_refused(arguments):
    with pytest.raises(ConfigError):
        bound(*arguments)


@pytest.mark.parametrize("B", [-1.0, math.nan])
def test_an_exponent_of_nonsense_is_refused(B):
    with pytest.raises(ConfigError):
        exponent(B)


@pytest.mark.parametrize("arguments", [(math.inf,), (1e308, 50)])
def test_a_bound_that_is_not_finite_is_an_overflow(arguments):
    with pytest.raises(FixedPointOverflow):
        exponent(*arguments)


@settings(deadline=None)
@given(B=BOUNDS, units=UNITS)
def test_decoding_an_encoding_gives_the_number_within_half_a_unit(B, units):
    a = B * np.array(units)
    f = exponent(B)
    back = decode(encode(a, f), f)
    for before, after in zip(a, back, strict=True):
        error = abs(Fraction(float(after)) - Fraction(float(before)))
        assert error <= power(-f - 1)
        if abs(before) >= power(52 - f):
            assert error == 0


@settings(deadline=None)
@given(B=BOUNDS, units=UNITS)
def test_an_encoding_is_the_nearest_integer_modulo_2_to_the_64(B, units):
    a = B * np.array(units)
    f = exponent(B)
    assert [int(word) for word in encode(a, f)] == [round(Fraction(float(x)) * power(f)) % 2**64 for x in a]


@settings(deadline=None)
@given(B=BOUNDS, units=st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=50), order=st.randoms())
def test_sums_of_encodings_are_exact_in_any_order(B, units, order):
    k = len(units)
    a = B * np.array(units)
    f = exponent(B, terms=k)
    codes = list(encode(a, f, terms=k))
    forward = np.add.reduce(np.array(codes))
    order.shuffle(codes)
    assert np.add.reduce(np.array(codes)) == forward
    total = sum(Fraction(float(x)) for x in a)
    ours = Fraction(float(decode(np.array([forward]), f)[0]))
    assert abs(ours - total) <= k * power(-f - 1) + abs(ours) * power(-53)


def test_fifty_users_at_the_bound_each_do_not_wrap_when_their_number_is_given():
    B, k = 3.7, 50
    f = exponent(B, terms=k)
    share = encode(np.array([B, -B]), f, terms=k)
    np.testing.assert_allclose(decode(np.uint64(k) * share, f), [k * B, -k * B], rtol=digits_lost(1))
    with pytest.raises(FixedPointOverflow):
        encode(np.array([2.1 * B]), f, terms=k)


@pytest.mark.parametrize("k", [2, 5, 50, 400])
def test_fifty_users_of_one_norm_reach_the_bound_together_and_do_not_pass_it(k):
    # The worst case of Cauchy and Schwarz: one row, one column each, equal norms, and a column of Q along them.
    c, F = 1.9, 1.0
    shares = np.full(k, c * (F / math.sqrt(k)) * (1 / math.sqrt(k)))
    B = bound(c, F, 1, 1)
    f = exponent(B)
    total = np.add.reduce(encode(shares, f))
    assert decode(np.array([total]), f)[0] == pytest.approx(B, rel=digits_lost(2))
    assert Fraction(int(total)) <= 2**62 + k


def test_a_bound_met_exactly_survives_the_rounding_of_the_product():
    f = exponent(bound(1.0, 1.0, 1, 1))
    codes = encode(np.array([1.0, -1.0, 1.0 + 1e-12]), f)
    np.testing.assert_allclose(decode(codes, f), [1.0, -1.0, 1.0], rtol=digits_lost(5))


def test_masked_entries_of_the_peakiest_matrix_have_the_tail_the_bound_relies_on():
    # Rank one is the worst case; entries are products of two coordinates of random unit vectors.
    rng = np.random.default_rng(64)
    p, q = rng.normal(size=(2, 200_000, 8))
    entry = np.abs(8 * p[:, 0] * q[:, 0] / np.linalg.norm(p, axis=1) / np.linalg.norm(q, axis=1))
    for u in (0.25, 0.5, 0.75):
        assert np.mean(np.exp(u * entry)) <= 2 / math.sqrt(1 - u * u)
    # And the chances stated in the module, from that inequality at the best u.
    for limit, chance in ((64, 1e-26), (128, 1e-54), (192, 1e-80)):
        u = 1 - 1 / (2 * limit)
        assert 2 / math.sqrt(1 - u * u) * math.exp(-u * limit) < chance


@settings(deadline=None)
@given(
    B=BOUNDS,
    units=UNITS,
    where=st.integers(0, 19),
    wrong=st.sampled_from([2.01, -2.01, 4.0, -8.0, 1e5, -1e300, math.inf, -math.inf, math.nan]),
)
def test_an_entry_beyond_the_bound_raises_and_never_clips(B, units, where, wrong):
    a = B * np.array(units)
    a[where % a.size] = wrong * B  # where this is infinite, all the better
    with pytest.raises(FixedPointOverflow):
        encode(a, exponent(B))


def test_an_overflow_names_the_bound_and_the_count_and_no_value():
    a = np.zeros((3, 2 * CHUNK))
    a[0, 0], a[1, 7], a[2, -1] = 123456.789, math.nan, -math.inf
    with pytest.raises(FixedPointOverflow) as overflow:
        encode(a, exponent(1024.0))
    assert f"3 of {6 * CHUNK} entries of a share are beyond the bound 2^10" in str(overflow.value)
    assert "123456" not in str(overflow.value)


@settings(deadline=None)
@given(total=st.integers(2**62 + 2**34, 3 * 2**62 - 2**34), negative=st.booleans())
def test_a_sum_between_one_and_three_times_the_range_never_decodes_silently(total, negative):
    word = (-total if negative else total) % 2**64
    with pytest.raises(FixedPointOverflow, match="1 of 2 entries of the sum"):
        decode(np.array([0, word], np.uint64), 10)


LAYOUTS = {
    "scalar": lambda a: np.array(a[0, 0]),
    "empty": lambda a: a[:0],
    "no columns": lambda a: a[:, :0],
    "vector": lambda a: a[0],
    "strided vector": lambda a: a[:, 1],
    "matrix": lambda a: a,
    "columns of a wider matrix": lambda a: a[:, 3:90],
    "fortran order": lambda a: np.asfortranarray(a),
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1],
    "long rows": lambda a: np.tile(a, (1, 400))[:, 1:],
    "three axes": lambda a: a.reshape(50, 10, 10).transpose(2, 0, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_layout_gives_the_same_codes_and_can_be_encoded_in_place(layout):
    Y = layout(np.random.default_rng(5).uniform(-1, 1, size=(50, 100)))
    expected = np.rint(np.ldexp(Y, 62)).astype(np.int64).view(np.uint64)
    codes = encode(Y, 62)
    np.testing.assert_array_equal(codes, expected)
    assert codes.shape == Y.shape
    in_place = Y.copy(order="K")
    encode(in_place, 62, out=in_place.view(np.uint64))
    np.testing.assert_array_equal(in_place.view(np.uint64), expected)
    floats = decode(codes, 62)
    np.testing.assert_allclose(floats, Y, rtol=0, atol=2.0**-63)
    decode(in_place.view(np.uint64), 62, out=in_place)
    np.testing.assert_array_equal(in_place, floats)


def test_encoding_in_place_allocates_no_more_than_chunks():
    Y = np.random.default_rng(6).uniform(-1, 1, size=1 << 20)
    tracemalloc.start()
    try:
        encode(Y, 62, out=Y.view(np.uint64))
        decode(Y.view(np.uint64), 62, out=Y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * 8 * CHUNK < Y.nbytes / 10


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: encode(np.zeros(3, np.float32), 1),
        lambda: encode(np.zeros(3, np.int64), 1),
        lambda: encode(np.zeros(3), 1, out=np.zeros(3)),
        lambda: encode(np.zeros(3), 1, out=np.zeros(4, np.uint64)),
        lambda: decode(np.zeros(3), 1),
        lambda: decode(np.zeros(3, np.uint64), 1, out=np.zeros(2)),
    ],
)
def test_other_types_and_shapes_are_refused(attempt):
    with pytest.raises(ShapeError):
        attempt()


@pytest.mark.parametrize("terms", [0, -1, 2**31 + 1])
def test_a_sum_of_no_terms_is_refused(terms):
    with pytest.raises(ConfigError):
        exponent(1.0, terms)
    with pytest.raises(ConfigError):
        encode(np.zeros(1), 0, terms=terms)
