"""An answer that no honest party gives is refused, and factors that are not those of the Gram matrix are found out.

Honest answers come from a factorisation with another order of rows than the checker's own, as from another LAPACK.
"""

import numpy as np
import pytest
from tests.tolerances import digits_lost
from tests.unit.linalg.wide_cases import haar, integers_of, opened, words_of

from fedsvd.errors import AnswerRefused, VerificationFailed
from fedsvd.linalg import answers, wide_factor

M = 60
CUT = M * 2.0**-52
SPECTRA = {
    "condition 1e12": np.logspace(0, -12, M),
    "condition 1e15": np.logspace(0, -15, M),
    "rank 10": np.concatenate([np.logspace(0, -3, 10), np.zeros(M - 10)]),
    "cluster at 1e-9": np.concatenate([np.logspace(0, -8, M - 5), np.full(5, 1e-9)]),
    "all equal": np.ones(M),
}


def turned(U, i, j, angle):
    V = U.copy()
    V[:, i], V[:, j] = (
        np.cos(angle) * U[:, i] + np.sin(angle) * U[:, j],
        np.cos(angle) * U[:, j] - np.sin(angle) * U[:, i],
    )
    return V


def with_zeros(U, sigma, rank):
    """An answer of as many columns, zero from the rank on."""
    U, sigma = U.copy(), sigma.copy()
    U[:, rank:], sigma[rank:] = 0.0, 0.0
    return U, sigma


@pytest.fixture(scope="module", params=SPECTRA)
def study(request):
    """The checker's R, and (U, sigma) by a factorisation of the same matrix with its rows reversed."""
    rng = np.random.default_rng(1)
    G, _ = opened([haar(M, rng) * SPECTRA[request.param] @ haar(M, rng)], rng)
    reversed_rows = [row[::-1] for row in integers_of(G)[::-1]]
    U, sigma, _ = np.linalg.svd(wide_factor.factor(words_of(reversed_rows)).R.T)
    rank = int(np.count_nonzero(sigma > CUT * sigma[0]))
    return request.param, wide_factor.factor(G).R, *with_zeros(U[::-1], sigma, rank), rank


@pytest.fixture(scope="module")
def graded():
    rng = np.random.default_rng(2)
    G, _ = opened([haar(M, rng) * SPECTRA["condition 1e12"] @ haar(M, rng)], rng)
    R = wide_factor.factor(G).R
    U, sigma, _ = np.linalg.svd(R.T)
    return R, U, sigma


def test_honest_factors_are_accepted_with_a_wide_margin(study):
    _, R, U, sigma, rank = study
    assert answers.accepts(R, U, sigma, CUT) < 0.05
    assert answers.expect_structure(U, sigma, M, M) == rank
    assert answers.expect_structure(U, None, M, M) == rank


@pytest.mark.parametrize("r", [1, 7, 30])
def test_the_leading_factors_alone_are_accepted(study, r):
    _, R, U, sigma, rank = study
    assert answers.accepts(R, U[:, :r], sigma[:r], CUT) < 0.05
    assert answers.expect_structure(U[:, :r], sigma[:r], M, r) == min(r, rank)


def test_every_library_accepts_and_refuses_alike(library, graded):
    R, U, sigma = (library.array(np.ascontiguousarray(A)) for A in graded)
    assert answers.accepts(R, U, sigma, CUT) < 0.05
    assert answers.expect_structure(U, sigma, M, M) == M
    with pytest.raises(VerificationFailed):
        answers.accepts(R, library.array(turned(graded[1], 40, 41, 0.1)), sigma, CUT)
    with pytest.raises(AnswerRefused):
        answers.expect_structure(library.array(graded[1] * 1.001), sigma, M, M)


def test_vectors_of_1e_9_that_are_turned_are_found_out(graded):
    R, U, sigma = graded
    i = int(np.argmax(sigma < digits_lost(7) * sigma[0]))
    with pytest.raises(VerificationFailed, match="not those of the joint"):
        answers.accepts(R, turned(U, i, i + 1, 0.1), sigma, CUT)


def test_a_rotation_within_a_cluster_is_accepted():
    rng = np.random.default_rng(3)
    spectrum = np.concatenate([np.logspace(0, -2, M - 4), np.full(4, 1e-3)])
    G, _ = opened([haar(M, rng) * spectrum @ haar(M, rng)], rng)
    R = wide_factor.factor(G).R
    U, sigma, _ = np.linalg.svd(R.T)
    assert answers.accepts(R, turned(U, M - 2, M - 1, 0.7), sigma, CUT) < 1.0


@pytest.mark.parametrize("factor", [1.01, 0.99])
def test_a_small_singular_value_that_is_one_percent_off_is_found_out(graded, factor):
    R, U, sigma = graded
    i = int(np.argmax(sigma < digits_lost(8) * sigma[0]))
    wrong = sigma.copy()
    wrong[i] *= factor
    with pytest.raises(VerificationFailed):
        answers.accepts(R, U, wrong, CUT)


def test_true_vectors_that_do_not_lead_are_found_out(graded):
    R, U, sigma = graded
    for chosen in ([0, 1, 2, 4], [1, 2, 3], [59]):
        with pytest.raises(VerificationFailed):
            answers.accepts(R, U[:, chosen], sigma[chosen], CUT)


def test_vectors_that_were_left_out_as_if_the_rank_were_lower_are_found_out(graded):
    R, U, sigma = graded
    for rank in (0, 3, 50):
        with pytest.raises(VerificationFailed):
            answers.accepts(R, *with_zeros(U, sigma, rank), CUT)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_found_out(graded, wrong):
    R, U, sigma = graded
    for place in ("U", "sigma"):
        V, values = U.copy(), sigma.copy()
        (V if place == "U" else values)[-1] = wrong
        with pytest.raises(VerificationFailed):
            answers.accepts(R, V, values, CUT)
        with pytest.raises(AnswerRefused, match=r"finite|orthonormal"):
            answers.expect_structure(V, values, M, M)


def test_random_vectors_are_found_out(graded):
    R, U, sigma = graded
    with pytest.raises(VerificationFailed):
        answers.accepts(R, haar(M, np.random.default_rng(4)), sigma, CUT)
    with pytest.raises(VerificationFailed):
        answers.accepts(R, 2.0 * U, 2.0 * sigma, CUT)


def test_the_factors_of_zero_are_zero():
    assert answers.accepts(np.zeros((3, 3)), np.zeros((3, 2)), np.zeros(2), CUT) == 0.0
    assert answers.expect_structure(np.zeros((3, 2)), np.zeros(2), 3, 2) == 0
    assert answers.expect_structure(np.zeros((3, 0)), np.zeros(0), 3, 0) == 0


def copied(U, sigma):
    return U[:, [0, 0, 1, *range(3, M)]], sigma


def with_a_gap(U, sigma):
    V = U.copy()
    V[:, 5] = 0.0
    return V, sigma


CRAFTED = {
    "a vector sent twice": (copied, "orthonormal"),
    "wide vectors": (lambda U, s: (1.0001 * U, s), "orthonormal"),
    "values not sorted": (lambda U, s: (U, s[::-1]), "descending"),
    "a negative value": (lambda U, s: (U, np.concatenate([s[:-1], [-1e-3]])), "nonnegative"),
    "values beyond the norm": (lambda U, s: (U, s * (0.51 / np.linalg.norm(s))), "joint norm"),
    "one column too few": (lambda U, s: (U[:, :-1], s[:-1]), "shapes"),
    "values as a matrix": (lambda U, s: (U, s[:, None]), "shapes"),
    "a zero column in the middle": (with_a_gap, "zero column"),
    "a value without a vector": (lambda U, s: (with_zeros(U, s, 9)[0], s), "no singular vector"),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_a_crafted_answer_is_refused_in_words_without_numbers(graded, case):
    _, U, sigma = graded
    craft, match = CRAFTED[case]
    with pytest.raises(AnswerRefused, match=match) as caught:
        answers.expect_structure(*craft(U, sigma), M, M)
    assert not any(character.isdigit() for character in str(caught.value).removeprefix("FSVD-418"))
