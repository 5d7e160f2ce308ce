"""Everything that can be said, for these tests: a strategy and an example of each message, and equality."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsvd.protocol import messages as m
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import ALL, CSP, TA, Party, Role, user
from fedsvd.types import Digest
from fedsvd.wire.codec import encode

PLAN = Digest("0123456789abcdef" * 4)
ROLES = st.sampled_from(Role)
WHOLE = st.integers(-(2**63), 2**63 - 1)
NUMBER = st.floats(allow_nan=True, allow_infinity=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
KEY = st.binary(max_size=80)


def _layout(array: np.ndarray, form: int) -> np.ndarray:
    """The same numbers in another layout: C order, Fortran order, strided, backwards."""
    if form == 1:
        return np.asfortranarray(array)
    if form == 2:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return array[::-1].copy()[::-1] if form == 3 else array


def arrays(kind: str, *dimensions: int) -> st.SearchStrategy[np.ndarray]:
    """Small arrays of every layout, also without entries."""
    shape = st.sampled_from(dimensions).flatmap(lambda d: st.tuples(*[st.integers(0, 4)] * d))
    return st.builds(_layout, hnp.arrays(np.dtype(kind), shape), st.integers(0, 3))


VECTOR, MATRIX = arrays("f8", 1), arrays("f8", 2)
TAG, PADDED = arrays("u8", 1), arrays("u8", 2)
PARTY = st.builds(Party, ROLES, st.integers(0, 2**32 - 1))

FIELDS: dict[type[Message], tuple[st.SearchStrategy[Any], ...]] = {
    m.KeyOffer: (KEY, KEY, KEY),
    m.KeyBook: (st.lists(st.tuples(PARTY, KEY, KEY, KEY), max_size=4).map(tuple),),
    m.Relay: (PARTY, st.binary(max_size=200)),
    m.Relayed: (PARTY, st.binary(max_size=200)),
    m.RowIds: (TAG,),
    m.RowsAgree: (),
    m.SumShare: (TEXT, WHOLE, PADDED, TAG, KEY),
    m.SumReply: (TEXT, WHOLE, PADDED, TAG, st.lists(KEY, max_size=4).map(tuple)),
    m.Ready: (),
    m.BatchRequest: (WHOLE,),
    m.PaddedBatch: (WHOLE, PADDED),
    m.Factors: (MATRIX, st.none() | VECTOR, NUMBER, NUMBER),
    m.Solution: (MATRIX, MATRIX, WHOLE, NUMBER),
    m.Finished: (KEY,),
    m.Aborted: (TEXT, TEXT),
    m.RowsRequest: (WHOLE,),
    m.FactorRows: (WHOLE, MATRIX),
    m.Countersigned: (KEY,),
    m.Challenge: (WHOLE, PADDED),
    m.Product: (VECTOR,),
    m.IdHashes: (WHOLE, PADDED),
    m.CommonRows: (WHOLE, TAG),
    m.Gathered: (st.lists(st.tuples(PARTY, KEY), max_size=4).map(tuple),),
}

_X = np.arange(6.0).reshape(2, 3) / 7
_W = np.arange(6, dtype=np.uint64).reshape(2, 3) * np.uint64(0x9E3779B97F4A7C15)
EXAMPLES: tuple[Message, ...] = (
    m.KeyOffer(PLAN, bytes(range(32)), b"commitment", bytes(64)),
    m.KeyBook(PLAN, ((user(1), b"a", b"", b"s"), (TA, bytes(32), b"c", bytes(64)))),
    m.Gathered(PLAN, ((user(1), b"sealed"), (user(2), b""))),
    m.Relay(PLAN, user(2), b"sealed"),
    m.Relay(PLAN, ALL, b"sealed to the group"),
    m.Relayed(PLAN, TA, b""),
    m.RowIds(PLAN, _W.ravel()),
    m.RowsAgree(PLAN),
    m.SumShare(PLAN, "mean", 0, _W, _W[0], bytes(range(32))),
    m.SumShare(PLAN, "gram", 7, _W[:, :2], _W[1]),
    m.SumReply(PLAN, "mean", 0, _W, _W[0], (bytes(32), b"\xff" * 32)),
    m.SumReply(PLAN, "null space", 1, np.asfortranarray(_W), _W[1]),
    m.Ready(PLAN),
    m.BatchRequest(PLAN, 3),
    m.PaddedBatch(PLAN, 3, np.asfortranarray(_W)),
    m.Factors(PLAN, np.asfortranarray(_X), _X[0], 1e-16, 2e-15),
    m.Factors(PLAN, _X, None, 0.0, 0.0),
    m.Solution(PLAN, _X, np.zeros((3, 0)), 2, 1e-15),
    m.Finished(PLAN, bytes(range(32))),
    m.Aborted(PLAN, "FSVD-413", "sealing: Fälle"),
    m.RowsRequest(PLAN, 2),
    m.FactorRows(PLAN, 2, np.asfortranarray(_X)),
    m.Countersigned(PLAN, bytes(64)),
    m.Countersigned(PLAN),
    m.Challenge(PLAN, 1, np.asfortranarray(_W)),
    m.Product(PLAN, _X[1]),
    m.IdHashes(PLAN, 2, _W[:, :2]),
    m.CommonRows(PLAN, 0, _W[0]),
)

messages = st.one_of(
    [
        st.builds(kind, st.binary(min_size=32, max_size=32).map(lambda d: Digest(d.hex())), *f)
        for kind, f in FIELDS.items()
    ]
)


def body(message: Message) -> bytes:
    """The message as one string of bytes."""
    return b"".join(encode(message))


def same(left: Any, right: Any) -> bool:
    """Whether two messages, or two fields, are alike to the last bit, NaNs included."""
    if isinstance(left, np.ndarray):
        alike: Callable[[np.ndarray], Any] = lambda a: (a.dtype, a.shape, a.tobytes())  # noqa: E731
        return isinstance(right, np.ndarray) and alike(left) == alike(right)
    if isinstance(left, tuple):
        return type(right) is tuple and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Message):
        return type(left) is type(right) and same(tuple(vars(left).items()), tuple(vars(right).items()))
    if isinstance(left, float):
        return type(right) is float and same(np.array([left]), np.array([right]))
    return type(left) is type(right) and left == right


__all__ = ["CSP", "EXAMPLES", "FIELDS", "PLAN", "arrays", "body", "messages", "same"]
