"""A file that is not TOML is refused with its name, the line, the cause and what people usually did."""

import pytest

from fedsvd.errors import ConfigError
from fedsvd.policy.policy_file import read_policy
from fedsvd.service.site_file import read_site
from fedsvd.storage.toml import read_toml
from fedsvd.studies.job_file import read_job

CASES = [
    ("a = 1\nresults = here\n", "Invalid value at line 2, column 11", 'in quotes: key = "text"'),
    ('a = 1\n\nresults "here"\n', "Expected '=' after a key", "key = value"),
    ('data = "C:\\Users\\me.csv"\n', "line 1", "paths with /"),
    ('data = "a.csv\nb = 1\n', "line 1", "close the quotes"),
    ('a = ["x",\n"y"\n', "at the end, line 2", "close the list with ]"),
    ("[csp]\na = 1\n[csp]\n", "line 3", "twice"),
    ('[[party\nname = "a"\n', "line 1", "[[party]]"),
    ("a = 1\na = 2\n", "line 2", "twice: keep one"),
    ("a = 1 2\n", "line 1", "see docs/x.md"),
]


@pytest.mark.parametrize(("text", "place", "fix"), CASES)
def test_line_cause_and_fix_are_named(text, place, fix, tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_toml(path, "docs/x.md")
    assert f"{path} is not TOML: " in caught.value.fault
    assert place in caught.value.fault
    assert fix in caught.value.fix


def test_job_site_and_policy_files_are_read_this_way(tmp_path):
    for name in ("site.toml", "job.toml", "policy.toml"):
        (tmp_path / name).write_text("a = 1\nresults = here\n")
    for read, at in ((read_site, tmp_path), (read_job, tmp_path / "job.toml"), (read_policy, tmp_path / "policy.toml")):
        with pytest.raises(ConfigError, match=r"is not TOML: Invalid value at line 2, column 11"):
            read(at)


def test_a_file_as_windows_saves_it_is_read(tmp_path):
    path = tmp_path / "site.toml"
    path.write_bytes(b"\xef\xbb\xbfresults = 'here'\r\n")
    assert read_toml(path, "") == {"results": "here"}


def test_what_cannot_be_read_is_said_as_such(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        read_toml(tmp_path / "no.toml", "")
    with pytest.raises(ConfigError, match="cannot read"):
        read_toml(tmp_path, "")
    (tmp_path / "job.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_toml(tmp_path / "job.toml", "")
