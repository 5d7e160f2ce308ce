"""On every library the ring's words are those of NumPy's fixed point, and random bits change the last bits alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fedsvd.errors import FixedPointOverflow
from fedsvd.linalg.device import Device
from fedsvd.randomness.keystream import Keystream, fill_words
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import dither, fixed_point, on_device
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, pad

SEED = Seed(bytes(range(32)))
Y = np.random.default_rng(3).normal(size=(50, 8)) * 10.0 ** np.arange(-6, 2)


@pytest.fixture
def device(library):
    return Device("test", library.array([0.0]))


@pytest.mark.parametrize("f", [-3, 0, 40, 55])
def test_encodings_are_those_of_numpy_bit_for_bit(device, f):
    words = on_device.words_of(on_device.encode(device.put(Y), f), device)
    np.testing.assert_array_equal(words, fixed_point.encode(Y, f))


@pytest.mark.parametrize("f", [1060, 1010])
def test_powers_of_two_beyond_float64_are_taken_in_two_steps(device, f):
    A = np.ldexp(Y, -f + 20)
    words = on_device.words_of(on_device.encode(device.put(A), f), device)
    np.testing.assert_array_equal(words, fixed_point.encode(A, f))


def test_sums_wrap_around_and_decode_to_the_sum(device, library):
    one, other = fixed_point.encode(Y, 50), fixed_point.encode(-3 * Y, 50)
    pads = Keystream(SEED).words(Y.size).reshape(Y.shape)
    total = device.put((one + pads).view(np.int64)) + device.put((other - pads).view(np.int64))
    expected = fixed_point.decode(one + other, 50)
    np.testing.assert_array_equal(library.numpy(on_device.decode(total, 50)), expected)


@pytest.mark.parametrize("entry", [2.0**13, -(2.0**13), np.inf, np.nan])
def test_an_entry_out_of_range_is_an_overflow_on_a_device_too(device, entry):
    A = Y.copy()
    A[3, 4] = entry
    with pytest.raises(FixedPointOverflow, match="1 of 400 entries of a share"), np.errstate(invalid="ignore"):
        on_device.encode(device.put(A), 50)


def test_a_sum_in_the_guard_band_is_an_overflow_on_a_device_too(device):
    total = np.zeros((4, 2), np.int64)
    total[2, 1] = -(2**62) - 2**40
    with pytest.raises(FixedPointOverflow, match="1 of 8 entries of the sum"):
        on_device.decode(device.put(total), 50)


@pytest.mark.parametrize("least", [0, 7])
def test_random_bits_move_an_entry_within_half_a_unit_of_its_last_place(device, library, least):
    f = 55
    codes = on_device.encode(device.put(Y), f)
    before = library.numpy(codes).copy()
    dither.fill_on_device(codes, least, SEED, device, map)
    moved = library.numpy(codes) - before
    units = np.maximum(np.spacing(np.abs(before.astype(np.float64))), 2.0**least)
    assert np.all(np.abs(moved) <= units / 2)
    assert np.any(moved[units > 2] != 0), "where there are free places, some bits are set"
    assert np.all(moved[units < 2] == 0), "where a float has all bits, none is touched"


def test_random_bits_are_even_over_the_places_that_are_filled(device, library):
    codes = on_device.encode(device.put(np.zeros((400, 50))), 0)
    dither.fill_on_device(codes, 2, SEED, device, map)
    counts = np.bincount(library.numpy(codes).ravel() + 2, minlength=4)
    assert len(counts) == 4
    # Four equal classes of 20,000: the deviation of a count is 61, and five of them are allowed.
    assert np.all(np.abs(counts - 5000) < 310)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 17, (1 << 20) + 5, (2 << 20) + 1])
def test_words_made_by_threads_are_the_words_of_the_stream(count):
    out = np.empty(count, np.uint64)
    with ThreadPoolExecutor(3) as threads:
        fill_words(SEED, out, threads.map)
    np.testing.assert_array_equal(out, Keystream(SEED).words(count))


@pytest.mark.parametrize("shape", [(3, 5), (1025, 1031)])
def test_pads_put_on_by_threads_are_those_put_on_by_one(shape):
    payload = Keystream(SEED).words(shape[0] * shape[1]).reshape(shape)
    keys = PadKeys(2, {1: Seed(bytes(32)), 3: Seed(bytes([3]) * 32)})
    alone = pad(payload.copy(), keys, "upload", 4, PadsOnce())
    with ThreadPoolExecutor(3) as threads:
        together = pad(payload.copy(), keys, "upload", 4, PadsOnce(), threads.map)
    np.testing.assert_array_equal(together, alone)
