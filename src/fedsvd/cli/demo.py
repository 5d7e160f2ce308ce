"""``fedsvd demo``: three parties factorise a bundled data set, and NumPy checks them.

Until the protocol's roles are there, the steps run one after the other in this process, through the same rooms the
roles will use: compress, rotate, mask, pad, add up, factorise, verify, unmask.
"""

import json
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from fedsvd.compress.reduce import compress
from fedsvd.data.open import open_source
from fedsvd.linalg import compare
from fedsvd.linalg.dense_svd import dense_svd
from fedsvd.linalg.signs import apply_signs, signs_of
from fedsvd.linalg.verify import verify_svd
from fedsvd.linalg.windows import Form
from fedsvd.masks.apply import masked_columns
from fedsvd.masks.left import LeftMask
from fedsvd.masks.orthogonal import local_rotation, secret_scale
from fedsvd.masks.remove import unmask_left, unscale
from fedsvd.masks.right import RightMask
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.secagg.aggregate import RunningSum
from fedsvd.secagg.fixed_point import bound, decode, encode, exponent
from fedsvd.secagg.keys import PadKeys, pad_keys
from fedsvd.secagg.pads import PadsOnce, pad
from fedsvd.types import Digest, Float, SessionId


def demo(
    format: Annotated[str, typer.Option(help="table or json")] = "table",
) -> None:
    """Three hospitals factorise one table; nobody hands over a row."""
    X, slices = _three_hospitals()
    started = perf_counter()
    U, sigma, Vt, sent = _factorise(slices)
    took = perf_counter() - started
    errors = _against_numpy(X, U, sigma, Vt)
    if format == "json":
        typer.echo(json.dumps({"shape": X.shape, "errors": errors, "seconds": took, "bytes": sent}))
        return
    console = Console()
    console.print(f"Breast cancer data, {X.shape[0]} features x {X.shape[1]} patients, split over three hospitals")
    table = Table("federated against plain NumPy on the joint data", "error")
    for name, error in errors.items():
        table.add_row(name, f"{error:.1e}")
    console.print(table)
    console.print(f"{took:.3f} s, {sent:,} bytes uploaded under masks and pads")


def _three_hospitals() -> tuple[Float, list[Float]]:
    """Features x patients, each feature scaled to unit size, and the three hospitals' columns of it."""
    from sklearn.datasets import load_breast_cancer

    D = load_breast_cancer().data
    X: Float = np.ascontiguousarray((D / np.abs(D).max(axis=0)).T)
    return X, np.split(X, [200, 350], axis=1)


def _factorise(slices: list[Float]) -> tuple[Float, Float, Float, int]:
    """The whole protocol's arithmetic: U, sigma, the joined Vt, and the bytes that were uploaded."""
    group = Seed.fresh()
    A = [_compressed_and_rotated(X_i) for X_i in slices]
    widths = tuple(A_i.shape[1] for A_i in A)
    m = slices[0].shape[0]
    P = LeftMask(Form.HAAR, m, group.derive("P"))
    Q = RightMask(Form.HAAR, widths, group.derive("Q"))
    c = secret_scale(group.derive("c"))

    f = exponent(bound(c, float(np.sqrt(sum(np.sum(A_i**2) for A_i in A))), m, Q.n))
    keys = _agree_on_pads(len(slices))
    total = RunningSum((m, Q.n), len(slices))
    for i, A_i in enumerate(A):
        (_, Y_i_masked) = next(masked_columns(A_i, P, Q, c, i))
        payload = encode(Y_i_masked, f)
        pad(payload, keys[i], "upload", 0, PadsOnce())
        total.add(i + 1, payload)

    X_masked = decode(total.total(), f)
    U_masked, sigma_scaled, Vt_masked = dense_svd(X_masked)
    verify_svd(X_masked, U_masked, sigma_scaled, Vt_masked)

    U, sigma = unmask_left(U_masked, P), unscale(sigma_scaled, c)
    Vt = np.hstack([(U.T @ X_i) / sigma[:, None] for X_i in slices])
    U, Vt = apply_signs(U, Vt, signs_of(U))
    return U, sigma, Vt, len(slices) * total.total().nbytes


def _compressed_and_rotated(X_i: Float) -> Float:
    L_i = compress(open_source(X_i)).L_i
    A_i: Float = local_rotation(L_i.shape[1], Seed.fresh()).right(L_i)
    return A_i


def _agree_on_pads(k: int) -> list[PadKeys]:
    secrets = [AgreementKey(Seed.fresh()) for _ in range(k)]
    publics = {i + 1: key.public for i, key in enumerate(secrets)}
    session, plan = SessionId(fresh_bytes(16).hex()), Digest(bytes(32).hex())
    return [pad_keys(key, i + 1, publics, session, plan) for i, key in enumerate(secrets)]


def _against_numpy(X: Float, U: Float, sigma: Float, Vt: Float) -> dict[str, Any]:
    U_0, sigma_0, Vt_0 = np.linalg.svd(X, full_matrices=False)
    U_0, Vt_0 = apply_signs(U_0, Vt_0, signs_of(U_0))
    return {
        "singular values / S_1": float(np.abs(sigma - sigma_0).max() / sigma_0[0]),
        "reconstruction / S_1": float(np.abs((U * sigma) @ Vt - X).max() / sigma_0[0]),
        "left singular vectors, RMSE": float(compare.signed_rmse(U_0, U)),
        "right singular vectors, RMSE": float(compare.signed_rmse(Vt_0.T, Vt.T)),
    }
