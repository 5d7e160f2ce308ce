"""Tables with six rows a person: what five rows would hide is one person, and every rule counts persons.

Each attack is run on the plan and the parties that a job file makes, with the column that names persons and without it:
as rows each of these studies passes, and what it opens is one person's.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.adversary.test_digits import Liar, patients, session
from tests.adversary.test_table_one import N, brought, remembered, table
from tests.tolerances import STATISTIC_BAR, assert_close
from tests.unit.roles.test_digits import recording

from fedsvd.errors import NotConverged
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits
from fedsvd.protocol.propensity import TRIMS
from fedsvd.roles.user import digits
from fedsvd.statistics import glm_digits
from fedsvd.statistics.newton_requests import Asked
from fedsvd.statistics.propensity import left_out
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from
from fedsvd.studies.jobs import plan_job, run_job
from fedsvd.studies.own_rows import home_findings

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore:events")
NAMES = ("north", "east", "south")
VISITS = 6


def prepared(folder, tables, columns, **study):
    """What three parties bring to a job of these tables, written as files."""
    for name, own in zip(NAMES, tables, strict=True):
        own.to_csv(folder / f"{name}.csv", index=False)
    party = [{"name": name, "data": str(folder / f"{name}.csv")} for name in NAMES]
    words = {"columns": columns} if columns else {}
    return prepare(job_from({"job": {"name": "visits", **study}, "prepare": words, "party": party}, folder))


def asked(found):
    """Of every party the rules that ask or refuse, with their words."""
    plan, judged = plan_job(found).plan, Policy(openings="any")
    return [{each.rule: each.text for each in home_findings(plan, own, judged)} for own in found.parties]


# --- weights ----------------------------------------------------------------------------------------------------------


def treated_visits(seed=0, sizes=(70, 50, 40)):
    """Who was treated follows from age. One person of the last party was against the odds, at six visits, none of which
    has a fifth of the weight of the treated."""
    rng, tables = np.random.default_rng(seed), []
    for n in sizes:
        person = np.repeat(np.arange(n), VISITS)
        age, bmi = rng.normal(size=(2, n))[:, person] + 0.1 * rng.normal(size=(2, n * VISITS))
        sick = (rng.random(len(person)) < 1.0 / (1.0 + np.exp(-1.6 * age))).astype(int)
        tables.append(pd.DataFrame({"patient": person, "age": age, "bmi": bmi, "treated": sick}))
    tables[2].loc[tables[2]["patient"] == 3, ["age", "bmi", "treated"]] = (-3.4, 2.5, 1)
    for own in tables:
        own["cost"] = own["bmi"] + own["treated"] + rng.normal(size=len(own))
    return tables


PROPENSITY = {"task": "propensity", "label": "cost", "treatment": "treated", "estimand": "ATE"}


def test_six_visits_of_one_person_have_most_of_a_groups_weight_and_the_study_ends(tmp_path):
    tables = treated_visits()
    found = prepared(tmp_path, tables, ["age", "bmi"], **PROPENSITY)
    results = run_job(found, policy=Policy.permissive()).parties
    weights = results[2].own["propensity"][:, 1]
    sick, theirs = (tables[2]["treated"] == 1).to_numpy(), (tables[2]["patient"] == 3).to_numpy()
    assert weights[sick].max() <= 0.2 * weights[sick].sum(), "as rows they pass"
    assert weights[sick & theirs].sum() > 0.5 * weights[sick].sum()
    with pytest.raises(NotConverged, match="more than 20% of a group's weight at a party"):
        run_job(prepared(tmp_path, tables, ["age", "bmi"], id="patient", **PROPENSITY), policy=Policy.permissive())


def test_two_limits_of_trimming_differ_in_five_persons_where_five_rows_are_of_one():
    score = np.concatenate((np.full(VISITS, 0.07), np.linspace(0.2, 0.4, 60)))
    treated, person = np.ones(66), np.repeat(np.arange(11), VISITS)
    assert np.unique(person[left_out(score, treated, TRIMS, 5)]).tolist() == [0], "six rows, by rows"
    out = left_out(score, treated, TRIMS, 5, person)
    assert len(np.unique(person[out])) == 5
    assert not left_out(score, treated, TRIMS[:2], 5, person).any(), "none lies beyond the other limit"


# --- times ------------------------------------------------------------------------------------------------------------

TIMES = [float(time) for time in range(60, 601, 60)]
COX = {"task": "cox", "label": "stop", "event": "died", "entry": "start", "times": TIMES}


def stays(seed=0, persons=20):
    """Start and stop of six rows a person, all of which end between two times of the grid that no one else's do."""
    rng, tables = np.random.default_rng(seed), []
    for _ in NAMES:
        person = np.repeat(np.arange(persons), VISITS)
        start = person % 10 * 60.0 + 8.0 * np.tile(np.arange(VISITS), persons) + rng.uniform(0.0, 1.0, len(person))
        died = np.tile([0, 1], len(person) // 2)
        own = {
            "patient": person,
            "start": start,
            "stop": start + 5.0 + rng.uniform(0.0, 2.0, len(person)),
            "died": died,
        }
        tables.append(pd.DataFrame({**own, "age": rng.normal(size=len(person)), "bmi": rng.normal(size=len(person))}))
    return tables


@pytest.mark.parametrize("baseline", ["common", "bins"])
def test_bins_of_time_that_twelve_rows_of_two_persons_end_in_ask(tmp_path, baseline):
    """A difference of two consecutive sums is of those who left between: as rows twelve, and two persons."""
    words = {**COX, "baseline": baseline}
    if baseline == "bins":
        del words["entry"]
    by_rows = asked(prepared(tmp_path, stays(), ["age", "bmi"], **words))
    assert all("cells" not in own and "persons" not in own for own in by_rows)
    for own in asked(prepared(tmp_path, stays(), ["age", "bmi"], id="patient", **words)):
        assert "time bins" in own["cells"]
        assert ("persons" in own) == (baseline == "common"), "whose events are counted in fives, by rows"


def test_a_group_of_one_person_is_not_compared_without_an_answer(tmp_path):
    """Two numbers of a log-rank test, where a group is six rows of one person."""
    rng, tables = np.random.default_rng(1), []
    for _ in NAMES:
        person = np.repeat(np.arange(40), VISITS)
        arm = np.where(person == 7, "b", "a")
        own = {"patient": person, "time": rng.exponential(300.0, len(person)), "died": rng.integers(0, 2, len(person))}
        tables.append(pd.DataFrame({**own, "arm": arm}))
    words = {"task": "survival", "label": "time", "event": "died", "group": "arm", "groups": ["a", "b"]}
    words["times"] = TIMES
    assert all("classes" not in own for own in asked(prepared(tmp_path, tables, None, **words)))
    for own in asked(prepared(tmp_path, tables, None, id="patient", **words)):
        assert "have 1 to 4 of your records" in own["classes"]


# --- one person's rows in the sums of a model -------------------------------------------------------------------------


class Steering(Liar):
    """The same to a person with six rows, which others take for six records: their tests count rows."""

    def __init__(self, work, model):
        super().__init__(replace(work, persons=None), model)


def visits(seed):
    """Three parties whose persons have six equal rows each, with outcomes of their own."""
    X, y = patients(seed)
    X = [np.repeat(own[: len(own) // 3], VISITS, axis=0) for own in X]
    y = [np.random.default_rng(seed).permutation(np.resize(own, len(rows))) for own, rows in zip(y, X, strict=True)]
    return X, y, [np.arange(len(own)) // VISITS for own in X]


def largest_share(monkeypatch, home, seed):
    """Of one person of the others, in an information matrix that was opened."""
    X, y, persons = visits(seed)
    monkeypatch.setattr(digits, "Home", home)
    monkeypatch.setattr(home, "person", X[1][VISITS * seed])
    monkeypatch.setattr(home, "others", (np.concatenate(X[1:]), np.concatenate(y[1:])))
    seen, original = [], glm_digits.fit_by_digits
    monkeypatch.setattr(glm_digits, "fit_by_digits", recording(original, seen))
    with suppress(NotConverged):
        session(X, y, Digits.TABLE, ids=persons).run()
    monkeypatch.setattr(glm_digits, "fit_by_digits", original)
    rows, share = np.concatenate(X[1:]), 0.0
    for asked, _ in seen[0]:
        if isinstance(asked, Asked) and asked.of in ("information", "table"):
            Z = np.column_stack((np.ones(len(rows)), rows - asked.at.centre))
            p = 1.0 / (1.0 + np.exp(-np.clip(Z @ asked.at.beta, -30, 30)))
            share = max(share, VISITS * float((p * (1.0 - p)).max() / (p * (1.0 - p)).sum()))
    return share


def test_a_false_gradient_that_steers_to_a_person_with_six_rows_is_refused_at_home(monkeypatch):
    assert max(largest_share(monkeypatch, Steering, seed) for seed in range(3)) > 0.25, "of 53 persons"
    assert max(largest_share(monkeypatch, Liar, seed) for seed in range(6)) < 0.05


def test_an_honest_fit_of_visits_is_that_of_rows():
    X, y, persons = visits(0)
    by_persons, by_rows = (session(X, y, Digits.TABLE, ids=ids).run()[0] for ids in (persons, None))
    assert_close(by_persons.coefficients, by_rows.coefficients, STATISTIC_BAR)


# --- two tables of one data set ---------------------------------------------------------------------------------------


def test_tables_of_rows_that_differ_in_one_person_with_six_rows_ask_in_the_second():
    """Six rows are enough to hide one of them in the difference of two tables, and are one person's levels."""
    person = np.arange(N) // VISITS
    frame = table().iloc[person * VISITS].reset_index(drop=True)
    first = remembered(frame, ["sex", "from_60"], rows=np.arange(VISITS, N))
    plan, party = brought(frame, ["sex", "from_60"])
    judged = {}
    for ids in (None, person):
        found = home_findings(plan, replace(party, ids=ids), Policy(), first)
        judged[ids is None] = {each.rule for each in found if each.asks}
    assert "leverage" not in judged[True]
    assert "leverage" in judged[False]
