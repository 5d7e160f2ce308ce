"""Table 1 of several parties against SciPy and pandas on the joint table, R's recorded values, and ``tableone``'s rows.

``tests/vectors/describe.R`` made the values of R 4.2.2; those of ``tableone`` 0.9.6 are what its ``TableOne`` printed.
"""

import json
import math
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.kit import kit
from tests.tolerances import DESCRIBED_BAR, STATISTIC_BAR, assert_close

from fedsvd import FederatedTable, Local, Policy, Simulation
from fedsvd.errors import ConfigError, DataError
from fedsvd.results.drawings.described import histograms
from fedsvd.statistics.describe import description_of, quantile, type_7

ANY = Simulation(policy=Policy.permissive())
"""Small tables: what an owner would be told of them is tested elsewhere."""

VECTORS = Path(__file__).parents[2] / "vectors"


def made_up(seed: int = 3, sizes: tuple[int, ...] = (230, 160, 90)) -> list[pd.DataFrame]:
    """Three sites: a number with gaps, one with decimals, a category with a gap, and three arms."""
    rng = np.random.default_rng(seed)
    found = []
    for n in sizes:
        frame = pd.DataFrame(
            {
                "arm": rng.choice(["drug", "placebo", "none"], n),
                "age": rng.integers(30, 90, n).astype(float),
                "bili": rng.lognormal(1.0, 0.7, n),
                "stage": rng.choice(["I", "II", "III"], n, p=[0.5, 0.3, 0.2]),
            }
        )
        frame.loc[rng.choice(n, 9, replace=False), "age"] = np.nan
        frame.loc[rng.choice(n, 7, replace=False), "stage"] = None
        found.append(frame)
    return found


def p_of(table: FederatedTable, variable: str, test: str) -> float:
    found = table.tests_
    return float(found[(found.variable == variable) & (found.test == test)].p.iloc[0])


@pytest.fixture(scope="module")
def three():
    frames = made_up()
    return frames, FederatedTable("arm", nonnormal=["bili"], correlations=True, federation=ANY).fit(frames)


def test_what_is_joined_has_a_name_that_no_level_has():
    rng = np.random.default_rng(5)
    common = ["other", "other (pooled)", "z"]
    frames = [pd.DataFrame({"kind": [*rng.choice(common, 80), *few]}) for few in (["a", "a"], [], ["a"])]
    found = FederatedTable(federation=ANY).fit(frames).description_.of("kind")
    assert found.pooled == ("a", "z")
    assert found.levels == ("other", "other (pooled)", "other (pooled, 2)")


def test_summary_and_tidy_are_the_names_that_models_have_for_both_tables(three):
    _, table = three
    assert str(table.summary()) == str(table.as_table())
    assert table.tidy().equals(table.numbers_)


def test_counts_means_and_gaps_are_those_of_the_joint_table(three):
    frames, table = three
    joint = pd.concat(frames)
    found = table.description_
    assert found.columns == ("drug", "none", "placebo", "Overall")
    assert found.sizes.tolist() == [*joint.groupby("arm").size().tolist(), len(joint)]
    age = found.of("age")
    assert age.missing.tolist() == [*joint.age.isna().groupby(joint.arm).sum().tolist(), joint.age.isna().sum()]
    assert_close(age.mean, [*joint.groupby("arm").age.mean(), joint.age.mean()], DESCRIBED_BAR)
    assert_close(age.sd, [*joint.groupby("arm").age.std(), joint.age.std()], DESCRIBED_BAR)
    stage = found.of("stage")
    expected = pd.crosstab(joint.stage, joint.arm)
    np.testing.assert_array_equal(stage.counts[:, :-1], expected.to_numpy())
    assert stage.missing[-1] == joint.stage.isna().sum()


def test_tests_between_groups_are_scipys(three):
    frames, table = three
    joint = pd.concat(frames)
    parts = [own.dropna().to_numpy() for _, own in joint.groupby("arm").age]
    assert math.isclose(p_of(table, "age", "One-way ANOVA"), stats.f_oneway(*parts).pvalue, rel_tol=DESCRIBED_BAR)
    counts = pd.crosstab(joint.stage, joint.arm).to_numpy()
    expected = stats.chi2_contingency(counts, correction=False).pvalue
    assert math.isclose(p_of(table, "stage", "Chi-squared"), expected, rel_tol=STATISTIC_BAR)


def test_ranks_of_one_site_are_the_test_of_kruskal_and_wallis():
    """A second site whose groups are all tied adds neither ranks nor variance."""
    one, _, _ = made_up()
    tied = pd.DataFrame({"arm": ["drug", "placebo", "none"] * 20, "age": 50.0, "bili": 1.0, "stage": "I"})
    table = FederatedTable("arm", federation=ANY).fit([one, tied])
    parts = [own.dropna().to_numpy() for _, own in one.groupby("arm").age]
    found = p_of(table, "age", "Kruskal-Wallis within sites")
    assert math.isclose(found, stats.kruskal(*parts).pvalue, rel_tol=DESCRIBED_BAR)


def test_correlations_have_fishers_intervals(three):
    frames, table = three
    joint = pd.concat(frames).dropna(subset=["age", "bili"])
    expected = stats.pearsonr(joint.age, joint.bili)
    row = table.correlations_.iloc[0]
    interval = expected.confidence_interval()
    assert_close(row[["r", "low", "high"]].to_numpy(float), [expected.statistic, *interval], DESCRIBED_BAR)


def test_quantiles_in_fives_are_within_the_printed_bound(three):
    frames, table = three
    joint = pd.concat(frames).age.dropna().sort_values().to_numpy()
    found = table.description_
    assert found.off == 2 * len(frames)
    for share, value in zip((0.25, 0.5, 0.75), found.of("age").quantiles[1:4, -1], strict=True):
        below, upto = (joint < value).sum(), (joint <= value).sum()
        assert below - found.off <= share * len(joint) <= upto + found.off


def test_exact_counts_on_every_value_give_the_quantiles_of_numpy():
    frames = made_up()
    table = FederatedTable("arm", nonnormal=["age"], counts="exact", columns=["age"], federation=ANY).fit(frames)
    joint = pd.concat(frames).age.dropna()
    assert_close(table.description_.of("age").quantiles[1:4, -1], np.percentile(joint, [25, 50, 75]), STATISTIC_BAR)
    assert table.description_.off == 0.0


BINS = """tables = ["arm"]
[columns.arm]
levels = ["drug", "none", "placebo"]
[columns.age]
range = [18, 110]
decimals = 0
bins = [40, 50, 55, 60, 80]
[columns.stage]
levels = ["I", "II", "III"]
"""


def test_numbers_are_counted_in_the_bins_of_the_dictionary(tmp_path):
    """Of uneven bins, whose counts are those of the joint table; quantiles are on a straight line inside of one."""
    (tmp_path / "dictionary.toml").write_text(BINS, encoding="utf-8")
    frames, words = made_up(), {"dictionary": str(tmp_path / "dictionary.toml"), "federation": ANY, "counts": "exact"}
    words["columns"] = ["age", "stage"]
    found = FederatedTable("arm", **words).fit(frames)
    age = pd.concat(frames)["age"].dropna().to_numpy()
    inside = np.histogram(age, [18, 40.5, 50.5, 55.5, 60.5, 80.5, 111])[0]
    told = found.histogram_
    told = told[(told.variable == "age") & (told.column == "Overall")]
    assert told.edge.tolist() == [40, 50, 55, 60, 80, 110]
    assert told["count"].tolist() == inside.tolist()
    ends, below = np.array([18, 40, 50, 55, 60, 80, 110]), np.append(0, np.cumsum(inside))
    for share in (0.05, 0.25, 0.5, 0.95):
        assert_close(found.quantile("age", share), np.interp(share * len(age), below, ends), STATISTIC_BAR)
    axes = found.plot.histogram("age")
    drawn = np.concatenate([line.get_xdata() for line in axes.get_lines()])
    assert sorted(set(drawn.tolist())) == ends.tolist()
    for line, arm in zip(axes.get_lines(), sorted(pd.concat(frames)["arm"].dropna().unique()), strict=True):
        own = pd.concat(frames).loc[lambda rows, arm=arm: rows["arm"] == arm, "age"].dropna()
        shares = np.histogram(own, [18, 40.5, 50.5, 55.5, 60.5, 80.5, 111])[0] / len(own)
        assert_close(line.get_ydata()[1:-1:2], shares, STATISTIC_BAR)
    captions = [each.caption for each in histograms(found.plot.result)]
    assert [caption.count("Bins differ in width.") for caption in captions] == [1]
    assert captions[0].startswith("Histogram of age: the share of records in each bin.")
    with pytest.raises(ConfigError, match="not among the tables"):
        FederatedTable("stage", **words).fit(frames)


@pytest.mark.parametrize(("by", "columns", "name"), [("amr", ["age"], "amr"), ("arm", ["age", "stagee"], "stagee")])
def test_what_a_dictionary_does_not_have_is_named_with_the_nearest_column(tmp_path, by, columns, name):
    path = tmp_path / "dictionary.toml"
    path.write_text(BINS.replace('tables = ["arm"]', ""), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"the study names '{name}', which is not in the dictionary.*did you mean"):
        FederatedTable(by, columns=columns, dictionary=str(path), federation=ANY).fit(made_up())


def test_two_parties_judge_their_own_counts():
    frames = made_up(sizes=(230, 160))
    table = FederatedTable("arm", federation=ANY).fit(frames)
    np.testing.assert_array_equal(
        table.description_.of("stage").counts[:, :-1],
        pd.crosstab(*(pd.concat(frames, ignore_index=True)[name] for name in ("stage", "arm"))).to_numpy(),
    )


@pytest.mark.parametrize("parties", [2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_no_count_that_is_shown_is_of_one_to_four_records_outside_of_a_party(parties, seed):
    """Levels are joined until each cell has, outside of every party, no record or at least five."""
    rng = np.random.default_rng(seed)
    shares = np.array([0.4, 0.3, 0.2, 0.05, 0.03, 0.02])
    frames = [
        pd.DataFrame({"arm": rng.choice(["a", "b"], n), "code": rng.choice(list("uvwxyz"), n, p=shares)})
        for n in rng.integers(40, 90, parties)
    ]
    found = FederatedTable("arm", quantiles=False, federation=ANY).fit(frames).description_
    code = found.of("code")
    joined = dict.fromkeys(code.pooled, code.levels[-1]) if code.pooled else {}
    parts = [
        pd.crosstab(own.code.map(lambda c: joined.get(c, c)), own.arm).reindex(code.levels, fill_value=0)
        for own in frames
    ]
    parts = [each.reindex(columns=["a", "b"], fill_value=0).to_numpy() for each in parts]
    np.testing.assert_array_equal(sum(parts), code.counts[:, :-1])
    for own in parts:
        others = own if parties == 2 else sum(parts) - own
        assert not ((others > 0) & (others < 5)).any()


def test_rare_groups_are_joined_and_a_table_without_two_groups_is_refused():
    rng = np.random.default_rng(1)
    frames = [pd.DataFrame({"arm": ["a"] * 40 + ["b"] * 30 + ["c"], "age": rng.normal(50, 9, 71)}) for _ in range(3)]
    found = FederatedTable("arm", federation=ANY).fit(frames).description_
    assert found.columns == ("a", "other", "Overall")
    assert set(found.pooled) == {"b", "c"}
    frames = [pd.DataFrame({"arm": ["a"] * 60 + ["b"], "age": rng.normal(50, 9, 61)}) for _ in range(3)]
    with pytest.raises(DataError, match="fewer than two levels of 'arm'"):
        FederatedTable("arm", federation=ANY).fit(frames)


def test_groups_of_few_records_have_no_mean_and_no_quartiles():
    rng = np.random.default_rng(5)
    frames = [pd.DataFrame({"arm": ["a"] * 40 + ["b"] * 3, "age": rng.normal(50, 9, 43)}) for _ in range(3)]
    found = FederatedTable("arm", federation=ANY).fit(frames).description_.of("age")
    assert found.present.tolist() == [120.0, 9.0, 129.0]
    assert math.isfinite(found.mean[0])
    assert math.isnan(found.mean[1])
    assert math.isnan(found.mean[2])
    assert np.isnan(found.quantiles[:, 1]).all()
    assert math.isfinite(found.quantiles[2, 0])
    assert np.isnan(found.quantiles[[0, 4], 0]).all()  # of fewer than 200


def test_a_table_is_written_as_html_latex_word_and_csv(three, tmp_path):
    table = three[1]
    shown = table.as_table()
    assert "stage = I (%)" in [row[0] for row in shown.rows]
    assert "Missing" in shown.header
    for suffix in ("html", "tex", "csv", "txt", "docx"):
        table.write(tmp_path / f"t.{suffix}")
    assert "<td>age (mean (SD))</td>" in (tmp_path / "t.html").read_text()
    assert r"age (mean (SD))" in (tmp_path / "t.tex").read_text()
    with zipfile.ZipFile(BytesIO((tmp_path / "t.docx").read_bytes())) as archive:
        assert "bili (median [IQR])" in archive.read("word/document.xml").decode()
    assert list(pd.read_csv(tmp_path / "t.csv").columns)[1:4] == ["Missing", "drug", "none"]
    assert "age, Mean (SD)" in str(table.as_table("gtsummary"))
    notes = " ".join(shown.notes)
    assert "in fives" in notes
    assert "within sites" in notes
    with pytest.raises(ConfigError, match="suffix"):
        table.write(tmp_path / "t.pdf")


def test_a_description_survives_json(three):
    found = three[1].description_
    again = description_of(json.loads(json.dumps(found.record())))
    assert again.record() == found.record()


def test_the_digits_of_a_job_are_few_and_the_table_prints_alike(three):
    frames, _table = three
    few = FederatedTable("arm", nonnormal=["bili"], digits="table", federation=ANY).fit(frames)
    assert few.plan_.table.bits(100) == 16
    assert few.plan_.table.bits(600) == 24
    assert few.plan_.table.bits(30) == 10
    joint, error = pd.concat(frames).age, few.description_.of("age").mean[-1]
    assert abs(error - joint.mean()) < 0.02 * joint.std()


@pytest.mark.slow
def test_processes_give_the_same_counts(three):
    frames, table = three
    found = FederatedTable("arm", federation=Local()).fit(frames).description_
    np.testing.assert_array_equal(found.of("stage").counts, table.description_.of("stage").counts)


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({"by": "age"}, "no column is left|is a number|levels"),
        ({"by": "arm", "nonnormal": ["stage"]}, "which is a category"),
        ({"by": "arm", "columns": ["weight"]}, "no column 'weight'"),
        ({"by": "arm", "counts": "some"}, "one of fives, exact"),
    ],
)
def test_what_cannot_be_described_is_refused_in_words(asked, fault):
    frames = [frame[["arm", "stage"]] if asked["by"] == "age" else frame for frame in made_up()]
    with pytest.raises((ConfigError, DataError), match=fault if asked["by"] != "age" else "no column 'age'"):
        FederatedTable(**asked, federation=ANY).fit(frames)


# --- R and tableone ---------------------------------------------------------------------------------------------------

STUDIES = {
    "birthwt": ("smoke", ["age", "lwt", "bwt"], ["low", "ui"]),
    "lung": ("sex", ["age", "wt.loss"], ["ph.ecog"]),
    "pbc": ("status", ["age", "albumin"], ["edema"]),
    "colon": ("arm", ["age", "nodes"], ["obstruct", "differ"]),
}


def sites_of(name: str) -> list[pd.DataFrame]:
    joint = kit(name).copy()
    if name == "colon":
        joint["arm"] = np.where(joint.lev5 == 1, "Lev+5FU", np.where(joint.lev == 1, "Lev", "Obs"))
    return [own.reset_index(drop=True) for _, own in joint.groupby("site")]


@pytest.fixture(scope="module", params=STUDIES)
def study(request):
    by, numbers, categories = STUDIES[request.param]
    frames = sites_of(request.param)
    options = {"columns": [*numbers, *categories], "categorical": categories, "nonnormal": numbers, "counts": "exact"}
    options["federation"] = ANY
    values = json.loads((VECTORS / "describe-r.json").read_text())
    return request.param, FederatedTable(by, **options).fit(frames), values[request.param]


def test_numbers_are_those_of_r(study):
    name, table, values = study
    for variable in STUDIES[name][1]:
        found, known = table.description_.of(variable), values[variable]
        assert found.present[:-1].tolist() == known["n"]
        assert_close(found.mean[:-1], known["mean"], DESCRIBED_BAR)
        assert_close(found.sd[:-1], known["sd"], DESCRIBED_BAR)
        two = len(known["n"]) == 2
        welch = p_of(table, variable, "Welch's t-test" if two else "Welch's ANOVA")
        equal = p_of(table, variable, "Student's t-test" if two else "One-way ANOVA")
        assert math.isclose(welch, known["welch"], rel_tol=10 * DESCRIBED_BAR)
        assert math.isclose(equal, known["anova"], rel_tol=10 * DESCRIBED_BAR)


def test_quartiles_by_exact_counts_on_every_value_are_those_of_r(study):
    name, table, values = study
    for variable in STUDIES[name][1]:
        described = next(each for each in table.plan_.table.numbers if each.name == variable)
        if not described.every_value:
            continue
        found = table.description_.of(variable)
        assert found.quantiles[1:4, -1].tolist() == values[variable]["type7"]
        first = [quantile(found.grid[-1], found.edges, share) for share in (0.25, 0.5, 0.75)]
        assert first == values[variable]["type1"]
        assert [type_7(found.grid[-1], found.edges, share) for share in (0.25, 0.5, 0.75)] == values[variable]["type7"]


WHOLE = {"lung": "age", "colon": "nodes", "birthwt": "lwt", "veteran": "karno", "quine": "y", "mgus2": "age"}
SHARES = (0.25, 0.5, 0.75)


@pytest.mark.parametrize("name", WHOLE)
def test_quartiles_of_six_public_tables_are_exact_or_within_two_records_a_site(name):
    """Exact counts on the grid of all values against NumPy's two usual quantiles, and fives by their own bound."""
    variable, frames = WHOLE[name], sites_of(name)
    joint = np.sort(pd.concat(frames)[variable].dropna().to_numpy(float))
    exact, fives = (
        FederatedTable(columns=[variable], counts=counts, federation=ANY).fit(frames).description_
        for counts in ("exact", "fives")
    )
    found = exact.of(variable)
    assert found.quantiles[1:4, -1].tolist() == np.quantile(joint, SHARES).tolist()
    first = [quantile(found.grid[-1], found.edges, share) for share in SHARES]
    assert first == np.quantile(joint, SHARES, method="inverted_cdf").tolist()
    assert fives.off == 2 * len(frames)
    for share, value in zip(SHARES, fives.of(variable).quantiles[1:4, -1], strict=True):
        below, upto = (joint < value).sum(), (joint <= value).sum()
        assert below - fives.off <= share * len(joint) <= upto + fives.off


def test_counts_and_their_tests_are_those_of_r(study):
    name, table, values = study
    for variable in STUDIES[name][2]:
        found, known = table.description_.of(variable), values[variable]
        if found.pooled:
            assert name in ("lung", "pbc")  # levels with a handful of records, which R counts
            continue
        np.testing.assert_array_equal(found.counts[:, :-1], known["counts"])
        assert math.isclose(p_of(table, variable, "Chi-squared"), known["plain"], rel_tol=STATISTIC_BAR)
        if known.get("fisher"):
            assert math.isclose(p_of(table, variable, "Fisher's exact"), known["fisher"], rel_tol=STATISTIC_BAR)


@pytest.mark.parametrize(
    ("name", "variable", "key"), [("birthwt", "bwt", "bwt"), ("birthwt", "lwt", "lwt"), ("lung", "age", "age")]
)
def test_ranks_within_sites_are_van_elterens_in_r(name, variable, key):
    by = STUDIES[name][0]
    table = FederatedTable(by, columns=[variable], federation=ANY).fit(sites_of(name))
    known = json.loads((VECTORS / "describe-r.json").read_text())["within"][key]
    assert math.isclose(p_of(table, variable, "Mann-Whitney within sites"), known, rel_tol=DESCRIBED_BAR)


@pytest.mark.parametrize("name", STUDIES)
def test_rows_are_those_that_tableone_prints(name):
    by, numbers, categories = STUDIES[name]
    known = json.loads((VECTORS / "describe-tableone.json").read_text())[name]
    options = {"columns": [*numbers, *categories], "categorical": categories, "federation": ANY}
    table = FederatedTable(by, **options).fit(sites_of(name))
    groups = len(table.description_.groups)
    rows = {(row[0].split(",")[0], row[1]): row for row in known["rows"]}
    printed = {row[0]: row for row in table.as_table().rows}
    for variable in numbers:
        row = rows[variable, ""]
        if "mean" in row[0]:
            assert printed[f"{variable} (mean (SD))"][2 : 2 + groups] == tuple(row[4 : 4 + groups])
            assert printed[f"{variable} (mean (SD))"][2 + groups] == row[3]
    for variable in categories:
        found = table.description_.of(variable)
        for level in () if found.pooled else found.levels:
            row = rows.get((variable, level)) or rows[variable, f"{float(level):.1f}"]
            assert printed[f"{variable} = {level} (%)"][2 : 2 + groups] == tuple(row[4 : 4 + groups])


def test_levels_in_another_spelling_are_refused_and_levels_of_their_own_are_not():
    rng = np.random.default_rng(5)
    tables = [pd.DataFrame({"sex": rng.choice(["f", "m"], 60), "ward": f"W{i}"}) for i in range(3)]
    assert FederatedTable(columns=["sex", "ward"], federation=ANY).fit(tables).description_.of("sex").levels == (
        "f",
        "m",
    )
    tables[2]["sex"] = tables[2]["sex"].map({"f": "Female", "m": "Male"})
    with pytest.raises(DataError, match=r"party 3: 60 of 60 records of column 'sex'.* look like 'f', 'm'"):
        FederatedTable(columns=["sex"], federation=ANY).fit(tables)
    with pytest.raises(DataError, match=r"party 1 has no column 'sexx'.*did you mean 'sex'"):
        FederatedTable(columns=["sexx"], federation=ANY).fit(tables)
