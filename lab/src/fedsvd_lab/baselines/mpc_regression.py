"""The MPC peer: a gradient step on secret shares among three processes, by MPyC (the extra ``mpc``).

It stands for SecureML's online phase: honest majority among three in place of two with dealt triples, so its absolute
times are its own; how it grows, and that every step goes over the network, are the same.
"""

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass

from fedsvd.errors import MissingExtra, PeerLost

_PATIENCE = 600.0
PARTIES = 3


@dataclass(frozen=True)
class SharedStep:
    """One gradient step on secret shares: seconds to share the data once, seconds for a step, relative error."""

    share: float
    step: float
    error: float


def available() -> bool:
    """Whether MPyC is installed."""
    return importlib.util.find_spec("mpyc") is not None


def shared_step(rows: int, features: int, *, seed: int) -> SharedStep:
    """Time a step on data of this shape, three processes on this machine."""
    if not available():
        raise MissingExtra("the MPC peer needs MPyC", "pip install 'fedsvd[mpc]'")
    shape = [str(number) for number in (rows, features, seed)]
    # MPyC learns the number of parties from the command line, before ours is read.
    command = [sys.executable, "-m", "fedsvd_lab.baselines.mpc_party", f"-M{PARTIES}", "--no-log", *shape]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise PeerLost(f"the MPC peer took more than {_PATIENCE:.0f} s at {rows} x {features}", "fewer rows") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise PeerLost(f"the MPC peer ended with code {done.returncode}", "run it by hand to see why")
    facts = json.loads(lines[-1])
    return SharedStep(facts["share"], facts["step"], facts["error"])
