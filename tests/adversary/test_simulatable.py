"""Adversary test 1: is the CSP's view a function of the singular values alone?

X is a table with everything a block mask shows: empty tiles, whole numbers, tiles of very different size. The decoy
has the same singular values and nothing else in common with it. Haar masks: the theorem says both views have one law.
Mixing masks: heuristic, the same tests. Block masks: told apart beyond any doubt, so the tests can fail.
"""

import numpy as np
import pytest
import scipy.stats
from tests.adversary.scores import same_law
from tests.adversary.watch import G_masked, columns, csp_view, watched
from tests.tolerances import ACCEPTED, IMPOSSIBLE, REJECTED, REJECTED_BY_FEW, digits_lost

from fedsvd.audit.attacks.view import X_masked
from fedsvd.linalg.windows import Form
from fedsvd.protocol.messages import PaddedBatch
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Mode
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import dither, fixed_point
from fedsvd.studies import planning
from fedsvd_lab.published.play import play

B, TILES = 10, (6, 12)
M, N = B * TILES[0], B * TILES[1]
WIDTHS = (50, 70)


def orthogonal(n, rng):
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    return Q * np.sign(np.diag(R))


@pytest.fixture(scope="module")
def tables():
    """X, and a decoy of equal singular values."""
    rng = np.random.default_rng(7)
    X = np.zeros((M, N))
    for a in range(TILES[0]):
        for w in range(TILES[1]):
            if (a + w) % 3 == 0:
                tile = rng.integers(0, 6, (B, B)) * (rng.random((B, B)) < 0.5)
                X[B * a : B * a + B, B * w : B * w + B] = (1 + a) * tile
    sigma = np.linalg.svd(X, compute_uv=False)
    decoy = (orthogonal(M, rng) * sigma) @ orthogonal(N, rng)[:M]
    np.testing.assert_allclose(np.linalg.svd(decoy, compute_uv=False), sigma, rtol=0, atol=digits_lost(4) * sigma[0])
    return X, decoy


def tile_energies(Y):
    cut = [part for rows in np.array_split(Y, TILES[0], axis=0) for part in np.array_split(rows, TILES[1], axis=1)]
    return np.array([np.linalg.norm(part) / np.sqrt(part.size) for part in cut])


def leverages(Y):
    return np.sum(np.linalg.svd(Y)[0][:, : M // 4] ** 2, axis=1)


def shown(outcome):
    """X' (mask family), or the joint Gram matrix (sum family, opened by the CSP)."""
    return G_masked(outcome) if outcome.plan.mode is Mode.B else X_masked(outcome.plan, csp_view(outcome))


def p_values(tables, *states, **study):
    """Entries, tile energies, leverage: p that the views of table and decoy have one law, each run with own secrets."""
    seen = []
    for table, state in zip(tables, states, strict=True):
        outcome = watched(columns(table, WIDTHS), random_state=state, **study)
        Y = shown(outcome)
        seen.append((outcome.plan, Y / np.linalg.norm(Y)))  # c is a secret of each run, and cS is in the ledger
    (plan, Y), (_, Z) = seen
    return plan, [same_law(statistic(Y), statistic(Z)) for statistic in (np.ravel, tile_energies, leverages)]


@pytest.mark.parametrize("study", [{"mode": Mode.B}, {"scheme": "mask"}], ids=["sum", "mask"])
def test_under_haar_masks_the_csp_cannot_tell_a_table_from_any_other_of_equal_singular_values(tables, study):
    plan, found = p_values(tables, 1, 2, **study)
    assert (plan.left, plan.right) == (Form.HAAR, Form.HAAR)
    assert min(found) > ACCEPTED


def test_under_mixing_masks_the_same_tests_tell_nothing_apart_though_no_theorem_says_so(
    tables, mixing_masks, monkeypatch
):
    monkeypatch.setattr(planning, "LEAST_BLOCK", B)  # many blocks at this size: one alone would be a Haar matrix
    plan, found = p_values(tables, 3, 4, scheme="mask", block_size=B)
    assert plan.block == B
    assert (plan.left, plan.right) == (Form.MIXING, Form.MIXING)
    assert min(found) > ACCEPTED


def test_under_the_papers_block_masks_the_csp_tells_them_apart_at_once(tables):
    seeds = (Seed(bytes([place]) * 32) for place in (5, 6))
    seen = [play(columns(table, WIDTHS), b=B, record=True, seed=next(seeds)).seen.Y for table in tables]
    Y, Z = (each / np.linalg.norm(each) for each in seen)
    entries, tiles, leverage = (
        same_law(statistic(Y), statistic(Z)) for statistic in (np.ravel, tile_energies, leverages)
    )
    assert entries < IMPOSSIBLE
    assert tiles < REJECTED  # of 72 tiles a side: about the smallest value that so few can reach
    assert leverage < REJECTED_BY_FEW  # of 60 rows a side


def test_the_csp_learns_the_spectrum_and_this_is_stated(tables):
    """The theorem's other half: ratios are what it does learn, one secret factor the same for all of S."""
    S = np.linalg.svd(tables[0], compute_uv=False)
    seen = np.linalg.svd(shown(watched(columns(tables[0], WIDTHS), scheme="mask")), compute_uv=False)
    assert (seen / S).max() / (seen / S).min() == pytest.approx(1.0, abs=digits_lost(6))
    seen = np.linalg.eigvalsh(shown(watched(columns(tables[0], WIDTHS), mode=Mode.B)))[::-1]
    np.testing.assert_allclose(seen / seen[0], (S / S[0]) ** 2, atol=digits_lost(3), rtol=0)


def test_masks_are_drawn_anew_for_every_run(tables):
    """A mask that came back would make two uploads of one table comparable; their singular vectors are strangers."""
    sides = []
    for _ in range(2):
        outcome = watched(columns(tables[0], WIDTHS), scheme="mask", random_state=None)
        U, _, Vt = np.linalg.svd(X_masked(outcome.plan, csp_view(outcome)), full_matrices=False)
        sides.append((U, Vt.T))
    for first, second in zip(*sides, strict=True):
        cosines = np.abs(np.sum(first * second, axis=0))
        assert cosines.mean() < 4.0 / np.sqrt(len(first))


def last_bits(outcome):
    """The last four bits of every word of the sum, which the CSP sees exactly; p that they are uniform."""
    total = sum(message.payload for _, message in csp_view(outcome).of(CSP, PaddedBatch))
    total = total[:, 0] if outcome.plan.mode is Mode.B else total  # the low half of a word of 128 bits
    return float(scipy.stats.chisquare(np.bincount((total & np.uint64(15)).astype(int).ravel(), minlength=16)).pvalue)


@pytest.fixture(scope="module")
def divisions():
    """Equal singular values, divided between two users in different ways."""
    rng = np.random.default_rng(8)
    sigma = np.linalg.svd(rng.standard_normal((M, N)), compute_uv=False)
    alone = np.zeros((M, N))
    alone[:, : N // 2] = (orthogonal(M, rng) * sigma) @ orthogonal(N // 2, rng)
    return {"evenly": (orthogonal(M, rng) * sigma) @ orthogonal(N, rng)[:M], "to one": alone}


@pytest.mark.parametrize("study", [{"mode": Mode.B}, {"scheme": "mask"}], ids=["sum", "mask"])
@pytest.mark.parametrize("way", ["evenly", "to one"])
def test_the_last_bits_of_the_sum_do_not_tell_how_the_data_is_divided(divisions, study, way):
    outcome = watched(columns(divisions[way], (N // 2, N // 2)), **study)
    assert last_bits(outcome) > ACCEPTED


def test_unfilled_they_would(divisions, monkeypatch):
    """A float64 ends in zeros where the word goes on; a sum that does says that both users' terms are large."""
    monkeypatch.setattr(dither, "encode_filled", lambda Y, f, least, stream, out: fixed_point.encode(Y, f, out=out))
    for way in divisions:
        assert last_bits(watched(columns(divisions[way], (N // 2, N // 2)), scheme="mask")) < IMPOSSIBLE
