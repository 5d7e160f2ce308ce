"""A matrix in panels on a device is a matrix: read and written anywhere, zero where nothing was written; panels go."""

import numpy as np
import pytest

from fedsvd.errors import LocalProtocolError, ShapeError
from fedsvd.linalg.device_panels import DevicePanels

CUTS = (slice(0, 4), slice(4, 5), slice(5, 11))
RNG = np.random.default_rng(2)
PLACES = [slice(0, 11), slice(0, 4), slice(2, 9), slice(4, 5), slice(9, 11)]


def empty(library, axis, cuts=()):
    shape = (11, 6) if axis == 0 else (6, 11)
    return DevicePanels(shape, axis, library.array([0.0]), cuts), np.zeros(shape)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("cuts", [(), CUTS], ids=["as written", "cut"])
@pytest.mark.parametrize("across", [slice(None), slice(1, 4)], ids=["across", "a part"])
def test_what_was_written_is_read_wherever_panels_end(library, axis, cuts, across):
    panels, expected = empty(library, axis, cuts)
    whole = (slice(None), slice(None))
    if cuts:
        panels[whole] = library.array(expected)
    for along in PLACES[::-1]:
        key = (along, across) if axis == 0 else (across, along)
        block = RNG.normal(size=expected[key].shape)
        panels[key] = library.array(block)
        expected[key] = block
        np.testing.assert_array_equal(library.numpy(panels[whole]), expected)
        for place in PLACES:
            key = (place, across) if axis == 0 else (across, place)
            np.testing.assert_array_equal(library.numpy(panels[key]), expected[key])
    first = slice(2, 3)
    np.testing.assert_array_equal(library.numpy(panels[first]), expected[first])
    assert "panels=3" in repr(panels) if cuts else "DevicePanels" in repr(panels)


def test_panels_come_in_order_and_unwritten_rows_are_zero(library):
    panels, expected = empty(library, 0)
    for rows in (slice(6, 9), slice(0, 2)):
        expected[rows] = RNG.normal(size=expected[rows].shape)
        panels[rows] = library.array(expected[rows])
    places = [place for place, _ in panels.panels()]
    assert places == [slice(0, 2), slice(6, 9)]
    for place, part in panels.panels():
        np.testing.assert_array_equal(library.numpy(part), expected[place])
    np.testing.assert_array_equal(library.numpy(panels[:]), expected)


def test_a_block_is_copied(library):
    panels, _ = empty(library, 0)
    block = library.array(np.ones((2, 6)))
    panels[0:2] = block
    block[0, 0] = 5.0
    np.testing.assert_array_equal(library.numpy(panels[0:2]), np.ones((2, 6)))


def test_a_panel_that_was_dropped_is_not_read_as_zero(library):
    panels, expected = empty(library, 1, CUTS)
    panels[:] = library.array(expected + 1.0)
    panels.drop(slice(0, 4))
    np.testing.assert_array_equal(library.numpy(panels[:, 4:11]), expected[:, 4:11] + 1.0)
    with pytest.raises(LocalProtocolError, match="dropped"):
        panels[:, 3:5]


def test_a_block_of_another_shape_is_refused(library):
    panels, _ = empty(library, 0)
    with pytest.raises(ShapeError):
        panels[0:2] = library.array(np.ones((3, 6)))
