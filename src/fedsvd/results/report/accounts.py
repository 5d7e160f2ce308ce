"""Where time and bytes went, role by role and stage by stage, beside what the cost model had said before the run."""

from collections import defaultdict

from fedsvd.cost.estimate import masks_of, predict
from fedsvd.results.report import charts
from fedsvd.results.report.parts import Figure, Grid, Section, grid
from fedsvd.results.report.subject import Subject, role_name
from fedsvd.types import byte_size

# Kinds of message by what they are for (docs/protocol.md); small ones share a name.
STEPS = {
    "KeyOffer": "keys and sealed messages",
    "KeyBook": "keys and sealed messages",
    "Relay": "keys and sealed messages",
    "Relayed": "keys and sealed messages",
    "RowIds": "row ids",
    "RowsAgree": "row ids",
    "SumShare": "sums",
    "SumReply": "sums",
    "PaddedBatch": "upload",
    "Factors": "answer",
    "RowsRequest": "answer",
    "FactorRows": "answer",
    "Solution": "answer",
    "BlindedRightMask": "equation 6",
    "BlindedRightFactor": "equation 6",
}
_OTHER = "control"  # Ready, BatchRequest, Finished and their like: a few bytes each


def accounts(subject: Subject) -> Section:
    """Time and bytes of every role the reader knows about."""
    figures = []
    timeline = _timeline(subject)
    if timeline:
        stages = [
            (role, stage, f"{began:.3g}", f"{took:.3g}")
            for role, bars in timeline.items()
            for stage, began, took in bars
        ]
        table = grid("Seconds of every stage", ("role", "stage", "began", "took"), stages)
        caption = (
            "When each role was busy, stage by stage; a bar begins where the stage was first entered. "
            "Colours only tell neighbouring stages apart."
        )
        figures.append(Figure(charts.gantt(timeline, "Time of every role"), caption, table))
    sent, kinds = _sent(subject)
    if sent:
        unit, scale = _unit(max(sum(parts.values()) for parts in sent.values()))
        scaled = {role: {kind: count / scale for kind, count in parts.items()} for role, parts in sent.items()}
        bytes_table = grid(
            "Bytes sent, by step",
            ("role", *kinds),
            [(role, *(byte_size(parts.get(kind, 0)) for kind in kinds)) for role, parts in sent.items()],
        )
        picture = charts.stacked(scaled, kinds, "Bytes that every role sent", unit)
        figures.append(Figure(picture, "What each role sent, by step of the protocol.", bytes_table))
    words = (f"Sent in all, as far as this reader can count: {byte_size(subject.certificate.bytes_total)}.",)
    return Section("accounts", "Time and bytes", words, tuple(figures))


def against_the_model(subject: Subject) -> Section:
    """What the cost model said beside what was measured."""
    cost = predict(subject.plan, rank=subject.rank or None)
    grids = [_bytes_beside(subject, cost.bytes_by_link), _seconds_beside(subject)]
    words = (
        f"Masks: {masks_of(subject.plan)}. Predicted from the plan alone; links and stages that this reader cannot "
        "see are left out. Seconds are those of the model's reference machine; bytes are exact for data of this rank.",
    )
    return Section("model", "Cost model against measured", words, (), tuple(table for table in grids if table.rows))


def _bytes_beside(subject: Subject, predicted: dict[str, int]) -> Grid:
    rows = []
    for link, measured in subject.certificate.bytes_by_link.items():
        origin, to = (role_name(end, subject.names) for end in link.split(" -> "))
        said = predicted.get(link, 0)
        ratio = f"{measured / said:.3f}" if said else ""
        rows.append((f"{origin} → {to}", byte_size(said), byte_size(measured), ratio))
    return grid("Bytes on every link", ("link", "predicted", "measured", "ratio"), rows)


def _seconds_beside(subject: Subject) -> Grid:
    cost = predict(subject.plan, rank=subject.rank or None)
    measured: dict[str, float] = defaultdict(float)
    peaks = subject.certificate.peak_memory
    for key, spent in subject.certificate.seconds_by_stage.items():
        measured[key.partition(": ")[0]] += spent
    rows = [
        (
            role_name(role, subject.names),
            f"{cost.roles[role].seconds:.3g} s",
            f"{spent:.3g} s",
            byte_size(cost.roles[role].memory),
            byte_size(peaks[role]) if role in peaks else "",
        )
        for role, spent in measured.items()
        if role in cost.roles
    ]
    heads = ("role", "predicted", "measured", "memory, predicted", "peak of its process")
    return grid("Seconds and memory of every role", heads, rows)


def _timeline(subject: Subject) -> dict[str, list[tuple[str, float, float]]]:
    """Every role's stages in the order they began; without beginnings, one after the other."""
    rows: dict[str, list[tuple[str, float, float]]] = {}
    certificate, at = subject.certificate, dict[str, float]()
    for key, took in certificate.seconds_by_stage.items():
        role, _, stage = key.partition(": ")
        began = certificate.began_by_stage.get(key, at.get(role, 0.0))
        at[role] = began + took
        rows.setdefault(role_name(role, subject.names), []).append((stage, began, took))
    return {role: sorted(stages, key=lambda stage: stage[1]) for role, stages in rows.items()}


def _sent(subject: Subject) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Bytes by role and step, and the steps that occur, largest first."""
    rows: dict[str, dict[str, float]] = {}
    totals: dict[str, float] = defaultdict(float)
    for key, count in subject.certificate.bytes_by_kind.items():
        role, _, kind = key.partition(": ")
        step, parts = STEPS.get(kind, _OTHER), rows.setdefault(role_name(role, subject.names), {})
        parts[step] = parts.get(step, 0.0) + count
        totals[step] += count
    return rows, sorted(totals, key=lambda step: -totals[step])


def _unit(most: float) -> tuple[str, float]:
    for unit, scale in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if most >= scale:
            return unit, scale
    return "B", 1.0
