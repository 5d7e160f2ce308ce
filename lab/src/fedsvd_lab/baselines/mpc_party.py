"""One party of the secret-shared regression: ``python -m fedsvd_lab.baselines.mpc_party -M3 ROWS FEATURES SEED``.

MPyC starts the other parties itself. Party 0 owns half of the features, party 1 the other half and the labels, party 2
helps. Every party draws the same numbers from the seed, because only time and exactness are of interest; each then
shares only what it owns. Party 0 prints one line of JSON: seconds to share the data, seconds for a gradient step, its
error.
"""

import json
import sys
from time import perf_counter
from typing import Any

import numpy as np
from mpyc.runtime import mpc

_BITS, _FRACTION = 64, 24


async def main(rows: int, features: int, seed: int) -> dict[str, Any] | None:
    """A gradient step ``X^T (X w - y)`` on secret shares."""
    kind = mpc.SecFxp(_BITS, _FRACTION)
    rng = np.random.default_rng(seed)
    X, y, w = rng.uniform(-1, 1, (rows, features)), rng.uniform(-1, 1, rows), rng.uniform(-1, 1, features)
    half = features // 2
    await mpc.start()
    started = perf_counter()
    left = mpc.input(kind.array(X[:, :half]), senders=0)
    right = mpc.input(kind.array(X[:, half:]), senders=1)
    labels = mpc.input(kind.array(y), senders=1)
    shared = mpc.np_hstack((left, right))
    weights = mpc.input(kind.array(w), senders=1)
    await mpc.gather(shared, labels, weights)
    in_place = perf_counter()
    gradient = await mpc.output(shared.T @ (shared @ weights - labels))
    done = perf_counter()
    await mpc.shutdown()
    expected = X.T @ (X @ w - y)
    error = float(np.abs(np.asarray(gradient, dtype=np.float64) - expected).max() / np.abs(expected).max())
    return {"share": in_place - started, "step": done - in_place, "error": error, "parties": len(mpc.parties)}


if __name__ == "__main__":
    facts = mpc.run(main(*map(int, sys.argv[1:4])))
    if mpc.pid == 0:
        sys.stdout.write(json.dumps(facts) + "\n")
