"""The known-sample attack of Liu, Giannella and Kargupta (2006): records of the same kind as the hidden ones.

An orthogonal P turns the principal axes of the data by P. Who has a sample of the same distribution estimates the axes
without P, sees them with P, and so has P, but for the sign of each axis; where the hidden records can be seen one by
one, the skewness along each axis decides it. It is made for data that is rotated and nothing else. Here Q mixes the
records too, which leaves nothing to take signs from and nothing to un-rotate.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Sample:
    """Prior knowledge: records, as columns of m features, drawn from the distribution of the hidden ones."""

    X: Float


def from_sample(Y: Float, known: Sample) -> Float:
    """``P^T Y`` as far as the axes of the sample show."""
    ours, theirs = _axes(known.X), _axes(Y)
    signs = np.sign(_skewness(ours.T @ known.X) * _skewness(theirs.T @ Y))
    return (ours * np.where(signs == 0.0, 1.0, signs)) @ (theirs.T @ Y)


def _axes(X: Float) -> Float:
    """Principal axes about the origin, strongest first: what masks leave of a mean is not to be had apart."""
    axes: Float = np.linalg.eigh(X @ X.T)[1][:, ::-1]
    return axes


def _skewness(scores: Float) -> Float:
    """The third moment of every row, about the origin."""
    moments: Float = np.mean(scores * scores * scores, axis=1)
    return moments
