"""Sessions of the family ``steps``: results are those of LAPACK on hard spectra, whatever the source and the scale."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from tests.tolerances import ORTHONORMAL_BAR, VALUES_BAR, assert_close, assert_same_vectors, found_by_steps
from tests.unit.linalg.steps_cases import SPECTRA, factors, noise, of_spectrum

from fedsvd import FederatedPCA, FederatedSVD, Masks, Simulation
from fedsvd.cost.traffic import traffic
from fedsvd.data.sparse import SparseSource
from fedsvd.errors import BegunAgain, ConfigError, ConstantData, NotConverged, StorageError
from fedsvd.protocol.directions import TOLERANCE, first_width, memory_of_steps, most_directions, widest_basis
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
H = Split.HORIZONTAL
PCA_RELEASE = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)


def svd(X, r, k=3, **asked):
    return Federation(np.array_split(X, k), Task.SVD, H, scheme="steps", components=r, **asked)


def expect_svd(results, X, r):
    """U, S and own vectors of every user against LAPACK's, as far as these are determined."""
    s, first = np.linalg.svd(X, compute_uv=False), results[0]
    rank, limit = len(first.sigma), found_by_steps(r, X.shape[1])
    assert_close(first.sigma, s[:rank], limit, s[0])
    own = np.concatenate([np.asarray(found.Vt_i).T for found in results])
    for residual in (X.T @ own - first.U * first.sigma, X @ first.U - own * first.sigma):
        assert np.linalg.norm(residual, axis=0).max() <= limit * s[0]
    for Q in (first.U, own):
        assert np.abs(Q.T @ Q - np.eye(rank)).max() <= ORTHONORMAL_BAR
    assert first.residual <= limit
    assert all(np.array_equal(found.U, first.U) and np.array_equal(found.sigma, first.sigma) for found in results)


QUICK = ("rank 5", "multiplicity 40", "three records", "twenty features")  # the others: tests/unit/linalg


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SPECTRA])
def test_the_top_by_steps_is_that_of_lapack(name):
    make, r = SPECTRA[name]
    X = make()
    federation = svd(X, r)
    expect_svd(federation.run(), X, r)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 20, 60])
def test_any_number_of_parties_finds_the_same(k):
    X = factors()
    expect_svd(svd(X, 6, k).run(), X, 6)


SOURCES = {
    "dense": lambda X, folder: X,
    "sparse": lambda X, folder: scipy.sparse.csr_array(X),
    "single precision": lambda X, folder: X.astype(np.float32),
    "a file": lambda X, folder: saved(X, folder),
}


def saved(X, folder):
    path = folder / f"{abs(hash(X.tobytes()))}.npy"
    np.save(path, X)
    return path


@pytest.mark.parametrize(
    ("source", "scaled"),
    [
        ("dense", False),
        ("sparse", True),
        *(
            pytest.param(source, scaled, marks=pytest.mark.slow)
            for source, scaled in [
                ("dense", True),
                ("sparse", False),
                ("single precision", False),
                ("single precision", True),
                ("a file", False),
                ("a file", True),
            ]
        ),
    ],
)
def test_the_top_by_steps_is_that_of_lapack_on_every_source(source, scaled, tmp_path):
    X = np.round(factors(60, 90), 2).astype(np.float32).astype(float)
    X[np.abs(X) < 1.0] = 0.0
    parts = [SOURCES[source](part, tmp_path) for part in np.array_split(X, 3)]
    asked = {"unit_variance": scaled, "release": PCA_RELEASE, "components": 3}
    results = Federation(parts, Task.PCA, H, scheme="steps", **asked).run()
    C = X - X.mean(axis=0)
    C = C / C.std(axis=0) if scaled else C
    U, s, Vt = np.linalg.svd(C, full_matrices=False)
    assert_close(results[0].sigma, s[:3], VALUES_BAR, s[0])
    scores = np.concatenate([np.asarray(found.scores_i) for found in results])
    for found, expected in ((results[0].U, Vt[:3].T), (scores / s[:3], U[:, :3])):
        assert_same_vectors(found.T, expected.T, s)
    assert_close(results[0].total_energy, np.sum(C**2), VALUES_BAR)


class Watched(SparseSource):
    """A sparse source that counts the entries of it that were made dense."""

    dense = 0

    def _cells(self, rows, columns):
        block = super()._cells(rows, columns)
        Watched.dense += block.size
        return block


def test_steps_make_nothing_of_a_sparse_table_dense(monkeypatch):
    """Means, norms, products and scores are of stored entries; what an owner judges at home are some of its rows."""
    monkeypatch.setattr("fedsvd.studies.run.guard_rows", lambda *given: None)
    rng, steps = np.random.default_rng(5), []
    for spread in (np.concatenate(([9.0, 6.0, 4.0], np.ones(57))), np.ones(60)):
        X = scipy.sparse.random_array((80, 60), density=0.1, rng=rng).toarray() * spread
        monkeypatch.setattr(Watched, "dense", 0)
        parts = [PartyData(Watched(scipy.sparse.csr_array(part))) for part in np.array_split(X, 2)]
        study = Study(Task.PCA, H, scheme="steps", components=2, release=PCA_RELEASE)
        found = run_study(study, parts, random_state=1).parties[0]
        assert_close(found.sigma, np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:2], VALUES_BAR)
        assert Watched.dense == 0
        steps.append(len(found.checked.order.passes))
    assert steps[0] < steps[1]


@pytest.mark.parametrize("source", ["dense", "sparse"])
@pytest.mark.parametrize("task", [Task.SVD, Task.LSA])
def test_the_top_of_split_columns_is_that_of_lapack(task, source, monkeypatch):
    X = np.round(factors(90, 60), 2)
    X[np.abs(X) < 1.0] = 0.0
    monkeypatch.setattr(Watched, "dense", 0)
    cuts = np.array_split(X, 3, axis=1)
    parts = cuts if source == "dense" else [Watched(scipy.sparse.csr_array(part)) for part in cuts]
    results = Federation(parts, task, Split.VERTICAL, scheme="steps", components=4).run()
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    assert_close(results[0].sigma, s[:4], VALUES_BAR, s[0])
    own = np.concatenate([np.asarray(found.Vt_i) for found in results], axis=1)
    for found, expected in ((results[0].U.T, U[:, :4].T), (own, Vt[:4])):
        assert_same_vectors(found, expected, s)
    assert all(np.array_equal(found.U, results[0].U) for found in results)
    assert Watched.dense == 0


def test_a_first_record_that_is_far_out_takes_no_digit_of_the_total_variance():
    """Deviations about it are differences of squares that are larger by as many records as there are."""
    X = np.random.default_rng(9).normal(size=(60_000, 4))
    X[0] += [1e6, 0.0, 1e5, 0.0]
    asked = {"components": 2, "release": PCA_RELEASE}
    found = Federation(np.array_split(X, 2), Task.PCA, H, scheme="steps", **asked).run()[0]
    assert_close(found.total_energy, np.sum((X - X.mean(axis=0)) ** 2), VALUES_BAR)


@pytest.mark.parametrize("unit_variance", [False, True])
def test_a_sparse_table_with_a_column_far_from_zero_loses_no_digit(unit_variance):
    X = np.round(factors(60, 40), 2)
    X[np.abs(X) < 1.0] = 0.0
    X[:, 3] += 1e5
    parts = [scipy.sparse.csr_array(part) for part in np.array_split(X, 3)]
    asked = {"components": 3, "release": PCA_RELEASE, "unit_variance": unit_variance}
    found = Federation(parts, Task.PCA, H, scheme="steps", **asked).run()[0]
    C = X - X.mean(axis=0)
    C = C / C.std(axis=0) if unit_variance else C
    s = np.linalg.svd(C, compute_uv=False)
    assert_close(found.sigma, s[:3], VALUES_BAR, s[0])


@pytest.mark.parametrize(("factor", "shift"), [(1e-150, 0.0), (1e140, 0.0), (1.0, 1e6)])
def test_scales_and_means_take_no_digit(factor, shift):
    X = factors(60, 90) * factor + shift
    found = FederatedPCA(3, masks=Masks("steps")).fit(np.array_split(X, 3))
    C = X - X.mean(axis=0)
    s = np.linalg.svd(C / np.abs(C).max(), compute_uv=False) * np.abs(C).max()
    assert_close(found.singular_values_, s[:3], VALUES_BAR * max(1.0, np.abs(X).max() / np.abs(C).max() / 1e4), s[0])


def test_little_memory_reads_panels_and_gives_the_same():
    X = factors(300, 60)
    asked = {"release": PCA_RELEASE, "components": 3, "unit_variance": True}
    plan = Federation(np.array_split(X, 2), Task.PCA, H, scheme="steps", **asked).assemble().plan
    least = memory_of_steps(replace(plan, memory=1))
    assert least < memory_of_steps(plan)
    small = Federation(np.array_split(X, 2), Task.PCA, H, scheme="steps", memory=least, **asked).run()
    whole = Federation(np.array_split(X, 2), Task.PCA, H, scheme="steps", **asked).run()
    assert_close(small[0].sigma, whole[0].sigma, VALUES_BAR)
    with pytest.raises(StorageError, match="directions of 60 features"):
        Federation(np.array_split(X, 2), Task.PCA, H, scheme="steps", memory=least - 1, **asked).assemble()


def test_a_basis_that_is_full_starts_again_from_its_leading_vectors():
    """26 directions are held at a time; sizes on the way are those of the plan, or a role would have refused them."""
    X = noise(60, 90)
    needed = memory_of_steps(replace(svd(X, 3).assemble().plan, memory=1))
    federation = svd(X, 3, memory=needed)
    found = federation.run()
    expect_svd(found, X, 3)
    order = found[0].checked.order
    assert widest_basis(federation.plan) < order.directions


def test_copies_of_a_value_are_found_from_blocks_narrower_than_there_are_copies():
    """16 directions at a time, 40 equal values among the first 34: a search that found 16 of them begins again."""
    X = of_spectrum([3.0, *[2.0] * 40, *np.linspace(1.5, 0.1, 40)], 90, 150)
    federation = svd(X, 34, 2)
    found = federation.run()
    expect_svd(found, X, 34)
    assert first_width(federation.plan) == 16
    assert "from 32 random ones" in found[0].checked.order.text


def test_a_matrix_of_zeros_ends_after_its_bound_and_constant_columns_are_refused():
    found = svd(np.zeros((9, 12)), 2).run()[0]
    assert found.rank == 0
    with pytest.raises(ConstantData):
        Federation([np.ones((5, 12))] * 2, Task.PCA, H, scheme="steps", components=2, release=PCA_RELEASE).run()


def test_a_spectrum_that_does_not_fall_ends_without_a_result(monkeypatch):
    monkeypatch.setattr("fedsvd.roles.user.by_steps.most_directions", lambda plan: 16)
    federation = svd(noise(40, 100), 2)
    with pytest.raises(NotConverged, match="directions in"):
        federation.run()
    assert not federation.released


def test_the_last_step_that_a_plan_has_is_judged_like_the_others(monkeypatch):
    """Ritz values are not computed after each step; a search that may not go on was over without a look at the last."""

    def due(search, directions, wanted=0):
        return directions <= 16 or directions >= 1.12 * search.computed  # as beyond 160 directions

    monkeypatch.setattr("fedsvd.linalg.verdicts.Search.due", due)
    X, ends = factors(300, 90), list[str]()
    for most in (50, 54, 57):
        monkeypatch.setattr("fedsvd.roles.user.by_steps.most_directions", lambda plan, most=most: most)
        try:
            svd(X, 2, 2).run()
            ends.append("found")
        except NotConverged as error:
            residual = float(error.fault.rpartition(" ")[2])
            assert residual > TOLERANCE
            ends.append("not found")
    assert ends == sorted(ends, reverse=True)
    assert set(ends) == {"found", "not found"}


def test_what_auto_chose_and_did_not_converge_is_found_by_sums(monkeypatch):
    monkeypatch.setattr("fedsvd.studies.planning.pays", lambda *shapes: True)
    monkeypatch.setattr("fedsvd.roles.user.by_steps.most_directions", lambda plan: 12)
    X = noise(200, 40)
    with pytest.warns(BegunAgain, match="ended without.*chosen by shape: the study begins again by sums") as caught:
        found = FederatedPCA(2, federation=Simulation()).fit(np.array_split(X, 2))
    assert {each.filename for each in caught if each.category is BegunAgain} == {__file__}
    assert "which was chosen by shape, ended without the components, and the study began again by sums" in (
        found.certificate_.why
    )
    assert "asked for" not in found.certificate_.why
    s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:2]
    assert_close(found.singular_values_, s, VALUES_BAR, s[0])
    with pytest.raises(NotConverged, match="Masks\\(scheme"):
        FederatedPCA(2, masks=Masks(scheme="steps"), federation=Simulation()).fit(np.array_split(X, 2))


def test_the_result_the_certificate_and_the_bytes_say_how_it_was_found():
    X = factors(60, 80)
    estimator = FederatedSVD(6, masks=Masks("steps"), federation=Simulation(verbose=0)).fit(np.array_split(X, 2))
    assert_close(estimator.singular_values_, np.linalg.svd(X, compute_uv=False)[:6], VALUES_BAR)
    federation = svd(X, 6)
    found = federation.run()[0]
    said = found.checked.order
    assert said.text.startswith(f"found in {len(said.passes)} steps, {said.directions} directions, from 14 random ones")
    assert said.directions <= most_directions(federation.plan)
    assert federation.machines[user(1)].agreement.order == said.text


def test_bytes_are_far_below_those_of_a_gram_matrix():
    plans = [
        Federation(np.array_split(np.ones((60, 2000)), 2), Task.SVD, H, scheme=scheme, components=5).assemble().plan
        for scheme in ("steps", "sum")
    ]
    from fedsvd.cost.traffic import Expected

    sent = [sum(traffic(plan, Expected(60))[0].values()) for plan in plans]
    assert 5 * sent[0] < sent[1]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"components": None}, "a number of components"),
        ({"mode": "A"}, "a mode says"),
    ],
)
def test_what_is_not_built_is_refused_with_a_sentence(asked, text):
    with pytest.raises(ConfigError, match=text):
        Federation([np.ones((4, 4))] * 2, Task.SVD, H, **({"scheme": "steps", "components": 2} | asked)).assemble()
