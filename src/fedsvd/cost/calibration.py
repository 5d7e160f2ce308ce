"""How fast this machine is: the rates of the cost model, measured once in about two seconds and stored.

Each rate is measured on the kernel it stands for, with one thread and by this thread's own processor time: what else
runs on the machine hardly counts. Then the same kernels are run with all threads and on the clock, which says what
threads gain: products and factorisations with those of the BLAS, everything else a piece to each thread, as a role
shares it out. The shortest of a few rounds is taken. Rates are stored in the user's cache folder, for this version of
fedsvd, this processor, this BLAS and its threads; where they cannot be stored, or what is stored cannot be read, they
are measured again.
"""

import hashlib
import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from fedsvd import __version__
from fedsvd.cost.rates import DEFAULT, Gains, Rates
from fedsvd.kernels.library import VERSION, compiled
from fedsvd.linalg import backend, few_columns
from fedsvd.linalg.householder import draw
from fedsvd.linalg.pools import available, one_pool
from fedsvd.linalg.windows import MIXING_BLOCK
from fedsvd.masks.permute import HaarBlocks, Mixing
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey, pair_key
from fedsvd.secagg import fixed_point, wide
from fedsvd.secagg.dither import encode_filled
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, pad
from fedsvd.storage.private import make_folders
from fedsvd.types import Digest, SessionId

_ROUNDS = 3
_LONG = 0.25  # seconds of one round, after which there is no other
_BUSY = 0.5  # programs that run, for each core, above which threads gain less than they could
_SVD = 640  # rows and columns; a smaller SVD is slower for its operations
_WORDS = 1 << 19
_KEYS = 50
_LEAST_GAIN = 0.2
_LARGE, _FEW = 1 << 23, 10  # numbers of a matrix beyond most caches, and columns that it is multiplied with
_HASHED = 1 << 21  # bytes
_FRESH = 5 << 20  # numbers; above what an allocator keeps for itself, so that their pages are new


@dataclass(frozen=True)
class Rated:
    """The rates that an estimate uses, and where they come from."""

    machine: Rates
    source: str


def rated(afresh: bool = False) -> Rated:
    """The rates of this machine: those that are stored for it, or measured now."""
    path, busy = _stored_at(), _busy()
    # What was measured on a busy machine holds as long as it is busy.
    found = None if afresh else _read(path, _key()) or (_read(path, _key(busy)) if busy else None)
    if found is not None:
        return Rated(found, "this machine's rates, measured before")
    machine = calibrate()
    with suppress(OSError):  # a cache that cannot be written costs two seconds the next time
        _write(path, _key(busy), machine)
    return Rated(machine, f"this machine's rates, measured now{', while it was busy' if busy else ''}")


def _busy() -> bool:
    """Whether other programs have most of the cores; a role with one thread does not notice."""
    return available() > 1 and _load() > _BUSY * own_cores()


def _load() -> float:
    """How many programs were running or ready to, over the last minute; 0 where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def calibrate() -> Rates:
    """The rates of one core of this machine, and what its threads gain, measured now."""
    stream, threads = Keystream(Seed(bytes(32))), min(available(), own_cores())
    blas, shared = _blas(stream), _shared(stream)
    with backend.one_thread():
        one = {name: kernel.amount / best_seconds(kernel.run) for name, kernel in {**blas, **shared}.items()}
        rest = _alone(stream)
    # Threads that wait for a core wait for each other, too: there is nothing to gain, and finding out takes long.
    gains = Gains() if threads == 1 or _load() >= own_cores() else _gains(one, blas, shared, threads)
    return Rates(**one, **rest, cores=own_cores(), threads=threads, gains=gains)


def own_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class _Kernel:
    """An amount of work of one kind, and a call that does it."""

    amount: float
    run: Callable[[], object]


def _gains(one: dict[str, float], blas: dict[str, _Kernel], shared: dict[str, _Kernel], threads: int) -> Gains:
    """All threads against one. Threads that wait for each other may be slower than one of them."""
    gains = {}
    with one_pool():
        for name, kernel in blas.items():
            gains[name] = kernel.amount / best_seconds(kernel.run, clock=perf_counter) / one[name]
    with ThreadPoolExecutor(threads) as pool, backend.one_thread():
        for name, kernel in shared.items():

            def pieces(run: Callable[[], object] = kernel.run) -> None:
                for done in [pool.submit(run) for _ in range(threads)]:
                    done.result()

            gains[name] = threads * kernel.amount / best_seconds(pieces, clock=perf_counter) / one[name]
    return Gains(**{name: min(max(gain, _LEAST_GAIN), float(threads)) for name, gain in gains.items()})


def _blas(stream: Keystream) -> dict[str, _Kernel]:
    """What the BLAS divides among its threads."""
    n, long, columns = 640, 2560, 512
    A, X, B = stream.normal((n, n)), stream.normal((n, long)), stream.normal((_SVD, _SVD))
    R = np.asfortranarray(np.triu(A) + n * np.eye(n))
    Q, Y = draw(1000, stream.normal), stream.normal((1000, columns))
    large, Z = np.ones((_LARGE // 2048, 2048)), stream.normal((2048, _FEW))
    return {
        "gemm": _Kernel(2.0 * n * n * long, lambda: backend.matmul(A, X)),
        "narrow": _Kernel(float(few_columns.READ + _FEW) * large.size, lambda: backend.matmul(large, Z)),
        "solve": _Kernel(2.0 * n * n * long, lambda: backend.gram(backend.solve_triangular(R, X, transposed=True))),
        "qr": _Kernel(2.0 * long * n * n - 2 / 3 * n**3, lambda: backend.qr_r(X.T)),
        "svd": _Kernel(22.0 * _SVD**3, lambda: backend.svd(B)),
        "reflect": _Kernel(2.0 * 1000 * 1000 * columns, lambda: Q.left_t(Y)),
    }


def _shared(stream: Keystream) -> dict[str, _Kernel]:
    """What a role shares out to its threads, piece by piece."""
    n, b, many, few = 4096, MIXING_BLOCK, 320, 16
    widths, long = (b,) * (n // b), n * few
    blocks, mixing = HaarBlocks(widths, Seed(bytes(32))), Mixing(long, b, Seed(bytes(32)))
    lines, Y = stream.normal((many, n)), stream.normal((1024, _WORDS // 1024))
    codes = fixed_point.encode(Y, 40)
    keys = PadKeys(1, {peer: Seed(bytes([peer]) * 32) for peer in (2, 3, 4)})
    return {
        "blocks": _Kernel(2.0 * b * lines.size, lambda: blocks.turn(lines.copy())),
        "drawn": _Kernel(n * (b + 1) / 2, lambda: HaarBlocks(widths, Seed(bytes(32))).turn(np.zeros((1, n)))),
        "dct": _Kernel(2.0 * few * long * math.log2(long), lambda: mixing.mix(0, np.ones((few, long)))),
        "normals": _Kernel(_WORDS / 4, lambda: Keystream(Seed(bytes(32))).normal(_WORDS // 4)),
        "aes": _Kernel(3.0 * Y.nbytes, lambda: pad(codes.copy(), keys, "calibration", 0, PadsOnce())),
        "encode": _Kernel(Y.nbytes, lambda: fixed_point.encode(Y, 40)),
        "filled": _Kernel(Y.nbytes, lambda: encode_filled(Y, 40, 2, Keystream(Seed(bytes(32))), np.empty_like(codes))),
    }


def _alone(stream: Keystream) -> dict[str, float]:
    """What one thread does, whatever there are."""
    values, fresh, content = stream.normal(200), np.ones(_FRESH), bytes(_HASHED)
    mine, theirs = AgreementKey(Seed(bytes(32))), AgreementKey(Seed(bytes([1]) * 32))

    def agree() -> None:
        for them in range(2, 2 + _KEYS):
            pair_key(mine, theirs.public, me=1, them=them, session=SessionId("s"), plan=Digest("p"), purpose="rates")

    return {
        "memory": 8.0 * _FRESH / best_seconds(lambda: fresh * 2.0),
        "scalars": values.size / best_seconds(lambda: wide.decode(wide.encode(values))),
        "hashed": _HASHED / best_seconds(lambda: hashlib.sha256(content)),
        "keys": _KEYS / best_seconds(agree),
        "messages": DEFAULT.messages,
    }


def best_seconds(work: Callable[[], object], rounds: int = _ROUNDS, clock: Callable[[], float] = thread_time) -> float:
    """The shortest of a few rounds, by default in seconds of this thread's processor time; of one where it is long."""
    best = float("inf")
    for _ in range(rounds):
        started = clock()
        work()
        best = min(best, clock() - started)
        if best > _LONG:
            break
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


def _key(busy: bool = False) -> str:
    """What the rates hold for: another version, processor, BLAS or number of threads has others."""
    # NumPy and SciPy may each bring a BLAS, and SciPy's is loaded late: a set, so that the key does not change with it.
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    blas = {(pool["internal_api"], str(pool.get("architecture")), pool["num_threads"]) for pool in pools}
    versions = [__version__, np.__version__, scipy.__version__, VERSION if compiled() is not None else "NumPy's loops"]
    return json.dumps([versions, platform.machine(), processor(), sorted(blas), own_cores(), *["busy"] * busy])


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
        gains = rates["gains"]
        complete = set(rates) == {f.name for f in fields(Rates)} and set(gains) == {f.name for f in fields(Gains)}
        numbers = [*(rate for name, rate in rates.items() if name != "gains"), *gains.values()]
        sound = complete and all(math.isfinite(rate) and rate > 0 for rate in numbers)
        return Rates(**{**rates, "gains": Gains(**gains)}) if sound else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, key: str, machine: Rates) -> None:
    """Store the rates for this user alone; a reader never sees half of them."""
    make_folders(path.parent)
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
