"""Which regressions can be asked for: standard errors, weights, robust errors, a ridge that is chosen.

A part of the one legality check (``study.py``): before any data is known, whatever the shapes.
"""

import math
from typing import Protocol

from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import ChosenBy, Item, Mode, Robust, Scheme, Split, Task


class Asked(Protocol):
    """What a study says of a regression."""

    @property
    def task(self) -> Task: ...
    @property
    def split(self) -> Split: ...
    @property
    def scheme(self) -> str: ...
    @property
    def mode(self) -> Mode | None: ...
    @property
    def release(self) -> tuple[Item, ...] | None: ...
    @property
    def alpha(self) -> float: ...
    @property
    def alphas(self) -> tuple[float, ...]: ...
    @property
    def chosen_by(self) -> ChosenBy | None: ...
    @property
    def weighted(self) -> bool: ...
    @property
    def robust(self) -> Robust | None: ...


def expect_regression(study: Asked) -> None:
    """Refuse what a regression cannot have, or not on this split."""
    _expect_inference(study)
    _expect_rows_split(study)


def _expect_inference(study: Asked) -> None:
    """Refuse standard errors where neither the parties open the joint Gram matrix nor the CSP splits its inverse."""
    if study.task is not Task.LR or Item.INFERENCE not in (study.release or ()):
        return
    if study.alphas:
        raise ConfigError(
            "a ridge shrinks the coefficients, so that their usual standard errors do not describe them",
            "leave inference or alphas out",
        )
    if study.split is Split.VERTICAL:
        _expect_own_tables(study)
        return
    if study.scheme in (Scheme.MASK, Scheme.PAPER):
        raise ConfigError(
            f"inference follows from the exact sum of Gram matrices, and scheme {str(study.scheme)!r} has none",
            'set scheme = "sum", or leave inference out',
        )
    if study.mode is Mode.B:
        raise ConfigError(
            "inference shows every party the joint Gram matrix, and mode 'B' shows it to none",
            'leave mode out (mode "A": the parties open the sum), or leave inference out',
        )


def _expect_own_tables(study: Asked) -> None:
    """On split columns each party has the table of its own columns, from a matrix that the CSP splits among them."""
    if study.scheme == Scheme.PAPER:
        raise ConfigError("the paper's scheme has no standard errors", "leave scheme or inference out")
    if study.alpha:
        raise ConfigError(
            "a ridge leaves no standard errors to compute", 'leave inference out; release "score" gives R2'
        )
    if study.robust is not None:
        raise ConfigError(
            "robust errors need the residual of every row next to its features, and on split columns no party has both",
            "leave cov_type and cluster out, or split the rows",
        )


def _expect_rows_split(study: Asked) -> None:
    """Refuse weights, robust errors and the choice of a ridge where they cannot be had without showing more."""
    vertical = study.split is Split.VERTICAL
    if study.weighted and study.scheme == Scheme.PAPER:
        raise ConfigError("the paper's scheme has no weights", "leave weights out, or set another scheme")
    released_here = study.release or ()
    if (Item.ROBUST in released_here) != (study.robust is not None):
        raise ConfigError("robust errors are released where cov_type or cluster names them, and nowhere else")
    if study.robust is not None and Item.INFERENCE not in released_here:
        raise ConfigError("robust errors are those of a regression table", "set inference = true")
    if (Item.RIDGE_PATH in released_here) != bool(study.alphas):
        raise ConfigError("a ridge path is released where alphas names its penalties, and nowhere else")
    if not study.alphas:
        if study.chosen_by is not None:
            raise ConfigError("choose_by says how one of several penalties is chosen", "name them: alphas = [...]")
        return
    if not all(0.0 < alpha < math.inf for alpha in study.alphas) or len(set(study.alphas)) < len(study.alphas):
        raise ConfigError("alphas are different finite numbers above 0", "alphas = [0.1, 1.0, 10.0], say")
    if study.alpha:
        raise ConfigError("alpha is one penalty, alphas are several to choose among", "leave one of them out")
    if vertical and study.chosen_by is not ChosenBy.GCV:
        raise ConfigError(
            "leave-one-out needs the leverage of every row, and on split columns no party has it",
            'set choose_by = "gcv"',
        )
    if study.scheme == Scheme.PAPER or study.mode is Mode.B:
        raise ConfigError(
            "a ridge is chosen from the joint Gram matrix, which the parties open",
            'leave mode and scheme out (scheme "sum", mode "A")',
        )
