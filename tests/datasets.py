"""Public data sets for tests that want real data; a test that asks for one that is not on this machine is skipped.

They are looked for in ``$FEDSVD_DATA``, else in ``../shared/data`` beside the repository; nothing is downloaded. Tables
that come with R's packages are in ``tests/kit.py``.
"""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from fedsvd.types import Float


def folder(name: str) -> Path:
    """Where a data set lies, or a skip."""
    root, shared = os.environ.get("FEDSVD_DATA"), Path(__file__).parents[2] / "shared"
    place = (Path(root) if root else shared / "data") / name
    if place.is_dir():
        return place
    pytest.skip(f"the data set {name} is not here; set FEDSVD_DATA to the folder that holds it")


def mnist(part: str = "t10k") -> tuple[Float, np.ndarray]:
    """MNIST images as rows of 784 numbers, 0 .. 255, and their labels; ``train`` or ``t10k``."""
    where = folder("mnist")
    images = gzip.decompress((where / f"{part}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((where / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    X = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784).astype(np.float64)
    return X, np.frombuffer(labels, np.uint8, offset=8)


def movielens() -> Float:
    """MovieLens 100K, 943 users by 1682 films, ratings 1 .. 5 and zero where there is none."""
    text = gzip.decompress((folder("ml-100k") / "u.data.gz").read_bytes())
    entries = np.array([line.split()[:3] for line in text.decode().splitlines()], dtype=np.intp)
    X = np.zeros((943, 1682))
    X[entries[:, 0] - 1, entries[:, 1] - 1] = entries[:, 2]
    return X


def wine() -> Float:
    """Wine quality, red above white: 6497 rows of eleven features and the quality."""
    texts = [gzip.decompress((folder("wine") / f"winequality-{kind}.csv.gz").read_bytes()) for kind in ("red", "white")]
    return np.concatenate([np.loadtxt(text.decode().splitlines()[1:], delimiter=";") for text in texts])
