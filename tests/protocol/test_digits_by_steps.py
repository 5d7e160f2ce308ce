"""Fewer digits of the top by steps: a larger tolerance, words of as many bits fewer, and what is counted and said."""

import numpy as np
import pytest
from tests.tolerances import assert_close
from tests.unit.linalg.steps_cases import SPECTRA, factors, of_spectrum

from fedsvd import FederatedPCA, Masks, Simulation
from fedsvd.errors import ConfigError
from fedsvd.linalg.golub_kahan import Space
from fedsvd.policy.rules import Policy, findings
from fedsvd.policy.sentences import of_openings
from fedsvd.protocol.directions import most_products, tolerance_of, word_step
from fedsvd.protocol.model import Digits
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.parties import user
from fedsvd.protocol.steps import StepKind, listed
from fedsvd.protocol.tasks import Scheme, Split, Task
from fedsvd.studies.job_file import job_from, study_of
from fedsvd.studies.study import Study, expect_legal
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
WORDS = {Digits.ALL: (5e-14, 61), Digits.MORE: (1e-11, 53), Digits.TABLE: (1e-8, 43)}


def from_words(digits, r, k):
    """Singular values that lie apart, relative to s_1: each party's last five bits are random, in blocks of r by r."""
    return 2.0 ** -(WORDS[digits][1] - 5) * np.sqrt(k * r)


def svd(X, r, digits, k=3, **asked):
    parts = np.array_split(X, k)
    return Federation(parts, Task.SVD, Split.HORIZONTAL, scheme="steps", components=r, digits=digits, **asked)


QUICK = ("factors", "multiplicity 40", "three records")


@pytest.mark.parametrize("digits", [Digits.MORE, Digits.TABLE])
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SPECTRA])
def test_vectors_are_right_to_the_tolerance_and_values_that_lie_apart_to_more(name, digits):
    make, r = SPECTRA[name]
    X = make()
    results = svd(X, r, digits).run()
    first, s = results[0], np.linalg.svd(X, compute_uv=False)
    rank, tolerance = len(first.sigma), WORDS[digits][0]
    assert rank >= min(r, np.count_nonzero(s > tolerance * s[0]))
    apart = s[r - 1] > 100 * tolerance * s[0]
    assert_close(first.sigma, s[:rank], from_words(digits, r, 3) if apart else tolerance, s[0])
    own = np.concatenate([np.asarray(found.Vt_i).T for found in results])
    for residual in (X.T @ own - first.U * first.sigma, X @ first.U - own * first.sigma):
        assert np.linalg.norm(residual, axis=0).max() <= 2 * tolerance * s[0]
    assert first.residual <= 2 * tolerance


def test_fewer_digits_take_fewer_directions():
    found = [svd(factors(), 6, digits).run()[0].checked.order.directions for digits in (Digits.ALL, Digits.TABLE)]
    assert found[1] < 0.8 * found[0]


@pytest.mark.parametrize("digits", WORDS)
def test_words_and_counted_bits_follow_from_the_digits(digits, monkeypatch):
    """What users open are multiples of the unit that the plan says, and the certificate counts their bits."""
    tolerance, step = WORDS[digits]
    federation = svd(factors(60, 90), 3, digits)
    seen, added = [], Space.added
    monkeypatch.setattr(Space, "added", lambda self, Z: (seen.append(Z), added(self, Z))[1])
    found = federation.run()[0]
    plan = federation.plan
    assert (tolerance_of(plan), word_step(plan)) == (tolerance, step)
    assert {each.step for each in listed(plan.steps) if each.kind is StepKind.SHORT} == {step}
    assert found.checked.bits == (step - 5) * plan.m * found.checked.order.directions
    more = expected_bits(plan) - (step - 5) * most_products(plan)
    assert 0 < more < 1000
    assert any(f"{step - 5} bits of each of {plan.m} numbers" in text for text in of_openings(plan))
    if digits is not Digits.ALL:  # their last digits are below those of float64
        power = np.ceil(np.log2(np.abs(np.concatenate(seen, axis=1)).max())) - step
        words = np.ldexp(np.concatenate(seen, axis=1), -int(power))
        assert np.array_equal(words, np.rint(words))


def test_the_certificate_and_the_manifest_say_which_tolerance_was_asked_for():
    federation = svd(factors(60, 90), 3, Digits.TABLE)
    found = federation.run()[0]
    assert "to a tolerance of 1e-08" in found.checked.order.text
    assert federation.machines[user(1)].agreement.order == found.checked.order.text
    assert found.checked.order.record()["tolerance"] == 1e-8


def test_a_policy_of_fewer_digits_refuses_a_search_with_more():
    all_digits, few = (svd(factors(60, 90), 3, digits).assemble().plan for digits in (Digits.ALL, Digits.TABLE))
    policy = Policy(digits="table")
    assert [finding for finding in findings(all_digits, policy) if finding.rule == "digits"]
    assert not [finding for finding in findings(few, policy) if finding.rule == "digits"]


def test_a_share_of_the_variance_goes_with_fewer_digits():
    X = of_spectrum(np.linspace(10, 1, 30), 600, 40)
    parts = np.array_split(X, 3)
    how = {"masks": Masks("steps"), "federation": Simulation(verbose=0)}
    few, all_digits = (FederatedPCA(0.5, digits=digits, **how).fit(parts) for digits in ("table", "all"))
    assert few.n_components_ == all_digits.n_components_
    s, bar = all_digits.singular_values_, from_words(Digits.TABLE, few.n_components_, 3)
    assert_close(few.singular_values_, s, bar, s[0])


def test_fewer_digits_are_of_scheme_steps():
    for task in (Task.SVD, Task.LSA, Task.PCA, Task.PCR):
        asked = {"targets": 1} if task is Task.PCR else {}
        with pytest.raises(ConfigError, match="scheme"):
            expect_legal(Study(task, components=3, digits=Digits.TABLE, scheme=Scheme.SUM, **asked))
    words = {"name": "a", "task": "svd", "components": 3, "digits": "table"}
    parties = [{"name": name, "data": f"{name}.npy"} for name in ("north", "south")]
    job = job_from({"job": words, "masks": {"scheme": "steps"}, "party": parties}, None)
    assert study_of(job).digits is Digits.TABLE
