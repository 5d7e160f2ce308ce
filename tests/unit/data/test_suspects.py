"""Columns that look like ids, and lists of ratings, are found at the beginning of a table; data that counts is not."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from fedsvd.data.open import open_source
from fedsvd.data.suspects import id_columns, in_thousandths, is_id_name, is_list_of_ratings, misread_columns, shared_id

ROWS = 300


def table(rows=ROWS, **columns):
    """Two measurements, and further columns of these names."""
    rng = np.random.default_rng(5)
    return pd.DataFrame({"weight": rng.normal(70, 9, rows), "dose": rng.normal(2, 1, rows), **columns})


def shuffled(rows=ROWS, first=1000, step=1, seed=1):
    return np.random.default_rng(seed).permutation(first + step * np.arange(rows))


NAMES = ("id", "ID", "customer_id", "CustomerID", "customerId", "patient", "Patient", "subject-id", "id_patient", "mrn")
INDEXES = ("Unnamed: 0", "__index_level_0__", "", "index", "row_key", "account number", "uuid")


@pytest.mark.parametrize("name", [*NAMES, *INDEXES])
def test_names_that_people_give_to_ids(name):
    assert is_id_name(name)


@pytest.mark.parametrize(
    "name", ["age", "paid", "acid", "fluid", "idle", "body_mass_index", "identity_score", "x0", "video"]
)
def test_names_that_only_sound_like_ids(name):
    assert not is_id_name(name)


FOUND = {
    "a patient id in order": ("patient_id", 1000 + np.arange(ROWS)),
    "a patient id in no order, with gaps": ("patient_id", shuffled(step=17)),
    "ids read as floats": ("id", shuffled(step=3).astype(float)),
    "rows that are counted under another name": ("visit", np.arange(ROWS)),
    "rows that are counted backwards": ("visit", np.arange(ROWS)[::-1] + 5),
    "a permutation of a run under another name": ("ticket", shuffled()),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_column_of_distinct_whole_numbers_that_name_the_rows_is_found(case):
    name, values = FOUND[case]
    assert id_columns(open_source(table(**{name: values}))) == (repr(name),)


def test_the_id_is_found_in_every_format_and_by_its_place_where_there_are_no_names(tmp_path):
    frame = table(patient_id=shuffled(step=17))
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    np.save(tmp_path / "t.npy", table(rows=2000, number=shuffled(rows=2000, step=17)).to_numpy())
    for data in (
        tmp_path / "t.csv",
        tmp_path / "t.parquet",
        pl.from_pandas(frame),
        open_source(frame).reordered(range(ROWS)),
    ):
        assert id_columns(open_source(data)) == ("'patient_id'",)
    assert id_columns(open_source(tmp_path / "t.npy")) == ("2 (counted from 0)",)
    assert id_columns(open_source(frame).without(["patient_id"])) == ()


rng = np.random.default_rng(11)
LEGITIMATE = {
    "counts with repeats": ("cells", rng.poisson(400, ROWS)),
    "a measurement in whole numbers": ("income", 100 * rng.integers(150, 900, ROWS)),
    "an indicator called patient": ("patient", rng.integers(0, 2, ROWS)),
    "a few hundred distinct counts in no order": ("reads", shuffled(step=977)),
    "distinct numbers that are not whole": ("id", np.arange(ROWS) + 0.5),
    "differences, some of them negative": ("change", shuffled(first=-150)),
    "ids that repeat, as of visits": ("patient_id", np.repeat(np.arange(ROWS // 2), 2)),
}


@pytest.mark.parametrize("case", LEGITIMATE)
def test_data_is_not_taken_for_ids(case):
    name, values = LEGITIMATE[case]
    assert id_columns(open_source(table(**{name: values}))) == ()


def test_a_table_of_large_counts_is_no_table_of_ids():
    counts = np.random.default_rng(3).integers(0, 10**9, (1500, 40))
    assert id_columns(open_source(counts)) == ()


def test_a_small_a_sparse_and_an_unreadable_table_are_left_alone(tmp_path):
    assert id_columns(open_source(table(rows=19, id=np.arange(19)))) == ()
    assert id_columns(open_source(table(rows=20, id=np.arange(20)))) == ("'id'",)
    assert id_columns(open_source(sparse.csr_array(np.diag(np.arange(40.0))))) == ()
    assert id_columns(open_source("synthetic://100x3?seed=1")) == ()
    assert id_columns(open_source(table(id=np.arange(ROWS), note=["x"] * ROWS))) == ()  # refused when it is read


def test_only_the_beginning_of_a_long_table_is_read():
    class Counted(type(open_source(np.zeros((2, 2))))):
        def _cells(self, rows, columns):
            read.append(rows.stop - rows.start)
            return super()._cells(rows, columns)

    read = []
    D = np.random.default_rng(1).normal(size=(2_000_000, 4))
    D[:, 0] = np.arange(len(D))
    assert id_columns(Counted(D)) == ("0 (counted from 0)",)
    assert read == [(1 << 22) // 32]  # 4 MiB of 64 MB


def test_a_very_wide_table_is_judged_by_its_names():
    rng = np.random.default_rng(2)
    D = np.column_stack([shuffled(rows=50, step=9), rng.integers(0, 3, (50, 30_000))])
    names = ["sample_id", *(f"rs{j}" for j in range(30_000))]
    assert id_columns(open_source(D, names=names)) == ("'sample_id'",)
    assert id_columns(open_source(D)) == ()


def ratings(rows=3000, users=60, items=90, seed=4):
    rng = np.random.default_rng(seed)
    listed = pd.DataFrame(
        {"user": rng.integers(1, users, rows), "item": rng.integers(1, items, rows)}
    ).drop_duplicates()
    return listed.assign(rating=rng.integers(1, 6, len(listed)))


def test_a_list_of_ratings_is_found_with_and_without_times_and_names():
    listed = ratings()
    assert is_list_of_ratings(open_source(listed))
    assert is_list_of_ratings(open_source(listed.to_numpy()))
    assert is_list_of_ratings(open_source(listed.assign(time=881_250_949 + np.arange(len(listed)))))
    assert is_list_of_ratings(open_source(listed.assign(rating=listed["rating"] / 2)))


def test_tables_of_three_or_four_columns_are_no_lists_of_ratings():
    from sklearn.datasets import load_iris

    rng = np.random.default_rng(6)
    assert not is_list_of_ratings(open_source(load_iris().data))
    assert not is_list_of_ratings(open_source(rng.poisson(2, (500, 3))))  # three words in five hundred texts
    assert not is_list_of_ratings(open_source(rng.integers(0, 2, (500, 4))))
    assert not is_list_of_ratings(open_source(ratings()[:15]))
    assert not is_list_of_ratings(open_source(np.column_stack([ratings(), rng.normal(size=(len(ratings()), 2))])))


def test_the_ids_of_all_tables_are_the_column_they_share():
    ids = shuffled(step=17)
    one, two = table(customer_id=ids), pd.DataFrame({"calls": np.ones(ROWS), "customer_id": ids[::-1]})
    assert shared_id([open_source(one), open_source(two)]) == "customer_id"
    names = [f"c{number}" for number in ids]
    assert shared_id([open_source(frame.assign(customer_id=names)) for frame in (one, two)]) == "customer_id"
    assert shared_id([open_source(frame.assign(account=names)) for frame in (one, two)]) in ("customer_id", "account")
    assert shared_id([open_source(one), open_source(two.drop(columns="customer_id"))]) is None
    assert shared_id([open_source(one), open_source(two.assign(customer_id=np.repeat(ids[:150], 2)))]) is None


def test_measurements_and_repeated_texts_of_one_name_are_no_ids():
    one = table(town=["a", "b", "c"] * (ROWS // 3))
    assert shared_id([open_source(one), open_source(one)]) is None
    assert shared_id([open_source(one.to_numpy()[:, :2].astype(float))] * 2) is None


@pytest.mark.parametrize("text", [False, True])
def test_misread_columns_are_found_among_many_measurements_with_and_without_a_column_of_text(text):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(50.0, 5.0, (200, 30)), columns=[f"m{j}" for j in range(30)])
    frame["sodium"] = np.where(np.arange(200) % 40 == 0, 999.0, rng.normal(140.0, 3.0, 200))
    frame["gapped"] = np.where(np.arange(200) % 7 == 0, np.nan, np.where(np.arange(200) % 50 == 1, -99.0, frame["m0"]))
    frame["counted"] = rng.integers(0, 40, 200)  # of whole numbers the ends are repeated, next to the others
    frame["price"] = np.where(
        np.arange(200) % 2 == 0, rng.integers(100, 999, 200), 1.0 + rng.integers(0, 4999, 200) / 1e3
    )
    if text:
        frame.insert(5, "site", ["north"] * 200)
    assert [found.name for found in misread_columns(open_source(frame))] == ["sodium", "gapped", "price"]


CODES = {
    "9 next to 0 and 1": ([0, 1, 1, 0] * 40 + [9] * 3, 9),
    "99 next to stages": ([1, 2, 3, 4] * 40 + [99] * 3, 99),
    "-9 next to 0 and 1": ([0, 1] * 80 + [-9] * 3, -9),
    "a pressure of 0": ([*range(40, 200), 0, 0, 0], 0),
    "a mass of 0 next to decimals": ([*np.linspace(18.2, 40.0, 160), 0, 0, 0], 0),
}


@pytest.mark.parametrize("case", CODES)
def test_codes_among_few_values_and_zeros_for_gaps_are_found(case):
    values, code = CODES[case]
    found = misread_columns(open_source(pd.DataFrame({"x": np.array(values, float)})))
    assert [each.words for each in found] == [{"missing": [code]}]


NO_CODES = {
    "three groups": [-1, 0, 1] * 50,
    "counts from zero": rng.poisson(3, 300),
    "cigarettes": [0] * 100 + [5, 10, 15, 20, 25, 30, 35, 40, 60] * 10,
    "doses in steps, few of none": [0] * 5 + [50, 100, 150, 200, 250, 300, 350, 400] * 20,
    "fractions, three of them too small": [*np.linspace(0.2, 0.5, 160), 0, 0, 0],
    "nine twice": [0, 1] * 80 + [9] * 2,
    "scores from 1 to 9": [1, 3, 5, 7, 9] * 40,
}


@pytest.mark.parametrize("case", NO_CODES)
def test_levels_counts_and_doses_are_no_codes(case):
    assert misread_columns(open_source(pd.DataFrame({"x": np.array(NO_CODES[case], float)}))) == ()


def test_tables_in_files_are_looked_at_too(tmp_path):
    """A panel of all columns is asked of a file by numbers: a reader of files knows no open slice."""
    np.save(tmp_path / "t.npy", np.random.default_rng(1).normal(size=(40, 3)))
    assert misread_columns(open_source(tmp_path / "t.npy")) == ()


def test_columns_of_three_decimals_throughout_may_be_thousands_with_points():
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "points": rng.integers(1000, 9999, 60) / 1000,
            "wide": rng.integers(1000, 999_999, 60) / 1000,
            "gapped": np.where(np.arange(60) % 5 == 0, np.nan, rng.integers(1000, 9999, 60) / 1000),
            "two": rng.integers(100, 9999, 60) / 100,
            "below one": rng.integers(500, 1999, 60) / 1000,  # 0.987 is no number of thousands
            "whole": rng.integers(1, 999, 60),
            "many": rng.normal(5.0, 0.5, 60),
            "one of four": np.append(rng.integers(1000, 9999, 59) / 1000, 2.3456),
        }
    )
    assert in_thousandths(open_source(frame)) == ("points", "wide", "gapped")
    assert in_thousandths(open_source(frame.assign(site="north"))) == ("points", "wide", "gapped")
    assert in_thousandths(open_source(frame[:15])) == ()
