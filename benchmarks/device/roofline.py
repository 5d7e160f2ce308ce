"""How fast each kernel is, as a share of a plain large product in the same run.

    python -m benchmarks.device.roofline --device cuda

The streaming factor is measured on both of its routes: well-conditioned data (the Gram matrix is proved to be enough)
and ill-conditioned data (the preconditioned update). Its rate counts the operations that are carried out.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.device.common import gemm_rate, machine, memory, opened, options, timed, write
from fedsvd.data.hashed_normals import normals_on, stream_key
from fedsvd.engine.device import Engine
from fedsvd.linalg import backend
from fedsvd.linalg.device import Device
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.linalg.windows import MIXING_BLOCK, Form
from fedsvd.masks.orthogonal import draw_form
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import dither, on_device
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, pad

SEED = Seed(bytes(range(32)))


def panel(device: Device, m: int, columns: int, first: int = 0) -> Any:
    """Normals on the device, (m, columns)."""
    return normals_on(device.xp, device.like.device, stream_key(1, "bench"), (first, first + columns), m).T


def factor_rates(device: Device, m: int, columns: int) -> dict[str, float]:
    """FLOP/s of the streaming factor on either route, and of its parts."""
    X = panel(device, m, columns)
    decay = device.put(10.0 ** np.linspace(0, -8, m)[:, None])
    X_ill = X * decay
    even, ill = StreamingFactor(m), StreamingFactor(m)
    for factor, A in ((even, X), (ill, X_ill)):
        for _ in range(3):  # past the growth of the first chunks
            factor.update_columns(A)
    R = ill.factor()
    flops = float(m) * m * columns
    rates = {
        "factor_even": 2 * flops / timed(device, lambda: even.update_columns(X)),
        "factor_ill": 3 * flops / timed(device, lambda: ill.update_columns(X_ill)),
        "gram": 2 * flops / timed(device, lambda: backend.gram(X)),
        "gram_plain": 2 * flops / timed(device, lambda: X @ X.T),
        "solve": flops / timed(device, lambda: backend.solve_triangular(R, X_ill, transposed=True)),
        "product": 2 * flops / timed(device, lambda: R @ X),
    }
    assert even.route.gram, even.route
    assert ill.route.cholesky, ill.route
    return rates


def plain_solve_rate(device: Device, m: int, columns: int) -> float:
    """FLOP/s of the library's own triangular solve, which the halved one replaces."""
    import torch

    X = panel(device, m, columns)
    R = device.put(np.triu(np.ones((m, m))) + m * np.eye(m))
    return float(m) * m * columns / timed(device, lambda: torch.linalg.solve_triangular(R.mT, X, upper=False))


def transforms(device: Device, n: int, columns: int, each: Each | None) -> dict[str, float]:
    """Entries a second through a mixing mask from either side, and masks drawn a second."""
    X = panel(device, n, columns)
    mask = draw_form(Form.MIXING, n, MIXING_BLOCK, SEED, device.like, each)
    rows = X.T
    return {
        "mixing_left_entries": n * columns / timed(device, lambda: mask.left(X)),
        "mixing_right_entries": n * columns / timed(device, lambda: mask.right(rows)),
        "dct_entries": n * columns / timed(device, lambda: backend.dct(X)),
        "masks_drawn": 1 / timed(device, lambda: draw_form(Form.MIXING, n, MIXING_BLOCK, SEED, device.like, each)),
    }


def ring(device: Device, rows: int, width: int, each: Each | None) -> dict[str, float]:
    """Words a second through each step of the ring."""
    Y = panel(device, rows, width)
    count = rows * width
    codes = on_device.encode(Y, 50)
    payload = on_device.words_of(codes, device)
    keys = PadKeys(1, {2: SEED})
    signed = payload.view(np.int64)

    def once(work: Callable[[], object]) -> float:
        return count / timed(device, work)

    return {
        "encode_words": once(lambda: on_device.encode(Y, 50)),
        "fill_words": once(lambda: dither.fill_on_device(codes, 8, SEED, device, each or map)),
        "to_host_words": once(lambda: on_device.words_of(codes, device)),
        "pad_words": once(lambda: pad(payload, keys, "bench", 0, PadsOnce(), each)),
        "to_device_words": once(lambda: device.put(signed)),
        "decode_words": once(lambda: on_device.decode(codes, 50)),
    }


def roofline(device: Device, m: int, columns: int) -> dict[str, Any]:
    """Every rate at these sizes, and the shares of a plain product."""
    each = Engine.of(device).each
    full = device.name.startswith("cuda")  # elsewhere the numbers only show that it runs
    gemm = gemm_rate(device, 8192 if full else 512)
    rates = factor_rates(device, m, columns)
    rates["solve_plain"] = plain_solve_rate(device, m, columns)
    normals = columns * m / timed(device, lambda: panel(device, m, columns))
    return {
        "m": m,
        "columns": columns,
        "gemm_flops": gemm,
        "rates_flops": rates,
        "share_of_gemm": {name: rate / gemm for name, rate in rates.items()},
        "normals_per_second": normals,
    } | {
        "masks": transforms(device, 65_536 if full else 2048, 2048 if full else 64, each),
        "ring": ring(device, 65_536 if full else 512, 1001, each),
    }


def main() -> None:
    """Print and write the rates."""
    asked = options(("m", 1000), ("columns", 524_288))
    device = opened(asked.device)
    record = {"name": "roofline", **machine(device), **roofline(device, asked.m, asked.columns), **memory(device)}
    write(asked.out, record)


if __name__ == "__main__":
    main()
