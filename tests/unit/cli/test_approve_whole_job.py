"""What an owner is shown of a job in several sessions, and the verdict on all of it before the first.

In 0.2.0 the others were taken to be as large as oneself although they had enlisted for the first session, "nothing
against it" was said, and the study was refused after the preparation had been released. Renamings were cut after ten:
the twelfth brought a column `hiv` in as `age`, unseen.
"""

import json

import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import federation_of
from tests.network import GENEROUS, until
from typer.testing import CliRunner

from fedsvd.cli.main import cli
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.service.client import Connection
from fedsvd.service.records import JobState
from fedsvd.studies.prepare_section import PrepareSection

SIZES = {"a": 250, "b": 120, "c": 48}
NAMES = [f"v{j}" for j in range(5)]
HIDDEN = {f"own{j}": f"s{j}" for j in range(11)} | {"hiv": "age"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three parties of different sizes, of whom a alone has the usual policy; and a CSP that listens."""
    root = tmp_path_factory.mktemp("federation")
    rng = np.random.default_rng(5)
    with federation_of(root, tuple(SIZES), policy=Policy.permissive(), patience=GENEROUS) as federation:
        for name, rows in SIZES.items():
            table = pd.DataFrame(rng.normal(size=(rows, 5)), columns=NAMES)
            table.iloc[3, 2] = np.nan
            table.insert(0, "id", [f"p{n}" for n in range(rows)])
            for j, own in enumerate(HIDDEN):
                table[own] = rng.normal(size=rows) + j
            table.to_csv(root / f"{name}.csv", index=False)
            kit = federation.kits[f"party/{name}"]
            (kit / "site.toml").write_text(f'[data]\ndefault = "{root / name}.csv"\n')
        (federation.kits["party/a"] / "policy.toml").write_text(
            spelt_policy(Policy(consent_to_two=True, most_leverage=1.0))
        )
        with federation.csp_node() as csp:
            for name in SIZES:
                kit = federation.kits[f"party/{name}"]
                with (kit / "site.toml").open("a") as file:
                    file.write(f'[csp]\naddress = "{federation.csp}"\n')
            yield federation, csp


def submitted(federation, prepare, task="svd", **keys):
    asked = {"name": "study", "task": task, **keys}
    match = {"match": {"align": "ecdh"}} if keys.get("split") == "vertical" else {}
    file = {"job": asked, "party": [{"name": name} for name in SIZES], "prepare": prepare, **match}
    with Connection(federation.kits["researcher/res"], federation.csp) as connection:
        return connection.submit(file)


def enlist(federation, id, *names):
    for name in names:
        words = ["job", "approve", id, "--kit", str(federation.kits[f"party/{name}"]), "--yes", "--enlist"]
        said = CliRunner().invoke(cli, words)
        assert said.exit_code == 0, said.output


def asked(federation, id, *words, answer="n\n"):
    words = ["job", "approve", id, "--kit", str(federation.kits["party/a"]), *words]
    return CliRunner().invoke(cli, words, input=answer)


def words_of(said):
    return " ".join(said.stdout.split())


def test_sizes_that_others_enlisted_with_for_a_preparation_are_those_of_the_study(made):
    federation, _ = made
    id = submitted(federation, {"missing": "mean", "columns": NAMES})
    assert "1000 samples" not in words_of(asked(federation, id))
    assert "750 samples x 5 features" in words_of(asked(federation, id))  # no one else is known
    enlist(federation, id, "b", "c")
    said = asked(federation, id)
    shown = words_of(said)
    assert "418 samples x 5 features" in shown
    assert "a 250 records, b 120 records, c 48 records" in shown
    assert "taken to be as large as yours" not in shown


def test_the_study_is_judged_before_its_preparation(made):
    """c brings 48 records, and a's policy asks for 100 where full outputs are released."""
    federation, _ = made
    id = submitted(federation, {"missing": "mean", "columns": NAMES})
    enlist(federation, id, "b", "c")
    said = asked(federation, id, answer="y\n")
    assert said.exit_code == 1
    assert "party c brings 48 records, 100 are asked for" in words_of(said)
    assert "nothing against it" not in words_of(said)
    assert "FSVD-110" in said.stderr


def test_an_owner_who_approved_before_sizes_were_known_refuses_before_anything_of_the_preparation_is_sent(made):
    federation, csp = made
    id = submitted(federation, {"missing": "mean", "columns": NAMES})
    said = asked(federation, id, answer="y\n")
    assert said.exit_code == 0, said.output
    assert "if the others are as large as they were taken to be" in words_of(said)
    for name in ("b", "c"):
        assert CliRunner().invoke(
            cli, ["job", "approve", id, "--kit", str(federation.kits[f"party/{name}"]), "--yes"]
        ).exit_code == 0  # fmt: skip
    with federation.member_nodes("party/a", "party/b", "party/c"):
        until(lambda: csp.jobs.get(id).state in (JobState.BROKEN, JobState.DONE))
    job = csp.jobs.get(id)
    assert job.state is JobState.BROKEN
    assert job.passed == ()  # not even the preparation
    assert ("party/a", "FSVD-110") in {(failure.who, failure.code) for failure in job.failures}


def test_matched_records_are_at_most_those_of_the_smallest_set(made):
    federation, _ = made
    id = submitted(federation, {"columns": NAMES, "missing": "constant"}, task="svd", split="vertical", id="id")
    enlist(federation, id, "b", "c")
    shown = words_of(asked(federation, id))
    assert "at most 48 samples x 15 features" in shown
    assert "no more than are said here" in shown
    assert "a 250 records" not in shown


def test_a_renaming_is_shown_however_many_there_are_and_by_the_columns_own_name(made):
    federation, _ = made
    id = submitted(federation, {"rename": HIDDEN, "columns": [*HIDDEN.values(), "v0"], "missing": "drop"})
    said = asked(federation, id)
    shown = words_of(said)
    assert "'hiv', which the study calls 'age'" in shown
    assert "'hiv' to 'age'" in shown
    assert "under their own names: 'v0'" in shown
    assert "more" not in shown.partition("What leaves this site")[0].replace("no more than", "")
    said = asked(federation, id, "--yes", "--format", "json")
    columns = {each["own"]: each["study"] for each in json.loads(said.stdout)["columns"]}
    assert columns == {**HIDDEN, "v0": "v0"}


def test_every_word_of_what_is_prepared_is_in_its_description():
    levels = tuple(f"level {j}" for j in range(40))
    names = tuple(f"column {j}" for j in range(40))
    words = PrepareSection(
        rename={f"old {name}": name for name in names},
        columns=names,
        drop=tuple(f"dropped {j}" for j in range(40)),
        ordinal={"column 3": levels},
        missing="constant",
        indicators=names[:30],
    )
    text = " ".join(words.description())
    for name in (*names, *levels, *words.drop, *words.rename):
        assert repr(name) in text, name
    assert " more" not in text
