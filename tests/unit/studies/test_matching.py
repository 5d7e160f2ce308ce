"""A job whose records are matched first: what it says, what is refused, results equal to those of the joint table."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from tests.tolerances import RESULT_BAR, assert_close
from typer.testing import CliRunner

from fedsvd.cli.main import cli
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, NotFinite, ReleaseRefused, RepeatedIds, TooFewCommon
from fedsvd.policy.rules import Policy
from fedsvd.prepare.identifiers import IdRule, RecordIds, of_text
from fedsvd.protocol.tasks import Align, Task
from fedsvd.results.write import read_result, write_job
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from, study_of
from fedsvd.studies.jobs import plan_job, plan_matching, results_of, run_job
from fedsvd.studies.matching import matching_of
from fedsvd.studies.predict import predict_together
from fedsvd.studies.submitted import submitted_file, submitted_job

PEOPLE, FEATURES = 120, 5
HELD = {"a": range(100), "b": range(15, 120), "c": range(5, 110)}
COMMON = range(15, 100)
COLUMNS = {"a": [0, 1], "b": [2], "c": [3, 4]}


@pytest.fixture
def joint(tmp_path):
    """Three tables of other people, in other orders and spellings; and the joint numbers, person by person."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(PEOPLE, FEATURES))
    y = X @ rng.normal(size=FEATURES) + 0.1 * rng.normal(size=PEOPLE) + 3.0
    for name, held in HELD.items():
        rows = rng.permutation(held)
        spell = {"a": str.upper, "b": lambda text: f"  {text} ", "c": str}[name]
        born = [f"19{50 + i % 40}-0{1 + i % 9}-1{i % 10}" for i in rows]
        table = pd.DataFrame({"name": [spell(f"Person {i:03d}") for i in rows], "born": born})
        if name == "b":
            table["born"] = ["/".join(day.split("-")[::-1]) for day in born]
            table = table.rename(columns={"name": "Vollname"})
        for j in COLUMNS[name]:
            table[f"x{j}"] = X[rows, j]
        if name == "c":
            table["y"] = y[rows]
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path, X, y


def job(folder, align="server", task="lr", match=None, **study):
    record = {
        "job": {"name": "j", "task": task, "split": "vertical", "id": ["name", "born"], **study},
        "match": {"align": align, "dates": ["born"], **(match or {})},
        "prepare": {"rename": {"Vollname": "name"}},
        "party": [{"name": name, "data": f"{name}.csv"} for name in HELD],
    }
    if task == "lr":
        record["job"]["label"] = "y"
    return job_from(record, folder)


def ran(asked):
    prepared = prepare(asked)
    outcome = run_job(prepared, policy=Policy.permissive())
    return prepared, outcome


def numbers(ids):
    """Which person an id belongs to."""
    return [int(text.split(" | ")[0].removeprefix("person ")) for text in ids.tolist()]


class TestResults:
    @pytest.mark.parametrize("align", list(Align))
    def test_a_regression_equals_that_of_the_joint_table_of_common_records(self, joint, align):
        folder, X, y = joint
        _, outcome = ran(job(folder, align))
        reference = LinearRegression().fit(X[COMMON], y[COMMON])
        found = np.concatenate([part.coefficients[0] for part in outcome.parties])
        assert_close(found, reference.coef_, RESULT_BAR)
        assert_close(outcome.parties[0].intercept, np.atleast_1d(reference.intercept_), RESULT_BAR)
        assert sorted(numbers(outcome.matched.parties[2].ids)) == list(COMMON)
        assert [report.record() for report in outcome.matched.reports] == [
            {"records": len(held), "matched": 85, "without_link": 0, "unknown_elsewhere": len(held) - 85}
            for held in HELD.values()
        ]

    @pytest.mark.parametrize("align", list(Align))
    def test_an_svd_equals_that_of_the_joint_table_of_common_records(self, joint, align):
        folder, X, _ = joint
        _, outcome = ran(job(folder, align, "svd"))
        ids = outcome.matched.parties[0].ids
        D = X[numbers(ids)]
        # Party c has its label among the columns here.
        own = [part.Vt_i for part in outcome.parties]
        back = outcome.parties[0].U * outcome.parties[0].sigma @ np.concatenate(own, axis=1)
        assert_close(back[:, :FEATURES], D, RESULT_BAR)
        assert outcome.plan.m == len(COMMON)
        assert outcome.plan.check_ids

    def test_results_are_those_of_the_common_records_and_say_how_many_there_are(self, joint, tmp_path):
        folder = joint[0]
        prepared, outcome = ran(job(folder, "ecdh"))
        results = results_of(prepared, outcome)
        target = tmp_path / "out"
        write_job(target, results, False, None)
        own = read_result(target / "parties" / "c")
        assert own.facts["matching"]["matched"] == len(COMMON)
        assert sorted(numbers(own.arrays["row_ids"])) == list(COMMON)
        assert own.plan.align is Align.ECDH
        shared = read_result(target)
        assert "matching" not in shared.facts
        assert json.loads(own.plan.id_rule)["columns"] == ["name", "born"]

    def test_predictions_of_new_tables_are_matched_by_the_same_rule(self, joint):
        folder, X, y = joint
        prepared, outcome = ran(job(folder, "ecdh"))
        parts = [each for each in results_of(prepared, outcome) if each.party]
        reference = LinearRegression().fit(X[COMMON], y[COMMON])
        tables = [open_source(folder / f"{name}.csv") for name in HELD]
        (found,) = predict_together(parts, tables).values()
        who = numbers(np.asarray(found.tables[0].columns["id"]))
        assert sorted(who) == list(COMMON)
        assert_close(found.arrays["predictions"][:, 0], reference.predict(X[who]), RESULT_BAR)
        assert found.facts["matching"]["matched"] == len(COMMON)


class TestWords:
    def test_the_same_words_are_submitted_and_read_back(self, joint):
        asked = job(joint[0], "ecdh", match={"case": "exact", "spaces": "remove", "least_overlap": 20})
        again = submitted_job(submitted_file(asked))
        assert again.match == asked.match
        assert study_of(again).id_rule == study_of(asked).id_rule
        rule = of_text(study_of(again).id_rule)
        assert rule == RecordIds(("name", "born"), IdRule(False, "remove", ("born",)))
        assert study_of(again).least_overlap == 20

    def test_a_job_that_matches_nothing_says_nothing_of_it(self, joint):
        file = {"job": {"name": "j", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}
        assert "match" not in submitted_file(job_from(file, joint[0]))
        assert matching_of(study_of(job_from(file, joint[0]))) is None

    def test_the_plans_of_both_sessions_are_made_before_anything_is_sent(self, joint):
        prepared = prepare(job(joint[0], "ecdh", match={"least_overlap": 30}))
        first, second = plan_matching(prepared), plan_job(prepared)
        assert first.plan.task is Task.MATCH
        assert first.plan.counts == tuple(map(len, HELD.values()))
        assert first.plan.least_overlap == second.plan.least_overlap == 30
        assert second.plan.m == min(first.plan.counts)
        assert any("by points all blind" in line for line in prepared.prepare)
        assert any("born as dates" in line for line in prepared.prepare)

    def test_one_column_in_a_list_is_one_column(self, joint):
        assert job(joint[0], id=["name"], match={"dates": []}).study.id == "name"

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"split": "horizontal", "label": "y"}, "columns split over the parties"),
            ({"id": None}, "no id is named"),
            ({"sort_by_id": True}, "sort_by_id is for records that are not matched"),
            ({"ids": "trust"}, "is for records that are not matched"),
            ({"match": {"dates": ["day"]}}, "'day', which is no id column"),
            ({"match": {"month_first": True, "dates": []}}, "month_first is for the columns in dates"),
            ({"match": {"align": "psi"}}, "one of server, ecdh"),
            ({"match": {"align": None, "dates": ["born"]}}, "set align"),
            ({"match": {"least_overlap": 0}}, "least_overlap"),
            ({"match": {"case": "lower"}}, "one of fold, exact"),
            ({"id": ["name", "name"]}, "named twice"),
        ],
    )
    def test_words_that_contradict_each_other_are_refused(self, joint, changes, said):
        changes = dict(changes)
        match = changes.pop("match", {})
        record = {
            "job": {"name": "j", "task": "lr", "split": "vertical", "id": ["name", "born"], "label": "y", **changes},
            "match": {key: value for key, value in {"align": "server", "dates": ["born"], **match}.items() if value},
            "party": [{"name": name} for name in HELD],
        }
        if match.get("least_overlap") == 0:
            record["match"]["least_overlap"] = 0
        record["job"] = {key: value for key, value in record["job"].items() if value is not None}
        with pytest.raises(ConfigError) as caught:
            job_from(record, joint[0])
        assert said in str(caught.value)

    def test_a_linkage_map_without_matching_is_refused(self, joint):
        record = {
            "job": {"name": "j", "task": "svd", "split": "vertical", "id": "name"},
            "party": [{"name": "a", "data": "a.csv", "link": "l.csv"}, {"name": "b", "data": "b.csv"}],
        }
        with pytest.raises(ConfigError, match="linkage map"):
            job_from(record, joint[0])
        with pytest.raises(ConfigError, match="names no data"):
            submitted_job(
                {"job": {"name": "j", "task": "svd"}, "party": [{"name": "a", "link": "l.csv"}, {"name": "b"}]}
            )


class TestRefusals:
    def test_a_study_below_the_policy_is_refused_before_records_are_matched(self, joint, monkeypatch):
        from fedsvd.studies import matching

        monkeypatch.setattr(matching, "match", lambda *given, **how: pytest.fail("records were matched"))
        prepared = prepare(job(joint[0]))
        with pytest.raises(ReleaseRefused, match="columns"):
            run_job(prepared, policy=Policy(enforce=True))

    def test_duplicates_are_refused_with_their_number_and_the_party(self, joint):
        folder, _, _ = joint
        table = pd.read_csv(folder / "b.csv")
        pd.concat((table, table[:3])).to_csv(folder / "b.csv", index=False)
        with pytest.raises(RepeatedIds) as caught:
            prepare(job(folder))
        assert "party b" in str(caught.value)
        assert "3 of 108 record ids occur more than once" in str(caught.value)

    def test_ids_that_differ_in_case_are_one_unless_the_job_says_otherwise(self, joint):
        folder, _, _ = joint
        with pytest.raises(TooFewCommon):
            ran(job(folder, match={"case": "exact"}))

    def test_a_missing_id_is_refused(self, joint):
        folder, _, _ = joint
        table = pd.read_csv(folder / "a.csv")
        table.loc[2, "name"] = None
        table.to_csv(folder / "a.csv", index=False)
        with pytest.raises(NotFinite, match="1 of 100 entries of the id column 'name' are missing"):
            prepare(job(folder))

    def test_rows_that_a_party_drops_are_dropped_by_all(self, joint):
        """With split columns that is refused, but for records that are matched afterwards."""
        folder, X, y = joint
        table = pd.read_csv(folder / "a.csv")
        table.loc[[0, 1], "x0"] = np.nan
        table.to_csv(folder / "a.csv", index=False)
        asked = job_from(
            {
                "job": {"name": "j", "task": "lr", "split": "vertical", "id": ["name", "born"], "label": "y"},
                "match": {"align": "server", "dates": ["born"]},
                "prepare": {"rename": {"Vollname": "name"}, "missing": "drop"},
                "party": [{"name": name, "data": f"{name}.csv"} for name in HELD],
            },
            folder,
        )
        _, outcome = ran(asked)
        lost = {int(text.split()[1]) for text in table["name"][:2].str.lower()}
        rows = [i for i in COMMON if i not in lost]
        reference = LinearRegression().fit(X[rows], y[rows])
        assert sorted(numbers(outcome.matched.parties[0].ids)) == rows
        found = np.concatenate([part.coefficients[0] for part in outcome.parties])
        assert_close(found, reference.coef_, RESULT_BAR)


@pytest.fixture
def linked(joint):
    """A study whose first party has a linkage map, written; its rows, the joint numbers and scikit-learn's model."""
    folder, X, y = joint
    rng = np.random.default_rng(1)
    table = pd.read_csv(folder / "a.csv")
    person = table["name"].str.lower().str.removeprefix("person ").astype(int)
    hospital = pd.DataFrame({"case": [f"KH-{1000 + i}" for i in person]})
    pd.concat((hospital, table[["x0", "x1"]]), axis=1).to_csv(folder / "a.csv", index=False)
    known = [i for i in HELD["a"] if i % 7]
    link = pd.DataFrame({"case": [f"kh-{1000 + i}" for i in known], "entity": [f"PERSON {i:03d}" for i in known]})
    link.iloc[rng.permutation(len(link))].to_csv(folder / "link.csv", index=False)
    record = {
        "job": {"name": "j", "task": "lr", "split": "vertical", "id": "name", "label": "y"},
        "match": {"align": "ecdh"},
        "prepare": {"rename": {"Vollname": "name", "case": "name"}, "drop": ["born"]},
        "party": [{"name": "a", "data": "a.csv", "link": "link.csv"}]
        + [{"name": name, "data": f"{name}.csv"} for name in ("b", "c")],
    }
    prepared, outcome = ran(job_from(record, folder))
    rows = [i for i in COMMON if i % 7]
    write_job(folder / "results", results_of(prepared, outcome))
    return folder, rows, X, y, outcome


def test_a_linkage_map_gives_other_ids_and_leaves_out_what_it_does_not_know(linked):
    """In whichever case the map spells an entity that is an id elsewhere."""
    _, rows, X, y, outcome = linked
    assert sorted(numbers(outcome.matched.parties[0].ids)) == rows
    report = outcome.matched.reports[0]
    assert report.without_link == sum(i % 7 == 0 for i in HELD["a"])
    assert report.records == len(HELD["a"])
    reference = LinearRegression().fit(X[rows], y[rows])
    found = np.concatenate([part.coefficients[0] for part in outcome.parties])
    assert_close(found, reference.coef_, RESULT_BAR)


def test_a_prediction_takes_linkage_maps_as_the_study_did(linked):
    folder, rows, X, y, _ = linked
    reference = LinearRegression().fit(X[rows], y[rows])
    tables = [word for name in HELD for word in ("--party", f"{name}={folder / name}.csv")]
    words = ["predict", str(folder / "results"), *tables, "--format", "json", "--linkage"]
    said = CliRunner().invoke(cli, [*words, f"a={folder / 'link.csv'}"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)["parties"]["c"]
    people = [int(text.removeprefix("person ")) for text in found["values"]["id"]]
    assert sorted(people) == rows
    assert_close(np.array(found["values"]["y"]), reference.predict(X[people]), RESULT_BAR)
    assert found["matching"]["matched"] == len(rows)
    strange = CliRunner().invoke(cli, [*words, f"z={folder / 'link.csv'}"])
    assert "this job has no party z" in strange.stdout


def test_a_linkage_map_for_a_prediction_that_matches_nothing_is_refused(joint):
    folder, _, _ = joint
    record = {
        "job": {"name": "j", "task": "lr", "split": "vertical", "label": "y", "ids": "trust"},
        "prepare": {"columns": [f"x{j}" for j in range(FEATURES)]},
        "party": [{"name": name, "data": f"{name}.csv"} for name in HELD],
    }
    for name in HELD:
        pd.read_csv(folder / f"{name}.csv")[:60].to_csv(folder / f"{name}.csv", index=False)
    parts = results_of(*ran(job_from(record, folder)))[1:4]
    tables = [open_source(folder / f"{name}.csv") for name in HELD]
    with pytest.raises(ConfigError, match="the study matched no records"):
        predict_together(parts, tables, links={"a": tables[0]})


def test_what_one_party_gets_does_not_say_how_many_the_others_dropped(joint):
    prepared, outcome = ran(job(joint[0]))
    about = next(each for each in results_of(prepared, outcome) if each.party == "a")
    assert set(about.facts["matching"]) == {"records", "matched", "without_link", "unknown_elsewhere"}
