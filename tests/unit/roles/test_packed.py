"""Arrays in one sum: as long as was declared, and back in their own shapes."""

import numpy as np

from fedsvd.roles.user.packed import packed, unpacked


def test_a_vector_is_as_long_as_was_declared_and_arrays_come_back_in_their_shapes():
    matrix, vector = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0])
    parts = [(matrix, (2, 3)), (vector, (2,)), (np.zeros((0, 2)), (1, 2))]
    flat = packed(parts)
    assert flat.tolist() == [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 5.0, 0.0, 0.0, 0.0]
    first, second, none = unpacked(3.0 * flat, parts)
    assert first.tolist() == [[3.0, 6.0], [9.0, 12.0]]
    assert second.tolist() == [15.0]
    assert none.shape == (0, 2)
