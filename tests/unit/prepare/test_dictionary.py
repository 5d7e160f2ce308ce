"""A dictionary is read strictly, written and read again as itself, and says by name what is wrong with it."""

import random
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mutations import damaged

from fedsvd.errors import ConfigError, FedSVDError
from fedsvd.prepare.dictionary import dictionary_of, read_dictionary, spelt_dictionary

TEXT = """
name = "liver"
[columns.age]
unit = "years"
range = [18, 110]
decimals = 0
groups = { age_group = [18, 40, 65] }
[columns.stage]
levels = ["I", "II", "III", "IV"]
groups = { late = { no = ["I", "II"], yes = ["III", "IV"] } }
[columns.sex]
levels = ["female", "male"]
[columns.pregnant]
levels = ["no", "yes"]
[columns.patient]
role = "id"
[views]
main = ["age", "stage"]
[[structural_zeros]]
sex = "male"
pregnant = "yes"
"""


def dictionary(text=TEXT):
    return dictionary_of(tomllib.loads(text))


def test_columns_have_kinds_levels_groups_and_roles():
    found = dictionary()
    assert [found.described[name].holds for name in found.described] == ["number", *["category"] * 3, "text"]
    assert found.features == ("age", "stage", "sex", "pregnant")
    assert found.levels_of("age_group") == ("<40", "40 to <65", ">=65")  # no one is below the range
    assert found.levels_of("late") == ("no", "yes")
    assert found.levels_of("age") == ()


def test_the_digest_is_of_what_it_says_and_not_of_the_order_or_layout_of_its_file():
    record = tomllib.loads(TEXT)
    turned = {**record, "columns": dict(reversed(record["columns"].items()))}
    assert dictionary_of(turned).digest == dictionary().digest
    for change in ('"years"', '"months"'), ("[18, 110]", "[18, 111]"), ('"female", "male"', '"male", "female"'):
        assert dictionary(TEXT.replace(*change)).digest != dictionary().digest


@pytest.mark.parametrize(
    ("line", "place", "fix"),
    [
        ("[columns.age]\nrnage = [1, 2]", "columns.age.rnage", "did you mean 'range'?"),
        ("[columns.age]\nrange = [2, 1]", "columns.age.range", "rise"),
        ("[columns.age]\nrange = [0, inf]", "columns.age.range", "finite"),
        ("[columns.age]\nkind = 'nmber'", "columns.age.kind", "number"),
        ("[columns.sex]\nkind = 'category'", "columns.sex", "levels"),
        ("[columns.sex]\nlevels = ['f', 'f']", "columns.sex", "twice"),
        ("[columns.sex]\nlevels = ['f', 'm']\nunit = 'kg'", "columns.sex", "of categories"),
        ("[columns.sex]\nlevels = ['f', 'm']\n[[structural_zeros]]\nsex = 'f'", "the file", "two columns or more"),
        ("[columns.age]\nrange = [0, 9]\ngroups = { old = [10] }", "columns.age", "leave the range"),
        ("[columns.age]\ngroups = { old = [3, 2] }", "columns.age.groups.old", "rise"),
        ("[columns.age]\nknots = [3, 2, 9]", "columns.age.knots", "rise"),
        ("[columns.age]\nknots = [2, 3]", "columns.age.knots", "3"),
        ("[columns.age]\nbins = [3, 2]", "columns.age.bins", "rise"),
        ("[columns.age]\nbins = [3, 4]", "columns.age", "range = [0, 120]"),
        ("[columns.age]\nrange = [0, 9]\nbins = [3, 9]", "columns.age", "ends are not listed"),
        ("[columns.sex]\nlevels = ['f', 'm']\nbins = [2, 3]", "columns.sex", "of categories"),
        ("tables = ['sxe']\n[columns.sex]\nlevels = ['f', 'm']", "the file", "did you mean 'sex'?"),
        ("tables = ['age']\n[columns.age]", "the file", "groups of a number"),
        ("tables = []\ncolumns = '*'", "the file", "names no column"),
        ("[columns.age]\npool = true", "columns.age", "of categories"),
        ("[columns.age]\nrange = [0, 9]\nknots = [2, 3, 10]", "columns.age", "leave the range"),
        ("[columns.sex]\nlevels = ['f', 'm']\nknots = [2, 3, 10]", "columns.sex", "of categories"),
        ("[columns.sex]\nlevels = ['f', 'm']\ngroups = { g = { a = ['f'] } }", "columns.sex", "every level once"),
        ("[columns.age]\n[views]\nmain = ['agee']", "the file", "did you mean 'age'?"),
        ("[columns.a]\ngroups = { b = [1] }\n[columns.b]", "the file", "'b'"),
        ("columns = 'all'", "columns", "'*'".replace("'", '"')),
        ("columns = '*'\n[views]\nmain = ['x']", "the file", "names no column"),
        ("colums = '*'", "colums", "did you mean 'columns'?"),
        ("name = 'x'", "columns", "see docs"),
        ('[columns."a\\u202e"]', "the file", "marks of direction"),
    ],
)
def test_a_fault_names_its_place_and_its_fix(line, place, fix):
    with pytest.raises(ConfigError) as refused:
        dictionary(line)
    assert place in refused.value.fault
    assert fix in refused.value.fix


def test_a_name_outside_of_it_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match="the formula names 'stge', which is not in the dictionary liver") as refused:
        dictionary().expect_names("the formula", ["age_group", "stge"])
    assert refused.value.fix.endswith("did you mean 'stage'?")
    dictionary("columns = '*'").expect_names("[job]", ["anything"])


def test_where_two_differ_is_said_by_the_name_of_a_column():
    other = dictionary(TEXT.replace('"years"', '"months"'))
    assert dictionary().difference(other) == "unit of the column 'age'"
    less = dictionary(TEXT.replace('[columns.patient]\nrole = "id"\n', ""))
    assert dictionary().difference(less) == "the column 'patient' is in one of them alone"
    assert dictionary().difference(dictionary('tables = ["sex"]' + TEXT)) == "tables"


def test_tables_bind_where_they_are_said_and_are_part_of_the_digest():
    said, none = (dictionary(f"tables = {listed}" + TEXT) for listed in ('["sex", "age_group"]', "[]"))
    assert len({each.digest for each in (said, none, dictionary())}) == 3
    assert dictionary_of(tomllib.loads(spelt_dictionary(none))).tables == ()
    for found in said, none, dictionary():
        found.expect_groups_of(None)
    said.expect_groups_of("age_group")
    dictionary().expect_groups_of("stage")
    with pytest.raises(ConfigError, match="groups are made by 'stage', which is not among the tables") as refused:
        said.expect_groups_of("stage")
    assert refused.value.fix.startswith("name one of 'sex', 'age_group'")
    with pytest.raises(ConfigError) as refused:
        none.expect_groups_of("sex")
    assert refused.value.fix.startswith("leave groups out")


NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@st.composite
def records(draw):
    columns = {}
    for name in draw(st.lists(NAMES.filter(lambda name: name != "*"), min_size=1, max_size=5, unique=True)):
        if draw(st.booleans()):
            columns[name] = {"levels": draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))}
        else:
            low, high = sorted(draw(st.lists(NUMBERS, min_size=2, max_size=2, unique=True)))
            columns[name] = {"range": [low, high], "decimals": draw(st.integers(0, 17)), "unit": draw(NAMES)}
    view = draw(st.lists(st.sampled_from(sorted(columns)), min_size=1, unique=True))
    return {"name": draw(NAMES), "columns": columns, "views": {draw(NAMES): view}}


@settings(max_examples=60, deadline=None)
@given(records())
def test_what_is_written_is_read_again_as_itself(record):
    found = dictionary_of(record)
    again = dictionary_of(tomllib.loads(spelt_dictionary(found)))
    assert again == found
    assert again.digest == found.digest
    assert dictionary_of(found.record()) == found


def test_a_damaged_file_is_read_or_refused_by_an_error_of_ours(tmp_path):
    draw, path, read, refused = random.Random("dictionary"), tmp_path / "dictionary.toml", 0, []
    for _ in range(300):
        text = damaged(TEXT.encode(), draw)
        if draw.random() < 0.5:  # a value in the place of another
            lines = TEXT.encode().split(b"\n")
            at = draw.randrange(len(lines))
            word = draw.choice((b"true", b"-1", b"1e999", b"[]", b"{}", b"nan", b'""', b"[[1]]", b'"*"', b"9" * 30))
            lines[at] = lines[at].partition(b"=")[0] + b"= " + word
            text = b"\n".join(lines)
        path.write_bytes(text)
        try:
            read_dictionary(path)
            read += 1
        except FedSVDError as error:
            refused.append(error)
    assert read > 0
    assert refused
    assert all(error.code != "FSVD-000" and error.fault for error in refused)
