"""What a job file says of preparing and matching is said by the same words in Python and on the command line."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from tests.tolerances import RESULT_BAR, assert_close

import fedsvd as package
from fedsvd import FederatedLinearRegression, Policy, Simulation
from fedsvd.cli.option_table import match_options, parameters, prepare_options
from fedsvd.cli.tasks import add_files, prepare_section
from fedsvd.errors import ConfigError
from fedsvd.estimators.matched import words_of
from fedsvd.protocol.tasks import Task
from fedsvd.studies.match_section import MatchSection
from fedsvd.studies.prepare_section import CategorySection, PrepareSection

PREPARE, MATCH = parameters(*prepare_options()), parameters(*match_options(Task.SVD))
OF_CATEGORIES = {"drop_first": "drop_first", "reference": "reference", "missing": "missing_level", "order": "ordinal"}


def test_every_key_of_prepare_is_a_parameter_of_prepared_with_the_same_default():
    taken = inspect.signature(package.prepared).parameters
    keys = set(PrepareSection.model_fields) - {"view"}  # of a dictionary, which a job names
    assert keys <= set(taken)
    given = {name: taken[name].default for name in keys}
    given |= {name: {} for name in ("rename", "ordinal")}
    assert PrepareSection.model_validate(given).asks_nothing


def test_every_key_of_prepare_is_an_option():
    assert set(PrepareSection.model_fields) <= set(PREPARE)
    assert set(CategorySection.model_fields) - {"levels"} == set(OF_CATEGORIES)  # a list to each column: files alone
    assert set(OF_CATEGORIES.values()) <= set(PREPARE)


def test_every_key_of_match_is_an_option_and_a_word_of_align():
    assert set(MatchSection.model_fields) == {key.removeprefix("id_") for key in MATCH} - {"linkage"}
    words = {"align": "ecdh", "case": "exact", "spaces": "remove", "dates": ["born"], "month_first": True}
    assert words_of({**words, "least_overlap": 7}) == MatchSection.model_validate({**words, "least_overlap": 7})


def test_categories_on_the_command_line_are_those_of_the_job_file():
    said = prepare_section(
        {
            "categories": ["ward, stage"],
            "reference": ["stage=I", "sex=f"],
            "drop_first": ["ward,unit"],
            "missing_level": ["sex=unknown"],
            "missing": "low-rank",
            "penalty": 0.1,
            "rounds": 40,
            "most_levels": 64,
        }
    )
    assert PrepareSection.model_validate(said) == PrepareSection.model_validate(
        {
            "categories": {
                "ward": {"drop_first": True},
                "stage": {"reference": "I"},
                "sex": {"reference": "f", "missing": "unknown"},
                "unit": {"drop_first": True},
            },
            "missing": "low-rank",
            "penalty": 0.1,
            "rounds": 40,
            "most_levels": 64,
        }
    )
    with pytest.raises(ConfigError, match="names column 'sex' twice"):
        prepare_section({"reference": ["sex=f", "sex=m"]})
    with pytest.raises(ConfigError, match="--missing-level 'sex' is not COLUMN=LEVEL"):
        prepare_section({"missing_level": ["sex"]})


def test_a_linkage_map_belongs_to_a_party():
    parties = [{"name": "a", "data": "a.csv"}, {"name": "b", "data": "b.csv"}]
    add_files(parties, "linkage", "link", ["b=map.csv"])
    assert parties == [{"name": "a", "data": "a.csv"}, {"name": "b", "data": "b.csv", "link": "map.csv"}]
    with pytest.raises(ConfigError, match="party 'c', and there is none"):
        add_files(parties, "linkage", "link", ["c=map.csv"])


def test_a_reference_level_and_a_level_for_gaps_by_one_command(fedsvd, tmp_path, monkeypatch):
    """The coefficients of scikit-learn on the joint table with the indicators of pandas."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"x": rng.normal(size=90), "ward": rng.choice(["a", "b", "other"], 90)})
    table["y"] = table["x"] + (table["ward"] == "b") + rng.normal(size=90)
    table.loc[rng.random(90) < 0.2, "ward"] = None
    table[:40].to_csv("a.csv", index=False)
    table[40:].to_csv("b.csv", index=False)
    options = ("--reference", "ward=other", "--missing-level", "ward=not known", "--label", "y", "--quiet")
    said = fedsvd("lr", "--party", "a.csv", "--party", "b.csv", *options)
    assert said.code == 0, said.out + said.err
    levels = pd.get_dummies(table["ward"].fillna("not known"), dtype=float)[["a", "b", "not known"]]
    expected = LinearRegression().fit(np.column_stack([table["x"], levels]), table["y"])
    assert_close(np.load("results/lr/coefficients.npy")[0], expected.coef_, RESULT_BAR)


def test_words_of_match_in_python_are_those_of_the_job_file():
    rng = np.random.default_rng(3)
    born = pd.date_range("1950-01-01", periods=60, freq="33D")
    one = pd.DataFrame({"born": born.strftime("%Y-%m-%d"), "x": rng.normal(size=60), "z": rng.normal(size=60)})
    two = pd.DataFrame({"born": born.strftime("%d.%m.%Y"), "w": rng.normal(size=60)}).sample(frac=1, random_state=1)
    y = rng.normal(size=60)
    words = {"align": "ecdh", "dates": ["born"], "least_overlap": 50}
    model = FederatedLinearRegression(
        split="vertical", label_party=0, id="born", align=words, federation=Simulation(policy=Policy.permissive())
    )
    model.fit([one, two[5:]], y)
    assert len(model.row_ids_) == 55
    joint = one.assign(w=two["w"].reindex(range(60)), y=y).drop(index=two.index[:5])
    expected = LinearRegression().fit(joint[["x", "z", "w"]], joint["y"])
    assert_close(model.coef_, expected.coef_, RESULT_BAR)
    assert model.plan_.least_overlap == 50
    with pytest.raises(ConfigError, match="does not say how records are matched"):
        words_of({"dates": ["born"]})
    with pytest.raises(ConfigError, match=r"align\['case'\] is not usable"):
        words_of({"align": "ecdh", "case": "upper"})
