"""Three hospitals code one data set in three ways; by a dictionary they give the regression of the joint table."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from tests.e2e.commands import answered, command, until
from tests.e2e.federations import federation_of
from tests.tolerances import STATISTIC_BAR, assert_close

from fedsvd.errors import ConfigError, DataError
from fedsvd.policy.rules import Policy
from fedsvd.prepare.splines import natural_spline
from fedsvd.protocol.openings import expected_bits
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import read_job
from fedsvd.studies.jobs import results_of, run_job

DICTIONARY = """
name = "liver"
[columns.sex]
levels = ["female", "male"]
[columns.age]
unit = "years"
range = [18, 110]
groups = { age_group = [50, 65] }
[columns.stage]
levels = ["I", "II", "III", "IV"]
[columns.bilirubin]
unit = "umol/L"
range = [0, 1000]
[columns.score]
range = [-10, 20]
role = "label"
[columns.patient]
role = "id"
[views]
all = ["sex", "age", "stage", "bilirubin", "score"]
"""
MAPS = {
    "a": """
encoding = "latin-1"
[map]
Geschlecht = { name = "sex", levels = { w = "female", m = "male" } }
Alter = "age"
Stadium = "stage"
Bili = { name = "bilirubin", factor = 17.1, missing = [-9] }
"Wert (Größe)" = "score"
""",
    "b": """
missing = ["."]
[map]
pid = { name = "patient", width = 6 }
sex = { levels = { 1 = "female", 2 = "male" } }
""",
    "c": """
[map]
sex = { levels = { Female = "female", Male = "male" } }
stage = { levels = { "4" = "IV" } }
born = { name = "age", date = "%d.%m.%Y", factor = -1, offset = 2026 }
""",
}
JOB = """
[job]
name = "score"
task = "lr"
inference = true
[dictionary]
file = "dictionary.toml"
[prepare]
formula = "score ~ sex + age + stage + bilirubin"
missing = "drop"
view = "all"
"""


def hospitals(folder):
    """Tables of three hospitals in their own words, and the joint one in the dictionary's."""
    rng, n = np.random.default_rng(5), 600
    sex, stage = rng.choice(["female", "male"], n), rng.choice(["I", "II", "III", "IV"], n, p=[0.3, 0.3, 0.25, 0.15])
    age, mg = np.round(rng.normal(58, 9, n)).clip(25, 90), np.round(np.exp(rng.normal(0.3, 0.6, n)), 1)
    score = 0.02 * age + 0.4 * (sex == "male") + 0.2 * mg + 0.3 * (stage == "IV") + rng.normal(0, 0.5, n)
    joint = pd.DataFrame({"sex": sex, "age": age, "stage": stage, "bilirubin": mg * 17.1, "score": np.round(score, 3)})
    gap = rng.random(n) < 0.05
    joint.loc[gap, "bilirubin"] = np.nan
    a, b, c = joint[:200], joint[200:400], joint[400:]
    own = {
        "Geschlecht": np.where(a["sex"] == "female", "w", "m"),
        "Alter": a["age"].astype(int),
        "Stadium": a["stage"],
        "Bili": np.where(gap[:200], -9.0, mg[:200]),
        "Wert (Größe)": a["score"],
    }
    pd.DataFrame(own).to_csv(folder / "a.csv", sep=";", decimal=",", index=False, encoding="latin-1")
    bilirubin = ["." if np.isnan(value) else repr(value) for value in b["bilirubin"].tolist()]
    other = b.assign(sex=np.where(b["sex"] == "female", 1, 2), bilirubin=bilirubin, pid=range(200))
    other.to_csv(folder / "b.csv", index=False)
    third = c.assign(
        sex=c["sex"].str.capitalize(),
        stage=c["stage"].replace("IV", "4"),
        born=[f"15.06.{2026 - int(years)}" for years in c["age"]],
    )
    third.drop(columns="age").to_csv(folder / "c.csv", index=False)
    (folder / "dictionary.toml").write_text(DICTIONARY)
    for name, words in MAPS.items():
        (folder / f"{name}.toml").write_text(words, encoding="utf-8")
    return joint


def local_job(folder, text=JOB):
    lines = [f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\nmap = "{name}.toml"' for name in MAPS]
    (folder / "job.toml").write_text("\n".join([text, *lines]))
    return folder / "job.toml"


def expected(joint, formula="score ~ C(sex) + age + C(stage) + bilirubin"):
    return smf.ols(formula, joint.dropna()).fit()


def of_study(folder, text=JOB):
    prepared = prepare(read_job(local_job(folder, text)))
    return results_of(prepared, run_job(prepared, policy=Policy.permissive()))


def refused(*words):
    """The error that a command ends with."""
    ended = command(*words, "--format", "json")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    return json.loads(ended.stdout)["error"]


def test_differently_coded_tables_give_the_regression_of_the_harmonised_joint_table(tmp_path):
    joint = hospitals(tmp_path)
    model, result = expected(joint), of_study(tmp_path)[0]
    names = {
        "sex[T.male]": "C(sex)[T.male]",
        **{f"stage[T.{each}]": f"C(stage)[T.{each}]" for each in ("II", "III", "IV")},
    }
    theirs = np.array([model.params[names.get(name, name)] for name in result.features])
    assert_close(result.arrays["coefficients"].ravel(), theirs, STATISTIC_BAR)
    assert result.plan.n == len(joint.dropna())


def test_a_group_of_the_dictionary_is_a_term(tmp_path):
    joint = hospitals(tmp_path)
    cut = pd.cut(joint["age"], [-np.inf, 50, 65, np.inf], right=False)
    model = expected(joint.assign(cut=cut), "score ~ C(sex) + C(cut)")
    result = of_study(tmp_path, JOB.replace("sex + age + stage + bilirubin", "sex + age_group"))[0]
    assert_close(np.sort(result.arrays["coefficients"].ravel()), np.sort(model.params.to_numpy()[1:]), STATISTIC_BAR)


def test_a_spline_is_at_the_knots_of_the_dictionary_and_a_job_chooses_none(tmp_path):
    joint = hospitals(tmp_path).dropna()
    asked = JOB.replace("sex + age + stage + bilirubin", "sex + ns(age)")
    with pytest.raises(ConfigError, match=r"ns\(age\), and 'age' has no knots"):
        read_job(local_job(tmp_path, asked))
    knots = [30, 50, 62, 85]
    (tmp_path / "dictionary.toml").write_text(DICTIONARY.replace("[50, 65] }", f"[50, 65] }}\nknots = {knots}"))
    result = of_study(tmp_path, asked)[0]
    # The same space, by hand: cubes behind each knot, straight beyond the last.
    age, cubes = joint["age"].to_numpy(), lambda knot: np.maximum(joint["age"].to_numpy() - knot, 0.0) ** 3
    bend = {knot: (cubes(knot) - cubes(85)) / (85 - knot) for knot in knots[:3]}
    design = np.column_stack(
        [np.ones(len(age)), joint["sex"] == "male", age, bend[30] - bend[62], bend[50] - bend[62]]
    ).astype(float)
    fitted = design @ np.linalg.lstsq(design, joint["score"], rcond=None)[0]
    made = np.column_stack([natural_spline(age, knots, j) for j in (1, 2, 3)])
    names = ("sex[T.male]", "ns(age)[1]", "ns(age)[2]", "ns(age)[3]")
    assert tuple(result.features) == names
    ours = np.column_stack([joint["sex"] == "male", made]) @ result.arrays["coefficients"].ravel()
    assert_close(ours + float(result.arrays["intercept"].ravel()[0]), fitted, STATISTIC_BAR)


def test_the_session_before_takes_joint_counts_and_agrees_on_no_levels(tmp_path):
    hospitals(tmp_path)
    agreed = prepare(read_job(local_job(tmp_path))).agreed
    assert [step.name for step in agreed.plan.steps] == ["joint counts", "rare"]
    assert expected_bits(agreed.plan) == 12 * (4 + 1)  # sums of up to 15, and a flag


def test_a_level_that_is_rare_ends_the_study_or_is_joined_as_the_dictionary_says(tmp_path):
    hospitals(tmp_path)
    for name, column, stage in (("a", "Stadium", "IV"), ("b", "stage", "IV"), ("c", "stage", "4")):
        how = {"sep": ";", "encoding": "latin-1"} if name == "a" else {}
        own = pd.read_csv(tmp_path / f"{name}.csv", **how, dtype=str)
        own.loc[own.index[own[column] == stage][1:], column] = "III"
        own.to_csv(tmp_path / f"{name}.csv", **how, index=False)
    with pytest.raises(DataError, match="level 'IV' of column 'stage'"):
        of_study(tmp_path)
    levels = 'levels = ["I", "II", "III", "IV"]'
    (tmp_path / "dictionary.toml").write_text(DICTIONARY.replace(levels, f"{levels}\npool = true"))
    shared, own, *_ = of_study(tmp_path)
    assert [name for name in shared.features if name.startswith("stage")] == ["stage[T.II]", "stage[T.other]"]
    assert any("level 'IV' of column 'stage'" in line for line in own.facts["prepared"]["together"]["rare"])


def test_a_job_names_columns_of_the_dictionary_or_is_refused_with_the_nearest(tmp_path):
    hospitals(tmp_path)
    said = refused("plan", local_job(tmp_path, JOB.replace("+ bilirubin", "+ bilirubine")))
    assert "the formula names 'bilirubine', which is not in the dictionary liver" in said["fault"]
    assert said["fix"].endswith("did you mean 'bilirubin'?")


def test_how_a_table_was_mapped_is_in_the_results_of_its_party_alone(tmp_path):
    hospitals(tmp_path)
    shared, *parties = of_study(tmp_path)
    assert "table" not in shared.facts
    assert parties[0].facts["table"]["map"]["Bili"]["factor"] == 17.1
    assert "Geschlecht" not in json.dumps([dict(each.facts) for each in (shared, *parties[1:3])], default=str)


def test_rows_of_a_view_are_the_same_whichever_of_its_columns_a_study_takes(tmp_path):
    joint = hospitals(tmp_path)
    result = of_study(tmp_path, JOB.replace("sex + age + stage + bilirubin", "sex + age"))[0]
    assert result.plan.n == len(joint.dropna())


@pytest.mark.slow
def test_between_institutions_another_dictionary_is_refused_before_anything_is_sent(tmp_path):
    joint = hospitals(tmp_path)
    with federation_of(tmp_path, tuple(MAPS)) as federation:
        for name, words in MAPS.items():
            kit = federation.kits[f"party/{name}"]
            table = words.replace("[map]", "[table.map]")
            text = f'[data]\ndefault = "{tmp_path / name}.csv"\n[table]\n{table}'
            (kit / "site.toml").write_text(text, encoding="utf-8")
            at = ("--dictionary", tmp_path / "dictionary.toml", "--kit", kit)
            said = answered("table", "register", tmp_path / f"{name}.csv", *at)
            assert (said["registered"], said["records"]) == (True, 200)
        c = federation.kits["party/c"]
        (c / "dictionary.toml").write_text(DICTIONARY.replace('"umol/L"', '"mg/dL"'))
        job = tmp_path / "submitted.toml"
        job.write_text("\n".join([JOB, *(f'[[party]]\nname = "{name}"' for name in MAPS)]))
        federation.start("csp/csp", "party/a", "party/b")
        at, researcher = ("--csp", federation.csp), federation.kits["researcher/res"]
        id = answered("job", "submit", job, "--kit", researcher, *at)["job"]
        said = refused("job", "approve", id, "--kit", c, "--yes", *at)
        assert "they differ in unit of the column 'bilirubin'" in said["fault"]
        (c / "dictionary.toml").write_text(DICTIONARY)
        shown = answered("job", "approve", id, "--kit", c, "--yes", *at)
        mapped = {each["study"]: each.get("mapped") for each in shown["columns"]}
        assert "'4' is 'IV'" in mapped["stage"]
        federation.start("party/c")
        answered("job", "watch", id, "--kit", researcher, *at)
        until(lambda: list((c / "results").glob("*/manifest.json")))
        found = np.load(federation.folder("c", id) / "coefficients.npy").ravel()
        assert_close(np.sort(found), np.sort(expected(joint).params.to_numpy()[1:]), STATISTIC_BAR)
        history = answered("table", "history", "--kit", c)["history"]
        assert [each["event"] for each in history] == ["registered"]
