"""The plan of a small session, for tests of keys, plans and messages."""

from typing import Any

from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item, Scheme, Split, Task, Trust
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId


def small_plan(**changes: Any) -> SessionPlan:
    """Two users with two columns each, masks of an authority, and these changes."""
    return SessionPlan(
        SessionId("one"),
        Task.SVD,
        Split.VERTICAL,
        Scheme.MASK,
        Trust.AUTHORITY,
        **declared(Task.SVD).facts(Split.VERTICAL),
        **{"m": 3, "counts": (2, 2), "release": (Item.COMPONENTS,), **changes},
    )
