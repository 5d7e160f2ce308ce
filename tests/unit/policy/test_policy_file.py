"""An owner's policy is what the file says, and a file that is not understood allows nothing."""

import pytest

from fedsvd.errors import ConfigError, StorageError
from fedsvd.policy.policy_file import read_policy, spelt_policy, write_default_policy
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Scheme, Task


def policy_of(tmp_path, text):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return read_policy(path)


def test_the_file_written_first_is_the_default_and_is_enforced(tmp_path):
    write_default_policy(tmp_path / "policy.toml")
    assert read_policy(tmp_path / "policy.toml") == Policy(enforce=True)
    text = (tmp_path / "policy.toml").read_text()
    values = [line for line in text.splitlines() if " = " in line]
    assert len(values) == len(Policy.__dataclass_fields__) - 2, "a rule is missing from the file"
    for line in values:
        before = text[: text.index(line)].rstrip().splitlines()[-1]
        assert before.startswith("# "), "every rule says what it is for"


def test_a_policy_is_read_as_it_was_spelt(tmp_path):
    policy = Policy(tasks=(Task.LR,), schemes=(), consent_to_two=True, records=77, most_components=3, enforce=True)
    assert policy_of(tmp_path, spelt_policy(policy)) == policy


def test_a_file_that_is_there_is_not_written_over(tmp_path):
    (tmp_path / "policy.toml").write_text("records = 50\n")
    with pytest.raises(StorageError):
        write_default_policy(tmp_path / "policy.toml")
    assert (tmp_path / "policy.toml").read_text() == "records = 50\n"


def test_what_the_file_says_counts_and_the_rest_is_default(tmp_path):
    policy = policy_of(
        tmp_path,
        'tasks = ["pca"]\nschemes = ["sum", "mask"]\nparties_for_full = 5\nconsent_to_two = true\n'
        "records_for_full = 1000\nmost_components = 7\nremember = false\n",
    )
    assert policy == Policy(
        tasks=(Task.PCA,),
        schemes=(Scheme.SUM, Scheme.MASK),
        parties_for_full=5,
        consent_to_two=True,
        records_for_full=1000,
        most_components=7,
        remember=False,
        enforce=True,
    )
    assert policy_of(tmp_path, "") == Policy(enforce=True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("record = 5", "did you mean records?"),
        ("parties_for_ful = 5", "did you mean parties_for_full?"),
        ("enforce = false", "not a rule"),
        ("warn = false", "not a rule"),
        ("[release]\nrecords = 5", "not a rule"),
        ("records = 0", "whole number from 1 up"),
        ("records = -5", "whole number"),
        ("records = 5.0", "whole number"),
        ("records = true", "whole number"),
        ('records = "5"', "whole number"),
        ("parties_for_full = 1", "whole number from 2 up"),
        ("remember = 1", "true or false"),
        ("changed_records = 10", "least_count"),
        ("least_changed = 10", "least_count"),
        ("versions_per_year = 6", "leave it out"),
        ("most_components = 0", "whole number from 1 up"),
        ("most_directions = 0", "whole number from 1 up"),
        ("consent_to_two = 1", "true or false"),
        ("most_leverage = 2.0", "number from 0.0 to 1.0"),
        ("most_leverage = true", "number from 0.0 to 1.0"),
        ('answered = "few"', "list of rules"),
        ("answered = [1]", "list of rules"),
        ('tasks = "pca"', "list of svd"),
        ('tasks = ["pca", "everything"]', "list of svd"),
        ("tasks = [1]", "list of svd"),
        ('schemes = ["auto"]', "list of sum, mask"),
        ('schemes = ["sum", "paper"]', "fedsvd-lab"),
        ('schemes = ["sum", "paper"]', 'schemes = ["sum"]'),
        ("records = 5\nrecords = 6", "not TOML"),
        ("records", "not TOML"),
        ("[foreign]\nrecords = 5", "records in"),
        ("[foreign]\nrecords = 5", "write it above [foreign]"),
        ('[foreign]\nmine = "5"', "no hash"),
    ],
)
def test_a_file_with_a_fault_is_refused_with_the_fix(text, told, tmp_path):
    with pytest.raises(ConfigError) as refused:
        policy_of(tmp_path, text)
    assert told in str(refused.value)
    assert "policy.toml" in str(refused.value)


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        read_policy(tmp_path / "policy.toml")
    (tmp_path / "policy.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_policy(tmp_path / "policy.toml")
