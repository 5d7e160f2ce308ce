"""The one source of entropy.

Law of this file: it is the only one that may ask the operating system for random bytes, and it asks nothing
else. Everything random elsewhere follows from a ``Seed`` by computation.
"""

import os


def fresh_bytes(count: int = 32) -> bytes:
    """``count`` bytes from the operating system's generator."""
    return os.urandom(count)
