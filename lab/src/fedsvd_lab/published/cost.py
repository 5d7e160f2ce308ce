"""What a study in the paper's scheme would take at a size that is not run: bytes exactly, seconds by a machine's rates.

One machine to each role and no network, as ``fedsvd.cost`` counts the product's schemes; kernels and rates are its own.
"""

from dataclasses import dataclass

from fedsvd.cost.kernels import apply, dense_svd, draw, factor
from fedsvd.cost.rates import Rates, Work
from fedsvd.linalg.windows import Form, block_widths
from fedsvd.secagg import wide
from fedsvd_lab.published.setting import Setting

_KEY, _PASSES = 32, 12


@dataclass(frozen=True)
class Predicted:
    """Seconds with a machine to each role, and bytes of all messages."""

    seconds: float
    bytes_total: int


def predicted(setting: Setting, machine: Rates) -> Predicted:
    """The cost of a study of full rank."""
    users = max(machine.seconds(_user(setting, i), machine.threads) for i in range(1, setting.k + 1))
    others = machine.seconds(_authority(setting) + _provider(setting), machine.threads)
    return Predicted(users + others, _bytes(setting))


def _rank(setting: Setting) -> int:
    return setting.components or min(setting.m, setting.N)


def _slices(setting: Setting, i: int) -> int:
    """Numbers of Q_i."""
    owned = (setting.own(i, w) for w in setting.held(i))
    widths = (setting.right[w].width for w in setting.held(i))
    return sum(width * (own.stop - own.start) for own, width in zip(owned, widths, strict=True))


def _bytes(setting: Setting) -> int:
    k, r = setting.k, _rank(setting)
    slices = 8 * sum(_slices(setting, i) for i in range(1, k + 1))
    left = 8 * setting.m**2 if setting.dense else _KEY
    total = slices + k * (left + _KEY + k * _KEY + 8 * 2 * wide.WORDS + 16)
    total += 8 * k * setting.m * (setting.N + setting.targets)
    if setting.solves:
        return total + 8 * k * setting.N * setting.targets
    total += 8 * k * (setting.m * r + r)
    return total + (slices + 8 * r * setting.N if setting.recovers else 0)


def _left(setting: Setting, columns: float) -> Work:
    """P times so many columns."""
    blocks = block_widths(setting.m, setting.block)
    return sum((apply(Form.HAAR, width, columns).work * count for width, count in blocks.items()), Work())


def _authority(setting: Setting) -> Work:
    work = Work(keys=3.0 * setting.k)
    for width, count in block_widths(setting.N, setting.block).items():
        block = draw(Form.HAAR, width).work + apply(Form.HAAR, width, width).work
        work += (block + Work(memory=40.0 * width**2)) * count
    return work


def _user(setting: Setting, i: int) -> Work:
    m, own, t, r = setting.m, setting.widths[i - 1], setting.targets, _rank(setting)
    slices, shared = float(_slices(setting, i)), 8.0 * m * (setting.N + t)
    work = Work(memory=16.0 * m * own)  # the norm, and the data as it is read
    for width, count in block_widths(m, setting.block).items():
        work += draw(Form.HAAR, width).work * count
    # Columns pass P before Q_i, rows after it.
    work += _left(setting, setting.N + t if setting.solves else own)
    work += Work(gemm=2.0 * m * slices, memory=shared, encode=shared, aes=(setting.k - 1) * shared)
    if setting.solves:
        return work + Work(gemm=2.0 * slices * t)
    work += _left(setting, r)
    if setting.recovers:
        for w in setting.held(i):
            place = setting.own(i, w)
            columns = place.stop - place.start
            work += draw(Form.HAAR, columns).work + apply(Form.HAAR, columns, setting.right[w].width + r).work
    return work


def _provider(setting: Setting) -> Work:
    m, N, t, r = setting.m, setting.N, setting.targets, _rank(setting)
    work = Work(encode=8.0 * (1 + setting.k / 2) * m * (N + t), memory=16.0 * m * (N + t))
    if setting.solves:
        return work + factor(N + t, m, max(rows for rows, _ in setting.panels), 0.5).work + dense_svd(N, N).work
    if setting.components is not None and 8 * 4 * m * N > setting.memory:
        start = float(min(max(r + 8, 32), m, N))
        basis = max(r + 8 * start, 256.0)
        one = Work(gemm=2.0 * m * N * start + 4.0 * (m + N) * basis * start, memory=8.0 * m * N)
        work += one * (_PASSES + 3)
    elif 8 * 4 * m * N > setting.memory:
        long, short = max(m, N), min(m, N)
        work += factor(short, long, max(width for _, width in setting.panels), 0.5).work + dense_svd(short, short).work
        work += Work(gemm=2.0 * long * short * r + 1.0 * long * r * r, memory=8.0 * long * (short + 3 * r))
    else:
        work += dense_svd(m, N).work
    if setting.recovers:
        widest = max(window.width for window in setting.right)
        work += Work(gemm=2.0 * r * widest * N, memory=8.0 * r * N)
    return work
