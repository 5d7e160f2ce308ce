"""True vectors that do not lead, handed out as the leading ones; and what users open of residuals.

The CSP has the joint matrix under P and c, and with it all singular vectors: in 0.2.0 it could hand out the last three
as the first, and users, who checked that these are singular vectors, accepted them.
"""

import json
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adversary.opened import Opened
from tests.tolerances import assert_close, digits_lost

from fedsvd.errors import FedSVDError, PrivacyWarning, VerificationFailed
from fedsvd.policy.rules import Policy
from fedsvd.protocol.messages import Factors, Solution, SumShare
from fedsvd.protocol.sums import CHECK_NUMBERS, order_steps
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.results.report.page import render
from fedsvd.results.write import read_result, write_job
from fedsvd.roles.service_provider import role
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from
from fedsvd.studies.jobs import results_of, run_job
from fedsvd.testing.federation import Federation, altering

SPECTRAL = (Item.COMPONENTS, Item.MEAN, Item.SPECTRUM, Item.OWN_PART)
PLAIN = (Item.COMPONENTS, Item.MEAN, Item.OWN_PART)
STUDIES = {
    f"{scheme}, {'S' if released is SPECTRAL else 'no S'}": {"scheme": scheme, "release": released}
    for scheme, released in product(("sum", "mask"), (SPECTRAL, PLAIN))
}


@pytest.fixture(autouse=True)
def _quiet():
    warnings.simplefilter("ignore", PrivacyWarning)


def rows_of(sizes, counts=(30, 25, 28), seed=0):
    """Tables of mean zero whose joint singular values are exactly proportional to these, in a random basis."""
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.standard_normal((sum(counts), len(sizes))))[0]
    basis = np.linalg.qr(rng.standard_normal((len(sizes), len(sizes))))[0]
    halves = np.split(frame * np.asarray(sizes) @ basis.T, np.cumsum(counts)[:-1])
    return [np.concatenate((half, -half)) for half in halves]


def pca(tables, study, components=3):
    return Federation(tables, Task.PCA, Split.HORIZONTAL, components=components, **STUDIES[study])


class Picking:
    """A CSP that factorises all of the matrix, and answers with these of its vectors."""

    def __init__(self, monkeypatch):
        self.columns, real = None, role.factorise

        def picked(plan, *rest):
            if self.columns is None:
                return real(plan, *rest)
            found = real(replace(plan, components=None), *rest)
            return replace(
                found, U_masked=found.U_masked[:, self.columns], sigma_scaled=found.sigma_scaled[self.columns]
            )

        monkeypatch.setattr(role, "factorise", picked)


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("columns", [[9, 10, 11], [0, 1, 11], [0, 10, 11]], ids=["last", "one last", "two last"])
def test_last_vectors_handed_out_as_first_are_refused(study, columns, monkeypatch):
    csp = Picking(monkeypatch)
    session = pca(rows_of(np.geomspace(8.0, 0.5, 12)), study)
    session.run()
    csp.columns = columns
    with pytest.raises(VerificationFailed, match="leading"):
        session.run()
    assert not session.released


@pytest.mark.parametrize("study", STUDIES)
def test_vectors_that_were_left_out_are_found_where_few_of_many_are_asked_for(study, monkeypatch):
    """One strong direction among sixty is missed by the answer; nearly all of the space is never searched."""
    csp = Picking(monkeypatch)
    sizes = np.r_[5.0, 4.5, 4.0, np.full(57, 0.5)]
    session = pca(rows_of(sizes, (50, 45, 60)), study)
    session.run()
    csp.columns = [0, 1, 3]
    with pytest.raises(VerificationFailed, match="leading"):
        session.run()


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("sizes", [np.ones(9), [3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0], [2.0, 2.0, 2.0, 2.0, 0.0, 0.0]])
def test_tied_singular_values_pass_though_the_first_ones_could_be_others(study, sizes):
    session = pca(rows_of(sizes), study)
    results = session.run()
    assert all(result.rank == 3 for result in results)


def test_the_bound_is_said_in_words_and_is_exact_where_trace_or_rank_allow_it():
    def proved(sizes, study, components=3):
        return pca(rows_of(sizes, (50, 45, 60)), study, components).run()[0].checked.order.text

    flat = np.r_[3.0, 2.0, 1.5, np.ones(40)]
    assert proved(flat, "sum, S") == (
        "no direction outside of the vectors holds more than 1.41 times the last singular value, "
        "with probability 1 - 2^-20"
    )
    assert proved(flat, "mask, no S") == (
        "no direction outside of the vectors holds more than 2.45 times what any of the vectors holds, "
        "with probability 1 - 2^-20; their order among themselves is not shown"
    )
    few = np.r_[3.0, 2.0, 1.5, np.ones(9)]  # a search would open all of what is left: its mean bounds it
    assert (
        proved(few, "sum, S")
        == "no direction outside of the vectors holds more than 3.05 times the last singular value"
    )
    assert proved(few, "mask, no S") == (
        "no direction outside of the vectors holds more than 5.28 times what any of the vectors holds; "
        "their order among themselves is not shown"
    )
    steep = np.r_[3.0, 2.0, 1.5, np.full(40, 0.01)]
    assert proved(steep, "sum, S") == "no direction outside of the vectors holds more than the last singular value"
    assert proved(np.r_[3.0, 2.0, 1.5, 1.0], "sum, no S", 4) == "nothing is left outside of the vectors but rounding"


def test_no_sum_about_the_order_is_sent_where_the_trace_has_shown_it():
    session = pca(rows_of(np.r_[3.0, 2.0, 1.5, np.full(40, 0.01)], (50, 45, 60)), "sum, S")
    session.run()
    assert order_steps(session.plan) > 0
    assert not [m for _, _, m in session.sent if isinstance(m, SumShare) and m.name.startswith("order")]


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize(("counts", "features"), [((50, 45, 60), 12), ((50, 45, 60), 34), ((6, 5, 6), 80)])
def test_no_product_outside_of_u_is_opened_where_users_would_have_all_of_the_joint_gram_matrix(study, counts, features):
    """With U, S and products outside: of few features, or of few records, all of it. Then one number at most."""
    rng = np.random.default_rng(5)
    session = pca([rng.standard_normal((count, features)) for count in counts], study)
    session.run()
    opened = {m.name for _, _, m in session.sent if isinstance(m, SumShare) and m.name.startswith("order")}
    assert opened == (set() if study.endswith(", S") else {"order outside", "order held"})


@pytest.mark.parametrize("study", STUDIES)
def test_a_search_opens_at_most_half_of_the_directions_outside_of_u(study):
    rng = np.random.default_rng(6)
    session = pca([rng.standard_normal((count, 43)) for count in (50, 45, 60)], study)
    session.run()
    searched = {m.name for _, _, m in session.sent if isinstance(m, SumShare) and m.name.startswith("order")}
    products = [name for name in searched if name.split()[1].isdigit()]
    assert 0 < 2 * 2 * len(products) <= 43 - 3


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(2, 5),
    m=st.integers(2, 40),
    components=st.integers(1, 6),
    decay=st.sampled_from([1.0, 1.05, 1.5, 3.0, 10.0]),
    study=st.sampled_from(list(STUDIES)),
)
def test_honest_answers_are_never_refused(seed, k, m, components, decay, study):
    warnings.simplefilter("ignore", PrivacyWarning)
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((int(rng.integers(3, 30)), m)) * decay ** -np.arange(m) for _ in range(k)]
    tables = [T @ np.linalg.qr(np.random.default_rng(seed).standard_normal((m, m)))[0] for T in tables]
    components = min(components, m, sum(map(len, tables)) - 1)
    results = pca(tables, study, components).run()
    joint = np.concatenate(tables)
    true = np.linalg.svd(joint - joint.mean(axis=0), compute_uv=False)
    held = np.linalg.norm((joint - joint.mean(axis=0)) @ results[0].U, axis=0)
    assert_close(np.sort(held)[::-1], true[: len(held)], digits_lost(6) * true[0])


# --- what is opened of a residual -------------------------------------------------------------------------------------


def test_three_answers_made_up_at_random_do_not_give_users_the_joint_gram_matrix(monkeypatch):
    """In 0.2.0 each opened 3 m + 1 linear forms of it: 75 equations in 36 unknowns for m = 8."""
    opened = Opened(monkeypatch)
    tables, read = rows_of(np.geomspace(4.0, 1.0, 8)), []
    joint = sum(T.T @ T for T in tables)
    for attempt in range(3):
        session = pca(tables, "sum, no S", 2)
        U = np.linalg.qr(np.random.default_rng(attempt).standard_normal((8, 2)))[0]
        opened.totals.clear()
        with pytest.raises(FedSVDError) as refused:
            session.run(meddle=altering(Factors, lambda said, U=U: [replace(said, U_masked=U)]))
        assert refused.value.code == "FSVD-305"
        after = {name for name in opened.totals if name.split()[0] in ("eigen", "diag", "C", "order", "residual")}
        assert after == {"eigen 0"}
        read.append(opened.totals["eigen 0"][:, 0].view(np.int64))
    numbers = np.concatenate(read)
    assert numbers.size == 3 * CHECK_NUMBERS < 8 * 9 // 2, "fewer equations than unknowns"
    # Nor is one of them an equation: the size of what is opened is that of its modulus, whatever the data.
    assert np.abs(numbers / 2.0**64).mean() == pytest.approx(0.25, abs=0.12)
    assert np.linalg.norm(joint) > 1.0


def test_the_certificate_that_all_users_sign_says_in_words_what_was_proved():
    session = pca(rows_of(np.r_[3.0, 2.0, 1.5, np.ones(40)], (50, 45, 60)), "sum, S")
    results = session.run()
    bodies = {session.machines[party].agreement.body for party in session.plan.users}
    assert len(bodies) == 1
    assert json.loads(bodies.pop())["order"] == results[0].checked.order.text


def test_manifest_report_and_a_page_drawn_again_say_what_the_certificate_says_was_proved(tmp_path):
    """In 0.2.0 nothing read what was computed of it; a report that was drawn again left it out."""
    names = ("north", "south", "west")
    for name, T in zip(names, rows_of(np.geomspace(8.0, 0.5, 12)), strict=True):
        np.savetxt(tmp_path / f"{name}.csv", T, delimiter=",", header=",".join(f"v{j}" for j in range(12)), comments="")
    file = {
        "job": {"name": "order", "task": "pca", "components": 3},
        "party": [{"name": name, "data": str(tmp_path / f"{name}.csv")} for name in names],
    }
    prepared = prepare(job_from(file, tmp_path), policy=Policy.permissive())
    outcome = run_job(prepared, policy=Policy.permissive())
    write_job(tmp_path / "results", results_of(prepared, outcome), draw=render)
    said = json.loads(outcome.agreement.body)["order"]
    assert "no direction outside of the vectors holds more than" in said
    for folder in (tmp_path / "results", tmp_path / "results/parties/south"):
        assert json.loads((folder / "manifest.json").read_bytes())["proved"] == said
        page = (folder / "report.html").read_text(encoding="utf-8")
        assert said in page
        assert render(read_result(folder)) == page


@pytest.mark.parametrize("split", [Split.VERTICAL, Split.HORIZONTAL])
def test_the_residual_of_a_regression_is_never_what_the_csp_says(split):
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((90, 6)), rng.standard_normal(90)
    rows = split is Split.HORIZONTAL
    tables, labels = np.split(X, 3, axis=0 if rows else 1), np.split(y, 3) if rows else [y, None, None]
    session = Federation(tables, Task.LR, split, labels=labels, label_user=1, mode="B" if rows else None)
    session.run()
    expected = session.certificate.residual
    assert expected is None or expected < digits_lost(5)
    session.run(meddle=altering(Solution, lambda said: [replace(said, residual=0.125)]))
    assert session.certificate.residual == expected
    assert (expected is None) is not rows


def test_residual_and_orthogonality_of_a_certificate_are_what_users_measured_whatever_the_csp_says():
    session = pca(rows_of(np.geomspace(8.0, 0.5, 12)), "sum, S")
    session.run()
    expected = session.certificate
    session.run(meddle=altering(Factors, lambda said: [replace(said, residual=0.5, orthogonality=0.25)]))
    assert (session.certificate.residual, session.certificate.orthogonality) == (
        expected.residual,
        expected.orthogonality,
    )
    assert 0.0 < expected.residual < digits_lost(5)
