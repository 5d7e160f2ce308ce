"""Messages show their shapes and never their content; their size is what a wire would carry."""

import numpy as np
import pytest

from fedsvd.protocol.messages import (
    Aborted,
    Countersigned,
    Factors,
    Finished,
    KeyBook,
    KeyOffer,
    PaddedBatch,
    Ready,
    Relay,
    Solution,
    SumReply,
    SumShare,
    Views,
    size,
)
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.types import Digest

DIGEST = Digest("d" * 64)
SECRET = b"271828 secret 271828"


@pytest.mark.parametrize(
    ("message", "shown", "content"),
    [
        (KeyOffer(DIGEST, SECRET, b"", SECRET), "<20 bytes>", 40),
        (Relay(DIGEST, user(2), SECRET), "to=user 2", 8 + 20),
        (
            SumShare(DIGEST, "norm", 0, np.full((2, 67), 271828, np.uint64), np.full(3, 271828, np.uint64), SECRET),
            "name=norm, batch=0, payload=<uint64 (2, 67)>, tag=<uint64 (3,)>, commitment=<20 bytes>",
            4 + 8 + 1072 + 24 + 20,
        ),
        (PaddedBatch(DIGEST, 3, np.full((2, 3), 271828, np.uint64)), "batch=3, payload=<uint64 (2, 3)>", 8 + 48),
        (Factors(DIGEST, np.full((4, 2), 271828.0), None, 1e-15, 0.0), "U_masked=<float64 (4, 2)>", 64 + 16),
        (Solution(DIGEST, np.full((4, 1), 271828.0), np.zeros((4, 0)), 4, 0.0), "<float64 (4, 1)>", 32 + 16),
        (KeyBook(DIGEST, ((user(1), SECRET, b"", SECRET),)), "<1 items>", 8 + 40),
        (
            SumReply(DIGEST, "mean", 2, np.full((1, 2), 271828, np.uint64), np.zeros(3, np.uint64), (SECRET, SECRET)),
            "commitments=<2 items>",
            4 + 8 + 16 + 24 + 40,
        ),
        (Ready(DIGEST), "Ready()", 0),
        (Finished(DIGEST, SECRET), "certificate=<20 bytes>", 20),
        (Countersigned(DIGEST, SECRET), "signature=<20 bytes>", 20),
        (Aborted(DIGEST, "FSVD-412", "aggregating"), "code=FSVD-412, stage=aggregating", 8 + 11),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str | int) else "",
)
def test_a_message_shows_shapes_and_counts_its_bytes(message, shown, content):
    assert shown in repr(message)
    assert "271828" not in repr(message)
    assert DIGEST not in repr(message)
    assert size(message) == content + 64


def test_parties_have_names_for_people_and_for_links():
    assert [str(party) for party in (CSP, TA, user(3))] == ["CSP", "TA", "user 3"]
    assert [party.name for party in (CSP, TA, user(3))] == ["csp", "ta", "user-3"]


def test_views_keep_who_said_what_in_order():
    views = Views()
    assert views.of(CSP, Ready) == []
    assert views.kinds(CSP) == set()
    said = [Ready(DIGEST), Relay(DIGEST, user(2), b""), Ready(DIGEST)]
    for sender, message in zip((user(1), user(1), user(2)), said, strict=True):
        views.record(CSP, sender, message)
    assert views.of(CSP, Ready) == [(user(1), said[0]), (user(2), said[2])]
    assert views.kinds(CSP) == {Ready, Relay}
    assert views.of(user(1), Ready) == []
