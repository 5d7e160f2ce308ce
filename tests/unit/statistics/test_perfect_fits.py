"""A Gaussian model that leaves no residual: its likelihood is finite, and no number is divided by zero."""

import math
import sys

import numpy as np

from fedsvd.statistics.families import family_named


def test_the_likelihood_of_a_perfect_fit_is_that_of_the_smallest_scale():
    y = np.array([1.0, 2.0, 4.0])
    found = family_named("gaussian").log_likelihood(y, y, np.array([1.0, 1.0, 2.0]), 0.0)
    expected = [-0.5 * math.log(2 * math.pi * sys.float_info.min / weight) for weight in (1.0, 1.0, 2.0)]
    np.testing.assert_array_equal(found, expected)
