"""Wine, MNIST and MovieLens-100K as matrices, samples in rows, in the units of their files."""

import numpy as np

from fedsvd.types import Float
from fedsvd_lab.datasets.catalogue import MNIST, MOVIELENS, WINE
from fedsvd_lab.datasets.library import Library

PIXELS = 28 * 28
USERS, FILMS = 943, 1682


def wine(library: Library) -> Float:
    """Red above white, 6497 x 12: eleven physico-chemical features, then the quality."""
    texts = [library.read(WINE, file.name).decode() for file in WINE.files]
    return np.concatenate([np.loadtxt(text.splitlines()[1:], delimiter=";") for text in texts])


def mnist(library: Library) -> tuple[Float, Float]:
    """All 70,000 images, training before test, as rows of 784 pixels 0 .. 255; and their digits."""
    images, digits = [], []
    for part in ("train", "t10k"):
        pixels = library.read(MNIST, f"{part}-images-idx3-ubyte")
        labels = library.read(MNIST, f"{part}-labels-idx1-ubyte")
        images.append(np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, PIXELS))
        digits.append(np.frombuffer(labels, np.uint8, offset=8))
    return np.concatenate(images).astype(np.float64), np.concatenate(digits).astype(np.float64)


def movielens(library: Library) -> Float:
    """943 users x 1682 films, ratings 1 .. 5, zero where there is none."""
    text = library.read(MOVIELENS, "u.data").decode()
    entries = np.array([line.split("\t")[:3] for line in text.splitlines()], dtype=np.intp)
    X = np.zeros((USERS, FILMS))
    X[entries[:, 0] - 1, entries[:, 1] - 1] = entries[:, 2]
    return X


def ages(library: Library) -> Float:
    """Of MovieLens-100K's 943 users, in the order of their ids: the label of the paper's regression."""
    text = library.read(MOVIELENS, "u.user").decode()
    return np.array([float(line.split("|")[1]) for line in text.splitlines()])
