"""The matrices of the paper's table 1 as its code builds them (docs/reproduce.md), not as its appendix says.

Samples stand in rows, features are dealt to the users, and a column of ones is appended for the last user in every
mode, also in SVD and PCA. MNIST's regression figure is that of all 70,000 images, though the appendix says 10,000.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.types import Float
from fedsvd_lab.datasets import real, synthetic
from fedsvd_lab.datasets.library import Library

_MOST_RATED = 500
Maker = TypeVar("Maker")


@dataclass(frozen=True)
class Sizes:
    """How much of each data set is used; the defaults are the paper's."""

    images: int = 70_000
    synthetic: tuple[int, int] = (1000, 10_000)
    synthetic_regression: tuple[int, int] = (10_000, 1000)
    seed: int = 100


def factorised(name: str, library: Library, sizes: Sizes) -> Float:
    """The matrix whose SVD and PCA the paper reports: samples x (features and ones)."""
    makers: dict[str, Callable[[], Float]] = {
        "wine": lambda: real.wine(library)[:, :11],
        "mnist": lambda: _last(real.mnist(library)[0], sizes.images),
        "ml100k": lambda: real.movielens(library),
        "synthetic": lambda: synthetic.power_law_of_the_code(*sizes.synthetic, seed=sizes.seed),
        "synthetic-text": lambda: synthetic.power_law(*sizes.synthetic, seed=sizes.seed),
    }
    D = _one_of(name, makers)()
    # The synthetic matrices have their spectrum unchanged: no column of ones is added to them.
    return D if name.startswith("synthetic") else with_ones(D)


def regression(name: str, library: Library, sizes: Sizes) -> tuple[Float, Float]:
    """Features (without ones: the intercept is our own affair) and labels of the paper's regressions."""
    makers: dict[str, Callable[[], tuple[Float, Float]]] = {
        "wine": lambda: (real.wine(library)[:, :11], real.wine(library)[:, 11]),
        "mnist": lambda: _images(library, sizes),
        "ml100k": lambda: (most_rated(real.movielens(library), _MOST_RATED), real.ages(library)),
        "synthetic": lambda: synthetic.regression(*sizes.synthetic_regression, seed=sizes.seed),
    }
    return _one_of(name, makers)()


def with_ones(D: Float) -> Float:
    """The matrix with a last column of ones."""
    return np.column_stack((D, np.ones(len(D))))


def most_rated(ratings: Float, count: int) -> Float:
    """The columns of the most-rated films, in the order of their ids; among equals the first."""
    order = np.argsort(-np.count_nonzero(ratings, axis=0), kind="stable")
    return ratings[:, np.sort(order[:count])]


def _images(library: Library, sizes: Sizes) -> tuple[Float, Float]:
    images, digits = real.mnist(library)
    return _last(images, sizes.images), _last(digits, sizes.images)


def _last(D: Float, count: int) -> Float:
    """The last rows: of MNIST, 10,000 of them are the test set."""
    return D[-count:]


def _one_of(name: str, makers: dict[str, Maker]) -> Maker:
    if name not in makers:
        raise ConfigError(f"no data set is named {name!r}", f"one of {', '.join(makers)}")
    return makers[name]
