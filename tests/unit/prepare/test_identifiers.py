"""Record ids: one spelling for each, several columns, no duplicates, keyed hashes, linkage maps."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError, NotFinite, RepeatedIds
from fedsvd.prepare.identifiers import (
    IdRule,
    expect_distinct,
    hashed,
    iso_date,
    normalised,
    read_linkage,
    record_ids,
)
from fedsvd.randomness.seed import Seed

KEY = Seed(bytes(range(32)))


@pytest.mark.parametrize(
    "spellings",
    [
        ("Anna Maria", "  anna   maria ", "ANNA\u00a0MARIA", "ａｎｎａ maria"),
        ("Straße", "STRASSE", "strasse"),
        ("café", "cafe\u0301", "CAFÉ"),
        ("№ 5", "No 5", "no\t5"),
        ("İstanbul", "i\u0307stanbul"),
    ],
)
def test_spellings_of_one_id_become_one_text(spellings):
    found = normalised(np.array(spellings, dtype=np.str_), IdRule())
    assert len(set(found.tolist())) == 1


def test_blanks_and_case_are_left_alone_where_the_rule_says_so():
    values = np.array(["a B", "ab"])
    assert normalised(values, IdRule(blanks="remove")).tolist() == ["ab", "ab"]
    assert normalised(values, IdRule(fold_case=False)).tolist() == ["a B", "ab"]
    assert normalised(np.array([" a "]), IdRule(blanks="exact")).tolist() == [" a "]
    with pytest.raises(ConfigError, match="blanks"):
        IdRule(blanks="squeeze")


def test_whole_numbers_are_one_id_however_a_file_stores_them(tmp_path):
    pd.DataFrame({"id": [7, 1200]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("id,x\n7,1\n1200,2\n")
    frames = [pd.DataFrame({"id": [7.0, 1200.0]}), pd.DataFrame({"id": ["7", "1200"]})]
    for data in (tmp_path / "a.parquet", tmp_path / "b.csv", *frames):
        assert record_ids(open_source(data), ["id"], IdRule()).tolist() == ["7", "1200"]
    (tmp_path / "c.csv").write_text("id,x\n007,1\n008,2\n")
    assert record_ids(open_source(tmp_path / "c.csv"), ["id"], IdRule()).tolist() == ["007", "008"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2024-02-03", "2024-02-03"),
        ("2024-02-03T08:30:00", "2024-02-03"),
        ("20240203", "2024-02-03"),
        ("3.2.2024", "2024-02-03"),
        ("03/02/2024", "2024-02-03"),
        ("31/02/2024", None),
        ("yesterday", None),
    ],
)
def test_dates_are_read_as_europe_writes_them(text, expected):
    assert iso_date(text) == expected


def test_the_month_comes_first_where_the_rule_says_so():
    assert iso_date("02/03/2024", month_first=True) == "2024-02-03"


def test_several_columns_make_one_id_that_cannot_be_read_another_way():
    frame = pd.DataFrame({"name": ["ab", "a"], "more": ["c", "bc"], "born": ["1.2.1990", "1990-02-01"]})
    ids = record_ids(open_source(frame), ["name", "more", "born"], IdRule(dates=("born",)))
    assert ids[0] != ids[1]
    same = pd.DataFrame({"name": ["AB "], "more": ["C"], "born": ["1990-02-01"]})
    assert record_ids(open_source(same), ["name", "more", "born"], IdRule(dates=("born",)))[0] == ids[0]
    with pytest.raises(DataError, match="1 different entries of column 'name' are no dates"):
        record_ids(open_source(frame[:1]), ["name"], IdRule(dates=("name",)))


def test_the_index_of_a_frame_may_be_the_id():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index(["P1", "p2"], name="patient"))
    assert record_ids(open_source(frame), ["patient"], IdRule()).tolist() == ["p1", "p2"]


def test_missing_and_repeated_ids_are_refused_with_their_number():
    with pytest.raises(NotFinite, match="1 of 3 entries of the id column 'id'"):
        record_ids(open_source(pd.DataFrame({"id": ["a", None, "b"]})), ["id"], IdRule())
    with pytest.raises(RepeatedIds, match="2 of 4"):
        expect_distinct(np.array(["a", "b", "a", "a"]))
    expect_distinct(np.array(["a", "b"]))
    with pytest.raises(ConfigError, match="no id column"):
        record_ids(open_source(np.ones((1, 1))), [], IdRule())


def test_hashes_are_keyed_blake2b():
    ids = np.array(["p1", "größe"])
    secret = KEY.derive("record ids").reveal()
    expected = [hashlib.blake2b(text.encode(), digest_size=16, key=secret).digest() for text in ids.tolist()]
    assert [row.tobytes() for row in hashed(ids, KEY)] == expected
    assert not np.array_equal(hashed(ids, KEY), hashed(ids, Seed(bytes(32))))


def test_a_linkage_map_replaces_ids_and_leaves_out_those_it_does_not_know(tmp_path):
    (tmp_path / "map.csv").write_text("local;entity\nP1;e7\np2 ;e3\np2;e3\np9;e1\n")
    linkage = read_linkage(open_source(tmp_path / "map.csv"), "local", "entity", IdRule())
    entities, known = linkage.apply(np.array(["p2", "p5", "p1"]))
    assert entities.tolist() == ["e3", "e7"]
    assert_array_equal(known, [0, 2])
    (tmp_path / "map.csv").write_text("local;entity\np1;e7\nP1;e8\n")
    with pytest.raises(DataError, match="1 ids of the linkage map"):
        read_linkage(open_source(tmp_path / "map.csv"), "local", "entity", IdRule())


def test_entities_of_a_map_are_normalised_as_ids_are_and_a_missing_one_is_not_known(tmp_path):
    (tmp_path / "map.csv").write_text("local;entity\nP1; Person 7\np2;PERSON 3 \np9;\n")
    linkage = read_linkage(open_source(tmp_path / "map.csv"), "local", "entity", IdRule())
    entities, known = linkage.apply(np.array(["p1", "p2", "p9"]))
    assert entities.tolist() == ["person 7", "person 3"]
    assert_array_equal(known, [0, 1])
    (tmp_path / "map.csv").write_text("local;entity\np1;\np2;\n")
    with pytest.raises(DataError, match="names no entity"):
        read_linkage(open_source(tmp_path / "map.csv"), "local", "entity", IdRule())
