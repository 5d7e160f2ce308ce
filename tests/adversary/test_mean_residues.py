"""A small party's record cannot be read from the residue of a total of means, because noise is made of integers.

Three users. The first has many records and centres them with a shift of its own, so its term is n_1 times a pair of
float64: a multiple of n_1 on a fine grid. The third has one record, in 64ths, whose term is the record itself. The
attacker is the second user: it subtracts its own term from the total and looks at what is left modulo n_1.
"""

from fractions import Fraction

import numpy as np

from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import wide
from fedsvd.secagg.noise import mean_width, uniform_integers

N = 10_007  # a prime, and more than there are 64ths between -40 and 40
RUNS = 200


def pair(rng):
    """Shift, rest and deviation of one feature at the first user."""
    table = rng.normal(3.0, 2.0, N)
    shift = table[:64].mean()
    return shift, (table - shift).mean(), table.std()


def record_read(total, own):
    """The third user's record in 64ths, if the residue modulo n_1 is one."""
    # Noise of the least width sits far below the grid of float64: round it away first.
    rest = (total - own + (1 << 799)) >> 800
    residue = rest * pow(2, -(1074 - 6 - 800), N) % N
    return residue if residue <= N // 2 else residue - N


def times_read(noise):
    """How often the attacker reads the record, of 200 studies."""
    rng, read = np.random.default_rng(3), 0
    for run in range(RUNS):
        shift, delta, deviation = pair(rng)
        record = int(rng.integers(-40 * 64, 40 * 64))
        stream = Keystream(Seed(rng.bytes(32)))
        terms = [N * sum(wide.integers(np.array([shift, delta]))), run << 1000, record << (1074 - 6)]
        total = sum(terms) + noise(shift, delta, deviation, stream)
        read += record_read(total, terms[1]) == record
    return read


def specified(_, delta, deviation, stream):
    """Of the first user, then of the third, whose column has no deviation."""
    widths = [mean_width(N, deviation, delta), mean_width(1, 0.0, 0.0)]
    return sum(uniform_integers(widths, stream))


def drawn_as_float64(_, delta, deviation, stream):
    """The same size, drawn as a float64 and added to the mean before it is multiplied."""
    size = 2.0 ** (mean_width(N, deviation, delta) - 1074) / N
    return N * wide.integers(np.array([stream.uniform(-size, size)]))[0]


def test_with_integer_noise_no_record_is_read():
    assert times_read(specified) == 0


def test_with_noise_drawn_as_float64_it_is():
    assert times_read(drawn_as_float64) > 190


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
    assert worst < 1e-14
