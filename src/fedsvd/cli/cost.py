"""What a plan will cost, told before a run: bytes, memory and time of every role."""

from dataclasses import astuple
from typing import Any

from rich.table import Table

from fedsvd.cli.voice import listing
from fedsvd.protocol.cost import HEADER, Cost, masks_of, table
from fedsvd.protocol.parties import named
from fedsvd.protocol.plan import SessionPlan


def cost_record(plan: SessionPlan, cost: Cost, names: tuple[str, ...]) -> dict[str, Any]:
    """The prediction as plain values, for JSON; users under the names of their parties."""
    called = {f"user-{i + 1}": name for i, name in enumerate(names)}
    return {
        "masks": masks_of(plan),
        "bytes": cost.bytes_total,
        "memory": cost.memory,
        "flops": sum(role.flops for role in cost.roles.values()),
        "seconds_in_one_process": cost.seconds_in_turns,
        "seconds_side_by_side": cost.seconds_side_by_side,
        "roles": {
            called.get(name, name): {
                "sends": role.sent,
                "receives": role.received,
                "memory": role.memory,
                "flops": role.flops,
                "seconds": role.seconds,
            }
            for name, role in cost.roles.items()
        },
    }


def cost_table(plan: SessionPlan, cost: Cost, names: tuple[str, ...]) -> Table:
    """The prediction for a person."""
    lines = [astuple(line) for line in table(plan, cost)]
    return listing(astuple(HEADER), [(named(role, names), *rest) for role, *rest in lines])
