"""Throughput of secure aggregation on one core: encode, pads, ring sum, decode; a plain copy for comparison.

Run with ``python -m pytest benchmarks/micro/bench_secagg.py --benchmark-enable``. Every row handles the same
16 MiB batch and carries its rate (``gb_per_s``, of payload, not of all bytes touched) in ``extra_info``.
"""

import numpy as np
import pytest

from fedsvd.randomness.seed import Seed
from fedsvd.secagg.aggregate import RunningSum
from fedsvd.secagg.fixed_point import decode, encode, exponent
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, add_group_pad, pad

SHAPE = (2048, 1024)
F_BITS = exponent(64.0)
Y = np.random.default_rng(0).normal(size=SHAPE)
CODES = encode(Y, F_BITS)


def keys(k):
    """The pad keys of user 1 among k."""
    return PadKeys(1, {peer: Seed(peer.to_bytes(32, "big")) for peer in range(2, k + 1)})


def measure(benchmark, work):
    benchmark(work)
    if benchmark.stats is not None:
        benchmark.extra_info["gb_per_s"] = round(Y.nbytes / benchmark.stats.stats.min / 1e9, 2)


def test_copy_for_comparison(benchmark):
    out = np.empty_like(Y)
    measure(benchmark, lambda: np.copyto(out, Y))


def test_encode(benchmark):
    out = np.empty_like(CODES)
    measure(benchmark, lambda: encode(Y, F_BITS, out=out))


def test_decode(benchmark):
    out = np.empty_like(Y)
    measure(benchmark, lambda: decode(CODES, F_BITS, out=out))


@pytest.mark.parametrize("k", [2, 5, 50])
def test_pad(benchmark, k):
    payload, mine = CODES.copy(), keys(k)
    measure(benchmark, lambda: pad(payload, mine, "bench", 0, PadsOnce()))


def test_group_pad(benchmark):
    payload, seed = CODES.copy(), Seed(bytes(32))
    measure(benchmark, lambda: add_group_pad(payload, seed, "bench", 0, PadsOnce()))


def test_ring_sum_of_two(benchmark):
    def work():
        running = RunningSum(SHAPE, 2)
        running.add(1, CODES)
        running.add(2, CODES)
        return running.total()

    measure(benchmark, work)
