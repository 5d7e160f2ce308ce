"""The findings F1 to F14 as attacks on version 0.1.0: this file runs with that version's package, not with ours.

``findings.py`` starts it with ``PYTHONPATH`` set to an old checkout. Each function plays one attacker against the real
roles, and returns what it got; the last line of output is one JSON object. The tests that hold the same rows in the
version of this repository are named in SECURITY.md.
"""

import contextlib
import json
import sys
import tempfile
import warnings
from dataclasses import fields, replace
from math import frexp
from pathlib import Path

import numpy as np
from fedsvd.protocol.release import Policy
from fedsvd.runtime.party_data import PartyData
from fedsvd.runtime.planning import Study, plan_study
from fedsvd.runtime.reruns import EarlierRuns

import fedsvd
from fedsvd.audit.attacks.view import _masks
from fedsvd.data.open import open_source
from fedsvd.errors import FedSVDError, PrivacyWarning
from fedsvd.protocol.messages import Aborted, Factors, Ready, SumReply
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.role import User
from fedsvd.roles.user.sums import UsersOnly
from fedsvd.secagg import fixed_point, wide
from fedsvd.secagg.pads import remove_group_pad
from fedsvd.testing.federation import INSECURE_SEED, Federation, altering
from fedsvd.types import SessionId
from fedsvd_lab.attacks.joint_diagonal import jointly_diagonal
from fedsvd_lab.attacks.referee import record_tables

ROWS = Split.HORIZONTAL
ATTACKS = {}


def finding(name):
    """Register an attack by the row it belongs to."""

    def kept(attack):
        ATTACKS[name] = attack
        return attack

    return kept


class Sums:
    """What user 1 knows of users-only sums: its own values, and every total to the last digit."""

    def __init__(self):
        self.own, self.totals = {}, {}
        share, total = UsersOnly.share, UsersOnly.total

        def sharing(this, request):
            if this._keys.user == 1:
                self.own[request.name] = [_integer(value) for value in np.ravel(request.values).tolist()]
            return share(this, request)

        def totalling(this, request, padded):
            if this._keys.user == 1 and request.bound is None:
                opened = remove_group_pad(padded.copy(), this._lock(request), request.name, 0)
                self.totals[request.name] = [_number(row) for row in opened.astype(np.int64).tolist()]
            return total(this, request, padded)

        UsersOnly.share, UsersOnly.total = sharing, totalling

    def rest(self, name):
        """The total less our own term, in units of 2^-1074."""
        return [t - o for t, o in zip(self.totals[name], self.own[name], strict=True)]


def _integer(value):
    top, bottom = float(value).as_integer_ratio()
    return top * ((1 << 1074) // bottom)


def _number(digits):
    return sum(digit << (32 * place) for place, digit in enumerate(digits))


SUMS = Sums()


@finding("F1")
def windows():
    """The CSP reads P from the Gram matrices of the windows that the planner cut."""
    rng, m, n = np.random.default_rng(1), 40, 36_000
    shape = Study(Task.LSA, ROWS, components=100)
    default = plan_study(shape, 62_423, (54_181, 54_180, 54_180), SessionId("0" * 32)).plan
    table = np.where(rng.random((n, m)) < 0.01, rng.integers(1, 6, (n, m)), 0).astype(float)
    run = record_tables(np.array_split(table, 2), scheme="mixing", memory=48 * m * 600, components=1)
    parts = [run.csp.Y[:, window.outputs] for window in run.plan.right_windows]
    grams = np.array([part @ part.T for part in parts])
    grams -= grams.mean(axis=0)
    found = jointly_diagonal(grams / np.linalg.norm(grams, axis=(1, 2))[:, None, None])
    P = run.masks[0].P.left(np.eye(m))
    cosines = np.abs(found @ P).max(axis=0)
    return {
        "windows of a default plan, 62,423 x 162,542": [len(default.left_windows), len(default.right_windows)],
        "windows attacked": len(parts),
        "rows of P read": float(np.mean(cosines > 0.9)),
        "broken": bool(np.mean(cosines > 0.9) > 0.5),
    }


@finding("F2")
def small_party():
    """User 1 reads the means of a party of 60 records from the sum of first means."""
    rng = np.random.default_rng(2)
    large = [rng.normal(3.0, 3.0, (5003, 6)) for _ in range(2)]
    small = rng.normal(1.0, 2.0, (60, 6))
    Federation([*large, small], Task.PCA, ROWS, components=2).run()
    counts = SUMS.totals["shift"][-1] - SUMS.own["shift"][-1]
    errors = []
    for j, rest in enumerate(SUMS.rest("shift")[:-1]):
        step = 4096 << (1074 + frexp(large[0][:4096, j].std())[1])
        read = (rest + step // 2) % step - step // 2
        errors.append(abs(read / 2**1074 / 60 - small[:, j].mean()))
    assert counts == (4096 + 60) << 1074
    return {"means read": 6, "largest error": max(errors), "broken": max(errors) < 1e-12}


@finding("F3")
def altered_norm():
    """The CSP adds 2^400 to the norm that users 2 and 3 open, and sees the spectrum of user 1 alone."""
    rng = np.random.default_rng(3)
    tables = [rng.standard_normal((30, 5)) * np.arange(1.0, 6.0) ** i for i in range(3)]
    quiet = Federation(tables, Task.SVD, ROWS)
    quiet.run()
    exponents = next(m.exponents for origin, _, m in quiet.sent if isinstance(m, Ready) and origin == user(1))
    more = wide.encode(np.array([2.0**400]))

    def lie(origin, to, message):
        if origin == CSP and isinstance(message, SumReply) and message.name == "norm" and to != user(1):
            return (replace(message, payload=message.payload + more),)
        if isinstance(message, Ready):
            return (replace(message, exponents=exponents),)
        return (message,)

    lied = Federation(tables, Task.SVD, ROWS)
    code = None
    try:
        lied.run(meddle=lie)
    except FedSVDError as error:
        code = error.code
    S = next(message.sigma_scaled for _, _, message in lied.sent if isinstance(message, Factors))
    alone = np.linalg.svd(tables[0], compute_uv=False)
    error = float(np.abs(S / S[0] - alone / alone[0]).max())
    return {"error of user 1's spectrum, ratios": error, "code": code, "broken": error < 1e-6}


@finding("F4")
def crafted_answer():
    """The CSP sends one vector many times at falling singular values; a text counts what exceeds the bound."""
    rng, r = np.random.default_rng(4), 600
    tables = [rng.standard_normal((9, 4)) + i for i in range(3)]
    levels, vector = np.geomspace(40.0, 0.05, r), {}

    def crafted(said):
        u = vector["u"] = said.U_masked[:, :1]
        return [replace(said, U_masked=np.repeat(u, r, axis=1), sigma_scaled=levels)]

    session = Federation(tables, Task.SVD, ROWS)
    with contextlib.suppress(FedSVDError):
        session.run(meddle=altering(Factors, crafted))
    origin, text = next((o, m.text) for o, _, m in session.sent if isinstance(m, Aborted) and "entries" in m.text)
    count = int(text.split(" of ")[0].split()[-1])
    # Entries are ||u^T X_i||^2 c^2 over products of two levels: the count is a place among these, which are known.
    products = np.sort((levels[:, None] * levels[None, :])[np.triu_indices(r)])
    most = (2**62 // 3) / 2.0 ** fixed_point.exponent(2.0, 3)
    masks = _masks(session.plan, Seed(INSECURE_SEED), origin.index - 1)
    u = masks.P.left_t(vector["u"])
    true = float(np.linalg.norm(tables[origin.index - 1] @ u) ** 2 * masks.c**2)
    error = abs(most * float(products[count - 1]) / true - 1.0)
    return {"text sent to peers": text, "relative error of c^2 ||u^T X_i||^2": error, "broken": error < 1e-3}


@finding("F5")
def rosters():
    """Users of {A,B,C,D} and then {A,B,C} have D's Gram matrix, and the guard of A sees the same records twice."""
    rng = np.random.default_rng(5)
    tables = [rng.standard_normal((200, 4)) for _ in range(4)]
    grams = []
    for roster in (tables, tables[:3]):
        found = Federation(roster, Task.SVD, ROWS).run()[0]
        grams.append((found.U * found.sigma**2) @ found.U.T)
    with tempfile.TemporaryDirectory() as folder:
        refused = _refused(Path(folder), tables[0], tables[0])
    error = float(np.abs(grams[0] - grams[1] - tables[3].T @ tables[3]).max())
    return {"error of D's Gram matrix": error, "refused": refused, "broken": error < 1e-10 and not refused}


def _refused(folder, *versions):
    """Whether the guard refuses the last of these versions of a table after the first."""
    runs, policy = EarlierRuns(folder / "memory"), Policy()
    for number, table in enumerate(versions):
        try:
            runs.consider(f"run{number}", PartyData(open_source(table)), ROWS, policy)
        except FedSVDError:
            return True
        runs.begin(f"run{number}")
    return False


@finding("F7")
def reruns():
    """One record less, behind one more column, another unit or one ulp."""
    table = np.random.default_rng(7).standard_normal((300, 4))
    less = table[1:]
    ways = {
        "as it is": less,
        "one more column": np.column_stack((less, np.arange(299.0))),
        "another unit in one column": less * np.array([1.0, 2.54, 1.0, 1.0]),
        "one ulp": np.nextafter(less, np.inf),
    }
    found = {}
    for name, version in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = _refused(Path(folder), table, version)
    passed = [name for name in ways if name != "as it is" and not found[name]]
    return {"refused": found, "broken": len(passed) == 3}


@finding("F8")
def whole_numbers():
    """Small tables of 0 and 1: a ratio without a scale is that of whole numbers."""
    tables = [(np.random.default_rng(i).random((5, 4)) < 0.5).astype(float) for i in range(2)]
    Y = record_tables(tables).csp.Y
    ones = sum(T.sum() for T in tables)
    squares = np.sum(sum(T.T @ T for T in tables) ** 2)
    seen = float(np.linalg.norm(Y) ** 4 / np.linalg.norm(Y @ Y.T) ** 2)
    page = (Path(fedsvd.__file__).parents[2] / "docs" / "threat-model.md").read_text(encoding="utf-8")
    claimed = "it hides that entries are whole numbers" in page
    error = abs(seen / (ones**2 / squares) - 1.0)
    return {"error of the ratio": error, "the page says it is hidden": claimed, "broken": error < 1e-9 and claimed}


@finding("F10")
def membership():
    """User 1 asks by a column of one id: how many rows differ says whether another party has it."""
    rng, right = np.random.default_rng(10), 0
    held, honest = rng.permutation(2000)[:40], User._hashed_ids
    for question in range(60):
        inside = question % 2 == 0
        guess = held[question % 40] if inside else 5000 + question
        tables = [rng.standard_normal((40, 2)) for _ in range(2)]
        question_asked = np.full(40, guess)

        def asking(this, ids=question_asked):
            if this.me.index == 1:
                this._inputs = replace(this._inputs, ids=ids)
            return honest(this)

        User._hashed_ids = asking
        session = Federation(tables, Task.SVD, Split.VERTICAL, ids=[np.arange(40), held], check_ids=True)
        try:
            session.run()
        except FedSVDError as error:
            right += ("39 of 40" in str(error)) == inside
    return {"membership questions answered": [right, 60], "broken": right == 60}


@finding("F11")
def last_digits():
    """Exact digits: a term of one float64 has 53 of them, a sum of two more."""
    rng, right, asked = np.random.default_rng(11), 0, 0
    for seed in range(4):
        tables = [rng.standard_normal((15, 10)) * 1000.0**-i for i in range(3)]
        alone = np.arange(10) % 2 == 0
        tables[2][:, alone] = 0.0
        Federation(tables, Task.PCA, ROWS, components=2, unit_variance=True, insecure_seed=bytes([seed] * 32)).run()
        for j, rest in enumerate(SUMS.rest("shift")[:-1]):
            digits = (abs(rest) // (rest & -rest)).bit_length()
            right += (digits <= 53) == alone[j]
            asked += 1
    return {"columns told apart": [right, asked], "broken": right >= 0.9 * asked}


@finding("F13")
def split_view():
    """The CSP shows user 2 other vectors than user 1, and both end."""
    tables = [np.random.default_rng(i).standard_normal((9, 4)) + i for i in range(3)]

    def other(said):
        return [replace(said, U_masked=np.linalg.qr(np.random.default_rng(9).standard_normal(said.U_masked.shape))[0])]

    found = Federation(tables, Task.PCA, ROWS, components=2).run(meddle=altering(Factors, other, to=user(2)))
    apart = float(np.abs(np.abs(found[0].U) - np.abs(found[1].U)).max())
    return {"results differ by": apart, "broken": apart > 0.1}


@finding("F14")
def limits():
    """Blocks of one row, a plan without names of columns, sizes of messages that no plan limits."""
    plan = plan_study(Study(Task.SVD, ROWS, scheme="mixing", block_size=1), 50, (60, 60), SessionId("0" * 32)).plan
    names = [field.name for field in fields(SessionPlan) if "name" in field.name or "column" in field.name]
    dashboard = (Path(fedsvd.__file__).parent / "cli" / "dashboard.py").read_text(encoding="utf-8")
    cookie = 'set_cookie(COOKIE, token, httponly=True, samesite="strict")' in dashboard
    return {
        "block of one row": plan.block,
        "fields of the plan that name columns": names,
        "cookie without a path": cookie,
        "broken": plan.block == 1 and not names and cookie,
    }


def main():
    """Run all, or those that are named."""
    warnings.simplefilter("ignore", PrivacyWarning)
    found = {}
    for name in sys.argv[1:] or ATTACKS:
        try:
            found[name] = ATTACKS[name]()
        except Exception as error:  # an attack that does not run is no evidence, and is said to be none
            found[name] = {"broken": None, "error": f"{type(error).__name__}: {error}"}
    print(json.dumps({"version": fedsvd.__version__, "findings": found}, default=lambda value: value.item()))


if __name__ == "__main__":
    main()
