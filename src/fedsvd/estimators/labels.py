"""Labels as the parties hold them: one array for the joint samples, or one per party where samples are split."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.types import Float


def joint_labels(y: Any, counts: Sequence[int]) -> Float:
    """All labels, float64, (n,) or (n, targets), for parties with these numbers of samples.

    A list of arrays with one for each party is put together; everything else is one array of labels.
    """
    if y is None:
        raise ConfigError("a regression requires y to be passed, but the target y is None", "give y to fit")
    if _by_party(y, counts):
        parts = [_checked(part) for part in y]
        if len({part.shape[1:] for part in parts}) > 1:
            raise ShapeError("parties have different numbers of targets", "give all parties the same targets")
        y = np.concatenate(parts)
        lengths = tuple(len(part) for part in parts)
        if lengths != tuple(counts):
            raise ShapeError(f"parties have {lengths} labels for {tuple(counts)} samples", "give one label per sample")
    labels = _checked(y)
    if len(labels) != sum(counts):
        raise ShapeError(f"y has {len(labels)} labels for {sum(counts)} samples", "give one label per sample")
    return labels


def cut(Y: Float, edges: Sequence[int]) -> list[Float]:
    """The parties' labels, cut where their samples are."""
    return [Y[start:stop] for start, stop in pairwise(edges)]


def _by_party(y: Any, counts: Sequence[int]) -> bool:
    return isinstance(y, list | tuple) and len(y) == len(counts) > 1 and all(np.ndim(part) > 0 for part in y)


def _checked(y: Any) -> Float:
    labels: Float = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    return labels
