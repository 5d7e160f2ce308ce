"""Whichever library a role computes with, a study ends with the numbers that NumPy has."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from tests.tolerances import RESULT_BAR, VALUES_BAR, assert_close, digits_lost

import fedsvd.data.sparse as sparse_source
from fedsvd.data.open import open_source
from fedsvd.engine.simulate import Simulation
from fedsvd.linalg.device import Device
from fedsvd.linalg.windows import Form
from fedsvd.policy.rules import Policy
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Item, Mode
from fedsvd.protocol.upload import Retention, retention
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.role import User
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import assemble, run_study
from fedsvd.studies.study import Study
from fedsvd.transport.loopback import Hub

RNG = np.random.default_rng(6)
ROWS = [RNG.normal(size=(n, 12)) + 3 for n in (90, 60)]
COLUMNS = [RNG.normal(size=(700, n)) for n in (9, 6)]
LONG = [RNG.normal(size=(120, n)) for n in (400, 300)]
FALLING = [RNG.normal(size=(n, 40)) * 1.2 ** -np.arange(40) + 0.3 for n in (90, 60)]
SPECTRUM = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
OPEN = Policy.permissive()
STUDIES = {
    "svd, opened by the users": (Study("svd", "horizontal"), ROWS),
    "svd, columns split": (Study("svd", "vertical"), COLUMNS),
    "svd, mixing": (Study("svd", "vertical", scheme="mask"), LONG),
    "svd, opened by the CSP": (Study("svd", "horizontal", mode=Mode.B), ROWS),
    "pca": (Study("pca", "horizontal", components=3), ROWS),
    "pca, unit variance, mixing": (Study("pca", "horizontal", components=3, unit_variance=True, scheme="mask"), ROWS),
    "lsa": (Study("lsa", "vertical", components=4, scheme="mask"), LONG),
    "lsa by steps": (Study("lsa", "horizontal", components=4, scheme="steps"), FALLING),
    "pca by steps": (Study("pca", "horizontal", components=3, scheme="steps", release=SPECTRUM), FALLING),
    "pca by steps, unit variance": (
        Study("pca", "horizontal", components=3, scheme="steps", release=SPECTRUM, unit_variance=True),
        FALLING,
    ),
    "lsa by steps, columns split": (Study("lsa", "vertical", components=4, scheme="steps"), [A.T for A in FALLING]),
}


def svd_of(study, tables):
    X = np.concatenate([table.T for table in tables], axis=1) if study.split == "horizontal" else np.hstack(tables)
    if study.task == "pca":
        X = X - X.mean(axis=1, keepdims=True)
        X = X / X.std(axis=1, keepdims=True) if study.unit_variance else X
    return X, np.linalg.svd(X, full_matrices=False)


@pytest.mark.parametrize("case", STUDIES, ids=STUDIES.keys())
def test_a_factorisation_on_a_device_is_that_of_the_joint_matrix(foreign, case, request):
    study, tables = STUDIES[case]
    if "mixing" in case:
        request.getfixturevalue("mixing_masks")
    device = Device("test", foreign.array([0.0]))
    parties = [PartyData(open_source(table)) for table in tables]
    outcome = run_study(study, parties, random_state=1, policy=OPEN, device=device)
    assert (outcome.plan.right is Form.MIXING) == ("mixing" in case)
    X, (U, sigma, _) = svd_of(study, tables)
    found = outcome.parties[0].U
    r = found.shape[1]
    for party in outcome.parties:
        assert all(isinstance(value, np.ndarray) for name, value in vars(party).items() if name in ("U", "Vt_i"))
    # Relative to the gap between the last value kept and the next, as angles between subspaces are.
    gap = sigma[r - 1] - (sigma[r] if r < len(sigma) else 0.0)
    angle = np.linalg.norm(found - U[:, :r] @ (U[:, :r].T @ found), 2)
    assert angle <= RESULT_BAR * sigma[0] / gap
    if study.task != "pca":
        np.testing.assert_allclose(outcome.parties[0].sigma, sigma[:r], rtol=0, atol=VALUES_BAR * sigma[0])
    if study.task == "svd":
        Vt = np.concatenate([party.Vt_i for party in outcome.parties], axis=1)
        assert np.linalg.norm(found * outcome.parties[0].sigma @ Vt - X, 2) <= VALUES_BAR * sigma[0]


@pytest.mark.parametrize(
    ("scaled", "memory", "mean"),
    [(False, 1 << 30, 1e5), (True, 20_000, 0.3), (False, 20_000, 0.3), (True, 20_000, 1e5)],
    ids=["on the device", "in panels, scaled", "in panels", "in panels, mean off the data"],
)
def test_steps_on_a_device_find_the_top_however_the_data_is_multiplied(foreign, scaled, memory, mean):
    device = Device("test", foreign.array([0.0]), memory)
    tables = [table - 0.3 + mean for table in FALLING]
    study = Study("pca", "horizontal", components=3, scheme="steps", release=SPECTRUM, unit_variance=scaled)
    outcome = run_study(study, [PartyData(open_source(A)) for A in tables], random_state=1, policy=OPEN, device=device)
    expect_pca(outcome, np.concatenate(tables), scaled)


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_steps_on_a_device_multiply_a_sparse_table_as_it_is_stored(foreign, split, monkeypatch):
    """Where the library has sparse products; elsewhere panels are made dense on the device, one at a time."""
    made, scattered = [], sparse_source.scattered
    monkeypatch.setattr(sparse_source, "scattered", lambda *given: made.append(1) or scattered(*given))
    monkeypatch.setattr("fedsvd.studies.run.guard_rows", lambda *given: None)
    X = np.concatenate(FALLING)
    X[np.abs(X) < 0.3] = 0.0
    parts = np.array_split(X, 2, axis=int(split == "vertical"))
    study = Study("lsa", split, components=4, scheme="steps")
    parties = [PartyData(open_source(scipy.sparse.csr_array(part))) for part in parts]
    device = Device("test", foreign.array([0.0]))
    outcome = run_study(study, parties, random_state=1, policy=OPEN, device=device)
    sigma = np.linalg.svd(X, compute_uv=False)
    np.testing.assert_allclose(outcome.parties[0].sigma, sigma[:4], rtol=0, atol=VALUES_BAR * sigma[0])
    assert not made


@pytest.mark.parametrize("which", [1, 2])
def test_steps_of_a_party_with_a_device_and_one_without_are_at_one(foreign, which):
    """The one that decides may have it, or the one that tests what is sent."""
    device = Device("test", foreign.array([0.0]))
    study = Study("pca", "horizontal", components=3, scheme="steps", release=SPECTRUM)
    session = assemble(study, [PartyData(open_source(table)) for table in FALLING], Seed(bytes(range(32))))
    machines = [
        User(machine.me, session.plan, replace(machine.inputs, device=device)) if machine.me == user(which) else machine
        for machine in session.machines
    ]
    results = Simulation(machines, Hub()).run().results
    X = np.concatenate(FALLING)
    sigma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    for i in (1, 2):
        assert_close(results[user(i)].sigma, sigma[:3], VALUES_BAR, sigma[0])


def expect_pca(outcome, X, scaled):
    wide = X.astype(np.longdouble)
    C = (wide - wide.mean(axis=0)).astype(np.float64)
    C = C / C.std(axis=0) if scaled else C
    U, s, Vt = np.linalg.svd(C, full_matrices=False)
    assert_close(outcome.parties[0].sigma, s[:3], VALUES_BAR, s[0])
    scores = np.concatenate([party.scores_i for party in outcome.parties])
    for found, expected in ((outcome.parties[0].U.T, Vt[:3]), (scores.T, (U * s).T[:3])):
        assert_close(np.abs(np.sum(found * expected, axis=1)) / np.sum(expected**2, axis=1), 1.0, digits_lost(7))


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_a_vertical_regression_on_a_device_is_that_of_the_joint_table(foreign, alpha):
    device = Device("test", foreign.array([0.0]))
    y = RNG.normal(size=(700, 1))
    parties = [PartyData(open_source(COLUMNS[0]), y), PartyData(open_source(COLUMNS[1]))]
    study = Study("lr", "vertical", targets=1, label_user=1, alpha=alpha)
    outcome = run_study(study, parties, random_state=1, policy=OPEN, device=device)
    X = np.hstack(COLUMNS)
    X, centred = X - X.mean(axis=0), y - y.mean()
    expected = np.linalg.solve(X.T @ X + alpha * np.eye(15), X.T @ centred)[:, 0]
    found = np.concatenate([party.coefficients[0] for party in outcome.parties])
    assert_close(found, expected, RESULT_BAR)


def test_a_horizontal_regression_on_a_device_is_that_of_the_joint_table(foreign):
    device = Device("test", foreign.array([0.0]))
    labels = [RNG.normal(size=(len(table), 1)) for table in ROWS]
    parties = [PartyData(open_source(table), y) for table, y in zip(ROWS, labels, strict=True)]
    outcome = run_study(Study("lr", "horizontal", targets=1), parties, random_state=1, policy=OPEN, device=device)
    X, y = np.vstack(ROWS), np.vstack(labels)
    expected, *_ = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)
    assert_close(outcome.parties[0].coefficients[0], expected[:, 0], RESULT_BAR)


@pytest.mark.parametrize("memory", [1 << 30, 200_000], ids=["X' on the device", "X' in host memory"])
def test_the_top_of_a_long_matrix_is_found_wherever_it_is_kept(foreign, memory, tmp_path):
    device = Device("test", foreign.array([0.0]), memory)
    study = Study("lsa", "vertical", components=4, scheme="mask", memory=13_500_000)
    tables = [RNG.normal(size=(540, n)) * 1.02 ** -np.arange(n) for n in (500, 400)]
    parties = [PartyData(open_source(table)) for table in tables]
    outcome = run_study(study, parties, random_state=1, policy=OPEN, device=device, scratch=tmp_path)
    assert retention(outcome.plan) is Retention.STORED, "by Krylov, from a store"
    _, sigma, Vt = np.linalg.svd(np.hstack(tables), full_matrices=False)
    np.testing.assert_allclose(outcome.parties[0].sigma, sigma[:4], rtol=0, atol=RESULT_BAR * sigma[0])
    found = np.concatenate([party.Vt_i for party in outcome.parties], axis=1)
    assert_close(np.abs(np.sum(found * Vt[:4], axis=1)), 1.0, digits_lost(7))


@pytest.mark.parametrize("m", [12, 60])
def test_the_top_of_a_large_gram_matrix_is_found_where_it_lies(foreign, m, monkeypatch):
    """As at tens of thousands of features, where no dense SVD fits: by Krylov, on a device."""
    monkeypatch.setattr("fedsvd.roles.service_provider.factorise.SMALL", 8)
    device = Device("test", foreign.array([0.0]))
    tables = [RNG.normal(size=(n, m)) * 1.1 ** -np.arange(m) + 3 for n in (400, 300)]
    parties = [PartyData(open_source(table)) for table in tables]
    study = Study("pca", "horizontal", components=3, scheme="sum", mode=Mode.B)
    outcome = run_study(study, parties, random_state=1, policy=OPEN, device=device)
    X = np.concatenate(tables)
    _, _, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    assert_close(np.abs(np.sum(outcome.parties[1].U * Vt[:3].T, axis=0)), 1.0, digits_lost(7))


@pytest.mark.usefixtures("mixing_masks")
@pytest.mark.parametrize("memory", [1 << 30, 1 << 20], ids=["P A on the device", "P A in host memory"])
def test_a_long_matrix_goes_up_and_its_vectors_come_back_in_panels(foreign, memory, tmp_path):
    """Under masks over whole sides, with fewer rows in a panel than blocks of P are drawn at once."""
    device = Device("test", foreign.array([0.0]), memory)
    study = Study("lsa", "horizontal", components=4, scheme="mask", memory=4_000_000)
    tables = [RNG.normal(size=(n, 640)) * 1.02 ** -np.arange(n)[:, None] for n in (500, 400)]
    parties = [PartyData(open_source(table)) for table in tables]
    outcome = run_study(study, parties, random_state=1, policy=OPEN, device=device, scratch=tmp_path)
    assert outcome.plan.tall
    assert len(outcome.plan.row_panels) > 1
    assert (outcome.plan.left, outcome.plan.right) == (Form.MIXING, Form.MIXING)
    X = np.concatenate(tables).T
    U, sigma, _ = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(outcome.parties[0].sigma, sigma[:4], rtol=0, atol=RESULT_BAR * sigma[0])
    assert_close(np.abs(np.sum(outcome.parties[1].U * U[:, :4], axis=0)), 1.0, digits_lost(7))


@pytest.mark.usefixtures("mixing_masks")
def test_a_party_with_a_device_and_one_without_are_at_one(foreign):
    """Masks are drawn by each user, here by different libraries, from the same seed."""
    device = Device("test", foreign.array([0.0]))
    parties = [PartyData(open_source(table)) for table in LONG]
    study = Study("svd", "vertical", scheme="mask")
    session = assemble(study, parties, Seed(bytes(range(32))))
    machines = [
        User(machine.me, session.plan, replace(machine.inputs, device=device)) if machine.me == user(2) else machine
        for machine in session.machines
    ]
    results = Simulation(machines, Hub()).run().results
    X = np.hstack(LONG)
    for i, X_i in enumerate(LONG, start=1):
        found = results[user(i)]
        assert np.linalg.norm(found.U * found.sigma @ found.Vt_i - X_i, 2) <= VALUES_BAR * np.linalg.norm(X, 2)
