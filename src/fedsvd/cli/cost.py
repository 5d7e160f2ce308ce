"""What a plan will cost, estimated before a run: bytes, memory and time of every role, and what the time rests on."""

import re
from dataclasses import astuple, dataclass
from typing import Any

from rich.table import Table

from fedsvd.cli.output import duration, listing
from fedsvd.cost.calibration import rated
from fedsvd.cost.estimate import HEADER, Cost, masks_of, predict, table
from fedsvd.errors import ConfigError
from fedsvd.protocol.parties import named
from fedsvd.protocol.plan import SessionPlan
from fedsvd.types import byte_size

_BITS = {"bit/s": 1.0, "bits/s": 1.0, "bps": 1.0, "b/s": 8.0, "byte/s": 8.0, "bytes/s": 8.0}
_TIMES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}


@dataclass(frozen=True)
class Estimate:
    """A plan's cost, and the rates and the link that its seconds rest on."""

    cost: Cost
    rates: str

    @property
    def basis(self) -> str:
        """Which rates and which link the seconds were made with."""
        link = self.cost.link
        return f"{self.rates}; {'the network is not counted' if link is None else f'a link of {byte_size(link)}/s'}"


def estimate(
    plan: SessionPlan,
    *,
    link: str | None = None,
    afresh: bool = False,
    in_memory: bool = True,
    stored: tuple[float, ...] = (),
) -> Estimate:
    """What this plan costs at this machine's rates, measured afresh where that is asked for."""
    speed = None if link is None else link_speed(link)
    found = rated(afresh)
    return Estimate(predict(plan, found.machine, in_memory=in_memory, link=speed, stored=stored), found.source)


def link_speed(text: str) -> float:
    """Bytes a second, from a text such as ``100 Mbit/s`` or ``12 MB/s``."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?)(\w+(?:/s)?)\s*", text, re.IGNORECASE)
    unit = None if found is None else _BITS.get(found[3].lower())
    if found is None or unit is None or float(found[1]) <= 0:
        raise ConfigError(f"link is {text!r}", 'a speed such as "100 Mbit/s" or "12 MB/s"')
    return float(found[1]) * _TIMES[found[2].lower()] * unit / 8


def cost_record(plan: SessionPlan, estimated: Estimate, names: tuple[str, ...]) -> dict[str, Any]:
    """The estimate as plain values, for JSON; users under the names of their parties."""
    called = {f"user-{i + 1}": name for i, name in enumerate(names)}
    cost = estimated.cost
    return {
        "masks": masks_of(plan),
        "bytes": cost.bytes_total,
        "memory": cost.memory,
        "flops": sum(role.flops for role in cost.roles.values()),
        "seconds_on_one_machine": cost.seconds_on_one_machine,
        "seconds_side_by_side": cost.seconds_side_by_side,
        "seconds_on_links": cost.seconds_on_links if cost.link else None,
        "link": cost.link,
        "rates": estimated.rates,
        "roles": {
            called.get(name, name): {
                "sends": role.sent,
                "receives": role.received,
                "memory": role.memory + role.buffers,
                "flops": role.flops,
                "seconds": role.seconds,
            }
            for name, role in cost.roles.items()
        },
    }


def family_record(plan: SessionPlan, estimated: Estimate) -> dict[str, Any]:
    """Bytes and seconds of a study in the family that its plan did not choose, for JSON."""
    cost = estimated.cost
    return {
        "scheme": plan.scheme,
        "mode": plan.mode,
        "bytes": cost.bytes_total,
        "memory": cost.memory,
        "seconds_on_one_machine": cost.seconds_on_one_machine,
        "seconds_side_by_side": cost.seconds_side_by_side,
    }


def compared_line(plan: SessionPlan, estimated: Estimate) -> str:
    """The same for a person."""
    cost = estimated.cost
    apart, together = roughly(cost.seconds_side_by_side), roughly(cost.seconds_on_one_machine)
    family = f'scheme = "{plan.scheme}"' + ("" if plan.mode is None else f", mode {plan.mode}")
    return f"with {family} instead: {byte_size(cost.bytes_total)}; {apart} apart, {together} on this machine"


def cost_table(plan: SessionPlan, cost: Cost, names: tuple[str, ...]) -> Table:
    """The estimate for a person."""
    lines = [astuple(line) for line in table(plan, cost)]
    return listing(astuple(HEADER), [(named(role, names), *rest) for role, *rest in lines])


def roughly(seconds: float) -> str:
    """A time for a person, no finer than it is known: what a run takes in addition to its work is not estimated."""
    return "less than a second" if seconds < 0.5 else f"about {duration(seconds)}"


def in_words(cost: Cost, basis: str) -> list[str]:
    """The totals for a person, and what they rest on."""
    flops = sum(role.flops for role in cost.roles.values())
    apart, together = roughly(cost.seconds_side_by_side), roughly(cost.seconds_on_one_machine)
    lines = [
        f"{byte_size(cost.bytes_total)} and {flops:.1e} operations in all",
        f"{apart} with a machine to each role, {together} with all roles on this one ({basis})",
    ]
    if cost.link is None:
        lines.append('how fast is the CSP\'s line? --link "100 Mbit/s" adds the time of the network')
    else:
        lines.append(f"of it {duration(cost.seconds_on_links)} on the links; a line's delay is not counted")
    return lines
