"""Every class that holds a secret, and how to make one that holds the canary.

The one place to extend: a class that is new in one of ``PACKAGES`` stands here either in ``BEARERS`` or in
``HARMLESS``, or the test fails. Classes of other packages may be added when they carry secrets.
"""

from collections.abc import Callable

import numpy as np

from fedsvd.linalg.windows import Form
from fedsvd.masks.in_passes import Passes
from fedsvd.masks.left import LeftMask
from fedsvd.masks.orthogonal import DeviceNormals, orthogonal
from fedsvd.masks.permute import Mixing
from fedsvd.masks.right import RightMask
from fedsvd.randomness.keystream import Keystream, ShortStreams, ThreadedNormals
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.seal import Opener, Sealer
from fedsvd.sealing.sign import SigningKey
from fedsvd.secagg.keys import AgreedHere, PadKeys
from fedsvd.secagg.pads import DrawnHere, Pads
from fedsvd.secagg.tagged import SumSeeds

PACKAGES = ("randomness", "sealing", "secagg", "masks")
CANARY = b"the canary dies when it is shown"
NUMBERS = 3  # small enough that NumPy would print every entry


def _left(seed: Seed) -> LeftMask:
    mask = LeftMask(Form.HAAR, NUMBERS, seed)
    _ = mask.matrix  # what was drawn is kept inside
    return mask


def _right(seed: Seed) -> RightMask:
    mask = RightMask(Form.HAAR, (NUMBERS, NUMBERS), seed, keep=True)
    _ = mask.matrix
    return mask


def _mixing(seed: Seed) -> Mixing:
    mask = Mixing(NUMBERS, NUMBERS, seed)
    mask.explicit()  # what was drawn is stored inside
    return mask


def _drawn(seed: Seed) -> DrawnHere:
    here = DrawnHere()
    here.keys(seed, b"labels", NUMBERS)  # what was drawn waits inside, under the seed
    return here


def _agreed(seed: Seed) -> AgreedHere:
    here = AgreedHere()
    here.once(AgreementKey(seed), bytes(32), 1, 2, lambda: seed)  # what was agreed on waits inside
    return here


# Class name to an object of it whose every secret follows from the seed.
BEARERS: dict[str, Callable[[Seed], object]] = {
    "Seed": lambda seed: seed,
    "Keystream": Keystream,
    "AgreementKey": AgreementKey,
    "SigningKey": SigningKey,
    "Sealer": lambda seed: Sealer(seed, 1, 2),
    "Opener": lambda seed: Opener(seed, 1, 2),
    "SumSeeds": SumSeeds.of_users,
    "PadKeys": lambda seed: PadKeys(1, {2: seed}),
    "ShortStreams": ShortStreams,
    "ThreadedNormals": lambda seed: ThreadedNormals(seed, None),
    "DeviceNormals": lambda seed: DeviceNormals(seed, None, np.empty(0)),
    "Pads": lambda seed: Pads(((True, seed),)),
    "DrawnHere": _drawn,
    "AgreedHere": _agreed,
    "LeftMask": _left,
    "RightMask": _right,
    "Mixing": _mixing,
    "HaarBlocks": lambda seed: _mixing(seed).blocks[0],
    "Passes": lambda seed: Passes(_mixing(seed), 1 << 20),
    # Of linalg, but masks are made of them.
    "Reflectors": lambda seed: orthogonal(NUMBERS, Keystream(seed)),
}

HARMLESS = {
    "PadsOnce": "labels of what was padded; keys of tags of its process are in DrawnHere",
    "RunningSum": "masked and padded numbers, of which the CSP may read the sum; its repr has a test of its own",
    "WordSum": "as RunningSum; its repr has a test of its own",
    "TaggedSum": "as RunningSum; its repr has a test of its own",
    "_TagSum": "as RunningSum",
    "SumKind": "names of the three kinds of sums",
    "PlannedSum": "a public description of a sum",
}
