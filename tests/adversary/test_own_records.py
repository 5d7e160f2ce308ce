"""Studies in which one record stands out, through the real roles: refused, or the owner asked, before any sum.

Each stands beside an honest study of the same kind, which passes without a word. All parties run with ``--yes``, which
answers no ask; Lyon has the usual policy, and the person. A study that is refused at Lyon ends there before its session
begins, and peers read a code.
"""

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import federation_of
from tests.network import GENEROUS, until

from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.service.client import Connection
from fedsvd.service.records import JobState
from fedsvd.service.site import Site

PARTIES = ("bonn", "lyon", "turin")
HONEST, RARE, GAP, CELL, CLUSTER, STEEP, SMALL = "honest", "rare", "gap", "cell", "cluster", "steep", "small"
NESTED = "nested"
USUAL = Policy(records_for_full=40, remember=False, parties_for_clusters=3, consent_to_gram=True)


def table(seed, rows=150):
    """People with two measurements, two codes, a count, and what a rare study would ask of them."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame({"age": rng.normal(55, 12, rows).round(1), "bmi": rng.normal(27, 4, rows).round(1)})
    made["sex"] = rng.choice(["f", "m"], rows)
    made["ward"] = np.where(rng.random(rows) < 0.5, "east", "west")
    made["rare"] = (rng.random(rows) < 0.2).astype(int)
    made["icd"] = rng.integers(0, 2, rows)
    made["shift"] = [f"s{row % 3}" for row in range(rows)]
    made["flat"] = [f"f{row % 12}" for row in range(rows)]
    made["visits"] = rng.poisson(3, rows)
    made["years"] = np.log(rng.uniform(1, 9, rows)).round(3)
    made["cost"] = (20 * made["age"] + 9 * made["bmi"] + rng.normal(0, 30, rows)).round()
    made["lab"] = rng.normal(5, 1, rows).round(2)
    made.loc[::5, "lab"] = np.nan
    noise = pd.DataFrame(rng.normal(size=(rows, 36)).round(3), columns=[f"z{j}" for j in range(36)])
    return pd.concat([made, noise], axis=1)


def in_lyon(kind, own):
    """Lyon's table, with one record, the eighth, that stands out in this way."""
    if kind == RARE:
        own["rare"] = (np.arange(len(own)) == 7).astype(int)
    elif kind == GAP:
        own["lab"] = own["lab"].fillna(5.0)
        own.loc[7, "lab"] = np.nan
    elif kind == CELL:
        own.loc[own["sex"] == "m", "ward"] = "east"
        own.loc[own.index[own["sex"] == "m"][0], "ward"] = "west"
    elif kind == CLUSTER:
        own["flat"] = np.where(np.arange(len(own)) == 7, "one", "rest")
    elif kind == STEEP:
        own.loc[7, "visits"] = 40_000
    elif kind == SMALL:
        own = own.iloc[:40]
    elif kind == NESTED:
        own["icd"] = np.where(np.arange(len(own)) == 7, 1 - own["rare"], own["rare"])
    return own


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A running federation; the name of a job says which of its tables it is about."""
    root = tmp_path_factory.mktemp("federation")
    with federation_of(root, PARTIES, policy=Policy.permissive(), patience=GENEROUS) as federation:
        for seed, name in enumerate(PARTIES):
            lines = ["[data]"]
            for kind in (HONEST, RARE, GAP, CELL, CLUSTER, STEEP, SMALL, NESTED):
                path = root / f"{name}-{kind}.csv"
                own = table(seed)
                (in_lyon(kind, own) if name == "lyon" else own).to_csv(path, index=False)
                lines.append(f'{kind} = "{path}"')
            (federation.kits[f"party/{name}"] / "site.toml").write_text("\n".join([*lines, ""]))
        (federation.kits["party/lyon"] / "policy.toml").write_text(spelt_policy(USUAL))
        with federation.csp_node() as csp, federation.member_nodes(*(f"party/{name}" for name in PARTIES)):
            yield federation, csp


def ended(made, kind, prepare, **job):
    """A job on the tables of this kind, when it has ended."""
    federation, csp = made
    words = {"task": "lr", "inference": True, **job, "name": kind}
    file = {"job": words, "prepare": prepare, "party": [{"name": name} for name in PARTIES]}
    with Connection(federation.kits["researcher/res"], federation.csp) as connection:
        id = connection.submit(file)
    until(lambda: csp.jobs.get(id).state in (JobState.BROKEN, JobState.DONE), kind)
    return csp.jobs.get(id)


@contextmanager
def forgotten(made):
    """Three refusals of a researcher on a table make its jobs wait; tests of this page are of one refusal each."""
    yield
    (made[0].kits["party/lyon"] / "approvals" / "refusals").unlink(missing_ok=True)


def expect_refused(made, kind, prepare, *why, **job):
    """Refused at Lyon, where its owner reads why; no session of it began there, and peers have a code."""
    with forgotten(made):
        record = ended(made, kind, prepare, **job)
        site = Site.at(made[0].kits["party/lyon"])
        assert record.state is JobState.BROKEN
        cause = site.failure(record)
        assert cause is not None
        said = f"{cause.fault}"
        for word in why:
            assert word in said, said
        approval = site.approvals().of(record)
        assert approval is None or not approval.attempts
        (shown,) = [each for each in record.failures if each.code == "FSVD-110"]
        assert not shown.text


def expect_done(made, prepare, **job):
    assert ended(made, HONEST, prepare, **job).state is JobState.DONE


def formula(text):
    return {"formula": text}


def test_a_column_that_one_record_has(made):
    expect_done(made, formula("cost ~ age + bmi + rare"))
    expect_refused(made, RARE, formula("cost ~ age + bmi + rare"), "asks its owner", "leverage", "column 'rare'")


def test_an_indicator_of_the_one_gap(made):
    asked = {"columns": ["age", "lab"], "missing": "constant", "indicators": ["lab"]}
    expect_done(made, asked, label="cost")
    expect_refused(made, GAP, asked, "below your policy: leverage", "lab", label="cost")


def test_a_cell_of_an_interaction_that_one_record_is_in(made):
    expect_done(made, formula("cost ~ age + C(sex) * C(ward)"))
    expect_refused(made, CELL, formula("cost ~ age + C(sex) * C(ward)"), "below your policy: leverage", "C(sex)[T.m]")


def test_a_cell_of_two_products_that_few_records_are_in(made):
    """Each product is of many records; the Gram entry of both counts the combinations of all four columns."""
    expect_done(made, formula("cost ~ age + C(sex):C(ward)"))
    expect_done(made, formula("cost ~ age + rare:C(shift)"))
    crossed = formula("cost ~ age + C(sex):C(ward) + rare:C(shift)")
    expect_refused(made, HONEST, crossed, "asks its owner", "cells: ", "'rare', 'sex', 'shift', 'ward'")


def test_products_of_codes_are_judged_whatever_numbers_stand_next_to_them(made):
    """Dilution: many columns of numbers lower the leverage in all columns together, and no cell."""
    numbers = "+".join(f"z{j}" for j in range(12))
    expect_done(made, formula(f"cost ~ age + C(sex):C(ward) + {numbers}"))
    crossed = formula(f"cost ~ age + C(sex):C(ward) + rare:C(shift) + {numbers}")
    expect_refused(made, HONEST, crossed, "asks its owner", "cells: ", "'rare', 'sex', 'shift', 'ward'")
    one = formula(f"cost ~ age + C(sex) * C(ward) + {numbers}")
    expect_refused(made, CELL, one, "below your policy: leverage", "C(sex)[T.m]")


def test_nested_codes_that_differ_in_one_record(made):
    """Two codes of many records each: their difference is one person, in one study."""
    expect_done(made, formula("cost ~ age + rare + icd"))
    expect_refused(made, NESTED, formula("cost ~ age + rare + icd"), "asks its owner", "leverage")


def test_a_term_that_one_record_has(made):
    """age * age * age * ... is not to be had; a product of numbers with a rare code is."""
    expect_done(made, formula("cost ~ age + rare + age:rare"))
    expect_refused(made, RARE, formula("cost ~ age + age:rare"), "below your policy: leverage", "age:rare")


def test_a_cluster_of_one_person(made):
    expect_done(made, formula("cost ~ age + bmi"), cluster="flat")
    expect_refused(made, CLUSTER, formula("cost ~ age + bmi"), "asks its owner", "own clusters: 2", cluster="flat")


def test_an_offset_in_euros(made):
    model = {"task": "glm", "family": "poisson", "inference": False}
    expect_done(made, formula("visits ~ age + bmi"), offset="years", **model)
    expect_refused(made, HONEST, formula("visits ~ age + bmi"), "below your policy: offset", offset="cost", **model)


def test_a_steep_poisson_model(made):
    model = {"task": "glm", "family": "poisson", "inference": False}
    expect_done(made, formula("visits ~ age"), **model)
    expect_refused(made, STEEP, formula("visits ~ age"), "asks its owner", "leverage", "the outcome", **model)


def test_a_site_of_forty_rows(made):
    few = formula("cost ~ age + bmi + C(sex)")
    expect_refused(made, SMALL, formula("cost ~ " + "+".join(f"z{j}" for j in range(8))), "few: 40 records for 9")
    assert ended(made, SMALL, few).state is JobState.DONE


def test_padding_with_columns(made):
    expect_done(made, formula("cost ~ " + "+".join(f"z{j}" for j in range(20))))
    padded = formula("cost ~ " + "+".join(f"z{j}" for j in range(36)))
    expect_refused(made, HONEST, padded, "asks its owner", "few: 150 records for 37 columns", "185 are asked for")


def test_the_same_table_factorised_is_its_owners_to_share_and_what_a_job_makes_of_it_is_not(made):
    pca = {"task": "pca", "components": 2, "inference": False}
    assert ended(made, RARE, {"columns": ["age", "bmi", "rare"]}, **pca).state is JobState.DONE
    expect_refused(made, RARE, formula("age + age:rare + bmi"), "below your policy: leverage", "age:rare", **pca)
