"""Eight things that a file may need are put right without editing it, in four places, and shown to its owner.

Each file is wrong in one thing, and the same study of it is refused or gives other numbers without its map: a place
that ignored the words would fail here.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import federation_of
from tests.e2e.outcomes import settled
from tests.tolerances import RESULT_BAR, assert_close
from typer.testing import CliRunner

import fedsvd
from fedsvd import FederatedLinearRegression, Policy, Simulation
from fedsvd.cli.main import cli
from fedsvd.data.written import map_line
from fedsvd.errors import FedSVDError, NotFinite
from fedsvd.policy.rules import ALL

OWN = Simulation(policy=Policy.permissive())
PARTIES = ("north", "south", "west")
PREPARE = {"columns": ["age", "dose", "sex"], "missing": "drop", "categories": ["sex"]}
GAPS = 4


def spelt(frame):
    return frame.assign(sex=frame["sex"].map({"f": "Female", "m": "Male"}))


def coded(frame):
    return frame.assign(dose=np.where(np.arange(len(frame)) < GAPS, -9.0, frame["dose"]))


def in_pounds(frame):
    return frame.assign(dose=(frame["dose"] - 1.0) / 0.25)


def in_latin(frame):
    return frame.rename(columns={"dose": "Größe"})


def in_thousands(frame):
    return frame.assign(dose=[f"{value * 1000:,.0f}" for value in frame["dose"]])


def with_commas(frame):
    return frame.assign(dose=[str(value).replace(".", ",") for value in frame["dose"]])


def in_dates(frame):
    days = pd.Timestamp("2000-01-01") + pd.to_timedelta(frame["age"], unit="D")
    return frame.assign(age=days.dt.strftime("%d.%m.%Y"))


def without_zeros(frame):
    return frame.assign(patient=frame["patient"].astype(int))


WORDS = {
    "levels": (spelt, {"map": {"sex": {"levels": {"Female": "f", "Male": "m"}}}}, "'Female' is 'f'; 'Male' is 'm'"),
    "missing": (coded, {"map": {"dose": {"missing": [-9]}}}, "'-9' is missing"),
    "factor": (in_pounds, {"map": {"dose": {"factor": 0.25, "offset": 1.0}}}, "times 0.25; plus 1.0"),
    "encoding": (in_latin, {"encoding": "latin-1", "map": {"Größe": "dose"}}, "read with encoding 'latin-1'"),
    "thousands": (
        in_thousands,
        {"map": {"dose": {"thousands": ",", "factor": 0.001}}},
        "read with '.' before decimals, ',' between thousands; times 0.001",
    ),
    "decimal": (with_commas, {"map": {"dose": {"decimal": ","}}}, "read with ',' before decimals"),
    "date": (
        in_dates,
        {"map": {"age": {"date": "%d.%m.%Y", "since": "2000-01-01"}}},
        "dates written %d.%m.%Y become days since 2000-01-01",
    ),
    "width": (without_zeros, {"map": {"patient": {"width": 6}}}, "ids have 6 digits, zeros in front"),
}


@pytest.fixture
def joint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(29), 330
    frame = pd.DataFrame({"patient": [f"{number:06d}" for number in rng.permutation(99_999)[:n]]})
    frame["age"] = rng.integers(30, 80, n)
    frame["dose"] = rng.integers(1100, 9000, n) / 1000
    frame["sex"] = rng.choice(["f", "f", "m"], n)
    frame["y"] = (0.05 * frame["age"] + frame["dose"] + (frame["sex"] == "m") + rng.normal(size=n)).round(3)
    for name, rows in zip(PARTIES, np.split(np.arange(n), 3), strict=True):
        frame.iloc[rows].to_csv(f"{name}.csv", index=False)
    return frame


def messed(joint, word):
    """West's file, wrong in this one thing, and its map."""
    how, words, said = WORDS[word]
    west = how(joint.iloc[220:])
    west.to_csv("west.csv", index=False, encoding="latin-1" if word == "encoding" else "utf-8")
    return words, said


def expected(joint, word):
    """The coefficients of the joint table."""
    whole = joint.drop(index=range(220, 220 + GAPS)) if word == "missing" else joint
    X = np.column_stack((np.ones(len(whole)), whole["age"], whole["dose"], whole["sex"] == "m")).astype(float)
    return np.linalg.lstsq(X, whole["y"], rcond=None)[0][1:]


def toml(words):
    rest = [f"{key} = {json.dumps(value)}" for key, value in words.items() if key != "map"]
    columns = {name: {"name": each} if isinstance(each, str) else each for name, each in words["map"].items()}
    return "\n".join([*rest, "[map]", *(map_line(name, each) for name, each in columns.items())]) + "\n"


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def parties(*more):
    return [word for name in PARTIES for word in ("--party", f"{name}.csv")] + list(more)


STUDY = ["--id", "patient", "--label", "y", "--columns", "age,dose,sex", "--missing", "drop", "--categories", "sex"]


def coefficients(folder):
    """Of age, dose and sex, whichever level was the commonest."""
    table = dict(zip(["age", "dose", "sex_m"], np.load(f"{folder}/coefficients.npy")[0], strict=True))
    return np.array(list(table.values()))


def ids_of_west(folder):
    return pd.read_csv(f"{folder}/parties/west/fitted.csv", dtype=str).iloc[:, 0].tolist()


@pytest.mark.parametrize("word", WORDS)
def test_without_its_map_the_study_is_refused_or_another(joint, word):
    messed(joint, word)
    said = run("lr", *parties(*STUDY, "--name", "bare"))
    if word == "width":  # of split rows ids name the rows of one's own results
        assert "000" not in "".join(sorted(ids_of_west("results/bare"))[:1])
    elif said.exit_code == 0:
        assert np.abs(coefficients("results/bare") / expected(joint, word) - 1).max() > 0.01
    else:
        assert "in the map of the table, --map" in said.stderr or word == "encoding"


@pytest.mark.parametrize("word", WORDS)
def test_on_the_command_line_a_map_is_taken_and_shown_by_look_run_report_and_for_new_rows(joint, word):
    words, shown = messed(joint, word)
    with open("west.toml", "w", encoding="utf-8") as file:
        file.write(toml(words))
    assert shown in " ".join(run("look", "west.csv", "--map", "west.toml").stdout.split())
    said = run("lr", *parties(*STUDY, "--map", "west=west.toml", "--name", "mapped"))
    assert said.exit_code == 0, said.stderr
    assert_close(coefficients("results/mapped"), expected(joint, word), RESULT_BAR)
    assert ids_of_west("results/mapped")[0] in joint["patient"].to_list()
    assert "west: mapped: " in said.stderr
    assert shown in " ".join(said.stderr.split())
    report = text_of("results/mapped/parties/west/report.html")
    assert shown.split(";")[0].replace("'", "&#39;") in report
    assert shown.split(";")[0] not in text_of("results/mapped/parties/north/report.html")
    model = fedsvd.load("results/mapped/parties/west")
    if word == "missing":  # new rows are mapped too: their codes are gaps
        with pytest.raises(NotFinite, match=r"4 of 220 entries are missing: dose \(4\)"):
            model.predict("west.csv")
        return
    predicted = model.predict("west.csv")
    fitted = pd.read_csv("results/mapped/parties/west/fitted.csv").iloc[:, -1].to_numpy()
    assert_close(np.ravel(predicted), fitted, RESULT_BAR)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("word", WORDS)
def test_a_job_file_names_the_map_of_a_party_and_its_plan_shows_it(joint, word):
    words, shown = messed(joint, word)
    with open("west.toml", "w", encoding="utf-8") as file:
        file.write(toml(words))
    lines = ["[job]", 'name = "by-file"', 'task = "lr"', 'label = "y"', 'id = "patient"', "[prepare]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in PREPARE.items()]
    for name in PARTIES:
        lines += ["[[party]]", f'name = "{name}"', f'data = "{name}.csv"']
    with open("job.toml", "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, 'map = "west.toml"']))
    assert shown in " ".join(run("plan", "job.toml").stdout.split())
    done = run("run", "job.toml")
    assert done.exit_code == 0, done.stderr
    assert_close(coefficients("results/by-file"), expected(joint, word), RESULT_BAR)


@pytest.mark.filterwarnings("ignore::fedsvd.errors.DataWarning")  # which says what is wrong without a map
@pytest.mark.parametrize("word", WORDS)
def test_python_takes_a_map_of_each_table(joint, word):
    words, _ = messed(joint, word)
    mapped, model = python_study([None, None, words])
    assert_close(np.ravel(model.coef_), expected(joint, word), RESULT_BAR)
    assert mapped[2].column("patient")[0] in joint["patient"].to_list()
    try:
        bare, other = python_study(None)
    except FedSVDError:
        return  # refused without
    same = np.abs(np.ravel(other.coef_) / np.ravel(model.coef_) - 1).max() < 0.01
    assert not same or bare[2].column("patient").astype(str)[0] not in joint["patient"].to_list()


def python_study(maps):
    files = [f"{name}.csv" for name in PARTIES]
    words = {**PREPARE, "categories": {"sex": {"reference": "f"}}, "policy": Policy.permissive()}
    made = fedsvd.prepared(files, map=maps, label="y", id="patient", **words)
    return made, FederatedLinearRegression(federation=OWN).fit(made, [table.column("y") for table in made])


def all_words(joint):
    """West's file, wrong in all of it at once."""
    west = joint.iloc[220:]
    for word in ("levels", "thousands", "date", "width"):
        west = WORDS[word][0](west)
    west = west.assign(dose=["-9" if i < GAPS else dose for i, dose in enumerate(west["dose"])])
    west = west.assign(y=[str(value).replace(".", ",") for value in west["y"]])
    WORDS["encoding"][0](west).to_csv("west.csv", index=False, encoding="latin-1")
    columns = {
        **WORDS["levels"][1]["map"],
        **WORDS["date"][1]["map"],
        **WORDS["width"][1]["map"],
        "Größe": {"name": "dose", "thousands": ",", "factor": 0.001, "missing": ["-9"]},
        "y": {"decimal": ","},
    }
    return {"encoding": "latin-1", "map": columns}


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_a_site_has_them_in_its_own_file_and_its_owner_reads_them_before_it_approves(joint, tmp_path):
    words = all_words(joint)
    job = {"name": "by-site", "task": "lr", "label": "y", "id": "patient"}
    file = {"job": job, "prepare": PREPARE, "party": [{"name": name} for name in PARTIES]}
    policy = replace(Policy.permissive(), answered=(ALL,))
    with federation_of(tmp_path, PARTIES, how="threads", policy=policy) as federation:
        for name in PARTIES:
            kit = federation.kits[f"party/{name}"]
            table = toml(words).replace("[map]", "[table.map]") if name == "west" else ""
            head = "[table]\n" if name == "west" else ""
            (kit / "site.toml").write_text(
                f'[data]\ndefault = "{tmp_path / name}.csv"\n{head}{table}', encoding="utf-8"
            )
        federation.start("csp/csp", "party/north", "party/south")
        with federation.client() as client:
            id, west = client.submit(file).id, federation.kits["party/west"]
            said = run("job", "approve", id, "--kit", west, "--csp", federation.csp, "--yes", "--format", "json")
            assert said.exit_code == 0, said.stdout
            shown = json.loads(said.stdout)
            federation.start("party/west")
            assert settled(client, id, {"done", "broken"}).state == "done"
    assert shown["mapped"] == ["read with encoding 'latin-1'"]
    how = {each["own"]: each.get("mapped", "") for each in shown["columns"]}
    assert how["sex"] == WORDS["levels"][2]
    assert how["age"] == WORDS["date"][2]
    assert how["patient"] == WORDS["width"][2]
    assert how["Größe"] == f"{WORDS['thousands'][2]}; '-9' is missing"
    assert how["y"] == WORDS["decimal"][2]
    folder = next((west / "results").iterdir())
    assert_close(coefficients(folder), expected(joint, "missing"), RESULT_BAR)
