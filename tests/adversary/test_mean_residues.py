"""A small party's record cannot be read from the residue of a total of means, because noise is made of integers.

Three users. The first has many records and centres them with a shift of its own, so its term is n_1 times a pair of
float64: a multiple of n_1 on the grid of that pair. The third has one record, in 64ths, and its term is the record.
The attacker is the second user: it subtracts its own term from the total and tries every record that the third may
have. The right one leaves a multiple of n_1 on the grid, and the noise.
"""

import math
from fractions import Fraction

import numpy as np
from tests.tolerances import digits_lost

from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import wide
from fedsvd.secagg.noise import mean_width, uniform_integers

N = 10_007  # records of the first user; a prime, though any odd number does
RECORDS = range(-40 * 64, 40 * 64)  # in 64ths
RUNS = 200
FINE = 800  # as a power of two of 2^-1074: finer than any grid of float64 here, coarser than noise of the least width


def pair(rng):
    """Shift, rest and deviation of one feature at the first user."""
    table = rng.normal(3.0, 2.0, N)
    shift = table[:64].mean()
    return float(shift), float((table - shift).mean()), float(table.std())


def grids(shift, delta):
    """Powers of two, from 2^FINE: the grid of the pair, which the attacker is given, and the finest one."""
    return (1, 1 << (int(math.log2(min(math.ulp(shift), math.ulp(delta)))) + 1074 - FINE))


def records_read(rest, shift, delta):
    """For each grid the record that leaves the least residue."""
    rest = (rest + (1 << (FINE - 1))) >> FINE
    for grid in grids(shift, delta):
        size = N * grid
        missed = ((rest - (record << (1074 - 6 - FINE))) % size for record in RECORDS)
        yield RECORDS[int(np.argmin([min(residue, size - residue) / size for residue in missed]))]


def times_read(noise):
    """How often a guess of the attacker is the record, of 200 studies."""
    rng, read = np.random.default_rng(3), 0
    for run in range(RUNS):
        shift, delta, deviation = pair(rng)
        record = int(rng.integers(RECORDS[0], RECORDS[-1]))
        stream = Keystream(Seed(rng.bytes(32)))
        terms = [N * sum(wide.integers(np.array([shift, delta]))), run << 1000, record << (1074 - 6)]
        total = sum(terms) + noise(delta, deviation, stream)
        read += record in records_read(total - terms[1], shift, delta)
    return read


def specified(delta, deviation, stream):
    """Of the first user, then of the third, whose column has no deviation."""
    widths = [mean_width(N, deviation, delta), mean_width(1, 0.0)]
    return sum(uniform_integers(widths, stream))


def narrower(delta, deviation, stream):
    """The noise of the first user, 2^22 times smaller: less than the spacing of its grid."""
    return uniform_integers([mean_width(N, deviation, delta) - 22], stream)[0]


def drawn_as_float64(delta, deviation, stream):
    """The size that is specified, drawn as a float64 and added to the mean before it is multiplied."""
    size = 2.0 ** (mean_width(N, deviation, delta) - 1074) / N
    return N * wide.integers(np.array([stream.uniform(-size, size)]))[0]


def test_with_integer_noise_no_record_is_read():
    assert times_read(specified) == 0


def test_with_noise_drawn_as_float64_it_is():
    assert times_read(drawn_as_float64) > 190


def test_with_noise_within_one_spacing_of_the_grid_it_is():
    assert times_read(narrower) > 150


def test_without_noise_it_is():
    assert times_read(lambda *_: 0) == RUNS


def test_the_noise_moves_the_joint_mean_by_less_than_its_last_digits_matter():
    """Error of the mean in deviations, at a mean of 1e4, 1e8 and 1e11 deviations."""
    rng = np.random.default_rng(4)
    worst = 0.0
    for size in (1e4, 1e8, 1e11):
        for _ in range(20):
            table = rng.normal(size, 1.0, 1000)
            shift = table[:64].mean()
            delta = (table - shift).mean()
            exact = sum(map(Fraction, table.tolist())) / 1000
            noise = uniform_integers([mean_width(1000, table.std(), delta)], Keystream(Seed(rng.bytes(32))))[0]
            sent = 1000 * sum(wide.integers(np.array([shift, delta]))) + noise
            worst = max(worst, float(abs(Fraction(sent, 1000 << 1074) - exact)) / table.std())
    assert worst < digits_lost(2)
