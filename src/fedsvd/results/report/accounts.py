"""Where time and bytes went, role by role and stage by stage, compared with what the cost model estimates."""

from collections import defaultdict

from fedsvd.cost.estimate import Cost, masks_of, predict
from fedsvd.protocol.parties import Party
from fedsvd.results.report import charts
from fedsvd.results.report.sections import Figure, Grid, Section, grid, role_name
from fedsvd.results.result import PartyResult
from fedsvd.types import byte_size, byte_unit

# Kinds of message by what they are for (docs/protocol.md); small ones share a name.
STEPS = {
    "KeyOffer": "keys and sealed messages",
    "KeyBook": "keys and sealed messages",
    "Relay": "keys and sealed messages",
    "Relayed": "keys and sealed messages",
    "Gathered": "keys and sealed messages",
    "RowIds": "row ids",
    "RowsAgree": "row ids",
    "IdHashes": "row ids",
    "CommonRows": "row ids",
    "SumShare": "sums",
    "SumReply": "sums",
    "PaddedBatch": "upload",
    "Factors": "answer",
    "RowsRequest": "answer",
    "FactorRows": "answer",
    "Solution": "answer",
}
_OTHER = "control"  # Ready, BatchRequest, Finished and their like: a few bytes each


def accounts(result: PartyResult) -> Section:
    """Time and bytes of every role the reader knows about."""
    figures = []
    timeline = _timeline(result)
    if timeline:
        stages = [
            (role, stage, f"{began:.3g}", f"{took:.3g}")
            for role, bars in timeline.items()
            for stage, began, took in bars
        ]
        table = grid("Seconds of every stage", ("role", "stage", "began", "took"), stages)
        caption = (
            "When each role was busy, stage by stage; a bar begins where the stage was first entered. "
            "Colours only distinguish neighbouring stages."
        )
        figures.append(Figure(charts.gantt(timeline, "Time of every role"), caption, table))
    sent, kinds = _sent(result)
    if sent:
        unit, scale = byte_unit(max(sum(parts.values()) for parts in sent.values()))
        scaled = {role: {kind: count / scale for kind, count in parts.items()} for role, parts in sent.items()}
        bytes_table = grid(
            "Bytes sent, by step",
            ("role", *kinds),
            [(role, *(byte_size(parts.get(kind, 0)) for kind in kinds)) for role, parts in sent.items()],
        )
        picture = charts.stacked(scaled, kinds, "Bytes that every role sent", unit)
        figures.append(Figure(picture, "What each role sent, by step of the protocol.", bytes_table))
    words = (f"Sent in all, as far as this reader can count: {byte_size(result.certificate.bytes_total)}.",)
    return Section("accounts", "Time and bytes", words, tuple(figures))


def against_the_model(result: PartyResult) -> Section:
    """What the cost model estimates, and what was measured."""
    models = result.facts.get("models")
    iterations = max(model["iterations"] for model in models) if models else None
    passes = tuple((result.facts.get("found") or {}).get("passes", ()))
    cost = predict(result.plan, rank=result.rank or None, iterations=iterations, passes=passes)
    grids = [_bytes_compared(result, cost), _seconds_compared(result, cost)]
    words = (
        f"Masks: {masks_of(result.plan)}. Predicted from the plan alone; links and stages that this reader cannot "
        "see are left out. Seconds are those of the model's reference machine; bytes are exact for data of this rank.",
    )
    return Section("model", "Cost model against measured", words, (), tuple(table for table in grids if table.rows))


def _bytes_compared(result: PartyResult, cost: Cost) -> Grid:
    rows = []
    for link, measured in result.certificate.bytes_by_link.items():
        origin, to = (role_name(end, result.names) for end in link)
        predicted = cost.bytes_by_link.get(link, 0)
        ratio = f"{measured / predicted:.3f}" if predicted else ""
        rows.append((f"{origin} → {to}", byte_size(predicted), byte_size(measured), ratio))
    return grid("Bytes on every link", ("link", "predicted", "measured", "ratio"), rows)


def _seconds_compared(result: PartyResult, cost: Cost) -> Grid:
    measured: dict[Party, float] = defaultdict(float)
    peaks = result.certificate.peak_memory
    for (party, _), spent in result.certificate.seconds_by_stage.items():
        measured[party] += spent
    rows = [
        (
            role_name(party, result.names),
            f"{cost.roles[party.name].seconds:.3g} s",
            f"{spent:.3g} s",
            byte_size(cost.roles[party.name].memory),
            byte_size(peaks[party]) if party in peaks else "",
        )
        for party, spent in measured.items()
        if party.name in cost.roles
    ]
    heads = ("role", "predicted", "measured", "memory, predicted", "peak of its process")
    return grid("Seconds and memory of every role", heads, rows)


def _timeline(result: PartyResult) -> dict[str, list[tuple[str, float, float]]]:
    """Every role's stages in the order they began; without beginnings, one after the other."""
    rows: dict[str, list[tuple[str, float, float]]] = {}
    certificate, at = result.certificate, dict[Party, float]()
    for (party, stage), took in certificate.seconds_by_stage.items():
        began = certificate.began_by_stage.get((party, stage), at.get(party, 0.0))
        at[party] = began + took
        rows.setdefault(role_name(party, result.names), []).append((stage, began, took))
    return {role: sorted(stages, key=lambda stage: stage[1]) for role, stages in rows.items()}


def _sent(result: PartyResult) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Bytes by role and step, and the steps that occur, largest first."""
    rows: dict[str, dict[str, float]] = {}
    totals: dict[str, float] = defaultdict(float)
    for (party, kind), count in result.certificate.bytes_by_kind.items():
        step, parts = STEPS.get(kind, _OTHER), rows.setdefault(role_name(party, result.names), {})
        parts[step] = parts.get(step, 0.0) + count
        totals[step] += count
    return rows, sorted(totals, key=lambda step: -totals[step])
