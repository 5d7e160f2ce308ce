"""Studies that open more bits than records hold: refused at home before anything is summed, beside honest ones.

Kits, CSP and approvals are the real ones. Party a has the policy that a new kit has, but for what is not tested here.
"""

import json

import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import federation_of
from tests.foreign import declared, install_task
from tests.network import GENEROUS, until
from typer.testing import CliRunner

from fedsvd import FederatedLogisticRegression, Simulation
from fedsvd.cli.main import cli
from fedsvd.engine.installed_tasks import installed_task
from fedsvd.errors import ReleaseRefused
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.service.client import Connection
from fedsvd.service.records import JobState

ROWS = {"a": 150, "b": 100, "c": 100}
SCANNED = {"a": 30, "b": 25, "c": 25}
BINARY = [f"x{j}" for j in range(6)]
VARIANTS = [f"v{j}" for j in range(40)]
SCAN = declared(
    name="scan",
    steps=[{"name": "sums", "kind": "wide", "size": "14 * features", "says": "14 sums of every variant"}],
    outputs=[{"name": "total", "axes": ["feature"], "size": ["features"], "says": "totals"}],
)
SCRIPT = """
def script(options, columns):
    raise RuntimeError("a party refuses the scan before its script runs")
"""


def clinic(rng, rows):
    """0/1 findings, two measurements, whole numbers from 0 to 9, genotypes, and outcomes."""
    table = pd.DataFrame((rng.random((rows, 6)) < rng.uniform(0.2, 0.6, 6)).astype(int), columns=BINARY)
    table["age"], table["bmi"] = rng.normal(52, 14, rows).round(1), rng.normal(27, 5, rows).round(1)
    table["pain"], table["days"] = rng.integers(0, 10, rows), rng.integers(0, 10, rows)
    table["cost"] = (20.0 * table["age"] + rng.normal(0, 300, rows)).round(2)
    table["ill"] = (rng.random(rows) < 1.0 / (1.0 + np.exp(0.3 - table["x0"] + 0.02 * (52 - table["age"])))).astype(int)
    genotypes = rng.integers(0, 2, (rows, len(VARIANTS))) + rng.integers(0, 2, (rows, len(VARIANTS)))
    return pd.concat([table, pd.DataFrame(genotypes, columns=VARIANTS)], axis=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("federation")
    place = install_task(root / "site", SCRIPT, SCAN)
    rng = np.random.default_rng(27)
    with (
        pytest.MonkeyPatch.context() as patch,
        federation_of(root, tuple(ROWS), policy=Policy.permissive(), patience=GENEROUS) as federation,
    ):
        patch.syspath_prepend(str(place))
        for name, rows in ROWS.items():
            # Each test has records of its own: what one opened of them counts against the next.
            names = ("default", "lattice", "honest", "scan", "robust", "models", "kinds", "again", "after")
            for each in names:
                drawn = clinic(rng, SCANNED[name] if each == "scan" else rows)
                drawn.to_csv(root / f"{name}-{each}.csv", index=False)
            # The same records in other files, in another order and with one column more.
            copied = pd.read_csv(root / f"{name}-after.csv").sample(frac=1.0, random_state=1)
            copied.assign(note=1.0).to_csv(root / f"{name}-copied.csv", index=False)
            lines = [f'{each} = "{root / f"{name}-{each}.csv"}"' for each in (*names, "copied")]
            (federation.kits[f"party/{name}"] / "site.toml").write_text("\n".join(["[data]", *lines, ""]))
        # Tables without ids that have other records: their owner says so.
        usual = Policy(foreign={"scan": installed_task("scan").hash}, answered=("other records",))
        (federation.kits["party/a"] / "policy.toml").write_text(spelt_policy(usual))
        with federation.csp_node() as csp:
            for name in ROWS:
                with (federation.kits[f"party/{name}"] / "site.toml").open("a") as file:
                    file.write(f'[csp]\naddress = "{federation.csp}"\n')
            yield federation, csp


def submitted(federation, columns, renamed=None, **job):
    prepare = {"columns": list(columns), **({"rename": renamed} if renamed else {})}
    file = {"job": job, "prepare": prepare, "party": [{"name": name} for name in ROWS]}
    if job["task"] == "foreign":
        file |= {"foreign": {"name": "scan", "options": {}, "declaration": SCAN}}
    with Connection(federation.kits["researcher/res"], federation.csp) as connection:
        return connection.submit(file)


def approve(federation, id, *words, party="a"):
    return CliRunner().invoke(cli, ["job", "approve", id, "--kit", str(federation.kits[f"party/{party}"]), *words])


def refused(federation, id):
    """What a's approval says."""
    said = approve(federation, id, "--yes")
    assert said.exit_code == 1
    return " ".join(said.stderr.split())


def ended(federation, csp, id):
    """The job at its end; parties approve jobs that no one was asked about."""
    with federation.member_nodes("party/a", "party/b", "party/c"):
        until(lambda: csp.jobs.get(id).state in (JobState.BROKEN, JobState.DONE))
    return csp.jobs.get(id)


def fine(federation, id):
    said = approve(federation, id, "--yes", "--format", "json")
    assert said.exit_code == 0, said.output
    shown = json.loads(said.stdout)
    assert not [each for each in shown["findings"] if each["asks"] or each["below"]]
    return shown["bits"]


def test_a_logistic_regression_of_0_1_columns_is_refused_and_with_measurements_passes(made):
    """The lattice attack: its sums are linear in how often each of 64 patterns occurs (test_digits.py reads them)."""
    federation, csp = made
    for digits in ("all", "auto"):
        id = submitted(federation, BINARY, name="lattice", task="glm", family="binomial", label="ill", digits=digits)
        text = refused(federation, id)
        assert "patterns: users can compute how often each combination of these columns occurs" in text
    all_digits = submitted(
        federation, [*BINARY, "age", "bmi"], name="lattice", task="glm", family="binomial", label="ill", digits="all"
    )
    assert "bits: about 23,320 bits are opened of 300 records" in refused(federation, all_digits)
    honest = submitted(federation, [*BINARY, "age", "bmi"], name="honest", task="glm", family="binomial", label="ill")
    assert fine(federation, honest) == 3800
    assert ended(federation, csp, honest).state is JobState.DONE


def test_a_scan_of_14_sums_a_variant_is_refused(made):
    federation, _ = made
    id = submitted(federation, VARIANTS, name="scan", task="foreign")
    assert "bits: about 29,680 bits are opened of 60 records" in refused(federation, id)


def test_robust_errors_of_whole_numbers_are_refused_and_those_of_measurements_pass(made):
    """HC0, HC2 and HC3 of the same records gave 200 of 200 (x, y)."""
    federation, _ = made
    for cov_type in ("HC0", "HC2", "HC3"):
        asked = {"task": "lr", "inference": True, "cov_type": cov_type}
        id = submitted(federation, ["pain"], name="robust", label="days", **asked)
        assert "of your 150 records are in combinations of fewer than 5" in refused(federation, id)
        honest = submitted(federation, ["x0", "x1", "age", "bmi"], name="robust", label="cost", **asked)
        fine(federation, honest)


@pytest.mark.parametrize("digits", ["all", "table"])
def test_robust_errors_of_models_of_whole_numbers_are_refused_and_those_of_measurements_pass(made, digits):
    """Squared scores of a model are linear in how often a feature and an outcome occur together, kind by kind."""
    federation, _ = made
    for cov_type in ("HC0", "HC2", "HC3"):
        asked = {"task": "glm", "family": "poisson", "cov_type": cov_type}
        id = submitted(federation, ["pain"], name="models", label="days", digits=digits, **asked)
        assert "of your 150 records are in combinations of fewer than 5" in refused(federation, id)
    plain = {"task": "glm", "family": "poisson", "digits": "table"}
    fine(federation, submitted(federation, ["pain"], name="models", label="days", **plain))
    asked = {"task": "glm", "family": "binomial", "cov_type": "HC1"}
    honest = submitted(federation, ["x0", "x1", "age", "bmi"], name="models", label="ill", **asked)
    assert fine(federation, honest) == 1720 + 360  # five coefficients: a model, and the matrix of squared scores


def test_kinds_of_robust_errors_of_the_same_records_are_added_up(made):
    """Each alone is fine; of the third its owner is asked, as the session begins, and nothing of it was summed."""
    federation, csp = made
    asked = {"task": "glm", "family": "binomial", "label": "ill"}
    for cov_type in ("HC0", "HC1", "HC2"):
        id = submitted(federation, ["age", "bmi"], name="kinds", cov_type=cov_type, **asked)
        assert fine(federation, id) == 968 + 144
        job = ended(federation, csp, id)
        assert job.state is (JobState.BROKEN if cov_type == "HC2" else JobState.DONE)
    assert ("party/a", "FSVD-110") in {(failure.who, failure.code) for failure in job.failures}
    id = submitted(federation, ["age", "bmi", "pain"], name="kinds", cov_type="HC3", **asked)
    fine(federation, id)  # another column holds bits of its own


def test_what_jobs_of_the_same_columns_open_is_added_up_whatever_file_and_columns_are_called(made):
    """Four models of two columns: each alone is fine, and together they open more than these columns hold.

    0.2.0 counted nothing; a copy of the file under another name, or a job that renames columns, changes nothing now.
    """
    federation, csp = made
    model = {"task": "glm", "family": "binomial"}
    for name, label in (("after", "ill"), ("copied", "x0"), ("after", "x1")):
        id = submitted(federation, ["age", "bmi"], name=name, label=label, **model)
        assert fine(federation, id) == 968
        assert ended(federation, csp, id).state is JobState.DONE
    for name in ("after", "copied"):
        id = submitted(federation, ["age", "bmi"], name=name, label="x2", **model)
        assert "this job asks its owner: bits: about 3,872 bits are opened of 300 records" in refused(federation, id)
    renamed = {"age": "years", "bmi": "index"}
    id = submitted(federation, ["years", "index"], renamed, name="copied", label="x2", **model)
    assert "this job asks its owner: bits: about 3,872 bits are opened of 300 records" in refused(federation, id)


def test_a_job_that_was_approved_all_the_same_ends_before_anything_is_summed_and_peers_learn_a_code(made):
    """A party that approves all jobs of pinned researchers: its own table is judged as the session begins."""
    federation, csp = made
    id = submitted(federation, BINARY, name="again", task="glm", family="binomial", label="ill", digits="all")
    job = ended(federation, csp, id)
    assert job.state is JobState.BROKEN
    assert ("party/a", "FSVD-110") in {(failure.who, failure.code) for failure in job.failures}
    told = " ".join(str(failure) for failure in job.failures)
    assert not any(word in told for word in ("patterns", "x0", "combination"))


# --- in one process ---------------------------------------------------------------------------------------------------


def test_in_one_process_an_enforced_policy_refuses_before_a_role_exists():
    rng = np.random.default_rng(4)
    X = [(rng.random((n, 6)) < 0.4).astype(float) for n in (150, 100, 100)]
    y = [(rng.random(n) < 0.4).astype(int) for n in (150, 100, 100)]
    where = Simulation(policy=Policy(enforce=True))
    with pytest.raises(ReleaseRefused, match=r"patterns: at party 1, .*patterns: at party 2, .*patterns: at party 3, "):
        FederatedLogisticRegression(federation=where).fit(X, y)
