"""The iteration by few digits for models that are no generalised linear ones: what it opens, and where it ends."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize
from tests.tolerances import DIGITS_ERRORS_BAR, DIGITS_STEP_BAR, PRINTED_BAR

from fedsvd.statistics.newton import NOISE, TABLE, Traits, by_size, fitted, opened
from fedsvd.statistics.newton_requests import Asked, Evaluation, Moments, Shape, Sizes, Tilt, Totals

USERS = 3


def shape(extra, **keys):
    settings = {"users": USERS, "n": 60, "features": 0, "equations": 1, "intercept": False, "targets": 1}
    settings |= {"weighted": False, "counted": False, "dispersion": False, "tolerance": 1e-11, "max_iterations": 25}
    return Shape(**{**settings, "table": TABLE, "extra": extra} | keys)


def play(steps, parts, evaluate, tilt=None, seed=0):
    """The result of an iteration over parties that round at home, and every request with what it opened."""
    rng, seen = np.random.default_rng(seed), []
    left = [0.0] * len(parts)

    def own(asked, part):
        if asked.of == "tilt":
            return tilt(part, asked.at.beta)
        found = evaluate(part, asked.at)
        if asked.of == "score":
            return np.concatenate(((found.deviance, 0.0), found.score))
        return found.information[np.triu_indices(len(found.score))]

    asked = next(steps)
    while True:
        if isinstance(asked, Sizes) and asked.of == "start":
            at = [evaluate(part, asked.at) for part in parts]
            numbers = [np.array([x.information.diagonal().max(), abs(x.deviance), 0.0]) for x in at]
            answer = np.frexp(np.abs(numbers).max(axis=0))[1].astype(np.int64)
        elif isinstance(asked, Sizes):
            answer = np.frexp(np.abs([own(asked, part) for part in parts]).max(axis=0))[1].astype(np.int64)
        else:
            if asked.piece == 0:
                left = [0.0] * len(parts)
            units, total = asked.units, np.zeros(len(asked.units))
            for i, part in enumerate(parts):
                whole = np.rint(np.where(units > 0, own(asked, part) - left[i], 0.0) / np.where(units > 0, units, 1.0))
                sent = np.where(units > 0, (whole + rng.integers(-NOISE, NOISE + 1, len(units))) * units, 0.0)
                total = total + sent
                if asked.of in ("information", "table"):
                    left[i] = left[i] + sent
            seen.append((asked, total))
            answer = Totals(total)
        try:
            asked = steps.send(answer)
        except StopIteration as end:
            return end.value, seen


MOMENTS = Moments(60.0, 0.0, np.zeros(1), np.zeros(0))


def counts(seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.poisson(3.0, n).astype(float), rng.poisson(0.7, n).astype(float)) for n in (30, 20, 10)]


def two_rates(part, at):
    """Two Poisson rates: their information has no entry off the diagonal."""
    sums, n, mu = np.array([part[0].sum(), part[1].sum()]), len(part[0]), np.exp(at.beta)
    deviance = 2.0 * float((n * mu - sums * at.beta).sum()) + 100.0 * n
    return Evaluation(deviance, 0.0, sums - n * mu, np.diag(n * mu), np.zeros((0, 1)))


def test_structural_zeros_are_not_opened():
    traits = Traits(zeros=~np.eye(2, dtype=bool), curved_zeros=~np.eye(2, dtype=bool))
    found, seen = play(fitted(shape(2), MOMENTS, np.zeros(2), traits), counts(), two_rates)
    joint = [np.concatenate(own).mean() for own in zip(*counts(), strict=True)]
    assert np.abs(found.beta - np.log(joint)).max() < DIGITS_STEP_BAR
    matrices = [asked for asked, _ in seen if asked.of in ("information", "table")]
    assert matrices
    assert all(asked.units[1] == 0.0 and (asked.units[[0, 2]] > 0.0).all() for asked in matrices)


def test_a_term_that_is_no_sum_moves_the_optimum_as_scipy_finds_it():
    parts = counts(1)
    total = np.array([np.concatenate(own).sum() for own in zip(*parts, strict=True)])

    def opens(part, beta):
        return np.array([float(len(part[0]))])

    def tilt(at, unit, sizes, errors):
        # A ridge of a twentieth of the number of all records, which is opened for it.
        yield from by_size("tilt", at, USERS, 40)
        (n,) = np.rint((yield from opened(Asked("tilt", np.array([2.0**-20]), at))))
        return Tilt(np.array([n]), 0.05 * n * float(at.beta @ at.beta), np.zeros((2, 2)), 0.05 * n * np.eye(2))

    def ridged(part, at):
        found = two_rates(part, at)
        if at.tilt is None:
            return found
        return replace(found, score=found.score - 0.05 * at.tilt[0] * at.beta / USERS)

    found, seen = play(fitted(shape(2), MOMENTS, np.zeros(2), Traits(tilt=tilt)), parts, ridged, opens)

    def slope(b):
        return total - 60.0 * np.exp(b) - 0.05 * 60.0 * b

    expected = optimize.root(slope, found.beta, tol=1e-14).x
    errors = 1.0 / np.sqrt(60.0 * np.exp(expected))
    assert (np.abs(found.beta - expected) / errors).max() < DIGITS_STEP_BAR
    last = [total for asked, total in seen if asked.of == "score"][-1]
    assert np.abs(last[2:]).max() < 1.0, "shares carry it, so that words stay short"


def cauchy(part, at):
    """The place of a Cauchy law: its curvature is negative far from the records."""
    r = part - at.beta[0]
    score, curved = np.sum(2.0 * r / (1.0 + r * r)), np.sum(2.0 * (1.0 - r * r) / (1.0 + r * r) ** 2)
    information = len(r) / 2.0 if at.expected else curved
    return Evaluation(
        2.0 * float(np.log1p(r * r).sum()), 0.0, np.array([score]), np.array([[information]]), np.zeros((0, 1))
    )


def test_where_the_curvature_is_not_positive_the_expected_information_is_opened():
    rng = np.random.default_rng(2)
    parts = [np.concatenate((rng.normal(1.0, 0.05, n), rng.normal(-2.2, 0.05, n))) for n in (12, 10, 8)]
    joint = np.concatenate(parts)

    def objective(b):
        return 2.0 * float(np.log1p(np.square(joint - b)).sum())

    traits = Traits(indefinite=True, curved_table=True)
    found, seen = play(fitted(shape(1), MOMENTS, np.array([-0.55]), traits), parts, cauchy)
    expected = optimize.minimize_scalar(objective, (found.beta[0] - 0.1, found.beta[0] + 0.1), tol=1e-15).x
    assert abs(found.beta[0] - expected) < PRINTED_BAR
    kinds = [asked.at.expected for asked, _ in seen if asked.of == "information"]
    negative = [total[0] < 0.0 for asked, total in seen if asked.of == "information" and not asked.at.expected]
    assert any(negative)
    assert sum(kinds) > 1, "the expected one was opened again"


def rate(part, at):
    b, n = at.beta[0], len(part)
    if b <= 0.0:
        pytest.fail("a point that is not allowed was evaluated")
    deviance = 2.0 * float(b * part.sum() - n * np.log(b)) + 1000.0
    score = np.array([n / b - part.sum()])
    return Evaluation(deviance, 0.0, score, np.array([[n / b**2]]), np.zeros((0, 1)))


def test_a_step_to_a_point_that_is_not_allowed_is_halved():
    parts = [np.random.default_rng(3).exponential(1.0, n) for n in (30, 20, 10)]
    start = np.array([2.5 / np.concatenate(parts).mean()])  # the whole step leads below zero
    traits = Traits(allowed=lambda beta: bool(beta[0] > 0.0))
    found, _ = play(fitted(shape(1), MOMENTS, start, traits), parts, rate)
    best = 1.0 / np.concatenate(parts).mean()
    assert abs(found.beta[0] - best) / (best / np.sqrt(60.0)) < DIGITS_STEP_BAR
    assert found.halvings > 0


def test_entries_that_a_tilt_gives_are_opened_no_more():
    """The information of the first rate is public from the first short step on; the optimum is the same."""
    given = np.array([[True, False], [False, False]])

    def tilt(at, unit, sizes, errors):
        (mu,) = yield from opened(Asked("tilt", np.array([2.0**-30]), at))
        known = np.zeros((2, 2))
        known[0, 0] = mu
        return Tilt(np.zeros(0), 0.0, known, np.zeros((2, 2)))

    def opens(part, beta):
        return np.array([len(part[0]) * np.exp(beta[0])])

    zeros = ~np.eye(2, dtype=bool)
    traits = Traits(zeros=zeros, curved_zeros=zeros, tilt=tilt, given=given)
    found, seen = play(fitted(shape(2), MOMENTS, np.zeros(2), traits), counts(), two_rates, opens)
    joint = [np.concatenate(own).mean() for own in zip(*counts(), strict=True)]
    assert np.abs(found.beta - np.log(joint)).max() < DIGITS_STEP_BAR
    kinds = [asked.of for asked, _ in seen]
    after = [asked.units for asked, _ in seen[kinds.index("tilt") :] if asked.of in ("information", "table")]
    assert after
    assert all(units[0] == 0.0 and units[2] > 0.0 for units in after)
    errors = np.sqrt((found.root @ found.root.T).diagonal())
    np.testing.assert_allclose(errors, 1.0 / np.sqrt(60.0 * np.array(joint)), rtol=DIGITS_ERRORS_BAR)


def test_a_step_may_be_cut_and_then_leads_elsewhere():
    parts = [np.random.default_rng(3).exponential(1.0, n) for n in (30, 20, 10)]
    start, seen = np.array([2.5 / np.concatenate(parts).mean()]), []

    def cut(beta, there, length):
        seen.append(length)
        return np.maximum(there, beta / 2.0)

    found, _ = play(fitted(shape(1), MOMENTS, start, Traits(cut=cut)), parts, rate)
    assert abs(found.beta[0] * np.concatenate(parts).mean() - 1.0) < PRINTED_BAR
    assert seen[0] > 1.0 > seen[-1]
