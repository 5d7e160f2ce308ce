"""Studies on tables that the parties prepare together equal pandas, scikit-learn and statsmodels on the joint table."""

import json
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from neuroCombat import neuroCombat
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.tolerances import GLM_BAR, RESULT_BAR, STATISTIC_BAR, assert_close, assert_same_vectors, digits_lost

import fedsvd
from fedsvd import Simulation
from fedsvd.audit.subject import audited
from fedsvd.errors import ConfigError, DataError, NotFinite, ReleaseRefused, ShapeError
from fedsvd.policy.rules import Policy
from fedsvd.protocol.openings import openings
from fedsvd.protocol.steps import What, listed
from fedsvd.protocol.tasks import Task
from fedsvd.randomness.seed import Seed
from fedsvd.results.outputs import shared_part
from fedsvd.results.report.page import job_file, render
from fedsvd.results.write import read_result, write_job
from fedsvd.studies import run as study_runs
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from
from fedsvd.studies.jobs import results_of, run_job
from fedsvd.studies.own_bits import imputation_bits
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.predict import new_data
from fedsvd.studies.run import plan_for
from fedsvd.studies.submitted import submitted_file, submitted_job

ROWS = 330
CUTS = (0, 120, 215, ROWS)
ALLOWED = Policy.permissive()
SPECTRUM = {"components": 3, "release": ["components", "mean", "spectrum"]}


@pytest.fixture
def joint():
    rng = np.random.default_rng(17)
    found = pd.DataFrame(rng.normal(size=(ROWS, 3)) * [1.0, 20.0, 0.01], columns=["a", "b", "c"])
    found["age"] = rng.integers(20, 80, ROWS).astype(float)
    found["sex"] = rng.choice(["f", "m"], ROWS)
    found["ward"] = rng.choice(["east", "south", "west"], ROWS, p=[0.6, 0.3, 0.1])
    found["outcome"] = 2.0 * found["a"] - found["age"] / 10 + (found["sex"] == "f") + rng.normal(size=ROWS)
    found[["a", "b", "age"]] = found[["a", "b", "age"]].mask(rng.random((ROWS, 3)) < 0.07)
    found.insert(0, "patient", [f"P{place:04d}" for place in range(ROWS)])
    return found


@pytest.fixture
def files(joint, tmp_path):
    for number in range(3):
        joint[CUTS[number] : CUTS[number + 1]].to_csv(tmp_path / f"{number}.csv", index=False)
    return tmp_path


def record(folder, words, task="pca", **job):
    party = [{"name": f"site{i}", **({} if folder is None else {"data": str(folder / f"{i}.csv")})} for i in range(3)]
    return {"job": {"name": "messy", "task": task, "id": "patient", **job}, "prepare": words, "party": party}


def run(folder, words, task="pca", **job):
    prepared = prepare(job_from(record(folder, words, task, **job), Path()), policy=ALLOWED)
    return prepared, run_job(prepared, policy=ALLOWED)


def expect_components(outcome, table):
    expected = PCA(svd_solver="full").fit(np.asarray(table, float))
    found = outcome.parties[1]
    assert_close(found.sigma, expected.singular_values_[:3], RESULT_BAR)
    assert_same_vectors(found.U.T, expected.components_[:3], expected.singular_values_)


def filled(joint, *columns):
    return joint[list(columns)].fillna(joint[list(columns)].mean())


NUMBERS = ("a", "b", "c", "age")


def test_gaps_are_filled_with_the_joint_mean_and_text_becomes_indicators(joint, files):
    words = {
        "missing": "mean",
        "indicators": True,
        "categories": {"sex": {"drop_first": True}, "ward": {"reference": "west"}},
        "drop": ["outcome"],
    }
    prepared, outcome = run(files, words, **SPECTRUM)
    flags = joint[["a", "b", "age"]].isna().astype(float).add_suffix("_missing")
    coded = OneHotEncoder(sparse_output=False).fit(joint[["sex", "ward"]])
    codes = pd.DataFrame(coded.transform(joint[["sex", "ward"]]), columns=coded.get_feature_names_out())
    expected = pd.concat([filled(joint, *NUMBERS), flags, codes[["sex_m", "ward_east", "ward_south"]]], axis=1)
    assert list(prepared.features[2]) == list(expected.columns)
    expect_components(outcome, expected)


def test_a_regression_on_filled_gaps_has_its_label_where_it_was(joint, files):
    words = {"missing": "mean", "categories": ["sex"], "drop": ["ward"]}
    prepared, outcome = run(files, words, "lr", label="outcome", inference=True)
    least = joint["sex"].value_counts().idxmin()  # the commonest has no column
    table = filled(joint, *NUMBERS).assign(sex=joint["sex"] == least).astype(float)
    expected = LinearRegression().fit(table, joint["outcome"])
    fitted = table.to_numpy() @ outcome.parties[0].coefficients[0] + outcome.parties[0].intercept[0]
    assert_close(fitted, expected.predict(table), RESULT_BAR)
    assert prepared.targets == ("outcome",)


def test_a_formula_is_statsmodels_on_the_joint_table(joint, files):
    words = {"missing": "mean", "formula": "outcome ~ age * C(sex) + C(ward) + a + I(b * b)"}
    prepared, outcome = run(files, words, "lr", inference=True)
    table = joint.assign(**filled(joint, "a", "b", "age"))
    expected = smf.ols(words["formula"], table).fit()
    renamed = {name.replace(" ", ""): name for name in expected.params.index}
    order = [renamed[name.replace(" ", "")] for name in prepared.features[0]]
    found = outcome.parties[2]
    assert_close(found.coefficients[0], expected.params[order].to_numpy(), STATISTIC_BAR)
    assert_close(found.intercept, expected.params[["Intercept"]].to_numpy(), STATISTIC_BAR)
    (model,) = found.inference
    assert_close(model.standard_errors[1:], expected.bse[order].to_numpy(), STATISTIC_BAR)
    assert prepared.targets == ("outcome",)


def test_covariates_are_partialled_out_as_frisch_and_waugh_say(joint, files):
    words = {"missing": "mean", "covariates": ["age"], "scale": "joint", "drop": ["sex", "ward", "outcome"]}
    prepared, outcome = run(files, words, **SPECTRUM)
    table = filled(joint, *NUMBERS)
    Z = sm.add_constant(table[["age"]])
    residuals = np.column_stack([sm.OLS(table[name], Z).fit().resid for name in ("a", "b", "c")])
    assert prepared.features[0] == ("a", "b", "c")
    expect_components(outcome, StandardScaler(with_mean=False).fit_transform(residuals))


@pytest.mark.parametrize("over", ["joint", "site"])
def test_centring_and_scaling_over_all_sites_or_within_each(joint, files, over):
    words = {"centre": over, "scale": over, "columns": ["c", "age"], "missing": "mean"}
    prepared, _ = run(files, words, components=1)
    table = filled(joint, "c", "age")
    parts = [table[start:stop] for start, stop in pairwise(CUTS)]
    expected = StandardScaler().fit_transform(table) if over == "joint" else None
    if expected is None:
        expected = np.vstack([StandardScaler().fit_transform(part) for part in parts])
    found = np.vstack([party.table.rows(0, party.table.shape[0]) for party in prepared.parties])
    assert_close(found, expected, digits_lost(4))


def test_what_a_site_does_by_itself_takes_no_session(files):
    words = {"centre": "site", "columns": ["c"]}
    prepared = prepare(job_from(record(files, words, components=1), Path()))
    assert prepared.agreed is None


@pytest.mark.slow
def test_combat_is_neurocombat_on_the_joint_table(joint, files):
    words = {"missing": "mean", "combat": True, "preserve": ["age"], "columns": ["a", "b", "c", "age"]}
    prepared, outcome = run(files, words, **SPECTRUM)
    table = filled(joint, *NUMBERS)
    covars = table[["age"]].assign(site=np.repeat([0, 1, 2], np.diff(CUTS)))
    data = table[["a", "b", "c"]].to_numpy().T.copy()
    expected = neuroCombat(dat=data, covars=covars, batch_col="site", continuous_cols=["age"])["data"].T
    found = np.vstack([party.table.rows(0, party.table.shape[0]) for party in prepared.parties])
    # Theirs rounds covariates to float32 (tests/unit/prepare/test_combat.py), and an age that was filled in is none.
    assert_close(found, expected, GLM_BAR)
    expect_components(outcome, found)


def test_low_rank_imputation_is_soft_impute_on_the_joint_table(joint, files):
    words = {"missing": "low-rank", "columns": ["a", "b", "c", "age"], "penalty": 0.3, "rounds": 25, "minimum": 1}
    prepared, outcome = run(files, words, **SPECTRUM)
    X = joint[list(NUMBERS)].to_numpy()
    means, deviations, missing = np.nanmean(X, axis=0), np.nanstd(X, axis=0), np.isnan(X)
    Z = np.nan_to_num((X - means) / deviations)
    penalty = 0.3 * np.linalg.svd(Z, compute_uv=False)[0]
    for _ in range(300):
        U, s, Vt = np.linalg.svd(Z, full_matrices=False)
        Z = np.where(missing, (U * np.maximum(s - penalty, 0)) @ Vt, (X - means) / deviations)
    expected = means + deviations * Z
    found = np.vstack([party.table.rows(0, party.table.shape[0]) for party in prepared.parties])
    assert_close(found, expected, digits_lost(7))
    expect_components(outcome, found)


def test_low_rank_imputation_needs_the_owners_consent_to_the_joint_gram_matrix(files):
    job = job_from(record(files, {"missing": "low-rank", "columns": ["a", "b", "c"]}), Path())
    asked = Policy(enforce=True, records_for_full=1)
    with pytest.raises(ReleaseRefused, match="consent_to_gram"):
        prepare(job, policy=asked)
    assert prepare(job, policy=replace(asked, consent_to_gram=True)).agreed is not None


def test_bits_of_all_rounds_of_an_imputation_count_with_the_study_after_it(files):
    words = {"missing": "low-rank", "columns": ["a", "b", "c", "age"], "penalty": 0.9}
    few, many = (job_from(record(files, {**words, "rounds": n}, components=2), Path()) for n in (12, 90))
    found = prepare(few, policy=ALLOWED)
    plan, before = plan_for(found.study, found.parties, Seed(bytes(32)))[0].plan, found.agreed.plan
    opens = [each for each in openings(before, listed(before.steps)) if each.what is What.GRAM]
    policy, party = Policy(most_leverage=1.0), found.parties[0]
    bits = imputation_bits(few, party)
    assert bits == sum(each.numbers * each.bits for each in opens) == 12 * 10 * 16
    assert not home_findings(plan, party, policy, beforehand=bits)
    (asked,) = home_findings(plan, party, policy, beforehand=imputation_bits(many, party))
    assert (asked.rule, asked.asks) == ("bits", True)  # 14,400 bits of 210 records outside, of about 25 bits each


def test_rare_levels_and_those_of_one_party_are_pooled(joint, files):
    alone = joint[:120].assign(ward=["north"] * 40 + list(joint["ward"][40:120]))
    alone.to_csv(files / "0.csv", index=False)
    words = {"missing": "mean", "categories": {"ward": {}}, "columns": ["c", "ward"], "minimum": 40}
    prepared, _ = run(files, words, components=1)
    wards = pd.concat([alone["ward"], joint["ward"][120:]])
    counts = wards.value_counts()
    kept = sorted(ward for ward in ("east", "south", "west") if counts[ward] >= 40)
    assert counts["north"] == 40
    assert list(prepared.features[0]) == ["c", *(f"ward_{ward}" for ward in kept), "ward_other"]
    assert "north" not in str(prepared.parties[1].prepared)


def test_split_columns_are_filled_at_home(joint, tmp_path):
    joint[["patient", "a", "sex"]].to_csv(tmp_path / "0.csv", index=False)
    joint[["patient", "b", "c"]].to_csv(tmp_path / "1.csv", index=False)
    joint[["patient", "age"]].to_csv(tmp_path / "2.csv", index=False)
    words = {"missing": "mean", "categories": {"sex": {"drop_first": True}}, "centre": "joint"}
    prepared, outcome = run(tmp_path, words, "svd", split="vertical")
    assert prepared.agreed is None
    table = pd.concat(
        [
            filled(joint, "a"),
            pd.get_dummies(joint["sex"], dtype=float, drop_first=True),
            filled(joint, "b", "c", "age"),
        ],
        axis=1,
    )
    expected = np.linalg.svd((table - table.mean()).to_numpy(), compute_uv=False)
    assert_close(outcome.parties[0].sigma, expected, RESULT_BAR)


class TestResults:
    WORDS: ClassVar = {"missing": "mean", "categories": {"sex": {"drop_first": True}}, "drop": ["ward"]}

    @pytest.fixture
    def results(self, files):
        prepared, outcome = run(files, self.WORDS, "lr", label="outcome")
        return results_of(prepared, outcome)

    def test_say_how_tables_were_prepared_in_detail_to_their_owner_and_in_totals_to_all(self, results, joint):
        shared, first = results[0], results[1]
        together = first.facts["prepared"]["together"]
        assert together["entries_filled"] == int(joint[["a", "b", "age"]].isna().sum().sum())
        own = joint[:120][["a", "b", "age"]].isna().sum()
        assert first.facts["prepared"]["missing_by_column"] == {name: int(own[name]) for name in own.index if own[name]}
        assert "joint mean" in " ".join(shared.facts["preparation"]["steps"])
        assert not {"prepared", "recipe"} & set(shared.facts)
        assert not {"prepared", "recipe"} & set(shared_part(first).facts)
        page = render(first)
        assert "How the tables were prepared" in page
        assert "sex" in job_file(first)
        assert "Your own table" not in render(shared)

    def test_predict_new_rows_with_the_numbers_of_the_study(self, results, joint, tmp_path):
        write_job(tmp_path / "out", results, False, None)
        model = read_result(tmp_path / "out" / "parties" / "site0")
        new = joint[5:25].drop(columns=["outcome", "ward"]).assign(note="more than the study had")
        found = new_data(model, fedsvd.open_source(new))
        means = joint[list(NUMBERS)].mean()
        expected = new[list(NUMBERS)].fillna(means).assign(sex_m=(new["sex"] == "m").astype(float))
        assert found.table.names == tuple(expected.columns)
        assert_close(found.table.rows(0, 20), expected.to_numpy(), digits_lost(3))

    def test_the_job_file_in_a_report_is_the_job(self, results):
        words = results[1].facts["preparation"]["words"]
        again = job_from(record(None, words, "lr", label="outcome"), Path())
        assert again.prepare.rule == job_from(record(None, self.WORDS, "lr", label="outcome"), Path()).prepare.rule


class TestInPython:
    def test_a_list_is_prepared_together(self, joint):
        parts = [joint[start:stop] for start, stop in pairwise(CUTS)]
        words = {"missing": "mean", "categories": "sex", "drop": ["ward"], "label": "outcome", "id": "patient"}
        tables = fedsvd.prepared(parts, policy=ALLOWED, **words)
        y = [table.column("outcome") for table in tables]
        model = fedsvd.FederatedLinearRegression(federation=Simulation(policy=ALLOWED)).fit(tables, y)
        X = filled(joint, *NUMBERS).assign(f=joint["sex"] == "f", m=joint["sex"] == "m").astype(float)
        X.columns = tables[0].names
        assert_close(model.predict(X), LinearRegression().fit(X, joint["outcome"]).predict(X), RESULT_BAR)

    def test_a_formula_has_its_outcome_in_every_table(self, joint):
        parts = [joint[start:stop] for start, stop in pairwise(CUTS)]
        tables = fedsvd.prepared(parts, formula="asinh(c) ~ age + C(sex)", missing="mean", policy=ALLOWED)
        assert tables[0].names == ("age", "C(sex)[T.m]")
        assert_close(tables[1].column("asinh(c)"), np.arcsinh(parts[1]["c"].to_numpy()), digits_lost(1))

    def test_all_problems_are_named_at_once(self, joint):
        parts = [joint[:100], joint[100:200].drop(columns="age"), joint[200:]]
        with pytest.raises(ShapeError, match="different numbers of columns"):
            fedsvd.prepared(parts, missing="mean", categories=["sex", "ward"], id="patient", policy=ALLOWED)
        with pytest.raises(DataError, match="hold text"):
            fedsvd.prepared([joint[:150], joint[150:]], missing="mean", id="patient", policy=ALLOWED)

    def test_an_owners_policy_is_asked(self, joint):
        with pytest.raises(ReleaseRefused, match="least_count"):
            fedsvd.prepared(
                [joint[:100], joint[100:200], joint[200:]],
                missing="mean",
                drop=["sex", "ward"],
                id="patient",
                minimum=2,
                policy=Policy(enforce=True),
            )


def test_a_label_is_never_filled_in(joint, files):
    joint[:120].assign(outcome=np.nan).to_csv(files / "0.csv", index=False)
    for words, label in (({"missing": "mean", "drop": ["sex", "ward"]}, "outcome"), ({"formula": "outcome ~ c"}, ())):
        with pytest.raises(NotFinite, match="outcome"):
            run(files, words, "lr", label=label)


def test_the_words_survive_the_submitted_file():
    words = {
        "missing": "mean",
        "indicators": ["a"],
        "categories": {"sex": {"reference": "f"}, "ward": {"missing": "none"}},
        "covariates": ["age"],
        "centre": "joint",
        "minimum": 9,
    }
    job = job_from(record(None, words), Path())
    again = submitted_job(json.loads(json.dumps(submitted_file(job))))
    assert again.prepare == job.prepare
    assert again.prepare.joint == job.prepare.joint


def test_an_audit_takes_one_table_for_the_joint_one(joint):
    words = {"missing": "mean", "categories": ["sex"], "columns": ["a", "c", "sex"]}
    subject = audited(fedsvd.open_source(joint), job_from(record(None, words), Path()), 240.0)
    assert subject.shape == (ROWS, 4)


def test_a_table_that_is_prepared_together_is_not_used_before(joint):
    job = job_from(record(None, {"missing": "mean"}), Path())
    from fedsvd.studies.job_data import job_party_data

    with pytest.raises(ConfigError, match="was not yet"):
        job_party_data(job, fedsvd.open_source(joint[["patient", "a"]]), ())


@pytest.fixture
def sessions(monkeypatch):
    """The tasks of the sessions that were begun."""
    begun, run_once = [], study_runs.run_once
    monkeypatch.setattr(study_runs, "run_once", lambda study, *rest: begun.append(study.task) or run_once(study, *rest))
    return begun


MEANS = {"missing": "mean", "columns": list(NUMBERS)}


def test_a_study_below_the_policy_is_refused_before_anything_is_prepared(files, sessions):
    """Site 1 brings 95 records, and 100 are asked for where U and S are released."""
    job = job_from(record(files, MEANS, **SPECTRUM), Path())
    with pytest.raises(ReleaseRefused, match="site1 brings 95 records, 100 are asked for"):
        prepare(job, policy=Policy(enforce=True))
    assert sessions == []
    prepare(job, policy=Policy(enforce=True, records_for_full=90))
    assert sessions == [Task.PREPARE]


def test_columns_that_follow_from_levels_are_counted_at_every_party(joint, files, sessions):
    """25 levels at site 1 alone leave too few degrees of freedom there, and nowhere else."""
    for number in range(3):
        part = joint[CUTS[number] : CUTS[number + 1]].copy()
        part["ward"] = [f"ward {row % (25 if number == 1 else 2)}" for row in range(len(part))]
        part.to_csv(files / f"{number}.csv", index=False)
    words = {"missing": "mean", "columns": ["a", "ward"], "categories": ["ward"], "minimum": 1}
    job = job_from(record(files, words, task="lr", label="outcome", inference=True), Path())
    few = replace(ALLOWED, enforce=True, least_freedom=ROWS - 10)
    with pytest.raises(ReleaseRefused, match="freedom"):
        prepare(job, policy=few)
    assert sessions == []


def test_a_column_that_is_empty_at_one_party_does_not_end_the_job_there(joint, files):
    part = joint[CUTS[1] : CUTS[2]].copy()
    part["a"] = np.nan
    part.to_csv(files / "1.csv", index=False)
    _, outcome = run(files, MEANS, **SPECTRUM)
    rest = pd.concat([joint[: CUTS[1]], part, joint[CUTS[2] :]])
    expect_components(outcome, filled(rest, *NUMBERS))


def test_what_is_found_of_the_study_is_said_before_it_is_prepared(files, sessions):
    job = job_from(record(files, MEANS, **SPECTRUM), Path())
    seen = []
    with warnings.catch_warnings(action="always"):
        warnings.showwarning = lambda text, *where, **more: seen.append((str(text), tuple(sessions)))
        prepare(job)
    assert [before for text, before in seen if "95 records" in text] == [()]
