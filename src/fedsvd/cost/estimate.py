"""What a plan will cost, before anything is sent: bytes on every link, memory, flops and seconds of every role.

Bytes are exact for data of the rank that is assumed (full rank, unless another is given). Memory is the peak of a
role's own arrays, the messages it holds and LAPACK's workspaces, in bytes, and apart from it the messages that a
transport holds; data at rest, the interpreter and the fixed buffers of the BLAS come on top. Seconds are amounts of
work over the rates of a machine, the same for every role; what a network adds is in them where the speed of its links
is given.

Nothing here is hashed: the memory budget of a plan is a law of its shapes (``protocol/budget.py``), and an estimate may
count the threads of this machine.
"""

from dataclasses import dataclass, replace

from fedsvd.cost.labels import authority_steps, provider_steps, user_steps
from fedsvd.cost.rates import DEFAULT, Rates, Step, Work
from fedsvd.cost.traffic import Expected, full_rank, traffic
from fedsvd.protocol.certificate import Link
from fedsvd.protocol.parties import CSP, TA, Role
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Mode, Scheme
from fedsvd.types import byte_size


@dataclass(frozen=True)
class RoleCost:
    """One role's part: seconds and flops by stage, peak memory, bytes sent and received.

    ``seconds_by_stage`` is with a machine to itself and all its threads, ``core_seconds`` is all of it on one core, and
    ``shared_seconds`` with as many threads as each role has where all are processes of one machine. ``once`` has the
    parts of the first two that users of one process do together. ``memory`` is that of the role, ``buffers`` the
    messages that a transport between processes holds for it: one from each sender, and one on its way out.
    """

    seconds_by_stage: dict[str, float]
    core_seconds: float
    shared_seconds: float
    once: tuple[float, float]
    flops_by_stage: dict[str, float]
    memory: int
    buffers: int
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
    """What a session costs, by role (``user-1``, ..., ``csp``, ``ta``) and by link."""

    roles: dict[str, RoleCost]
    bytes_by_link: dict[Link, int]
    messages_by_link: dict[Link, int]
    cores: int = 1
    link: float | None = None  # bytes a second

    @property
    def bytes_total(self) -> int:
        return sum(self.bytes_by_link.values())

    @property
    def memory(self) -> int:
        """The most that any one role needs, its messages included."""
        return max(role.memory + role.buffers for role in self.roles.values())

    @property
    def seconds_on_one_machine(self) -> float:
        """With all roles in one process: one after the other, each with all threads."""
        return self._one_after_the_other(0, [role.seconds for role in self.roles.values()])

    @property
    def core_seconds_on_one_machine(self) -> float:
        """The same on one core."""
        return self._one_after_the_other(1, [role.core_seconds for role in self.roles.values()])

    def _one_after_the_other(self, which: int, each: list[float]) -> float:
        """What users do together counts once."""
        together = [role.once[which] for role in self.roles.values()]
        return sum(each) - sum(together) + max(together)

    @property
    def seconds_in_processes(self) -> float:
        """With a process to each role on one machine: users at the same time, who share its threads, then the CSP."""
        users = [role.shared_seconds for name, role in self.roles.items() if name.startswith(Role.USER)]
        at_once = min(len(users), self.cores)
        return max(max(users), sum(users) / at_once) + self._others

    @property
    def seconds_side_by_side(self) -> float:
        """With a machine to each role: users work at the same time, and wait for the CSP as it does for them."""
        users = [role.seconds for name, role in self.roles.items() if name.startswith(Role.USER)]
        return max(users) + self._others + self.seconds_on_links

    @property
    def seconds_on_links(self) -> float:
        """What the links take, all of which end at the CSP: zero where their speed is not given."""
        csp = self.roles[CSP.name]
        return (csp.sent + csp.received) / self.link if self.link else 0.0

    @property
    def _others(self) -> float:
        return sum(role.seconds for name, role in self.roles.items() if not name.startswith(Role.USER))


def predict(
    plan: SessionPlan,
    machine: Rates = DEFAULT,
    *,
    rank: int | None = None,
    well_conditioned: bool | None = None,
    in_memory: bool = True,
    link: float | None = None,
    iterations: int | None = None,
    passes: tuple[int, ...] = (),
    stored: tuple[float, ...] = (),
    searched: bool = True,
) -> Cost:
    """The cost of a session on this plan.

    ``rank`` is that of the joint (centred) data, full if not given. With ``well_conditioned`` (S_1 <= 16 S_r) users
    need not correct their right singular vectors, and compress them by products alone; without it they do. Where it
    is left open half of that work is counted. The sum for the correction is made in any case, if need be of zeros.
    Without ``in_memory`` users keep their own part elsewhere, panel by panel. ``link`` is the speed of the CSP's line
    in bytes a second, one way at a time; its delay is not counted. ``iterations`` are those of each model, ``passes``
    those of each block of the family ``steps``. Of sparse tables ``stored`` is the share of the entries that are, user
    by user: a plan does not know it, and a dense table is counted where it is not given. Unless it is ``searched``,
    the trace shows what U leaves out (step 7).
    """
    ill = 0.5 if well_conditioned is None else float(not well_conditioned)
    expected = Expected(full_rank(plan) if rank is None else rank, ill, in_memory, searched=searched)
    expected = expected if iterations is None else replace(expected, iterations=iterations)
    expected = replace(expected, passes=passes or expected.passes, stored=stored)
    sent, messages, longest = traffic(plan, expected)
    steps = {party: user_steps(plan, i, expected) for i, party in enumerate(plan.users)}
    steps[CSP] = provider_steps(plan, expected)
    if TA in plan.parties:
        steps[TA] = authority_steps(plan)
    roles = {}
    for party, own in steps.items():
        outgoing = sum(count for ends, count in sent.items() if ends[0] == party)
        incoming = sum(count for ends, count in sent.items() if ends[1] == party)
        handled = sum(count for ends, count in messages.items() if party in ends)
        out = max((size for ends, size in longest.items() if ends[0] == party), default=0)
        buffers = out + sum(size for ends, size in longest.items() if ends[1] == party)
        every = [*own, Step("messages", Work(messages=handled), 0)]
        roles[party.name] = _role(machine, len(steps), every, buffers, outgoing, incoming)
    return Cost(roles, dict(sorted(sent.items())), dict(sorted(messages.items())), machine.cores, link)


def _role(machine: Rates, roles: int, steps: list[Step], buffers: int, sent: int, received: int) -> RoleCost:
    seconds: dict[str, float] = {}
    flops: dict[str, float] = {}
    share = max(1, machine.cores // roles)  # as ``service.processes`` divides them
    alone, shared = (sum(machine.seconds(step.work, threads) for step in steps) for threads in (1, share))
    for step in steps:
        seconds[step.stage] = seconds.get(step.stage, 0.0) + machine.seconds(step.work, machine.threads)
        flops[step.stage] = flops.get(step.stage, 0.0) + step.work.flops
    memory = max(step.alive for step in steps)
    counted = {stage: count for stage, count in flops.items() if count}
    common = [step.work for step in steps if step.once]
    once = sum(machine.seconds(work, machine.threads) for work in common), sum(map(machine.seconds, common))
    return RoleCost(seconds, alone, shared, once, counted, memory, buffers, sent, received)


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
    """The masks: none in mode A, P over the common side in mode B; else the form of each side's, with its length."""
    if plan.scheme is Scheme.STEPS:
        return "none: the parties open the sums of every step"
    if plan.mode is Mode.A:
        return "none, mode A: the parties open the sum"
    if plan.mode is Mode.B:
        return f"P haar ({plan.m}), mode B: the CSP opens the sum"
    return f"P {plan.left} ({plan.masked_rows}), Q {plan.right} ({plan.N})"


def _names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]} ({len(names)})"


def _line(role: RoleCost) -> Line:
    longest = sorted(role.seconds_by_stage.items(), key=lambda item: -item[1])[:3]
    does = ", ".join(stage for stage, took in longest if took >= 0.1 * role.seconds)
    amounts = (byte_size(role.sent), byte_size(role.received), byte_size(role.memory + role.buffers))
    return Line("", does, *amounts, _time(role.seconds))


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.3g} min" if seconds < 3600 else f"{seconds / 3600:.3g} h"
