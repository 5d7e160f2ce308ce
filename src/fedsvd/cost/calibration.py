"""How fast this machine is: the rates of the cost model, measured once in about a second and stored.

Each rate is measured on the kernel it stands for, with one BLAS thread and by this thread's own processor time: what
else runs on the machine hardly counts. The shortest of a few rounds is taken. Rates are stored in the user's cache
folder, for this version of fedsvd, this processor, this BLAS and its threads; where they cannot be stored, or what is
stored cannot be read, they are measured again.
"""

import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from fedsvd import __version__
from fedsvd.cost.rates import Rates
from fedsvd.linalg import backend
from fedsvd.linalg.householder import Reflectors, draw
from fedsvd.linalg.pools import available
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey, pair_key
from fedsvd.secagg import fixed_point, wide
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, pad
from fedsvd.types import Digest, Float, SessionId

_ROUNDS = 3
_SVD = 640  # rows and columns; a smaller SVD is slower for its operations
_WORDS = 1 << 19
_FRESH = 5 << 20  # numbers; above what an allocator keeps for itself, so that their pages are new


@dataclass(frozen=True)
class Rated:
    """The rates that an estimate uses, and where they come from."""

    machine: Rates
    source: str


def rated(afresh: bool = False) -> Rated:
    """The rates of this machine: those that are stored for it, or measured now."""
    path, key = _stored_at(), _key()
    found = None if afresh else _read(path, key)
    if found is not None:
        return Rated(found, "this machine's rates, measured before")
    machine = calibrate()
    with suppress(OSError):  # a cache that cannot be written costs a second the next time
        _write(path, key, machine)
    return Rated(machine, "this machine's rates, measured now")


def calibrate() -> Rates:
    """The rates of one core of this machine, measured now."""
    stream = Keystream(Seed(bytes(32)))
    threads = available()
    with backend.one_thread():
        rates = {**_dense(stream), **_masks(stream), **_ring(stream), **_scalars(stream)}
    return Rates(**rates, cores=own_cores(), threads=min(threads, own_cores()))


def own_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _dense(stream: Keystream) -> dict[str, float]:
    n, long = 512, 1536
    A, X, B = stream.normal((n, n)), stream.normal((n, long)), stream.normal((_SVD, _SVD))
    R = np.asfortranarray(np.triu(A) + n * np.eye(n))
    fresh = np.ones(_FRESH)

    def solved() -> object:
        return backend.gram(backend.solve_triangular(R, X, transposed=True))

    return {
        "gemm": 2.0 * n * n * long / best_seconds(lambda: A @ X),
        "solve": 2.0 * n * n * long / best_seconds(solved),
        "qr": (2.0 * long * n * n - 2 / 3 * n**3) / best_seconds(lambda: backend.qr_r(X.T)),
        "svd": 22.0 * _SVD**3 / best_seconds(lambda: backend.svd(B), 2),
        "memory": 8.0 * _FRESH / best_seconds(lambda: fresh * 2.0),
    }


def _masks(stream: Keystream) -> dict[str, float]:
    n, columns = 1000, 512
    X, Y = stream.normal((n, columns)), stream.normal((1 << 14, 32))
    Q, narrow = draw(n, stream.normal), draw(250, stream.normal)

    def blocks() -> None:
        for start in range(0, n, 250):
            narrow.left(X[start : start + 250])

    return {
        "reflect": 2.0 * n * n * columns / best_seconds(lambda: _product(Q, X)),
        "blocks": 2.0 * 250 * n * columns / best_seconds(blocks),
        "dct": Y.size
        * math.log2(len(Y))
        / best_seconds(lambda: backend.dct(Y), clock=process_time),  # it has threads of its own
        "normals": _WORDS / best_seconds(lambda: stream.normal(_WORDS), 2),
    }


def _product(Q: Reflectors, X: Float) -> Float:
    reflected: Float = Q.left_t(X)
    return reflected


def _ring(stream: Keystream) -> dict[str, float]:
    Y = stream.normal((1024, _WORDS // 1024))
    codes = fixed_point.encode(Y, 40)
    keys = PadKeys(1, {peer: Seed(bytes([peer]) * 32) for peer in (2, 3, 4)})
    return {
        "encode": Y.nbytes / best_seconds(lambda: fixed_point.encode(Y, 40)),
        "aes": 3 * Y.nbytes / best_seconds(lambda: pad(codes, keys, "calibration", 0, PadsOnce())),
    }


def _scalars(stream: Keystream) -> dict[str, float]:
    values = stream.normal(200)
    mine, theirs = AgreementKey(Seed(bytes(32))), AgreementKey(Seed(bytes([1]) * 32))

    def agree() -> None:
        pair_key(mine, theirs.public, me=1, them=2, session=SessionId("s"), plan=Digest("p"), purpose="calibration")

    return {
        "scalars": values.size / best_seconds(lambda: wide.decode(wide.encode(values))),
        "keys": 1 / best_seconds(agree),
        "messages": 5e4,
    }


def best_seconds(work: Callable[[], object], rounds: int = _ROUNDS, clock: Callable[[], float] = thread_time) -> float:
    """The shortest of a few rounds, in seconds of this thread's processor time."""
    best = float("inf")
    for _ in range(rounds):
        started = clock()
        work()
        best = min(best, clock() - started)
    return max(best, 1e-9)


# --- what is stored -------------------------------------------------------------------------------------------------


def _stored_at() -> Path:
    """The file of rates in this user's cache folder."""
    if sys.platform == "darwin":
        usual = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        usual = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        usual = Path.home() / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "fedsvd" / "rates.json"


def _key() -> str:
    """What the rates hold for: another version, processor, BLAS or number of threads has others."""
    # NumPy and SciPy may each bring a BLAS, and SciPy's is loaded late: a set, so that the key does not change with it.
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    blas = {(pool["internal_api"], str(pool.get("architecture")), pool["num_threads"]) for pool in pools}
    versions = [__version__, np.__version__, scipy.__version__]
    return json.dumps([versions, platform.machine(), processor(), sorted(blas), own_cores()])


def processor() -> str:
    """The processor's name, as far as the system says it."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _read(path: Path, key: str) -> Rates | None:
    """The rates stored under this key; None where there are none that make sense."""
    try:
        rates = json.loads(path.read_text(encoding="utf-8"))[key]
        machine = Rates(**rates)
        sound = all(math.isfinite(rate) and rate > 0 for rate in asdict(machine).values())
        return machine if sound and set(rates) == {f.name for f in fields(Rates)} else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, key: str, machine: Rates) -> None:
    """Store the rates for this user alone; a reader never sees half of them."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    entries: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        stored = json.loads(path.read_text(encoding="utf-8"))
        entries = stored if isinstance(stored, dict) else {}
    handle, name = tempfile.mkstemp(dir=path.parent, prefix="rates-")  # made with mode 0600
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump({**entries, key: asdict(machine)}, file, indent=1)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
