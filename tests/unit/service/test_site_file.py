"""What a site allows a plan to ask of it, beside what its policy allows to be released."""

import pytest

from fedsvd.errors import ConfigError
from fedsvd.service.site_file import SITE, read_site


@pytest.mark.parametrize(
    ("allowed", "asked", "fits"),
    [
        ("1 GiB", 1 << 30, True),
        ("1 GiB", (1 << 30) + 1, False),
        ("512 MB", 512_000_000, True),
        ("512 MB", 2 << 30, False),
    ],
)
def test_a_plan_within_the_memory_of_a_site_is_taken_and_a_larger_one_is_not(tmp_path, allowed, asked, fits):
    (tmp_path / SITE).write_text(f'memory = "{allowed}"\n')
    if fits:
        read_site(tmp_path).expect_memory(asked)
        return
    with pytest.raises(ConfigError, match="asks for") as refused:
        read_site(tmp_path).expect_memory(asked)
    assert "job file" in refused.value.fix


def test_a_site_that_says_nothing_of_memory_takes_any_plan(tmp_path):
    read_site(tmp_path).expect_memory(1 << 60)


def test_an_amount_that_is_none_is_said(tmp_path):
    (tmp_path / SITE).write_text('memory = "much"\n')
    with pytest.raises(ConfigError, match="not an amount"):
        read_site(tmp_path).expect_memory(1)


def test_an_amount_is_a_text_as_all_of_the_file_is(tmp_path):
    (tmp_path / SITE).write_text("memory = 8\n")
    with pytest.raises(ConfigError, match="not a text"):
        read_site(tmp_path)
