"""A column in another unit at one party is found by its mean and deviation, with the factor that it may be."""

import numpy as np
import pandas as pd
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.data.open import open_source
from fedsvd.prepare.missing import Totals, totals
from fedsvd.prepare.sites import squares
from fedsvd.prepare.unit_factors import FACTORS, likely
from fedsvd.prepare.units import Side, Spread, summed_elsewhere, unit_findings, units_between

# What a laboratory reports, roughly: mean and deviation of the logarithm, or of the number itself.
LABORATORY = {
    "bili": (0.6, 1.0, True),
    "albumin": (3.5, 0.42, False),
    "cholesterol": (370.0, 90.0, False),
    "creatinine": (0.0, 0.3, True),
    "weight": (74.0, 14.0, False),
    "glucose": (4.6, 0.25, True),
}
OTHER = {
    "bili": (17.1, "17.1: mg/dL to umol/L"),
    "albumin": (10.0, "10: g/dL to g/L"),
    "cholesterol": (1 / 38.67, "0.02586: mg/dL to mmol/L"),
    "creatinine": (88.4, "88.4: mg/dL to umol/L"),
    "weight": (2.2046, "2.205: kg to lb"),
    "glucose": (1 / 18.02, "0.05549: mg/dL to mmol/L"),
}


def sites(seed, k=3, n=120):
    rng = np.random.default_rng(seed)
    made = {}
    for name, (mean, deviation, by_logarithm) in LABORATORY.items():
        values = rng.normal(mean, deviation, k * n)
        made[name] = np.exp(values) if by_logarithm else values
    frame = pd.DataFrame(made).assign(smoker=(rng.random(k * n) < 0.2).astype(float), z=rng.normal(size=k * n))
    return [frame[i * n : (i + 1) * n].copy() for i in range(k)]


def between(frames):
    names = list(frames[0].columns)
    return [
        str(f)
        for f in units_between(names, {f"party {i}": Spread.of(open_source(each)) for i, each in enumerate(frames, 1)})
    ]


@pytest.mark.parametrize("seed", range(20))
def test_sites_in_the_same_units_are_not_pointed_out(seed):
    assert between(sites(seed)) == []


@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_column_in_another_unit_is_named_with_its_factor(name, k):
    frames, (factor, hint) = sites(7, k), OTHER[name]
    frames[-1][name] *= factor
    (text,) = between(frames)
    assert f"column {name!r} of party" in text
    if k > 2:  # of two, either may be the one
        assert f"of party {k} is" in text
        assert hint in text
        assert f"multiply it by {1 / factor:.4g}" in text


def test_degrees_and_columns_about_zero():
    frames = sites(3)
    rng = np.random.default_rng(1)
    for i, frame in enumerate(frames):
        frame["temp"] = rng.normal(37, 0.6, len(frame)) * (1.8 if i == 2 else 1.0) + (32 if i == 2 else 0.0)
    frames[1]["z"] *= 5.0
    z, temp = between(frames)
    assert z.startswith("the deviation of column 'z' of party 2 is ")
    assert "degrees Celsius to Fahrenheit" in temp


def test_what_follows_from_sums_is_what_the_others_have():
    """By hand: mean and deviation of the others' rows, from this party's and the joint sums."""
    frames = sites(11)
    tables = [open_source(frame) for frame in frames]
    own = [totals(table) for table in tables]
    joint = Totals.of_vector(np.sum([each.vector() for each in own], axis=0), frames[0].shape[1])
    about = [squares(table, joint.totals / joint.present) for table in tables]
    found = summed_elsewhere(own[0], joint, (about[0], np.sum(about, axis=0)))
    rest = pd.concat(frames[1:])
    assert_close(found.means, rest.mean().to_numpy(), digits_lost(3))
    assert_close(found.deviations, rest.std(ddof=0).to_numpy(), digits_lost(6))
    together = Spread.of(tables[1]).joined(Spread.of(tables[2]))
    assert_close(together.deviations, rest.std(ddof=0).to_numpy(), digits_lost(3))
    assert_close(together.means, rest.mean().to_numpy(), digits_lost(3))


def at_home(frames, place, with_squares):
    """What one site reads, from its own table and the sums of all."""
    tables = [open_source(frame) for frame in frames]
    own = [totals(table) for table in tables]
    joint = Totals.of_vector(np.sum([each.vector() for each in own], axis=0), frames[0].shape[1])
    about = [squares(table, joint.totals / joint.present) for table in tables]
    pair = (about[place], np.sum(about, axis=0)) if with_squares else None
    sizes = [float(len(frame)) for i, frame in enumerate(frames) if i != place]
    return unit_findings(list(frames[0]), Spread.of(tables[place]), summed_elsewhere(own[place], joint, pair), sizes)


@pytest.mark.parametrize("with_squares", [False, True], ids=["means", "deviations too"])
@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("name", [name for name in OTHER if name != "weight"])
def test_the_site_in_another_unit_reads_the_fix_and_the_others_that_they_are_right(name, k, with_squares):
    frames, (factor, hint) = sites(5, k), OTHER[name]
    frames[-1][name] *= factor
    (found,) = at_home(frames, k - 1, with_squares)
    assert found.side is Side.HERE
    assert f"the mean of column {name!r} here is" in found.text
    assert f"likely in another unit here ({hint}?)" in found.text
    assert f"multiply it by {1 / factor:.4g}" in found.text
    for place in range(k - 1):
        for right in at_home(frames, place, with_squares):
            assert right.side is Side.ELSEWHERE
            assert right.text.endswith(
                "This column is likely right: nothing is to be done here but to ask the others for their unit"
            )
            assert "multiply" not in right.text
            assert "factor" not in right.text


def points(seed, k, wide=3.0):
    """Numbers from 1,000 up at k sites; the last wrote them with points between thousands, and decimals were read."""
    rng = np.random.default_rng(seed)
    frames = [pd.DataFrame({"gene": rng.integers(1000, round(1000 * wide), 90).astype(float)}) for _ in range(k)]
    frames[-1] /= 1000.0
    return frames


@pytest.mark.parametrize("with_squares", [False, True], ids=["means", "deviations too"])
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("wide", [3.0, 40.0])
def test_points_between_thousands_are_named_where_every_number_has_one(wide, k, with_squares):
    frames = points(11, k, wide)
    (found,) = at_home(frames, k - 1, with_squares)
    assert "gene = { factor = 1000.0 } in the map of the table; each entry has three decimals: was 1564" in found.text
    for place in range(k - 1):
        for other in at_home(frames, place, with_squares):
            assert "decimals" not in other.text
    (said,) = between(frames)
    assert "gene = { factor = 1000.0 } in the map of the table; each entry has three decimals: was 1564" in said


def test_a_thousandfold_unit_with_other_decimals_is_not_called_thousands():
    rng = np.random.default_rng(4)
    frames = [pd.DataFrame({"gene": rng.normal(2000.0, 300.0, 90)}) for _ in range(3)]
    frames[-1] /= 1000.0
    (found,) = at_home(frames, 2, True)
    assert "0.001: a thousandfold unit" in found.text
    assert "decimals" not in found.text


@pytest.mark.parametrize("with_squares", [False, True], ids=["means", "deviations too"])
def test_of_two_sites_either_may_be_the_one(with_squares):
    frames = sites(5, 2)
    frames[1]["bili"] *= 17.1
    for place in range(2):
        (found,) = at_home(frames, place, with_squares)
        assert found.side is Side.EITHER
        assert "another unit, here or at one of them?" in found.text
        assert found.text.endswith("where it is that one, nothing is to be done")


@pytest.mark.parametrize("seed", range(12))
def test_no_site_that_is_right_is_asked_to_change_its_column_whatever_the_sizes(seed):
    """Unequal sites whose patients differ a little, one of them in another unit."""
    rng = np.random.default_rng(seed)
    for name, (factor, _) in OTHER.items():
        frames = [each[: int(rng.integers(40, 120))].copy() for each in sites(seed, 4)]
        for frame in frames:
            frame[name] *= np.exp(rng.normal(0, 0.05))
        frames[1][name] *= factor
        for place in (0, 2, 3):
            for found in at_home(frames, place, bool(seed % 2)):
                assert found.side is not Side.HERE, (name, found)


def test_degrees_say_factor_and_offset_and_who():
    rng = np.random.default_rng(1)
    frames = [pd.DataFrame({"temp": rng.normal(37, 0.6, 90), "z": rng.normal(size=90)}) for _ in range(3)]
    frames[2]["temp"] = frames[2]["temp"] * 1.8 + 32.0
    for with_squares in (False, True):
        (found,) = at_home(frames, 2, with_squares)
        assert found.side is Side.HERE
        line = "temp = { factor = 0.555555555556, offset = -17.7777777778 } in the map of the table"
        assert f"take 32 off and divide it by 1.8 ({line})" in found.text
    (right,) = at_home(frames, 0, True)
    assert right.side is Side.ELSEWHERE
    assert "(degrees Celsius to Fahrenheit?)" in right.text


def test_many_columns_are_counted_and_no_entry_is_shown():
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame(rng.normal(40, 3, (50, 30)), columns=[f"c{j}" for j in range(30)]) for _ in range(3)]
    frames[0] *= 1000
    found = between(frames)
    assert len(found) == 11
    assert found[-1] == "so may be 20 more columns: 'c10', 'c11', 'c12' and 17 more"


def test_a_factor_of_the_name_is_taken_before_one_of_time():
    assert likely("Chol (mmol/l)", 36.0)[0][1] == "mmol/L to mg/dL"
    assert likely("follow-up", 360.0) == [(365.25, "years to days")]
    assert likely("follow-up", 3.3) == []
    assert likely("x", float("nan")) == []
    assert len({(each.of, each.by) for each in FACTORS}) == len(FACTORS)


@pytest.mark.parametrize("function", ["log", "log2", "log10", "sqrt"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_function_of_a_column_in_another_unit_is_named_by_its_column(function, k):
    frames, called = sites(11, k), f"{function}(bili)"
    frames[-1]["bili"] *= 17.1
    moved = [each.assign(**{called: getattr(np, function)(each["bili"])})[["albumin", called]] for each in frames]
    (said,) = between(moved)
    assert "column 'bili'" in said
    assert "17.1: mg/dL to umol/L" in said
    assert "bili = { factor = 0.0584795321637 } in the map of the table" in said
    right = [each.assign(**{called: getattr(np, function)(each["bili"])})[[called]] for each in sites(11, k)]
    assert between(right) == []


@pytest.mark.parametrize("seed", range(20))
def test_logarithms_in_the_same_units_are_not_pointed_out(seed):
    assert (
        between(
            [np.log(each[["bili", "creatinine", "glucose"]]).add_prefix("log(").add_suffix(")") for each in sites(seed)]
        )
        == []
    )


def test_a_product_is_not_pointed_out_beside_its_column():
    frames = sites(7)
    frames[-1]["bili"] *= 17.1
    said = between([each.assign(**{"bili:weight": each["bili"] * each["weight"]}) for each in frames])
    assert len(said) == 1
    assert "column 'bili' of" in said[0]


@pytest.mark.parametrize("forth", [True, False])
def test_glycated_haemoglobin_is_said_with_its_zero(forth):
    rng = np.random.default_rng(4)
    per_cent = [rng.normal(6.0, 0.9, 120) for _ in range(3)]
    mmol = [(each - 2.15) * 10.929 for each in per_cent]
    frames = [pd.DataFrame({"HbA1c": each}) for each in (per_cent[:2] + mmol[2:] if forth else mmol[:2] + per_cent[2:])]
    (said,) = between(frames)
    if forth:
        assert "(per cent to mmol/mol?) If so, add 23.5 and divide it by 10.93 (HbA1c = { factor = 0.09149" in said
    else:
        assert "(mmol/mol to per cent?) If so, multiply it by 10.93 and take 23.5 off (HbA1c = { factor = 10.93" in said


def test_of_two_sites_either_may_have_the_other_unit():
    frames = sites(7, 2)
    frames[1]["weight"] *= 2.2046
    (said,) = between(frames)
    assert "another unit at one of them?" in said
    assert "inches" not in said
    for line in ("factor = 2.2046 }", "factor = 0.453597024404 }"):
        assert said.count(line) == 1
