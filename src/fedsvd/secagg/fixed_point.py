"""Floats as integers modulo 2^64, the ring in which pads cancel exactly (step 5 of the specification, C6, ADR 0005).

``encode(a, f) = round(2^f a) mod 2^64``, round half to even; ``decode`` reads the word as a signed integer and
divides by 2^f. The laws, for entries within the bound that gave f:

    decode(encode(a)) = a                            within 2^-(f+1), exactly where |a| >= 2^(52-f)
    decode(encode(a) + encode(b)) = a + b            within 2^-f and one rounding to float64
    decode(sum_i encode(a_i)) = sum_i a_i            within k 2^-(f+1) and one rounding to float64
    sums of encodings are associative and commutative, bit for bit

**Why the sum of k shares does not wrap.** A partial sum may wrap as it likes: only the last, full sum must lie
in -2^63 .. 2^63 - 1. With ``f = exponent(B)``, 2^f B <= 2^62, so the sum of the encodings is at most
2^f |sum_i Y_i| + k/2, and all depends on |sum_i Y_i| <= B, up to the factor 2 that is spare.

* ``B = c F`` (the fallback): certain, for every k. Entry (r, s) of the sum is ``c sum_i p_r A_i q_si``, where
  the pieces q_si of user i make up one column q_s of the orthogonal Q. By Cauchy and Schwarz it is at most
  ``c sum_i ||A_i|| |q_si| <= c sqrt(sum_i ||A_i||_F^2) sqrt(sum_i |q_si|^2) = c F = B``. Fifty users with
  entries of B each would need 50 F; all fifty share one F and one unit column, so that cannot be. Each single
  share obeys the same bound.
* ``B = c F 64 / sqrt(w_m w_n)``: certain up to chance. Under Haar masks an entry of the sum (or of a share)
  in units of ``c F / sqrt(w_m w_n)`` has moments no larger than those of ``g A h / F`` with g, h normal, so
  E exp(u |entry|) <= 2 / sqrt(1 - u^2) for u < 1, and an entry exceeds 64 with probability below 1e-26, 128
  (where a sum could first wrap) below 1e-54. Mixing masks are taken to behave alike; that is a heuristic.
* Sums that no orthogonal mask holds together (means, counts, predictions): give ``terms = k``, and the
  triangle inequality does it: each share is held to 1/k of the range.

**What is checked.** ``encode`` checks every entry of one user's share against the range (2^62 / terms).
``decode`` checks every entry of the sum against 2^62: the upper half of the ring is a guard band, so a true sum
between 1 and 3 times the range is always reported, and beyond 3 (which takes 192 above) would need a chance
below 1e-80. Neither check clips, and both name the bound's exponent and a count, never a value.
"""

import math

import numpy as np

from fedsvd.errors import ConfigError, FixedPointOverflow, ShapeError
from fedsvd.kernels import words
from fedsvd.secagg.batches import CHUNK, chunks
from fedsvd.types import Float, Ring

BITS = 62
# A bound that is reached exactly may be passed by the rounding of the masked product (relative 1e-12) and
# of k encodings (k/2); 2^-30 of the range is space for both and costs nothing, because half the ring is spare.
RANGE = (1 << BITS) + (1 << 32)
GUARD = (1 << BITS) + (1 << 33)
TAIL = 64.0
ONE_FACTOR = 1000  # beyond this |f| the power of two itself leaves the range of float64


def bound(c: float, F: float, w_m: int, w_n: int) -> float:
    """``B = c F min(1, 64 / sqrt(w_m w_n))``: what no entry of c P A Q exceeds; w are the mask windows' sides."""
    if w_m < 1 or w_n < 1:
        raise ConfigError(f"mask windows have sides >= 1, got {w_m} x {w_n}")
    if not (c > 0.0 and F >= 0.0):
        raise ConfigError("the bound needs a scale c > 0 and a norm F >= 0", "check the users-only sum of norms")
    return float(c) * float(F) * min(1.0, TAIL / math.sqrt(w_m * w_n))


def exponent(B: float, terms: int = 1) -> int:
    """``62 - ceil(log2(terms B))``: the most fractional bits that leave space for the sum; 0 when B = 0.

    Leave ``terms`` at 1 when B bounds the sum and each share; give k when B bounds the shares only.
    """
    total = float(B) * _counted(terms)
    if math.isinf(total):
        raise FixedPointOverflow("the bound of a secure sum is not finite", "scale the data down")
    if not total >= 0.0:
        raise ConfigError("a bound is a number >= 0")
    if total == 0.0:
        return 0
    # frexp is exact where log2 rounds: at a power of two one ulp would double the exponent's error.
    mantissa, power = math.frexp(total)
    return BITS - (power - 1 if mantissa == 0.5 else power)


def encode(Y: Float, f: int, *, terms: int = 1, out: Ring | None = None) -> Ring:
    """``round(2^f Y) mod 2^64``, with Y's shape; an entry out of range, NaN or infinite is an overflow.

    ``out`` may be ``Y.view(np.uint64)``: then nothing larger than a chunk is allocated. After an overflow
    the contents of ``out`` are of no use.
    """
    _expect(Y, np.float64, "encode")
    codes = np.empty(Y.shape, np.uint64) if out is None else out
    _expect(codes, np.uint64, "out")
    most = float(RANGE // _counted(terms))
    scratch = np.empty(min(CHUNK, Y.size))
    beyond = 0
    for part, code in chunks(Y, codes.view(np.int64)):
        scaled = scratch[: part.size].reshape(part.shape)
        scale(part, f, scaled)
        # Written so that NaN, which compares false, fails too.
        if scaled.max() <= most and scaled.min() >= -most:
            np.rint(scaled, out=scaled)
            np.copyto(code, scaled, casting="unsafe")
        else:
            beyond += part.size - int(np.count_nonzero(np.abs(scaled) <= most))
    if beyond:
        raise overflow(beyond, Y.size, f, "a share")
    return codes


def decode(total: Ring, f: int, *, out: Float | None = None) -> Float:
    """``total / 2^f`` with words read as signed; an entry in the guard band is an overflow.

    ``out`` may be ``total.view(np.float64)``.
    """
    _expect(total, np.uint64, "decode")
    floats = np.empty(total.shape) if out is None else out
    _expect(floats, np.float64, "out")
    if floats.shape != total.shape:
        raise ShapeError(f"shapes differ: {total.shape} words, {floats.shape} numbers")
    if abs(f) <= ONE_FACTOR:
        beyond = words.decode(total, math.ldexp(1.0, -f), GUARD, floats)
    else:
        beyond = words.decode(total, 1.0, GUARD, floats)
        scale(floats, -f, floats)
    if beyond:
        raise overflow(beyond, total.size, f, "the sum")
    return floats


def scale(part: Float, f: int, out: Float) -> None:
    """``out = 2^f part``, exact unless it leaves the range of float64."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if abs(f) <= ONE_FACTOR:
            np.multiply(part, math.ldexp(1.0, f), out=out)
        else:
            np.ldexp(part, f, out=out)


def overflow(beyond: int, size: int, f: int, what: str) -> FixedPointOverflow:
    return FixedPointOverflow(
        f"{beyond} of {size} entries of {what} are beyond the bound 2^{BITS - f}, or not finite",
        "restart with the bound B = c F; if that was the bound, some user's norm or data is wrong",
    )


def _counted(terms: int) -> int:
    if not 1 <= terms <= 1 << 31:
        raise ConfigError(f"a sum has 1 .. 2^31 terms, got {terms}")
    return terms


def _expect(array: Float | Ring, dtype: type, name: str) -> None:
    if array.dtype != dtype:
        raise ShapeError(f"{name} takes {np.dtype(dtype).name}, got {array.dtype}")
