"""Table 1 of public tables with their gaps, over uneven sites of which one has eight records, against R's values.

``tests/vectors/described.R`` made them. Levels may be joined, which R does not do: its counts are then added up, and
SciPy tests them.
"""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.described_data import BY, CATEGORIES, NUMBERS, sites, table
from tests.tolerances import DESCRIBED_BAR, STATISTIC_BAR, assert_close

from fedsvd import FederatedTable, Policy, Simulation
from fedsvd.errors import DataWarning
from fedsvd.statistics.group_tests import rank_test

ANY = Simulation(policy=Policy.permissive())
RECORDED = json.loads((Path(__file__).parents[2] / "vectors" / "described-r.json").read_text())


def made(name: str, **more: object) -> FederatedTable:
    options = {"columns": [*NUMBERS[name], *CATEGORIES[name]], "categorical": list(CATEGORIES[name])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # 23 visits of epil have half of the others' seizures
        return FederatedTable(BY[name], **options, **more, federation=ANY).fit(sites(name))


@pytest.fixture(scope="module", params=BY)
def study(request):
    return request.param, made(request.param, counts="exact", correlations=True), RECORDED[request.param]


def row_of(found: FederatedTable, variable: str, test: str) -> tuple[list[float], float, float]:
    """Degrees of freedom, statistic, p-value as the user reads them."""
    rows = found.tests_
    row = rows[(rows.variable == variable) & (rows.test == test)].iloc[0]
    return [each for each in (row.df, row.df2) if math.isfinite(each)], row.statistic, row.p


def same(found: object, known: list, bar: float) -> None:
    """Equal, and missing in the same places."""
    values, expected = np.array(found, float), np.array(known, float)
    np.testing.assert_array_equal(np.isnan(values), np.isnan(expected))
    assert_close(values[np.isfinite(values)], expected[np.isfinite(expected)], bar)


def same_test(found: FederatedTable, variable: str, test: str, known: dict) -> None:
    df, statistic, p = row_of(found, variable, test)
    # A denominator's degrees of freedom are a ratio of variances, p-values far out change faster than they do.
    assert_close(df, np.atleast_1d(known["df"]).astype(float), 10 * DESCRIBED_BAR)
    assert math.isclose(statistic, known["statistic"], rel_tol=10 * DESCRIBED_BAR)
    assert math.isclose(p, known["p"], rel_tol=100 * DESCRIBED_BAR)


def test_numbers_with_gaps_are_those_of_r_by_group_and_over_all(study):
    name, found, known = study
    assert found.description_.sizes[:-1].tolist() == known["sizes"]
    for variable in NUMBERS[name]:
        mine, theirs = found.description_.of(variable), known["numbers"][variable]
        assert mine.present[:-1].tolist() == theirs["n"]
        assert mine.missing.tolist() == [*theirs["missing"], sum(theirs["missing"])]
        same(mine.mean, theirs["mean"], DESCRIBED_BAR)
        same(mine.sd, theirs["sd"], DESCRIBED_BAR)
        same(list(mine.smd.values()), theirs["smd"], 100 * DESCRIBED_BAR)


def test_tests_of_numbers_with_gaps_are_those_of_r(study):
    """Of cholesterol one of three groups has no value: R compares the others, with fewer degrees of freedom."""
    name, found, known = study
    two = len(known["sizes"]) == 2
    for variable in NUMBERS[name]:
        theirs = known["numbers"][variable]
        same_test(found, variable, "Student's t-test" if two else "One-way ANOVA", theirs["t" if two else "equal"])
        same_test(found, variable, "Welch's t-test" if two else "Welch's ANOVA", theirs["welch.t" if two else "welch"])
        ranked = "Mann-Whitney within sites" if two else "Kruskal-Wallis within sites"
        same_test(found, variable, ranked, theirs["within"])


def test_quartiles_of_every_group_are_those_of_r(study):
    """To the digit where the grid has every value and a group is large enough."""
    name, found, known = study
    compared = 0
    for variable in NUMBERS[name]:
        plan = next(each for each in found.plan_.table.numbers if each.name == variable)
        mine, theirs = found.description_.of(variable), np.array(known["numbers"][variable]["quartiles"], float)
        shown = mine.present >= 40
        assert np.isnan(mine.quantiles[1:4, ~shown]).all()
        if plan.every_value:
            assert_close(mine.quantiles[1:4].T[shown], theirs[shown], STATISTIC_BAR)
            compared += 1
    assert compared or name == "pbc"


def test_quartiles_in_fives_are_within_two_records_a_site(study):
    name = study[0]
    found = made(name).description_
    joint = table(name)
    assert found.off == 2 * joint["site"].nunique()
    groups = [joint[joint[BY[name]].astype(str) == each] for each in found.groups]
    for variable in NUMBERS[name]:
        mine = found.of(variable)
        for place, own in enumerate([*groups, joint]):
            values, width = own[variable].dropna().to_numpy(float), 0.0
            if len(values) < 40:
                continue
            if mine.low is not None:  # a quantile lies somewhere in a bin of the grid
                width = float(np.diff(mine.edges, prepend=mine.low).max())
            for share, value in zip((0.25, 0.5, 0.75), mine.quantiles[1:4, place], strict=True):
                below, upto = (values < value - width).sum(), (values <= value + width).sum()
                # The total is in fives as well, so a share of it is off by that share of the bound.
                assert below - found.off * (1 + share) <= share * len(values) <= upto + found.off * (1 + share)


def test_counts_with_gaps_are_those_of_r(study):
    name, found, known = study
    alone = 0
    for variable in CATEGORIES[name]:
        mine, theirs = found.description_.of(variable), known["categories"][variable]
        counts = pd.DataFrame(theirs["counts"], index=theirs["levels"])
        counts = counts.groupby(lambda level, mine=mine: mine.levels[-1] if level in mine.pooled else level).sum()
        counts = counts.reindex(mine.levels).to_numpy(float)
        np.testing.assert_array_equal(mine.counts[:, :-1], counts)
        np.testing.assert_array_equal(mine.missing, [*theirs["missing"], sum(theirs["missing"])])
        if len(mine.levels) < 2:
            continue
        some = counts[:, counts.sum(axis=0) > 0]
        plain = stats.chi2_contingency(some, correction=False)
        df, statistic, p = row_of(found, variable, "Chi-squared")
        assert df == [plain.dof]
        assert_close([statistic, p], [plain.statistic, plain.pvalue], STATISTIC_BAR)
        if not mine.pooled:
            alone += 1
            assert_close([statistic, p], [theirs["plain"]["statistic"], theirs["plain"]["p"]], STATISTIC_BAR)
            same(list(mine.smd.values()), theirs["smd"], STATISTIC_BAR)
            corrected = row_of(found, variable, "Chi-squared (continuity correction)")
            assert_close(corrected[1:], [theirs["corrected"]["statistic"], theirs["corrected"]["p"]], STATISTIC_BAR)
            assert_close(row_of(found, variable, "Fisher's exact")[2], theirs["fisher"], STATISTIC_BAR)
    assert alone


def test_table_1_prints_the_difference_of_two_groups_and_of_more_the_mean_of_all_pairs(study):
    """As R's ``tableone`` averages them: each pair without its sign; a dash where a group has no value."""
    name, found, known = study
    several = len(known["sizes"]) > 2
    shown = found.as_table()
    assert any("mean of the standardised differences" in note for note in shown.notes) == several
    printed = {row[0]: row[shown.header.index("SMD")] for row in shown.rows}
    compared = 0
    for variable in (*NUMBERS[name], *CATEGORIES[name]):
        mine = found.description_.of(variable)
        if variable in CATEGORIES[name] and mine.pooled:
            continue  # R joins no levels
        kind = "numbers" if variable in NUMBERS[name] else "categories"
        theirs = np.atleast_1d(np.array(known[kind][variable]["smd"], float))
        (row,) = [each for each in printed if each.startswith((f"{variable} (", f"{variable} = {_first(mine)} "))]
        if np.isnan(theirs).any():
            assert printed[row] == "-"
            continue
        compared += 1
        wanted = np.abs(theirs).mean() if several else theirs[0]
        assert printed[row] == f"{wanted:.3f}"
    assert compared > 1


def _first(variable: object) -> str:
    return variable.levels[0] if hasattr(variable, "levels") else ""


def test_correlations_and_their_intervals_are_cor_tests(study):
    _name, found, known = study
    theirs = pd.DataFrame(known["correlations"]).to_numpy()
    assert_close(found.correlations_[["r", "low", "high"]].to_numpy(float), theirs, 100 * DESCRIBED_BAR)


@pytest.mark.filterwarnings("ignore:random_state makes")
def test_sites_of_one_group_each_compare_no_ranks():
    """What noise leaves of a variance of zero is no variance, whatever its sign."""
    rng = np.random.default_rng(1)
    frames = [pd.DataFrame({"arm": arm, "age": rng.integers(30, 80, 60)}) for arm in "abab"]
    for seed in range(4):
        where = Simulation(policy=Policy.permissive(), random_state=seed)
        found = FederatedTable("arm", federation=where).fit(frames).tests_
        assert "Mann-Whitney within sites" not in found.test.tolist()
    assert rank_test(np.array([2e-9]), np.array([[1e-9]]), 1e-8) is None
    assert rank_test(np.array([2.0]), np.array([[4.0]]), 1e-8).p == pytest.approx(stats.chi2.sf(1.0, 1))


def test_gaps_are_not_taken_for_codes(recwarn):
    rng = np.random.default_rng(1)
    frames = [pd.DataFrame({"arm": rng.choice(["a", "b"], n), "age": rng.normal(50, 9, n).round()}) for n in (60, 80)]
    for frame in frames:
        frame.loc[frame.index[::3], "age"] = np.nan
    FederatedTable("arm", federation=ANY).fit(frames)
    assert not [str(each.message) for each in recwarn if "extreme number" in str(each.message)]
