"""Uniform 64-bit words, made in host memory, as normals and as an order on a device.

Devices know signed words alone: what is done to unsigned ones in ``randomness.keystream`` is done here to the same bits
under another name. Normals may differ from the host's in the last place, where a library has an inverse normal CDF of
its own; masks need not be bit-identical.
"""

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd.linalg.backend import like, namespace
from fedsvd.types import Array, Ring

_SIGN = np.uint64(1 << 63)


def pinned_words(count: int, on: Array) -> Ring:
    """An uninitialised array of words in host memory, from which they reach the device of ``on`` fastest."""
    if getattr(getattr(on, "device", None), "type", None) == "cuda":
        import torch

        # Pinned, and kept by its allocator from one mask to the next: fresh pages cost more than the words in them.
        pinned: Ring = torch.empty((count,), dtype=torch.int64, pin_memory=True).numpy().view(np.uint64)
        return pinned
    return np.empty(count, np.uint64)


def normals_of(words: Ring, on: Array) -> Array:
    """One standard normal for every word (method 1), in the library and on the device of ``on``."""
    quantile = _inverse_cdf(on)
    if quantile is None:
        return like(scipy.special.ndtri(((words >> np.uint64(12)) + 0.5) * 2.0**-52), on)
    signed = like(words.view(np.int64), on)
    # Shifting keeps the sign: the mask makes zeros of the copies.
    top = (signed >> 12) & ((1 << 52) - 1)
    return quantile((namespace(on).astype(top, on.dtype) + 0.5) * 2.0**-52)


def signed_order(words: Ring, on: Array) -> Array:
    """Signed words in the order of these unsigned ones, in the library and on the device of ``on``."""
    flipped: NDArray[np.int64] = (words ^ _SIGN).view(np.int64)
    return like(flipped, on)


def _inverse_cdf(on: Array) -> Any:
    module = type(on).__module__.partition(".")[0]
    if module == "torch":
        import torch

        return torch.special.ndtri
    if module == "cupy":
        from cupyx.scipy.special import ndtri as quantile

        return quantile
    return None
