"""Parties that hold other columns of partly the same records: matched in a session of their own, then a regression.

What is expected is scikit-learn's on the records that pandas finds in all three tables. Ids are spelt differently, and
some sites have records that no other has.
"""

import json
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from tests.e2e.commands import until
from tests.e2e.federations import federation_of
from tests.e2e.outcomes import LONGEST, settled
from tests.tolerances import STATISTIC_BAR, assert_close

from fedsvd.policy.rules import Policy
from fedsvd.results.signed_certificate import verify_certificate

PARTIES = ("bank", "shop", "telco")
ROLES = ["csp/csp", *(f"party/{name}" for name in PARTIES)]


def job(align):
    return {
        "job": {"name": "churn", "task": "lr", "split": "vertical", "id": "customer", "label": "churn"},
        "match": {"align": align},
        "party": [{"name": name} for name in PARTIES],
    }


def tables(rng):
    """Every party's records in an order of its own; all customers, of whom each party has some."""
    count = 300
    joint = pd.DataFrame(rng.normal(size=(count, 6)), columns=[f"x{j}" for j in range(6)])
    joint.insert(0, "customer", [f"Kd {place:04d}" for place in range(count)])
    joint["churn"] = joint[["x0", "x3", "x5"]].sum(axis=1) + rng.normal(size=count)
    columns = (["x0", "x1"], ["x2", "x3"], ["x4", "x5", "churn"])
    found = {}
    for name, held in zip(PARTIES, columns, strict=True):
        found[name] = joint.sample(frac=0.8, random_state=int(rng.integers(1000)))[["customer", *held]]
    found["shop"] = found["shop"].assign(customer=found["shop"]["customer"].str.upper() + " ")
    return found


def common(found):
    """The records that all have, by pandas."""
    cleaned = [table.assign(customer=table["customer"].str.strip().str.lower()) for table in found.values()]
    return cleaned[0].merge(cleaned[1], on="customer").merge(cleaned[2], on="customer")


@contextmanager
def companies(root, **how):
    found = tables(np.random.default_rng(12))
    with federation_of(root, PARTIES, how="threads", **how) as federation:
        for name, table in found.items():
            table.to_csv(root / f"{name}.csv", index=False)
            (federation.kits[f"party/{name}"] / "site.toml").write_text(f'[data]\ndefault = "{root / name}.csv"\n')
        yield federation, common(found)


def expect_coefficients(federation, id, joint):
    features = [f"x{j}" for j in range(6)]
    expected = LinearRegression().fit(joint[features], joint["churn"])
    found = [np.load(federation.folder(name, id) / "coefficients.npy")[0] for name in PARTIES]
    assert_close(np.concatenate(found), expected.coef_, STATISTIC_BAR)
    said = json.loads((federation.folder("shop", id) / "manifest.json").read_text())["facts"]["matching"]
    assert said["matched"] == len(joint)


@pytest.mark.parametrize("align", ["server", pytest.param("ecdh", marks=pytest.mark.slow)])
def test_a_regression_is_that_of_the_records_which_all_parties_have(tmp_path, align):
    remembers = replace(Policy.permissive(), remember=True, least_count=5)
    with companies(tmp_path, policy=remembers) as (federation, joint):
        federation.start(*ROLES)
        with federation.client() as client:
            sent = client.submit(job(align))
            assert sent.stage == "match"
            done = settled(client, sent.id, {"done", "broken"})
        assert done.state == "done", done.failures
        assert {facts.rows for facts in done.enlisted.values()} == {len(joint)}
        expect_coefficients(federation, done.id, joint)
        signed = verify_certificate(federation.folder("shop", done.id) / "certificate-match.json")
        assert (signed.body["session"], signed.body["task"]) == (done.passed[0].session, "match")
        until(lambda: not [path for kit in federation.kits.values() for path in (kit / "state").glob("answers/*")])
        records = federation.kits["party/bank"] / "state" / "records"
        events = [json.loads(line)["event"] for line in (records / "matchings.jsonl").read_text().splitlines()]
        assert events == ["matching", "matched"]
        studies = [json.loads(line) for line in (records / "studies.jsonl").read_text().splitlines()]
        assert [each["event"] for each in studies] == ["table", "study"]  # of the common records, once they are known


@pytest.mark.slow
@pytest.mark.chaos("kill -9", "party/shop between matching and study", "goes on; right")
def test_a_party_killed_after_the_matching_comes_back_and_the_study_is_on_the_same_records(tmp_path):
    with companies(tmp_path, patience=30.0) as (federation, joint):
        federation.start("csp/csp")
        process = federation.start_with_fault("party/shop", "dies-after:match")
        federation.start("party/bank", "party/telco")
        with federation.client() as client:
            id = client.submit(job("server")).id
            assert process.wait(LONGEST) == -9, "the victim was to die"
            federation.start("party/shop")
            done = settled(client, id, {"done", "broken"})
        assert (done.state, done.attempt) == ("done", 1), done.failures
        expect_coefficients(federation, id, joint)
