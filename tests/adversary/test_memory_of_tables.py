"""Several studies of the same tables, played by the real roles: each gave records or parties away in 0.2.0.

Every attack stands next to the honest study of the same kind, which passes without a word.
"""

import json
import re
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import federation_of
from tests.network import until
from tests.tolerances import RESULT_BAR, assert_close, digits_lost

from fedsvd.errors import ConfigError
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.prepare.dictionary import dictionary_of, spelt_dictionary
from fedsvd.service.records import JobState
from fedsvd.service.site import Site
from fedsvd.studies.submitted import submitted_job

PARTIES = ("a", "b", "c")
# Of the rules, those of this module alone.
MEMORY = {"remember": True, "least_count": 5, "answered": ()}
ROWS = 120


def clinic(seed, rows=ROWS):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["age", "bmi", "sbp"])
    table.insert(0, "patient", [f"{seed}-{row}" for row in range(rows)])
    table["cost"] = table["age"] + rng.normal(size=rows)
    table["even"] = 1.0
    table["tilted"] = np.where(np.arange(rows) == 7, 2.0, 1.0)
    table["ward"], table["sex"] = rng.integers(0, 2, (2, rows))
    table["ward2"] = np.where(np.arange(rows) == 7, 1 - table["ward"], table["ward"])
    return table


@contextmanager
def hospitals(root, parties=PARTIES, **policy):
    rules = Policy(**{**vars(Policy.permissive()), **MEMORY, **policy})
    with federation_of(root, parties, policy=rules) as federation, federation.csp_node() as csp:
        for number, name in enumerate(parties, 1):
            lay(federation, name, clinic(number))
            (federation.kits[f"party/{name}"] / "policy.toml").write_text(spelt_policy(rules))
        yield federation, csp


def lay(federation, name, table, file="table"):
    path = federation.root / f"{name}-{file}.csv"
    table.to_csv(path, index=False)
    (federation.kits[f"party/{name}"] / "site.toml").write_text(f'[data]\ndefault = "{path}"\n')


def played(federation, csp, name, parties=PARTIES, prepare=None, **study):
    """The job as it ended, and why each party refused it; party a's result says of how many records it is."""
    words = _said({"columns": ["age", "bmi", "sbp"], **(prepare or {})})
    asked = _said({"name": name, "task": "pca", "components": 2, "id": "patient", **study})
    file = {"job": asked, "prepare": words, "party": [{"name": each} for each in parties]}
    with federation.connect() as line:
        id = line.submit(file)
    with federation.member_nodes(*(f"party/{each}" for each in parties)):
        until(lambda: csp.jobs.get(id).state in (JobState.DONE, JobState.BROKEN))
    job = csp.jobs.get(id)
    found = [Site.at(federation.kits[f"party/{each}"]).failure(job) for each in parties]
    return job, " ".join(each.fault for each in found if each is not None)


def _said(words):
    return {key: value for key, value in words.items() if value is not None}


def records(federation, job, name="a"):
    """How many records of a party went in."""
    plan = json.loads((federation.folder(name, job.id) / "manifest.json").read_text())["plan"]
    return plan["counts"][PARTIES.index(name)]


def test_four_studies_whose_gaps_choose_rows_give_no_record_away(tmp_path):
    """0.2.0: rows complete in {p}, in {q}, in both and in none, of one record that misses both, are that record."""
    with hospitals(tmp_path) as (federation, csp):
        table = clinic(1)
        table["p"], table["q"] = table["age"].copy(), table["bmi"].copy()
        table.loc[[7, *range(20, 40)], "p"] = np.nan
        table.loc[[7, *range(60, 80)], "q"] = np.nan
        lay(federation, "a", table)
        for number, name in enumerate("bc", 2):
            lay(federation, name, clinic(number).assign(p=1.5, q=lambda each: each["bmi"]))
        honest, _ = played(federation, csp, "all")
        assert honest.state is JobState.DONE, honest.failures
        assert records(federation, honest) == ROWS
        drop = {"missing": "drop", "columns": ["age", "p"]}
        first, why = played(federation, csp, "p", prepare=drop)
        assert first.state is JobState.BROKEN
        assert {failure.code for failure in first.failures} == {"FSVD-110"}
        assert not any(failure.text for failure in first.failures), "peers learn a code"
        assert "gaps in the columns of this study choose its rows" in why
        # An owner who always agrees: classes of records keep a single one from being told from the others.
        for name in PARTIES:
            rules = Policy(**{**vars(Policy.permissive()), **MEMORY, "answered": ("rows",)})
            (federation.kits[f"party/{name}"] / "policy.toml").write_text(spelt_policy(rules))
        counts = []
        for name, columns in (("p2", ["age", "p"]), ("q", ["age", "q"]), ("pq", ["p", "q"])):
            job, why = played(federation, csp, name, prepare={"missing": "drop", "columns": columns})
            assert job.state is JobState.DONE, why
            counts.append(records(federation, job))
        without_p, without_q, without_both = counts
        alone = ROWS - without_p - without_q + without_both  # those that miss p and those that miss q, less both
        assert alone == 0 or alone >= 5


def test_three_rosters_that_give_each_partys_sums_are_stopped_at_the_second(tmp_path):
    """0.2.0: {A,B,C}, {A,B,D}, {A,C,D} gave party A the Gram matrix of each of the others."""
    four = (*PARTIES, "d")
    with hospitals(tmp_path, four) as (federation, csp):
        for _ in range(2):  # the same parties again are no question
            job, why = played(federation, csp, "first", ("a", "b", "c"))
            assert job.state is JobState.DONE, why
        job, why = played(federation, csp, "second", ("a", "b", "d"))
        assert job.state is JobState.BROKEN
        assert {failure.code for failure in job.failures} == {"FSVD-110"}
        assert "with studies among the others alone, your own sums can be computed" in why
        for name in four:  # owners who answer once for all are asked no more, and no answer helps against the third
            rules = Policy(**{**vars(Policy.permissive()), **MEMORY, "answered": ("roster",)})
            (federation.kits[f"party/{name}"] / "policy.toml").write_text(spelt_policy(rules))
        job, why = played(federation, csp, "second", ("a", "b", "d"))
        assert job.state is JobState.DONE, why
        job, why = played(federation, csp, "third", ("a", "c", "d"))
        assert job.state is JobState.BROKEN
        assert "the own numbers of a party that was in one of them can be computed" in why


def test_a_party_that_joins_is_asked_since_the_others_had_a_study_without_it(tmp_path):
    """{A,B,C} and then {A,B,D}: D remembers nothing, and the plan names what the others remember."""
    four = (*PARTIES, "d")
    with hospitals(tmp_path, four) as (federation, csp):
        job, why = played(federation, csp, "first")
        assert job.state is JobState.DONE, why
        for name in PARTIES:  # these always agree
            rules = Policy(**{**vars(Policy.permissive()), **MEMORY, "answered": ("roster",)})
            (federation.kits[f"party/{name}"] / "policy.toml").write_text(spelt_policy(rules))
        joined, why = played(federation, csp, "joined", ("a", "b", "d"))
        assert joined.state is JobState.BROKEN
        assert "the other parties brought these tables to 1 study without you" in why
        assert {job for facts in joined.enlisted.values() for job in facts.earlier} == {job.asked.digest}
        again, why = played(federation, csp, "again")
        assert again.state is JobState.DONE, why


def test_a_consortium_that_grows_asks_everyone_and_a_party_that_leaves_it_is_protected(tmp_path):
    """{A,B,C}, then {A,B,C,D}: the difference is D's own sums, which D is told; without D again nothing may run."""
    four = (*PARTIES, "d")
    with hospitals(tmp_path, four) as (federation, csp):
        job, why = played(federation, csp, "first")
        assert job.state is JobState.DONE, why
        for agree, question in (
            ((), "a party joins that was in no earlier study|the other parties brought these tables to"),
            (("a", "b", "d"), "a party joins that was in no earlier study of your table"),
            (PARTIES, r"the other parties brought these tables to \d (study|studies) without you"),
        ):
            always(federation, agree)
            joined, why = played(federation, csp, "joined", four)
            assert joined.state is JobState.BROKEN
            assert re.search(question, why), why
            assert "below your policy" not in why
        always(federation, four)
        for again in ("joined", "later"):
            job, why = played(federation, csp, again, four)
            assert job.state is JobState.DONE, why
        job, why = played(federation, csp, "left", ("a", "b", "d"))
        assert job.state is JobState.BROKEN
        assert "below your policy: roster" in why


def always(federation, names):
    """These owners always agree to another roster, and the others are asked."""
    for caller, kit in federation.kits.items():
        role, _, name = caller.partition("/")
        if role == "party":
            answered = ("roster",) if name in names else ()
            rules = Policy(**{**vars(Policy.permissive()), **MEMORY, "answered": answered})
            (kit / "policy.toml").write_text(spelt_policy(rules))


def test_cut_points_a_step_apart_are_refused_in_formulas_and_in_dictionaries(tmp_path):
    """0.2.0: from `cut(age, 54.825)` and `cut(age, 54.835)` users had the one person between."""
    with pytest.raises(ConfigError, match="cut"):
        submitted_job(by_groups(54.825, formula="cost ~ cut(age, 54.825)"))
    with hospitals(tmp_path) as (federation, csp):
        for name in PARTIES:
            agreed = spelt_dictionary(dictionary_of(by_groups(54.825)["dictionary"]["says"]))
            (federation.kits[f"party/{name}"] / "dictionary.toml").write_text(agreed)
        attack, why = ended(federation, csp, by_groups(0.0))
        assert "they differ in groups of the column 'age'" in why
        assert attack.plan is None, "no table was read, and no session begun"
        for name in PARTIES:
            agreed = spelt_dictionary(dictionary_of(by_groups(0.0)["dictionary"]["says"]))
            (federation.kits[f"party/{name}"] / "dictionary.toml").write_text(agreed)
        honest, why = ended(federation, csp, by_groups(0.0))
        assert honest.state is JobState.DONE, why
        for name in PARTIES:  # a year's joint counts of a table are those of its first study
            studies = Site.at(federation.kits[f"party/{name}"]).state / "records" / "studies.jsonl"
            events = [json.loads(line) for line in studies.read_text().splitlines()]
            counted = [each["counts"] for each in events if each["event"] == "counted"]
            assert {name for name, _, _ in counted[0]} == {"bmi", "old"}
            assert len(counted) == 1


def test_cut_points_a_step_apart_in_one_job_ask(tmp_path):
    """A dictionary that the consortium agreed on: both groups count dozens, and one person is between them."""
    with hospitals(tmp_path, most_leverage=0.5) as (federation, csp):
        age = float(clinic(1)["age"][7])
        honest, why = by_dictionary(federation, csp, groups_of(age - 1.0, age + 1.0, "cost ~ old + older + bmi"))
        assert honest.state is JobState.DONE, why
        attack, why = by_dictionary(federation, csp, groups_of(age - 1e-3, age + 1e-3, "cost ~ old + older + bmi"))
        assert attack.state is JobState.BROKEN
        assert "one record makes up more than 0.5 of the opened sums with column" in why


def groups_of(first, second, formula):
    file = by_groups(0.0, formula)
    file["dictionary"]["says"]["columns"]["age"]["groups"] = {"old": [first], "older": [second]}
    file["job"]["inference"] = True
    return file


def by_dictionary(federation, csp, file):
    """The same at sites that registered this dictionary."""
    agreed = spelt_dictionary(dictionary_of(file["dictionary"]["says"]))
    for name in PARTIES:
        (federation.kits[f"party/{name}"] / "dictionary.toml").write_text(agreed)
    return ended(federation, csp, file)


def by_groups(cut, formula="cost ~ old + bmi"):
    columns = {"patient": {"role": "id"}, "age": {"groups": {"old": [cut]}}, "bmi": {}, "cost": {"role": "label"}}
    return {
        "job": {"name": "groups", "task": "lr"},
        "dictionary": {"says": {"columns": columns}},
        "prepare": {"formula": formula},
        "party": [{"name": each} for each in PARTIES],
    }


def ended(federation, csp, file):
    with federation.connect() as line:
        id = line.submit(file)
    with federation.member_nodes(*(f"party/{each}" for each in PARTIES)):
        until(lambda: csp.jobs.get(id).state in (JobState.DONE, JobState.BROKEN) or csp.jobs.get(id).failures)
    job = csp.jobs.get(id)
    found = [Site.at(federation.kits[f"party/{each}"]).failure(job) for each in PARTIES]
    return job, " ".join(each.fault for each in found if each is not None)


def test_a_corrected_cell_goes_in_with_its_earlier_value(tmp_path):
    """0.2.0 refused the study for as long as fewer than ten records differed; before that it gave the record away."""
    with hospitals(tmp_path) as (federation, csp):
        first, why = played(federation, csp, "before")
        assert first.state is JobState.DONE, why
        table = clinic(1)
        table.loc[7, "bmi"] += 1.0
        lay(federation, "a", table)
        second, why = played(federation, csp, "after")
        assert second.state is JobState.DONE, why
        values = [np.load(federation.folder("a", job.id) / "components.npy") for job in (first, second)]
        assert_close(values[1], values[0], RESULT_BAR)  # the difference of both results is nothing
        table.loc[range(20, 30), "bmi"] += 1.0
        lay(federation, "a", table)
        third, why = played(federation, csp, "many")
        assert third.state is JobState.DONE, why
        now = np.load(federation.folder("a", third.id) / "components.npy")
        assert np.abs(now - values[0]).max() > digits_lost(10)


def test_monthly_versions_of_a_registry_tell_no_single_record(tmp_path):
    """One record more each month: it goes in with four others, in the fifth month."""
    with hospitals(tmp_path) as (federation, csp):
        counts = []
        for month in range(6):
            lay(federation, "a", clinic(1, ROWS + 10)[: ROWS + month])
            job, why = played(federation, csp, f"month-{month}")
            assert job.state is JobState.DONE, why
            counts.append(records(federation, job))
        assert counts == [ROWS] * 5 + [ROWS + 5]


def test_a_registry_that_grows_by_many_records_is_always_whole(tmp_path):
    with hospitals(tmp_path) as (federation, csp):
        for month, rows in enumerate((100, 108, 120)):
            lay(federation, "a", clinic(1)[:rows])
            job, why = played(federation, csp, f"month-{month}")
            assert job.state is JobState.DONE, why
            assert records(federation, job) == rows


def regressed(federation, csp, name, columns=None, formula=None):
    """A regression table: users hold the Gram matrix of these columns and of the cost."""
    words = {"columns": columns, "formula": formula, "drop": None}
    study = {"task": "lr", "inference": True} | ({} if formula else {"label": "cost"})
    return played(federation, csp, name, prepare=words, components=None, **study)


def test_codes_of_two_studies_that_differ_in_one_record_ask_and_what_jobs_make_of_them_is_refused(tmp_path):
    """0.2.0: the difference of both Gram matrices was that record's row; each study alone is fine.

    A new name of the file, another order of its rows and one column more change nothing.
    """
    with hospitals(tmp_path, most_leverage=0.5) as (federation, csp):
        for name, columns in (("ward", ["age", "bmi", "ward"]), ("sex", ["age", "sbp", "sex"])):
            job, why = regressed(federation, csp, name, columns)
            assert job.state is JobState.DONE, why
        job, why = regressed(federation, csp, "product", formula="cost ~ age + age:ward")
        assert job.state is JobState.DONE, why
        moved = clinic(1).sample(frac=1.0, random_state=1).assign(note=0.5)
        lay(federation, "a", moved, "moved")
        job, why = regressed(federation, csp, "ward-again", ["age", "bmi", "ward"])
        assert job.state is JobState.DONE, why
        asks, why = regressed(federation, csp, "ward2", ["age", "bmi", "ward2"])
        assert asks.state is JobState.BROKEN
        assert {failure.code for failure in asks.failures} == {"FSVD-110"}
        assert not any(failure.text for failure in asks.failures), "peers learn a code"
        assert "of what this study and earlier ones of your table open together, by column 'ward2'" in why
        refused, why = regressed(federation, csp, "product2", formula="cost ~ age + age:ward2")
        assert refused.state is JobState.BROKEN
        assert "below your policy: leverage: one record makes up more than 0.8 of what this study and earlier" in why
        # What the rule stops: two Gram matrices whose difference is the eighth record of party a, at every column.
        tables = [clinic(number) for number in (1, 2, 3)]
        sums = [sum(each[["age", "bmi", "cost"]].T @ each[ward] for each in tables) for ward in ("ward", "ward2")]
        sign = 1.0 - 2.0 * clinic(1)["ward"][7]
        others = [pd.Series(each.loc[7, ["age", "bmi", "cost"]], dtype=float) for each in tables]
        signs = [sign, *(1.0 - 2.0 * each["ward"][7] for each in tables[1:])]
        left = (sums[1] - sums[0]) - sum(way * row for way, row in zip(signs[1:], others[1:], strict=True))
        assert_close((sign * left).to_numpy(), others[0].to_numpy(), RESULT_BAR)


def test_an_edge_of_survival_curves_that_is_moved_past_one_patient_is_refused_at_its_hospital(tmp_path):
    """Each of both studies has bins of ten and more: only together they show when one patient left, and why."""
    with hospitals(tmp_path, most_leverage=0.5) as (federation, csp):
        for number, name in enumerate(PARTIES, 1):
            table = clinic(number)
            table["months"] = np.resize([2.0, 8.0, 14.0, 21.0], ROWS)
            table["died"] = np.arange(ROWS) // 4 % 2
            if name == "b":
                table.loc[np.flatnonzero((table["months"] == 14.0) & (table["died"] == 1))[0], "months"] = 12.25
            lay(federation, name, table)

        def curves(name, *times):
            asked = {"label": "months", "event": "died", "times": list(times), "counts": "exact", "components": None}
            return played(federation, csp, name, task="survival", prepare={"columns": None}, **asked)

        job, why = curves("first", 6.0, 12.0, 18.0)
        assert job.state is JobState.DONE, why
        job, why = curves("again", 6.0, 12.0, 18.0)
        assert job.state is JobState.DONE, why
        job, why = curves("moved", 6.0, 12.5, 18.0)
        assert job.state is JobState.BROKEN
        assert not any(failure.text for failure in job.failures), "peers learn a code"
        assert why.count("next to those of an earlier study") == 1, "at the hospital of that patient alone"


def test_low_rank_imputation_needs_consent_and_means_do_not(tmp_path):
    """0.2.0: the Gram matrices of two rounds differ by what was filled, which gave the record of anyone with a gap."""
    with hospitals(tmp_path, consent_to_gram=False) as (federation, csp):
        for number, name in enumerate(PARTIES, 1):
            table = clinic(number)
            table.loc[::6, "sbp"] = np.nan
            lay(federation, name, table)
        job, why = played(federation, csp, "low-rank", prepare={"missing": "low-rank"})
        assert job.state is JobState.BROKEN
        assert "low-rank imputation is asked for: all parties will see the joint Gram matrix" in why
        assert {failure.code for failure in job.failures} == {"FSVD-110"}
        honest, why = played(federation, csp, "means", prepare={"missing": "mean"})
        assert honest.state is JobState.DONE, why


def test_weights_that_differ_in_one_record_are_refused(tmp_path):
    with hospitals(tmp_path) as (federation, csp):
        job, why = weighted(federation, csp, "even")
        assert job.state is JobState.DONE, why
        job, why = weighted(federation, csp, "tilted")
        assert job.state is JobState.BROKEN
        assert "1 of your records have other weights than in an earlier study" in why


def weighted(federation, csp, weights):
    asked = {"name": weights, "task": "lr", "label": "cost", "weights": weights, "id": "patient"}
    file = {
        "job": asked,
        "prepare": {"columns": ["age", "bmi"]},
        "party": [{"name": each} for each in PARTIES],
    }
    with federation.connect() as line:
        id = line.submit(file)
    with federation.member_nodes(*(f"party/{each}" for each in PARTIES)):
        until(lambda: csp.jobs.get(id).state in (JobState.DONE, JobState.BROKEN))
    job = csp.jobs.get(id)
    found = [Site.at(federation.kits[f"party/{each}"]).failure(job) for each in PARTIES]
    return job, " ".join(each.fault for each in found if each is not None)
