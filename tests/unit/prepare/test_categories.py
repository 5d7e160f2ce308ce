"""Joint levels from sums of keyed digests, rare ones pooled, and the columns that pandas makes of the joint table."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from tests.unit.prepare.jointly import joint_levels

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError, NotFinite
from fedsvd.prepare import level_sketch
from fedsvd.prepare.categories import (
    JointLevels,
    agree,
    level_codes,
    named,
    ordinal,
    own_levels,
    sketch,
    texts_to_add,
)
from fedsvd.prepare.encoding import Indicators, Ordinal, encoded
from fedsvd.randomness.seed import Seed

KEY = Seed(bytes(range(32)))


@pytest.fixture
def tables():
    rng = np.random.default_rng(2)
    frames = []
    for levels, rows in (("abcd", 40), ("bcae", 30), ("ab", 20)):
        frame = pd.DataFrame(
            {"x": rng.normal(size=rows), "g": rng.choice(list(levels), rows), "z": rng.normal(size=rows)}
        )
        frames.append(frame)
    frames[2].loc[3, "g"] = "f"
    return frames


def agreed(frames, minimum=1, sites=2):
    return joint_levels([own_levels(open_source(frame), "g") for frame in frames], KEY, minimum, sites)


def pooled(frames, minimum=1, sites=2):
    """What pandas makes of the joint table."""
    whole = pd.concat(frames, ignore_index=True)
    count = whole["g"].value_counts()
    held = {level: sum((frame["g"] == level).any() for frame in frames) for level in count.index}
    kept = sorted(level for level in count.index if count[level] >= minimum and held[level] >= sites)
    return whole.assign(g=whole["g"].where(whole["g"].isin(kept), "other")), kept


class TestAgreement:
    @pytest.mark.parametrize("minimum, sites", [(1, 1), (1, 2), (20, 2), (1, 3), (20, 1)])
    def test_levels_are_those_of_the_joint_table_and_the_rest_is_pooled(self, tables, minimum, sites):
        joint = agreed(tables, minimum, sites)
        whole, kept = pooled(tables, minimum, sites)
        assert joint.levels == tuple(kept)
        assert joint.other == bool((whole["g"] == "other").any())

    def test_pooled_levels_that_are_few_take_the_smallest_level_with_them(self):
        frames = [pd.DataFrame({"g": ["a"] * 9 + ["b"] * 5 + ["c"]}), pd.DataFrame({"g": ["a"] * 9 + ["b"] * 4})]
        joint = agreed(frames, minimum=5)
        assert joint == JointLevels("g", ("a",), True)

    def test_digests_say_nothing_without_the_key_and_differ_by_column(self, tables):
        own = own_levels(open_source(tables[0]), "g")
        renamed = own_levels(open_source(tables[0].rename(columns={"g": "h"})), "h")

        def digests(levels, key):
            return {level.digest for level in level_sketch.read(sketch(levels, key), 256)}

        mine = digests(own, KEY)
        assert len(mine) == 4
        assert not mine & digests(own, Seed(bytes(32)))
        assert not mine & digests(renamed, KEY)

    def test_the_sum_counts_levels_and_the_parties_that_have_them(self, tables):
        total = np.sum([sketch(own_levels(open_source(frame), "g"), KEY) for frame in tables], axis=0)
        found = level_sketch.read(total, 256)
        assert sorted(level.count for level in found) == sorted(pd.concat(tables)["g"].value_counts())
        assert sorted(level.holders for level in found) == [1, 1, 1, 2, 3, 3]

    def test_texts_of_rare_levels_are_not_added_up(self, tables):
        own = [own_levels(open_source(frame), "g") for frame in tables]
        agreed_on = agree("g", level_sketch.read(np.sum([sketch(each, KEY) for each in own], axis=0), 256))
        shares = [texts_to_add(each, KEY, agreed_on) for each in own]
        assert [int(share.any(axis=None)) for share in shares] == [1, 1, 1]
        held = [int(share.reshape(256, -1).any(axis=1).sum()) for share in shares]
        assert held == [3, 3, 2]  # a, b, c; a, b, c; a, b
        assert named(agreed_on, KEY, np.sum(shares, axis=0)) == JointLevels("g", ("a", "b", "c"), True)

    def test_texts_that_fit_no_digest_are_refused(self, tables):
        own = [own_levels(open_source(frame), "g") for frame in tables]
        agreed_on = agree("g", level_sketch.read(np.sum([sketch(each, KEY) for each in own], axis=0), 256))
        total = np.sum([texts_to_add(each, KEY, agreed_on) for each in own], axis=0)
        swapped = total.reshape(256, -1).copy()
        swapped[0] = agreed_on.levels[0].holders * np.frombuffer(b"made up".ljust(128, b"\x00"), "<u4").astype(float)
        with pytest.raises(DataError, match="none of the agreed levels"):
            named(agreed_on, KEY, swapped.ravel())
        with pytest.raises(DataError, match="cannot be read"):
            named(agreed_on, KEY, np.where(total, total + 1, 0.0))

    def test_levels_that_no_two_parties_share_are_refused(self):
        frames = [pd.DataFrame({"g": ["a"]}), pd.DataFrame({"g": ["b"]})]
        with pytest.raises(DataError, match="no level of column 'g'"):
            agreed(frames)

    def test_missing_entries_are_refused_or_a_level(self):
        source = open_source(pd.DataFrame({"g": ["a", None, "a"]}))
        with pytest.raises(NotFinite, match="1 of 3 entries of column 'g'"):
            own_levels(source, "g")
        assert own_levels(source, "g", missing="unknown").levels == ("a", "unknown")

    def test_a_level_called_other_keeps_its_name_and_the_pool_has_another(self, tables):
        spelt = [frame.assign(g=frame["g"].replace("a", "other")) for frame in tables]
        joint = agreed(spelt)
        assert joint.all == ("b", "c", "other", "other (pooled)")
        expected = pd.concat(spelt)["g"].map(lambda level: level if level in ("b", "c", "other") else "other (pooled)")
        codes = np.concatenate([level_codes(open_source(frame), joint) for frame in spelt])
        assert [joint.all[code] for code in codes] == expected.tolist()
        assert JointLevels("g", ("other", "other (pooled)"), other=True).pool == "other (pooled, 2)"

    def test_a_rare_level_called_other_is_pooled_with_the_rest(self, tables):
        spelt = [frame.assign(g=frame["g"].replace("f", "other")) for frame in tables]
        assert agreed(spelt).all == agreed(tables).all == ("a", "b", "c", "other")


class TestIndicators:
    @pytest.mark.parametrize("first", [False, True])
    def test_columns_are_those_of_pandas_on_the_joint_table(self, tables, first):
        joint = agreed(tables)
        whole, kept = pooled(tables)
        whole["g"] = pd.Categorical(whole["g"], categories=[*kept, "other"])
        expected = pd.get_dummies(whole, columns=["g"], drop_first=first, dtype=float)
        found = [encoded(open_source(frame), [Indicators(joint, first=first)]) for frame in tables]
        rows = np.vstack([each.rows(0, each.shape[0]) for each in found])
        for each in found:
            assert set(each.names) == set(expected.columns)
        assert_array_equal(rows, expected[list(found[0].names)].to_numpy())
        assert_array_equal(np.hstack([found[0].columns(j, j + 1) for j in range(rows.shape[1])]), rows[:40])

    def test_a_reference_level_is_left_out(self, tables):
        table = encoded(open_source(tables[0]), [Indicators(agreed(tables), reference="b")])
        assert table.names == ("x", "g_a", "g_c", "g_other", "z")
        with pytest.raises(ConfigError, match="no level 'q'"):
            encoded(open_source(tables[0]), [Indicators(agreed(tables), reference="q")])

    def test_an_indicator_that_would_have_the_name_of_a_column_is_refused(self, tables):
        table = open_source(tables[0].rename(columns={"x": "g_other"}))
        with pytest.raises(DataError, match="two columns of the prepared table would be called 'g_other'"):
            encoded(table, [Indicators(agreed(tables))])

    def test_gaps_stay_gaps_until_they_are_filled(self):
        source = open_source(pd.DataFrame({"g": ["a", None], "x": [np.nan, 1.0]}))
        table = encoded(source, [Indicators(JointLevels("g", ("a", "b")))])
        assert_array_equal(table.raw(slice(0, 2), slice(0, 3)), [[1, 0, np.nan], [np.nan, np.nan, 1]])
        level = encoded(source, [Indicators(JointLevels("g", ("a", "none")), missing="none")])
        assert_array_equal(level.raw(slice(0, 2), slice(0, 2)), [[1, 0], [0, 1]])

    def test_a_level_that_the_study_does_not_have_is_refused_unless_some_are_pooled(self):
        source = open_source(pd.DataFrame({"g": ["a", "q", "q"]}))
        with pytest.raises(DataError, match="2 rows of column 'g'"):
            level_codes(source, JointLevels("g", ("a", "b")))
        assert level_codes(source, JointLevels("g", ("a", "b"), other=True)).tolist() == [0, 2, 2]

    def test_other_text_columns_stay_text(self, tables):
        frame = tables[0].assign(note="free text")
        table = encoded(open_source(frame), [Indicators(agreed(tables))])
        assert table.text_names == {"note"}
        assert table.without(["note"]).rows(0, 2).shape == (2, 6)
        assert set(table.column("note")) == {"free text"}


class TestOrdinalMaps:
    def test_levels_are_the_numbers_of_their_order(self):
        frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "stage": ["II", "I", "III"]})
        table = encoded(open_source(frame), [Ordinal("stage", tuple(ordinal("stage", ["I", "II", "III"]).items()))])
        expected = frame.assign(stage=frame["stage"].map({"I": 0.0, "II": 1.0, "III": 2.0}))
        assert table.names == ("x", "stage")
        assert_array_equal(table.rows(0, 3), expected.to_numpy(dtype=float))

    def test_a_level_outside_of_the_map_is_refused(self):
        with pytest.raises(DataError, match="column 'stage' has 1 level"):
            encoded(open_source(pd.DataFrame({"stage": ["I", "IV"]})), [Ordinal("stage", (("I", 0.0),))])
        with pytest.raises(ConfigError, match="'I' twice"):
            ordinal("stage", ["I", "II", "I"])
