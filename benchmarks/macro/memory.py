"""The memory of single roles against the cost model, in a process of its own: ``python -m benchmarks.macro.memory``.

A line of JSON for each shape. The allocator gives memory back at once from the start of the process; once a heap has
grown, freed arrays stay in it and would be counted.
"""

import json
import sys
from typing import Any
from warnings import simplefilter

from benchmarks.macro.replay import live, received_by, return_memory_at_once
from benchmarks.macro.shapes import Shape, shapes
from fedsvd.cost.estimate import predict
from fedsvd.errors import PrivacyWarning
from fedsvd.protocol.parties import Party, Role
from fedsvd.testing.federation import Federation

_SMALL = 8 << 20  # bytes; below, the interpreter's own memory would be measured


def main() -> int:
    """Every shape's role that is furthest from its prediction."""
    return_memory_at_once()
    simplefilter("ignore", PrivacyWarning)
    for shape in shapes():
        print(json.dumps(furthest(shape)), flush=True)
    return 0


def furthest(shape: Shape) -> dict[str, Any]:
    """Predicted and taken bytes, of first and last user, CSP and TA, where the two differ most."""
    federation = shape.federation()
    result, *_ = federation.run()
    plan = federation.plan
    cost = predict(plan, well_conditioned=well_conditioned(result))
    found = []
    for party in plan.parties:
        if party.role is Role.USER and party.index not in (1, plan.k):
            continue
        taken, predicted = alone(federation, party), cost.roles[party.name].memory
        if max(taken, predicted) > _SMALL:
            found.append({"shape": shape.name, "role": party.name, "predicted": predicted, "taken": taken})
    return max(
        found, key=lambda row: abs(row["predicted"] / row["taken"] - 1), default={"shape": shape.name, "role": ""}
    )


def well_conditioned(result: Any) -> bool:
    """What only the data decides: whether S_1 <= 16 S_r, so that the right vectors need no correction."""
    sigma = getattr(result, "sigma", None)
    return sigma is not None and bool(sigma[0] <= 16 * sigma[-1])


def alone(federation: Federation, party: Party) -> int:
    """The memory of one role that lives through the session again."""
    machine = next(machine for machine in federation.assemble().machines if machine.me == party)
    return live(machine, received_by(federation.views, party)).memory


if __name__ == "__main__":
    sys.exit(main())
