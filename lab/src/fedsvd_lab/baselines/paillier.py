"""A thin Paillier cryptosystem on gmpy2: additively homomorphic, as the HE baselines of the paper use it.

``Enc(a) Enc(b) = Enc(a + b)`` and ``Enc(a)^k = Enc(k a)`` modulo n^2, with g = n + 1. The paper sets 1024 bits; 2048 is
what one should take today. It serves to time a peer, not to protect data: nothing here is constant-time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedsvd.errors import ConfigError, MissingExtra
from fedsvd.randomness.entropy import fresh_bytes

Draw = Callable[[int], bytes]
Number = Any  # gmpy2.mpz


def gmp() -> Any:
    """The module gmpy2, or how to get it."""
    try:
        import gmpy2
    except ImportError:
        raise MissingExtra("the Paillier baselines need gmpy2", "pip install ./lab") from None
    return gmpy2


@dataclass(frozen=True)
class PublicKey:
    """Anyone who has it can encrypt, and work on what is encrypted."""

    n: Number

    @property
    def square(self) -> Number:
        return self.n * self.n

    @property
    def ciphertext_bytes(self) -> int:
        return (2 * int(self.n).bit_length() + 7) // 8

    def encrypt(self, m: int, draw: Draw = fresh_bytes) -> Number:
        """``(1 + m n) r^n mod n^2`` with a fresh r; m may be negative, |m| < n / 2."""
        g = gmp()
        r = g.mpz(int.from_bytes(draw((int(self.n).bit_length() + 7) // 8 + 8), "big")) % (self.n - 1) + 1
        return (1 + m * self.n) * g.powmod(r, self.n, self.square) % self.square


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """The primes; decryption works modulo p^2 and q^2 apart, which is four times as fast."""

    p: Number
    q: Number

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.p * self.q)

    def decrypt(self, c: Number) -> int:
        """The number behind a ciphertext, between -n/2 and n/2."""
        g = gmp()
        n = self.p * self.q
        m_p, m_q = (self._half(c, prime, n) for prime in (self.p, self.q))
        m = m_q + self.q * ((m_p - m_q) * g.invert(self.q, self.p) % self.p)
        return int(m - n if m > n // 2 else m)

    def _half(self, c: Number, prime: Number, n: Number) -> Number:
        """The message modulo one prime: ``L(c^(p-1)) / L(g^(p-1))`` with L(u) = (u - 1) / p."""
        g = gmp()
        square = prime * prime
        found = (g.powmod(c, prime - 1, square) - 1) // prime
        unit = (g.powmod(n + 1, prime - 1, square) - 1) // prime
        return found * g.invert(unit, prime) % prime


def new_key(bits: int, draw: Draw = fresh_bytes) -> PrivateKey:
    """A key whose n has exactly this many bits."""
    if bits < 64 or bits % 2:
        raise ConfigError(f"a Paillier key of {bits} bits", "an even number of at least 64; 2048 for use")
    while True:
        p, q = (_prime(bits // 2, draw) for _ in range(2))
        if p != q and int(p * q).bit_length() == bits:
            return PrivateKey(p, q)


def _prime(bits: int, draw: Draw) -> Number:
    g = gmp()
    start = int.from_bytes(draw(bits // 8 + 1), "big") % (1 << bits)
    return g.next_prime(g.mpz(start | (3 << (bits - 2))))
