"""Block Golub-Kahan steps: as exact as LAPACK on hard spectra, by parties that round differently; lies are refused."""

from contextlib import nullcontext

import numpy as np
import pytest
from tests.tolerances import EPS, ORTHONORMAL_BAR, RESULT_BAR, VALUES_BAR, found_by_steps, orthogonal, product
from tests.unit.linalg.steps_cases import SPECTRA, factors, noise, of_spectrum, orthonormal, play
from tests.unit.linalg.steps_machines import Elsewhere

from fedsvd.errors import VerificationFailed
from fedsvd.linalg.golub_kahan import TOLERANCE, Space, start_block
from fedsvd.linalg.joint_blocks import Block, least_column
from fedsvd.linalg.verdicts import Wanted


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("jitter", [0.0, 1e-15])
def test_values_and_vectors_are_those_of_lapack(name, jitter):
    make, r = SPECTRA[name]
    X = make()
    parts = np.array_split(X, 3)
    found = play(parts, r, jitter=jitter)
    s, rank = np.linalg.svd(X, compute_uv=False), len(found.s)
    assert rank >= min(r, np.count_nonzero(s > 1e4 * EPS * s[0]))
    limit = found_by_steps(r, X.shape[1])
    assert np.abs(found.s - s[:rank]).max() <= limit * s[0]
    u = np.concatenate(found.u)
    for residual in (X.T @ u - found.V * found.s, X @ found.V - u * found.s):
        assert np.linalg.norm(residual, axis=0).max() <= limit * s[0]
    for Q in (found.V, u):
        assert np.abs(Q.T @ Q - np.eye(rank)).max() <= 10 * orthogonal(len(Q))


def expect_top(found, X, r, limit=0.0):
    """Values and both residuals are within this of s_1."""
    s, rank, limit = np.linalg.svd(X, compute_uv=False), len(found.s), limit or found_by_steps(r, X.shape[1])
    u = np.concatenate(found.u)
    assert np.abs(found.s - s[:rank]).max() <= limit * s[0]
    for residual in (X.T @ u - found.V * found.s, X @ found.V - u * found.s):
        assert np.linalg.norm(residual, axis=0).max() <= limit * s[0]
    return rank


RESTARTED = ("noise", "one of 1e8", "one of 1e12", "1/j^2")


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("jitter", [0.0, 1e-15])
def test_a_basis_that_starts_again_and_narrow_blocks_find_the_same(name, jitter):
    make, r = SPECTRA[name]
    X = make()
    for asked in ({"widest": 4 * r + 24}, {"first": max(3, r // 3)}, {"first": max(3, r // 3), "widest": 4 * r + 24}):
        found = play(np.array_split(X, 3), r, jitter=jitter, **asked)
        rank = expect_top(found, X, r)
        s = np.linalg.svd(X, compute_uv=False)
        assert rank >= min(r, np.count_nonzero(s > 1e4 * EPS * s[0]))
        assert found.restarts or name not in RESTARTED or "first" in asked


def test_what_images_have_below_rounding_does_not_add_up_from_restart_to_restart():
    """Vectors of forty equal values turn at every restart; a sum of lengths grew fourfold each time, without end."""
    make, r = SPECTRA["multiplicity 40"]
    found = play(np.array_split(make(), 3), r, jitter=1e-15, seed=18, widest=46)
    expect_top(found, make(), r, VALUES_BAR)
    assert found.restarts > 2
    assert found.steps < 60


COPIES = {
    "equal": [2.0] * 60 + [1.0] * 60,
    "all equal": [2.0] * 120,
    "below one": [3.0, *[2.0] * 60, *np.linspace(1.9, 0.1, 59)],
    **{
        f"within 1e{e}": [3.0, *(2.0 + 10.0**e * np.linspace(1, 0, 40)), *np.linspace(1.5, 0.1, 79)]
        for e in (-13, -9, -5)
    },
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_a_value_that_narrow_blocks_would_miss_are_searched_for(name):
    X = of_spectrum(COPIES[name])
    found = play(np.array_split(X, 3), 45, first=12)
    assert expect_top(found, X, 45) == 45
    assert found.starts > 1 or name in ("within 1e-9", "within 1e-5")


@pytest.mark.parametrize("name", ["factors", "noise", "1/j^2", "log to 1e-14", "one of 1e8"])
def test_coordinates_give_the_products_and_residuals_of_the_long_matrices(name):
    """One party, with K and Z beside the space: in blocks of four, a direction more in the reservoir, a restart."""
    make, r = SPECTRA[name]
    X = make().T
    s1, bar = np.linalg.norm(X, 2), found_by_steps(r, len(X))
    space = Space(start_block(np.random.default_rng(5).normal(size=(len(X), 5))))
    K, Z, W = np.zeros((len(X), 0)), np.zeros((len(X), 0)), np.zeros((X.shape[1], 0))
    for step in range(9):
        new = X.T @ space.block
        for _ in range(3):
            new = np.linalg.qr(new - W @ (W.T @ new))[0]
        K, Z, W = (np.concatenate(pair, axis=1) for pair in ((K, space.block), (Z, X @ new), (W, new)))
        space = space.added(X @ new)
        assert np.abs(space.products - Z.T @ K).max() <= bar * s1
        ritz = space.ritz(r, X.shape[1], 12)
        left = np.linalg.norm(Z @ ritz.p - K @ (ritz.y * ritz.s), axis=0)[: len(ritz.residuals)]
        assert np.abs(left - ritz.residuals * ritz.top).max() <= bar * s1
        space = space.kept(space.propose_directions(ritz.top))
        assert np.abs(space.reservoir.T @ space.reservoir - np.eye(space.reservoir.shape[1])).max() <= bar
        space = space.onward(space.propose_mixture(ritz, r, TOLERANCE, 4))
        if step == 5:
            p, y, g = space.propose_restart(ritz, 12)
            space, K, Z, W = space.restarted(p, y, g), K @ y, Z @ p, W @ p
            assert np.abs(space.products - Z.T @ K).max() <= bar * s1
        assert np.abs(space.before() - Z.T @ space.block).max() <= bar * s1


def test_blocks_of_fewer_columns_multiply_fewer_directions():
    wide, narrow = (play(np.array_split(factors(), 2), 6, first=first).directions for first in (0, 3))
    assert narrow < 0.7 * wide


def test_a_search_whose_values_are_computed_rarely_ends_as_early(monkeypatch):
    X, looks, ritz = of_spectrum(1.0 / np.sqrt(np.arange(1.0, 301.0)), 300, 400), [0], Space.ritz

    def looked(space, *asked):
        looks[0] += 1
        return ritz(space, *asked)

    monkeypatch.setattr(Space, "ritz", looked)
    rarely, few = play([X], 40, first=8), looks[0]
    monkeypatch.setattr("fedsvd.linalg.verdicts.Search.due", lambda search, directions, wanted: directions >= wanted)
    looks[0] = 0
    always = play([X], 40, first=8)
    assert always.steps <= rarely.steps <= always.steps + 1
    assert few < looks[0] / 2
    expect_top(rarely, X, 40, VALUES_BAR)


def test_few_directions_are_multiplied_where_the_spectrum_falls():
    """Fewer than all: of 120 that there are."""
    found = play(np.array_split(factors(), 2), 6)
    assert found.steps <= 12
    assert found.directions <= 80


def test_one_record_a_party_and_a_scale_of_1e_150():
    X = factors(20, 60)
    found = play(list(X[:, None, :]), 3)
    np.testing.assert_allclose(found.s, np.linalg.svd(X, compute_uv=False)[:3], rtol=found_by_steps(3, 60))


def held_by(s, share):
    """The fewest of these values that hold more than a share of all squares."""
    return 1 + int(np.count_nonzero(np.cumsum(s**2) <= share * np.sum(s**2)))


SHARED = ("factors", "noise", "rank 5", "equal", "1/j^2", "log to 1e-14")


@pytest.mark.parametrize("share", [0.2, 0.55, 0.95])
@pytest.mark.parametrize("name", SHARED)
def test_as_many_vectors_as_hold_a_share_are_found(name, share):
    X = SPECTRA[name][0]()
    found = play(np.array_split(X, 3), len(X), share=share, first=24, jitter=1e-15)
    assert expect_top(found, X, len(X)) == held_by(np.linalg.svd(X, compute_uv=False), share)


@pytest.mark.parametrize("seed", range(12))
def test_no_honest_leader_is_refused_at_the_edge_of_a_share(seed):
    """Ten equal values: three of them hold three tenths, or not, as each party rounds."""
    X = of_spectrum([1.0] * 10, 40, 60)
    found = play(np.array_split(X, 3), 20, share=0.3, jitter=1e-15, seed=seed, on=lambda s, i: Elsewhere(s, i + seed))
    assert len(found.s) in (3, 4)


def test_a_leader_that_takes_more_or_fewer_than_hold_the_share_is_refused():
    X = of_spectrum([5.0, 4.0, 3.0, 2.0, 1.0, 0.5], 30, 40)
    asked = {"share": 0.85, "jitter": 1e-15}
    assert len(play(np.array_split(X, 2), 12, **asked).s) == 3

    def fewer(what, value):
        return tuple(A[..., :-1] for A in value) if what == "answer" else value

    with pytest.raises(VerificationFailed):
        play(np.array_split(X, 2), 12, lie=fewer, **asked)
    wanted = Wanted(12, 0.85 * float(np.sum(X**2)))
    space = Space(np.eye(40)).added(X.T @ np.linalg.svd(X)[0][:, :6])
    ritz = space.ritz(12, 30)
    for count, right in ((2, False), (3, True), (4, False)):
        V, s, p = space.answer(ritz, count)
        with nullcontext() if right else pytest.raises(VerificationFailed):
            space.expect_answer(V, s, p, ritz, wanted.range(ritz.s))


@pytest.mark.parametrize("ended", [False, True])
def test_values_of_a_search_that_goes_on_are_those_of_lapack_and_those_of_its_end_to_all_digits(ended):
    """Of 180 directions: far from the leading vectors, or with these among them."""
    X, r = noise(260, 300).T, 12
    leading = np.linalg.svd(X)[0][:, : 2 * r] if ended else np.zeros((300, 0))
    Q = np.linalg.qr(np.concatenate((leading, noise(300, 180)), axis=1))[0][:, :180]
    W = np.linalg.qr(X.T @ Q)[0]
    ritz = Space(Q).added(X @ W).ritz(r, 260)
    R = W.T @ X.T @ Q
    s = np.linalg.svd(R, compute_uv=False)
    assert (ritz.residual(r) < TOLERANCE) == ended
    limit = VALUES_BAR if ended else RESULT_BAR
    assert np.abs(ritz.s[:r] - s[:r]).max() <= limit * s[0]
    for A in (ritz.p, ritz.y):
        assert np.abs(A.T @ A - np.eye(A.shape[1])).max() <= (
            10 * orthogonal(len(A)) if ended else 10 * ORTHONORMAL_BAR
        )
    for residual in (R @ ritz.y - ritz.p * ritz.s, R.T @ ritz.p - ritz.y * ritz.s):
        assert np.linalg.norm(residual, axis=0).max() <= limit * s[0]


FREE = np.zeros((400, 1))
FREE[7] = 1.0


def outside(N):
    """A direction of the leader's own, at right angles to those that are due."""
    return np.linalg.qr(np.concatenate((N, FREE), axis=1))[0][:, -1:]


LIES = {
    "a direction of its own": ("directions", lambda N: np.concatenate((N, outside(N)), axis=1)),
    "a direction exchanged": ("directions", lambda N: np.concatenate((N[:, 1:], outside(N[:, 1:])), axis=1)),
    "half of the directions": ("directions", lambda N: N[:, : N.shape[1] // 2]),
    "directions kept back": ("directions", lambda N: N[:, :0]),
    "directions that are not orthonormal": ("directions", lambda N: N * 1.001),
    "no number among the directions": ("directions", lambda N: N * np.nan),
    "an unknown combination": ("mixture", lambda c: c * 1.001),
    "the same combination twice": ("mixture", lambda c: np.eye(len(c))[:, :1]),
    "more columns than wanted": ("mixture", lambda c: np.linalg.qr(np.eye(len(c))[:, :7] + 1e-3)[0]),
    "a root that drops a column": ("root", lambda root: np.where(np.arange(root.shape[1]) == 0, 0.0, root)),
    "a root that is too large": ("root", lambda root: root * 2.0**40),
    "a root twice as large": ("root", lambda root: root * 2.0),
    "the end too early": ("verdict", lambda said: 1),
    "no direction is left": ("verdict", lambda said: 2),
    "vectors that do not lead": ("answer", lambda a: (a[0][:, ::-1], a[1], a[2][:, ::-1])),
    "vectors of its own": ("answer", lambda a: (np.linalg.qr(a[0] + 1e-9)[0], a[1], a[2])),
    "values that are too large": ("answer", lambda a: (a[0], a[1] * (1 + 1e-9), a[2])),
    "other vectors at home": ("answer", lambda a: (a[0], a[1], np.roll(a[2], 1, axis=1))),
    "a restart without the first vector": ("restart", lambda a: (a[0][:, 1:], a[1][:, 1:], a[2])),
    "a restart in another order": ("restart", lambda a: (a[0][:, ::-1], a[1][:, ::-1], a[2])),
    "a restart with other left vectors": ("restart", lambda a: (np.roll(a[0], 1, axis=1), a[1], a[2])),
    "a restart with vectors of its own": ("restart", lambda a: (a[0], np.linalg.qr(a[1] + 1e-9)[0], a[2])),
    "a restart that drops what vectors lack": ("restart", lambda a: (a[0], a[1], a[2][:, 1:])),
    "a restart that multiplies again": ("restart", lambda a: (a[0], a[1], np.roll(a[2], 1, axis=0))),
    "no number in a restart": ("restart", lambda a: (a[0] * np.nan, a[1], a[2])),
    "other random directions": ("verdict", lambda said: 3),
    "fewer than were found": ("answer", lambda a: tuple(A[..., :-1] for A in a)),
}


@pytest.mark.parametrize("name", LIES)
def test_a_leader_that_lies_is_refused(name):
    what, change = LIES[name]
    told = []

    def lie(sent, value):
        if sent != what:
            return value
        told.append(change(value))
        return told[-1] if what in ("verdict", "answer", "root", "restart") or len(told) == 2 else value

    with pytest.raises(VerificationFailed):
        play(np.array_split(factors(), 3), 6, lie=lie, widest=40)
    assert told


def test_the_refusal_of_a_lie_says_nothing_of_how_far_it_was_off():
    texts = set()
    for factor in (1.001, 2.0):
        with pytest.raises(VerificationFailed) as caught:
            play(
                np.array_split(factors(), 2),
                6,
                lie=lambda what, value, factor=factor: value * factor if what == "directions" else value,
            )
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_a_start_block_is_the_same_function_of_its_normals_however_qr_chooses_signs():
    normals = np.random.default_rng(1).normal(size=(50, 6))
    Q = start_block(normals)
    assert np.diagonal(Q.T @ normals).min() > 0.0
    np.testing.assert_allclose(Q @ (Q.T @ normals), normals, rtol=0, atol=product(50, 4))


@pytest.mark.parametrize("seed", range(20))
def test_columns_that_are_noise_of_the_sums_do_not_make_a_root_large(seed):
    """Of twelve columns four have something of their own; products of the others are noise of 2^-54 a party."""
    rng = np.random.default_rng(seed)
    C = np.zeros((12, 12))
    C[:4, :4] = np.eye(4)
    noise = 3 * 2.0**-54 * rng.uniform(-1.0, 1.0, C.shape)
    root = Block(np.ones(12), 1e-18).propose(C + noise + noise.T)
    assert np.abs(root).max() <= 2.0**23
    assert np.abs(root.T @ C @ root).max() <= 2.0


GRADED = {
    "by decades": np.logspace(0, -16, 20),
    "in steps": [1.0] * 5 + [1e-7] * 5 + [1e-13] * 5 + [1e-14] * 20,
    "one, then rounding": [1.0, *np.logspace(-12, -15, 40)],
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", GRADED)
def test_a_block_leaves_out_nothing_but_columns_below_rounding(name, seed):
    """Rotations among columns of equal products hid columns a thousand times larger behind such ones."""
    rng = np.random.default_rng(seed)
    b = (12, 20, 28)[seed % 3]
    W = original = of_spectrum(GRADED[name]) @ orthonormal(400, b, seed + 7)
    least = least_column(1.0, b)
    block = Block((W * W).sum(axis=0), least)
    W, done = W * block.scale, False
    while not done:
        C = W.T @ W + 3 * 2.0**-54 * rng.uniform(-1.0, 1.0, (W.shape[1],) * 2)
        done, root = block.done(C), block.propose(C)
        W = W @ root
        block.take(root)
    left = original - W @ (W.T @ original)
    assert np.linalg.norm(left, 2) <= np.sqrt(b) * least


def test_columns_of_a_block_come_to_unit_size_by_powers_of_two_that_all_compute_alike():
    energies = np.array([1.0, 0.25, 0.2500001, 3e-200, 0.0, 7.5e30])
    scale = Block(energies, 0.0).scale
    assert (np.frexp(scale)[0] == 0.5).all()
    sized = np.sqrt(energies[[0, 1, 2, 3, 5]]) * scale[[0, 1, 2, 3, 5]]
    assert ((sized >= 0.5) & (sized <= 1.0)).all()


def play_on_machines(name, seeds):
    """No honest leader is refused, whichever machine leads: LAPACK's drivers, threads and products differ."""
    make, r = SPECTRA[name]
    X = make()
    for seed in seeds:
        asked = ({}, {"widest": 4 * r + 24}, {"first": max(3, r // 3)})[seed % 3]
        found = play(
            np.array_split(X, 3),
            r,
            jitter=1e-15,
            seed=seed,
            on=lambda space, i, seed=seed: Elsewhere(space, i + seed),
            **asked,
        )
        expect_top(found, X, r, VALUES_BAR)


@pytest.mark.parametrize("name", SPECTRA)
def test_no_honest_leader_is_refused_on_another_machine(name):
    play_on_machines(name, range(3))


def test_a_column_that_mixes_others_is_as_large_as_what_the_block_lacks_without_it():
    """Taken for the length of its combination of the original columns, 1e-12 of X was left out as rounding."""
    play_on_machines("multiplicity 40", [15, 42])


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECTRA)
def test_no_honest_leader_is_refused_in_a_thousand_runs(name):
    """72 runs of each of 14 spectra."""
    play_on_machines(name, range(3, 75))


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 20, 100])
@pytest.mark.parametrize("name", SPECTRA)
def test_no_honest_leader_is_refused_by_parties_that_round_differently(name, k):
    make, r = SPECTRA[name]
    X = make()
    parts = np.array_split(X, min(k, len(X)))
    s = np.linalg.svd(X, compute_uv=False)
    for seed in range(12):
        found = play(parts, r, jitter=1e-15, seed=seed)
        assert np.abs(found.s - s[: len(found.s)]).max() <= found_by_steps(r, X.shape[1]) * s[0]


def test_the_noise_that_a_sum_carries_is_seen_in_the_residual_and_not_in_the_values():
    X = noise(60, 200)
    found = play(np.array_split(X, 20), 2)
    np.testing.assert_allclose(found.s, np.linalg.svd(X, compute_uv=False)[:2], rtol=VALUES_BAR)


def test_the_rank_of_a_matrix_ends_the_search_before_the_number_that_was_asked_for():
    X = of_spectrum([5, 4, 3, 2, 1])
    found = play(np.array_split(X, 2), 10)
    assert len(found.s) == 5
    np.testing.assert_allclose(found.s, [5, 4, 3, 2, 1], rtol=VALUES_BAR)
