"""An array on disk that is used like one in memory: for a result as long as the data.

What a store keeps is met panel by panel, through its interface. A result is handed on: to whoever writes it to a file,
or looks at it. So it is a plain array here, over a file map, and the system takes its pages back whenever it likes.
"""

import math
import mmap
import os
from pathlib import Path

import numpy as np

from fedsvd.storage.private_file import PrivateFile
from fedsvd.types import Float


def room_for(shape: tuple[int, int], budget: int, directory: str | os.PathLike[str] | None) -> Float:
    """Zeros of this shape: in memory within ``budget`` bytes or without a scratch folder, else on disk."""
    size = 8 * math.prod(shape)
    if directory is None or size <= budget or size == 0:
        return np.zeros(shape)
    file = PrivateFile(Path(directory))
    try:
        file.reserve(size)
        cells = np.frombuffer(mmap.mmap(file.file.fileno(), size), np.float64).reshape(shape)
    finally:
        file.close()  # the map keeps what it needs of it
    return cells
