"""What a plan will cost, before anything is sent: bytes on every link, memory, flops and seconds of every role.

Bytes are exact for data of the rank that is assumed (full rank, unless told otherwise). Memory is the peak of a role's
own arrays, the messages it holds and LAPACK's workspaces, in bytes; its data at rest, the interpreter and the fixed
buffers of the BLAS come on top. Seconds are amounts of work over the rates of a machine, the same for every role;
what a network adds is not in them.
"""

from dataclasses import dataclass, replace

from fedsvd.protocol.cost_provider import authority_steps, provider_steps
from fedsvd.protocol.cost_user import Step, user_steps
from fedsvd.protocol.parties import Role
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.rates import DEFAULT, Machine, Work
from fedsvd.protocol.tasks import Mode
from fedsvd.protocol.traffic import Expected, full_rank, traffic


@dataclass(frozen=True)
class RoleCost:
    """One role's part: seconds and flops by stage, peak memory, bytes said and heard."""

    seconds_by_stage: dict[str, float]
    flops_by_stage: dict[str, float]
    memory: int
    sent: int
    received: int

    @property
    def seconds(self) -> float:
        return sum(self.seconds_by_stage.values())

    @property
    def flops(self) -> float:
        return sum(self.flops_by_stage.values())


@dataclass(frozen=True)
class Cost:
    """What a session costs, by role (``user-1``, ..., ``csp``, ``ta``) and by link (``user-1 -> csp``)."""

    roles: dict[str, RoleCost]
    bytes_by_link: dict[str, int]
    messages_by_link: dict[str, int]

    @property
    def bytes_total(self) -> int:
        return sum(self.bytes_by_link.values())

    @property
    def memory(self) -> int:
        """The most that any one role needs."""
        return max(role.memory for role in self.roles.values())

    @property
    def seconds_in_turns(self) -> float:
        """With all roles in one process, one after the other."""
        return sum(role.seconds for role in self.roles.values())

    @property
    def seconds_side_by_side(self) -> float:
        """With a machine to each role: users work at the same time, and wait for the CSP as it does for them."""
        users = [role.seconds for name, role in self.roles.items() if name.startswith(Role.USER)]
        return max(users) + sum(role.seconds for name, role in self.roles.items() if not name.startswith(Role.USER))


def predict(
    plan: SessionPlan,
    machine: Machine = DEFAULT,
    *,
    rank: int | None = None,
    well_conditioned: bool = False,
    in_memory: bool = True,
) -> Cost:
    """The cost of a session on this plan.

    ``rank`` is that of the joint (centred) data, full if not given. With ``well_conditioned`` (S_1 <= 16 S_r) the
    users-only sum that corrects the right singular vectors is spared; without it the bytes are the upper bound.
    Without ``in_memory`` users keep their own part elsewhere, panel by panel.
    """
    expected = Expected(full_rank(plan) if rank is None else rank, not well_conditioned, in_memory)
    sent, messages = traffic(plan, expected)
    steps = {party.name: user_steps(plan, i, expected) for i, party in enumerate(plan.users)}
    steps["csp"] = provider_steps(plan, expected)
    if any(party.role is Role.TA for party in plan.parties):
        steps["ta"] = authority_steps(plan)
    roles = {}
    for name, own in steps.items():
        said = sum(count for link, count in sent.items() if link[0] == name)
        heard = sum(count for link, count in sent.items() if link[1] == name)
        handled = sum(count for link, count in messages.items() if name in link)
        roles[name] = _role(machine, [*own, Step("messages", Work(messages=handled), 0)], said, heard)
    return Cost(
        roles,
        {" -> ".join(link): count for link, count in sorted(sent.items())},
        {" -> ".join(link): count for link, count in sorted(messages.items())},
    )


def _role(machine: Machine, steps: list[Step], sent: int, received: int) -> RoleCost:
    seconds: dict[str, float] = {}
    flops: dict[str, float] = {}
    for step in steps:
        seconds[step.stage] = seconds.get(step.stage, 0.0) + machine.seconds(step.work)
        flops[step.stage] = flops.get(step.stage, 0.0) + step.work.flops
    memory = max(step.alive for step in steps)
    return RoleCost(seconds, {stage: count for stage, count in flops.items() if count}, memory, sent, received)


@dataclass(frozen=True)
class Line:
    """One line of the table that is printed before a run."""

    role: str
    does: str
    sends: str
    receives: str
    memory: str
    time: str


HEADER = Line("role", "does", "sends", "receives", "memory", "time")


def table(plan: SessionPlan, cost: Cost) -> list[Line]:
    """A line for each role; users with equally many columns who cost the same share one."""
    counts = {party.name: count for party, count in zip(plan.users, plan.counts, strict=True)}
    alike: dict[tuple[int, Line], list[str]] = {}
    for name, role in cost.roles.items():
        alike.setdefault((counts.get(name, 0), _line(role)), []).append(name)
    return [replace(line, role=_names(names)) for (_, line), names in alike.items()]


def masks_of(plan: SessionPlan) -> str:
    """The form of each side's mask, with its windows; P alone where Gram matrices are summed, none in mode A."""
    if plan.mode is Mode.A:
        return "none: the parties open the sum themselves"
    if plan.mode is Mode.B:
        return f"P {plan.left} ({plan.masked_rows}, 1 window)"
    left, right = len(plan.left_windows), len(plan.right_windows)
    return f"P {plan.left} ({plan.masked_rows}, {_count(left)}), Q {plan.right} ({plan.N}, {_count(right)})"


def _count(windows: int) -> str:
    return "1 window" if windows == 1 else f"{windows} windows"


def _names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]} ({len(names)})"


def _line(role: RoleCost) -> Line:
    longest = sorted(role.seconds_by_stage.items(), key=lambda item: -item[1])[:3]
    does = ", ".join(stage for stage, took in longest if took >= 0.1 * role.seconds)
    amounts = (readable(role.sent), readable(role.received), readable(role.memory))
    return Line("", does, *amounts, _time(role.seconds))


def readable(count: float) -> str:
    """A number of bytes for people: 8 MB, 1.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.3g} min" if seconds < 3600 else f"{seconds / 3600:.3g} h"
