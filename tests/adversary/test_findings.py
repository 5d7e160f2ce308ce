"""What was found in version 0.1.0, as tests of sessions as they are now; each would fail on that version's code.

F2, F3, F4, F8 and F11 stand here. F1 is in the tests of masks; F5 to F7, F10, F13 and F14 in those of guard, approval,
certificate and plan.
"""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from tests.adversary.opened import Opened, seen_by_csp, square
from tests.tolerances import ACCEPTED, REJECTED_BY_FEW, digits_lost

from fedsvd.errors import FedSVDError
from fedsvd.protocol.messages import Aborted, Factors, PaddedBatch, Relay, Solution, SumReply, SumShare
from fedsvd.protocol.parties import CSP, Role
from fedsvd.protocol.tasks import Mode, Split, Task
from fedsvd.secagg import noise, wide
from fedsvd.secagg.words128 import add_into, from_integers, to_integers
from fedsvd.testing.federation import Federation, altering

ROWS = {"split": Split.HORIZONTAL}


@pytest.fixture
def opened(monkeypatch):
    return Opened(monkeypatch)


# --- F2 ---------------------------------------------------------------------------------------------------------------

LARGE, FEATURES = 5003, 6


def residues_read(opened, small, unit, k=3, **study):
    """How many sums of a small party's features a curious large party reads from residues of the joint sum.

    The attacker subtracts its own term. What is left is a sum of ``n_i mean_i``: those of the other large parties,
    which have equally many records, are multiples of that number on the grid of float64 numbers, and the small one is a
    sum of records that are whole numbers of units. Every such sum is tried.
    """
    rng = np.random.default_rng(2)
    tables = [rng.normal(3.0, 2.0, (LARGE, FEATURES)) for _ in range(k - 1)]
    opened.run([*tables, small], Task.PCA, components=2, **study)
    total = wide.decode_integers(opened.totals["mean 0"])
    own = wide.decode_integers(opened.own[1, "mean"])
    true = np.rint(small.sum(axis=0) / unit).astype(int)
    step, candidates = int(unit * 2**20) << 1054, range(-LARGE // 2, LARGE // 2)
    read = 0
    for j in range(FEATURES):
        rest, guesses = total[j] - own[j], set()
        for grid in range(1010, 1024, 2):  # 2^-64 .. 2^-50: last digits of shifts and offsets
            size = LARGE << grid
            missed = [min((rest - s * step) % size, (s * step - rest) % size) for s in candidates]
            least = int(np.argmin([float(miss >> 900) for miss in missed]))
            if missed[least] << 14 < size:
                guesses.add(candidates[least])
        read += int(true[j]) in guesses
    return read


# Plans as they are made: both families, from three parties to ten, with memory to spare and with hardly any.
PLANS = [
    {"k": 3},
    {"k": 3, "memory": 1 << 20},
    {"k": 5, "unit_variance": True},
    {"k": 10, "memory": 1 << 20},
    {"k": 3, "scheme": "mask"},
    {"k": 10, "scheme": "mask", "memory": 1 << 25},
]
SLOW = [pytest.param(plan, marks=pytest.mark.slow) if plan["k"] == 10 else plan for plan in PLANS]


@pytest.mark.parametrize("plan", SLOW, ids=lambda plan: " ".join(map(str, plan.values())))
def test_f2_the_means_of_a_small_party_cannot_be_read_from_residues_of_the_joint_sum(opened, monkeypatch, plan):
    rng = np.random.default_rng(1)
    sixty = rng.integers(-8, 9, (60, FEATURES)) / 4.0
    one = rng.integers(-2000, 2000, (1, FEATURES)) / 64.0
    assert residues_read(opened, sixty, 0.25, **plan) == 0
    assert residues_read(opened, one, 1 / 64, **plan) == 0
    # The attack reads a record where sums carry no noise.
    monkeypatch.setattr(noise, "uniform_integers", lambda widths, stream: [0] * len(widths))
    assert residues_read(opened, one, 1 / 64, **plan) == FEATURES


# --- F3 ---------------------------------------------------------------------------------------------------------------


def small_tables(seed=0, k=3, m=4):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((6 + i, m)) + i for i in range(k)]


def more(number: int) -> Callable[[SumReply], SumReply]:
    """A total with a number added to what it stands for."""

    def added(message: SumReply) -> SumReply:
        payload = message.payload.copy()
        if payload.shape[1] == 2:
            add_into(payload[:1], from_integers([number]))
        else:
            payload[:1] += wide.encode_integers([number << 1074])
        return SumReply(message.plan, message.name, message.batch, payload, message.tag, message.commitments)

    return added


NUMBERS = {
    "mean": (1, 2**61 - 1, 2**400),
    "energy": (1, 2**61 - 1, 2**400),
    "norm": (1, 2**61 - 1, 2**100, 2**127),
    "bound": (1, 2**61 - 1, 2**63),  # high halves of its words mean nothing
}


@pytest.mark.parametrize(("name", "number"), [(name, number) for name in NUMBERS for number in NUMBERS[name]])
def test_f3_a_csp_that_adds_a_number_to_a_sum_is_found_before_anything_is_uploaded(name, number):
    federation = Federation(small_tables(), Task.PCA, components=2, unit_variance=True, **ROWS)
    add = more(number)
    meddle = altering(SumReply, lambda said: [add(said) if said.name == name else said], origin=CSP)
    with pytest.raises(FedSVDError) as stopped:
        federation.run(meddle=meddle)
    assert stopped.value.code == "FSVD-417"
    assert {machine.failure.code for machine in federation.machines.values()} <= {"FSVD-417", "FSVD-415"}
    assert not federation.released
    names = [message.name for _, _, message in federation.sent if isinstance(message, SumShare)]
    assert names[-1] == name  # no user went on to the next sum
    assert not [message for _, _, message in federation.sent if isinstance(message, PaddedBatch)]


# --- F4 ---------------------------------------------------------------------------------------------------------------


def crafted() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Answers that would have made a user's own sums show its data."""
    return {
        "one vector, large": lambda U: np.where(np.arange(U.shape[1]) == 0, 1e6, 1.0) * U,
        "one vector, many times": lambda U: np.repeat(U[:, :1], U.shape[1], axis=1),
        "a unit vector for each feature": lambda U: np.eye(*U.shape),
        "half of a vector": lambda U: np.where(np.arange(U.shape[1]) == 0, 0.5, 1.0) * U,
        "not finite": lambda U: np.where(np.arange(U.shape[1]) == 0, np.nan, U),
        "random": lambda U: np.linalg.qr(np.random.default_rng(1).standard_normal(U.shape))[0],
        "turned by a millionth": lambda U: U @ np.array([[1.0, -1e-6], [1e-6, 1.0]]),
    }


def answered(change, seed):
    """One session whose CSP answers so: the codes it stopped with, what users sent after the answer, their texts."""
    federation = Federation(small_tables(seed), Task.SVD, components=2, **ROWS)

    def other(said: Factors):
        return [Factors(said.plan, change(said.U_masked), said.sigma_scaled, said.residual, said.orthogonality)]

    with pytest.raises(FedSVDError) as stopped:
        federation.run(meddle=altering(Factors, other))
    said = [message for _, _, message in federation.sent]
    at = next(place for place, message in enumerate(said) if isinstance(message, Factors))
    after = [
        message
        for origin, _, message in federation.sent[at:]
        if origin.role is Role.USER and not isinstance(message, Aborted)
    ]
    texts = {str(party): str(machine.failure) for party, machine in federation.machines.items()}
    told = {(message.code, message.stage) for message in said if isinstance(message, Aborted)}
    assert not federation.released
    return stopped.value.code, after, texts, told


@pytest.mark.parametrize("name", list(crafted()))
def test_f4_a_crafted_answer_is_refused_before_anything_that_depends_on_it_is_sent(name):
    runs = [answered(crafted()[name], seed) for seed in (0, 20)]
    for code, after, _, _ in runs:
        assert code in ("FSVD-418", "FSVD-305")
        # Where its structure is refused nothing is sent at all; else the sum that checks it, which is padded and ends.
        shared = {message.name for message in after if isinstance(message, SumShare)}
        assert shared <= ({"eigen"} if code == "FSVD-305" else set())
        # Digests of the answer, sealed to the other users, go before: they depend on no data.
        assert {type(message) for message in after} <= {SumShare, Relay}
    # Texts and what is sent of the stop are the same for unrelated data.
    assert runs[0][0] == runs[1][0]
    assert runs[0][2:] == runs[1][2:]


def test_f4_coefficients_that_are_not_those_of_the_joint_data_are_refused_the_same_way():
    texts = []
    for seed in (0, 20):
        tables = small_tables(seed)
        federation = Federation(tables, Task.LR, labels=[T @ np.arange(4.0) for T in tables], **ROWS)

        def other(said: Solution):
            return [Solution(said.plan, said.w_masked + 1e-3, said.null_masked, said.rank, said.residual)]

        with pytest.raises(FedSVDError) as stopped:
            federation.run(meddle=altering(Solution, other))
        assert stopped.value.code == "FSVD-305"
        assert not federation.released
        texts.append({str(party): str(machine.failure) for party, machine in federation.machines.items()})
    assert texts[0] == texts[1]


# --- F8 ---------------------------------------------------------------------------------------------------------------


def test_f8_mode_a_shows_the_csp_nothing_of_whole_numbers_and_mode_b_is_not_said_to_hide_them(opened, request):
    """0.1.0 said that a secret factor hides them. Ratios show them (``test_opened_gram.py``), and the page says so."""
    flags = [(np.random.default_rng(i).random((5, 4)) < 0.5).astype(float) for i in range(2)]
    by_users = opened.run(flags, mode=Mode.A)
    assert not by_users.views.of(CSP, PaddedBatch)
    by_csp = opened.run(flags, components=2)
    G = square(seen_by_csp(by_csp), 4).astype(float)
    ones = sum(F.sum() for F in flags)
    squares = np.sum((sum(F.T @ F for F in flags)) ** 2)
    assert np.trace(G) ** 2 / np.sum(G**2) == pytest.approx(ones**2 / squares, rel=digits_lost(4))
    page = (request.config.rootpath / "docs" / "threat-model.md").read_text(encoding="utf-8")
    assert "Not hidden*: ratios themselves" in page


# --- F11 --------------------------------------------------------------------------------------------------------------


def last_places(opened, seed, name):
    """Zeros at the end of what is left of each feature's total, and whether one other party alone has the feature."""
    rng = np.random.default_rng(seed)
    m = 20
    tables = [np.round(rng.standard_normal((9, m)), 3) for _ in range(3)]
    alone = np.arange(m) % 2 == 0
    tables[2][:, alone] = 0.0
    opened.run(tables, Task.PCA, seed=seed + 1, components=2, unit_variance=True)
    total, own = (wide.decode_integers(words) for words in (opened.totals[f"{name} 0"], opened.own[1, name]))
    rests = [t - o for t, o in zip(total, own, strict=True)]
    return np.array([(rest & -rest).bit_length() for rest in rests]), alone


@pytest.mark.parametrize("name", ["mean", "energy"])
def test_f11_the_last_digits_of_a_sum_do_not_show_which_columns_one_party_alone_has(opened, name):
    zeros, alone = zip(*(last_places(opened, seed, name) for seed in range(4)), strict=True)
    zeros, alone = np.concatenate(zeros), np.concatenate(alone)
    test = scipy.stats.mannwhitneyu(zeros[alone], zeros[~alone])
    assert test.pvalue > ACCEPTED
    assert zeros.max() < 32  # digits go on to the last place of 1,074


def test_f11_without_noise_they_would_show_all_of_them(opened, monkeypatch):
    """Products of energies end earlier where one term is zero; the best threshold then divides the columns."""
    monkeypatch.setattr(noise, "uniform_integers", lambda widths, stream: [0] * len(widths))
    zeros, alone = zip(*(last_places(opened, seed, "energy") for seed in range(4)), strict=True)
    zeros, alone = np.concatenate(zeros), np.concatenate(alone)
    assert scipy.stats.mannwhitneyu(zeros[alone], zeros[~alone]).pvalue < REJECTED_BY_FEW


def rows_alone(opened, seed):
    """Zeros at the end of what the label holder is left with of each score, and whether one other alone has it."""
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((40, 2)) for _ in range(3)]
    alone = np.arange(40) % 2 == 0
    tables[2][alone] = 0.0  # a sparse table: party 3 has nothing of these records
    weights = [(rng.standard_normal((2, 1)), np.zeros(1)) for _ in range(3)]
    tables[1] = np.rint(64.0 * tables[1])
    weights[1] = (np.ones((2, 1)), np.zeros(1))  # scores of party 2 are whole numbers
    labels = [np.zeros(40), None, None]
    opened.run(tables, Task.PREDICT, split=Split.VERTICAL, labels=labels, weights=weights)
    total = to_integers(opened.received[1, "scores"])
    own = to_integers(opened.own[1, "scores"])
    rests = [t - o for t, o in zip(total, own, strict=True)]
    return np.array([max((each & -each).bit_length() for each in (rest, rest + 1, rest + 2)) for rest in rests]), alone


def test_f11_nor_do_the_last_digits_of_predictions_show_which_rows_one_party_alone_has(opened, monkeypatch):
    zeros, alone = rows_alone(opened, 1)
    assert scipy.stats.mannwhitneyu(zeros[alone], zeros[~alone]).pvalue > ACCEPTED
    # They do where noise is but a step of the sum.
    monkeypatch.setattr("fedsvd.roles.user.prediction.FINE_STEP", 0)
    zeros, alone = rows_alone(opened, 1)
    assert scipy.stats.mannwhitneyu(zeros[alone], zeros[~alone]).pvalue < REJECTED_BY_FEW
