"""Words of a Gram matrix that a device makes for several batches at once are those that each batch has by itself."""

import numpy as np
import pytest

from fedsvd.linalg.device import Device
from fedsvd.linalg.exact_gram import row_panels, sliced
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import share
from fedsvd.roles.user.share import Batches
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, claimed, pad

A = np.random.default_rng(5).uniform(-0.5, 0.5, size=(40, 25))
KEYS = PadKeys(1, {2: Seed(bytes(range(32)))})


@pytest.mark.parametrize("together", [1, 150, 300, 1 << 25])
def test_batches_made_together_are_those_made_alone(foreign, together, monkeypatch):
    monkeypatch.setattr(share, "TOGETHER", together)
    panels, device = row_panels(40, 100), Device("test", foreign.array([0.0]))
    here = Batches(panels, [sliced(A)])
    there, padded = (Batches(panels, [sliced(foreign.array(A))], device) for _ in range(2))
    assert len(panels) > 5
    for number in range(len(panels)):
        expected = here(number)
        np.testing.assert_array_equal(there(number), expected)
        with_pads = padded.padded(number, claimed(KEYS, "gram", number, PadsOnce(), halves=2))
        np.testing.assert_array_equal(with_pads, pad(expected.copy(), KEYS, "gram", number, PadsOnce(), halves=2))
    assert not there.held
    assert not there.group
    assert repr(there) == f"Batches({len(panels)})"
