"""``fedsvd describe``: where all tables are here, no dictionary is needed: one is made of them, and kept."""

import numpy as np
import pandas as pd
import pytest

from fedsvd.prepare.dictionary import read_dictionary

JOB = """[job]
name = "table-1"
task = "describe"
by = "arm"
id = "patient"
"""


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Three tables with gaps, arms that are numbers and one category; the joint table of them."""
    monkeypatch.chdir(tmp_path)
    rng, frames = np.random.default_rng(4), []
    for name, rows in (("north", 90), ("south", 60), ("west", 40)):
        frame = pd.DataFrame({"patient": np.arange(rows), "arm": rng.integers(1, 3, rows)})
        frame["age"] = rng.integers(20, 90, rows).astype(float)
        frame["sex"] = rng.choice(["f", "m"], rows)
        frame.loc[:6, "age"] = np.nan
        frame.to_csv(f"{name}.csv", index=False)
        frames.append(frame)
    parties = "".join(f'[[party]]\nname = "{each}"\ndata = "{each}.csv"\n' for each in ("north", "south", "west"))
    (tmp_path / "job.toml").write_text(JOB + parties, encoding="utf-8")
    return pd.concat(frames)


OPTIONS = [word for each in ("north", "south", "west") for word in ("--party", f"{each}.csv")]


def row(folder, name):
    """The cells of a row of Table 1 but missing entries, tests and differences."""
    table = pd.read_csv(f"results/{folder}/table_1.csv", dtype=str).set_index("variable")
    return table.loc[name, [each for each in table.columns if each in ("1", "2", "Overall")]].tolist()


def test_a_job_file_without_a_dictionary_runs_where_all_tables_are_here(fedsvd, tables):
    said = fedsvd("run", "job.toml")
    assert said.code == 0, said.err
    assert row("table-1", "n") == [str(n) for n in (*tables.groupby("arm").size(), len(tables))]
    planned = fedsvd("plan", "job.toml")
    assert planned.code == 0, planned.err
    assert "missing entries are counted, and nothing is filled in" in planned.out
    assert fedsvd("verify", "results/table-1").code == 0


def test_the_dictionary_that_was_made_is_kept_and_gives_the_same_table(fedsvd, tables, tmp_path):
    said = fedsvd("run", "job.toml")
    assert "results/table-1-dictionary.toml" in said.err
    assert "entries are missing: age (7)" in said.err
    assert "filled in" not in said.err
    made = read_dictionary(tmp_path / "results/table-1-dictionary.toml")
    assert made.levels_of("arm") == ("1", "2")
    assert made.described["age"].range == (tables["age"].min(), tables["age"].max())
    words = ["--by", "arm", "--id", "patient", "--dictionary", "results/table-1-dictionary.toml", "--name", "again"]
    again = fedsvd("describe", *OPTIONS, *words)
    assert again.code == 0, again.err
    assert "was made of these tables" not in again.err
    first, second = (pd.read_csv(f"results/{name}/table_1.csv") for name in ("table-1", "again"))
    pd.testing.assert_frame_equal(first, second)


def test_rows_with_gaps_are_left_out_and_numbers_are_categories_where_asked(fedsvd, tables):
    said = fedsvd("describe", *OPTIONS, "--id", "patient", "--missing", "drop", "--categories", "arm")
    assert said.code == 0, said.err
    complete = tables.dropna()
    assert row("describe", "n") == [str(len(complete))]
    second = int((complete["arm"] == 2).sum())
    assert row("describe", "arm = 2 (%)") == [f"{second} ({100 * second / len(complete):.1f})"]


def test_columns_that_are_left_out_are_in_no_dictionary(fedsvd, tables, tmp_path):
    said = fedsvd("describe", *OPTIONS, "--drop", "patient,arm")
    assert said.code == 0, said.err
    assert list(read_dictionary(tmp_path / "results/describe-dictionary.toml").described) == ["age", "sex"]


def test_a_job_for_other_institutions_names_its_dictionary(fedsvd, tables):
    said = fedsvd("federation", "rehearse", "rehearsal", "--job", "job.toml")
    assert said.code != 0
    assert "needs a dictionary" in said.err
    assert "fedsvd dictionary propose" in said.err
