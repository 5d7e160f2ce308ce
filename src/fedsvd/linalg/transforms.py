"""The orthonormal DCT-II through a real FFT of the same length, for libraries that have no DCT of their own.

Makhoul (1980): even samples up, odd samples down, one FFT. Of a real sequence half of the spectrum is the other half,
conjugated, so that one bin, turned by its angle, gives two coefficients: its real part the one, less its imaginary
part the mirrored other. Columns are transformed, a block of them at a time, because the spectrum takes more memory
than they do.
"""

from typing import Any

import numpy as np

from fedsvd.types import Array

_BLOCK = 1 << 27  # entries transformed at once


def dct_by_fft(xp: Any, X: Array, inverse: bool) -> Array:
    """The DCT-II of every column, or its inverse, by blocks of columns."""
    n, columns = X.shape
    transform = _inverse if inverse else _forward
    step = max(1, _BLOCK // n)
    if columns <= step:
        return transform(xp, X)
    out = xp.empty_like(X)
    for start in range(0, columns, step):
        part = slice(start, min(start + step, columns))
        out[:, part] = transform(xp, X[:, part])
    return out


def _forward(xp: Any, X: Array) -> Array:
    n = X.shape[0]
    folded = xp.concat((X[::2, :], xp.flip(X[1::2, :], axis=0)), axis=0)
    spectrum = xp.fft.rfft(folded, axis=0)
    cos, sin, scale = _factors(xp, X, n)
    real, imag = xp.real(spectrum), xp.imag(spectrum)
    low = (real * cos + imag * sin) * scale
    mirrored = (real * sin - imag * cos) * scale  # coefficient n - k from bin k; bins 0 and n / 2 are their own
    return xp.concat((low, xp.flip(mirrored[1 : n - n // 2, :], axis=0)), axis=0)


def _inverse(xp: Any, Y: Array) -> Array:
    n = Y.shape[0]
    half = n // 2 + 1
    cos, sin, scale = _factors(xp, Y, n)
    low = Y[:half, :] / scale
    zero = xp.zeros_like(low[:1, :])
    mirrored = xp.concat((zero, xp.flip(Y[n - half + 1 :, :], axis=0)), axis=0) / scale
    real, imag = low * cos + mirrored * sin, low * sin - mirrored * cos
    spectrum = xp.astype(real, xp.complex128) + 1j * xp.astype(imag, xp.complex128)
    folded = xp.fft.irfft(spectrum, axis=0, n=n)
    up = (n + 1) // 2
    even, odd = folded[:up, :], xp.flip(folded[up:, :], axis=0)
    if n % 2:
        odd = xp.concat((odd, zero), axis=0)
    return xp.reshape(xp.stack((even, odd), axis=1), (2 * up, Y.shape[1]))[:n, :]


def _factors(xp: Any, X: Array, n: int) -> tuple[Array, Array, Array]:
    """Cosine and sine of every bin's angle, and the scale that makes the transform orthonormal, as columns."""
    index = xp.reshape(xp.arange(n // 2 + 1, dtype=X.dtype, device=X.device), (-1, 1))
    angle = index * (np.pi / (2 * n))
    # Filled in the type of X: a bare Python number would become float32 on PyTorch and cost nine digits.
    first, others = xp.full_like(index, (1.0 / n) ** 0.5), xp.full_like(index, (2.0 / n) ** 0.5)
    return xp.cos(angle), xp.sin(angle), xp.where(index == 0, first, others)
