"""A table is registered by a dictionary that it fits; a study is forgotten a month after it began, and not before."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.e2e.federations import federation_of

from fedsvd.errors import ConfigError
from fedsvd.service.registrations import forget, history, register
from fedsvd.service.site import Site

DICTIONARY = '[columns.age]\nrange = [18, 110]\n[columns.sex]\nlevels = ["female", "male"]\n'


@pytest.fixture
def site(tmp_path):
    with federation_of(tmp_path, ("a", "b")) as federation:
        kit = federation.kits["party/a"]
        (kit / "site.toml").write_text('[table.map]\nsex = { levels = { w = "female", m = "male" } }\n')
        (tmp_path / "a.csv").write_text("age,sex\n" + "30,w\n40,m\n" * 10)
        (tmp_path / "dictionary.toml").write_text(DICTIONARY)
        yield Site.at(kit)


def test_a_table_that_fits_is_registered_with_its_records_and_the_digest(site, tmp_path):
    found = register(site, tmp_path / "a.csv", tmp_path / "dictionary.toml")
    assert found.records == 20
    assert not found.found
    (line,) = history(site)
    assert (line["event"], line["records"], line["dictionary"]) == ("registered", 20, found.dictionary.digest)
    assert site.tables().dictionary == found.dictionary


def test_a_table_that_falls_short_is_not_registered_and_its_owner_is_shown_why(site, tmp_path):
    (tmp_path / "a.csv").write_text("age,sex\n" + "30,w\n400,f\n" * 10)
    found = register(site, tmp_path / "a.csv", tmp_path / "dictionary.toml")
    assert [each.column for each in found.found if each.refused] == ["age", "sex"]
    assert "'f' (10" in found.found[-1].text
    assert history(site) == []
    assert site.tables().dictionary is None


def test_another_dictionary_takes_the_place_of_the_first_only_where_it_is_said(site, tmp_path):
    register(site, tmp_path / "a.csv", tmp_path / "dictionary.toml")
    other = tmp_path / "other.toml"
    other.write_text(DICTIONARY.replace("110", "120"))
    with pytest.raises(ConfigError, match="range of the column 'age'"):
        register(site, tmp_path / "a.csv", other)
    found = register(site, tmp_path / "a.csv", other, replace=True)
    assert site.tables().dictionary == found.dictionary


def test_a_study_is_forgotten_a_month_after_it_began_and_the_audit_log_says_so(site):
    now = datetime.now(UTC)
    began = [("aa11", 40), ("bb22", 3)]
    lines = [
        {"event": "study", "run": run, "when": (now - timedelta(days=days)).isoformat(), "table": 0, "roster": []}
        for run, days in began
    ]
    folder = site.state / "records"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "studies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ConfigError, match="less than 30 days ago"):
        forget(site, "bb22", now)
    with pytest.raises(ConfigError, match="0 studies"):
        forget(site, "cc", now)
    assert forget(site, "aa", now) == "aa11"
    assert [line["event"] for line in history(site)] == ["study", "forgotten"]
    assert "table.forget" in (site.state / "audit.jsonl").read_text()
