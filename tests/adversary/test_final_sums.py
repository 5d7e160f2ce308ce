"""What one study's final sums say of records, through the real roles: whole numbers with filled gaps, and 0/1 columns.

Each attack stands beside the honest study of the same kind, which passes without a word. Lyon has the policy that
a new kit has; Turin is the curious user, and reads nothing but its own results folder.
"""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import federation_of
from tests.network import GENEROUS, until
from typer.testing import CliRunner

from fedsvd.audit.openings_patterns import Equations, Patterns
from fedsvd.cli.main import cli
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.prepare.dictionary import dictionary_of, spelt_dictionary
from fedsvd.service.client import Connection
from fedsvd.service.records import JobState
from fedsvd.service.site import Site

PARTIES = ("bonn", "lyon", "turin")
BINARY = [f"x{j}" for j in range(6)]
WHOLE = {"gaps": [f"q{j}" for j in range(8)], "rounded": [f"p{j}" for j in range(8)]}
EFFECTS = [0.5, -0.3, 0.7, 0.2, -0.6, 0.4]
GAPS = {j: 10 + 7 * j for j in range(5)}  # of Lyon: five people, each with a gap in one column
ROWS = {"bonn": 1001, "lyon": 1001, "turin": 1000}
KNOWN = 3001  # entries of a column with a gap: its mean is a multiple of 1/3001, which is a prime
PATIENTS = 10_000
COLUMNS = {"rare": BINARY, "often": [f"z{j}" for j in range(6)]}
DECIMALS = {"columns": {name: {"range": [1, 9], "decimals": 0} for name in WHOLE["rounded"]}}
NO_DECIMALS = {"columns": {name: {"range": [1, 9]} for name in WHOLE["gaps"]}}


def answers(rng, rows, names):
    """Whole numbers from 1 to 9."""
    return pd.DataFrame(rng.integers(1, 10, (rows, len(names))).astype(float), columns=names)


def patients(rng, names, shares):
    """0/1 findings with these shares of ones, and an outcome."""
    X = rng.random((PATIENTS, 6)) < shares
    ill = rng.random(PATIENTS) < 1.0 / (1.0 + np.exp(0.3 - X @ EFFECTS))
    return pd.DataFrame(X.astype(int), columns=names).assign(ill=ill.astype(int))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A running federation and its tables; the name of a job says which of them it is about."""
    root, rng = tmp_path_factory.mktemp("federation"), np.random.default_rng(27)
    shares = {"rare": rng.uniform(0.05, 0.3, 6), "often": rng.uniform(0.4, 0.6, 6)}
    tables = {}
    with federation_of(root, PARTIES, policy=Policy.permissive(), patience=GENEROUS) as federation:
        for name in PARTIES:
            own = {kind: patients(rng, COLUMNS[kind], shares[kind]) for kind in COLUMNS}
            own |= {kind: answers(rng, ROWS[name], names) for kind, names in WHOLE.items()}
            tables[name] = {kind: table.copy() for kind, table in own.items()}
            if name == "lyon":
                for kind, (column, row) in product(WHOLE, GAPS.items()):
                    own[kind].iloc[row, column] = np.nan
            lines = ["[data]"]
            for kind, table in own.items():
                table.to_csv(path := root / f"{name}-{kind}.csv", index=False)
                lines.append(f'{kind} = "{path}"')
            kit = federation.kits[f"party/{name}"]
            (kit / "site.toml").write_text("\n".join([*lines, ""]))
            if name == "lyon":
                (kit / "policy.toml").write_text(spelt_policy(Policy()))
        with federation.csp_node() as csp:
            for name in PARTIES:
                with (federation.kits[f"party/{name}"] / "site.toml").open("a") as file:
                    file.write(f'[csp]\naddress = "{federation.csp}"\n')
            yield federation, csp, tables


def register(federation, dictionary):
    """All parties have this dictionary, or none."""
    for party in PARTIES:
        path = federation.kits[f"party/{party}"] / "dictionary.toml"
        path.unlink(missing_ok=True)
        if dictionary is not None:
            path.write_text(spelt_dictionary(dictionary_of(dictionary)))


def submitted(federation, prepare, dictionary=None, **job):
    file = {"job": job, "prepare": prepare, "party": [{"name": name} for name in PARTIES]}
    file |= {} if dictionary is None else {"dictionary": {"says": dictionary}}
    with Connection(federation.kits["researcher/res"], federation.csp) as connection:
        return connection.submit(file)


def ended(made, id):
    federation, csp, _ = made
    with federation.member_nodes(*(f"party/{name}" for name in PARTIES)):
        until(lambda: csp.jobs.get(id).state in (JobState.BROKEN, JobState.DONE))
    return csp.jobs.get(id)


def approved(federation, id, *words):
    """What Lyon's approval answers."""
    kit = str(federation.kits["party/lyon"])
    return CliRunner().invoke(cli, ["job", "approve", id, "--kit", kit, "--yes", *words])


def passes(made, id):
    """Lyon's approval has nothing to say, and the study is done; what Turin then has in its folder."""
    federation, *_ = made
    said = approved(federation, id, "--format", "json")
    assert said.exit_code == 0, said.output
    assert not json.loads(said.stdout)["findings"]
    job = ended(made, id)
    assert job.state is JobState.DONE, job.failures
    return federation.folder("turin", id)


def expect_asked(made, id, question):
    """Lyon's approval asks, and a session that is begun all the same ends at Lyon, with one word to the others."""
    federation, *_ = made
    said = approved(federation, id)
    assert said.exit_code == 1
    text = " ".join(said.stderr.split())
    assert question in text
    job, lyon = ended(made, id), Site.at(federation.kits["party/lyon"])
    (federation.kits["party/lyon"] / "approvals" / "refusals").unlink(missing_ok=True)  # three would make jobs wait
    assert job.state is JobState.BROKEN
    cause = lyon.failure(job)
    assert cause is not None
    assert cause.code == "FSVD-110"
    assert question.partition("owner: ")[2] in cause.fault
    (told,) = [failure for failure in job.failures if failure.who == "party/lyon"]
    assert (told.code, told.text) == ("FSVD-110", "")
    assert not list((federation.kits["party/turin"] / "results").glob(f"*-{id[:8]}"))
    return text


# --- gaps of whole numbers --------------------------------------------------------------------------------------------


def entries_read(folder, truth):
    """Entries of people with a gap that Turin reads rightly from the joint Gram matrix of the filled columns.

    A product sum of two columns is a whole number, and for each gap the mean times that person's entry in the other
    column: which entries leave a whole number?
    """
    V, S = np.load(folder / "components.npy"), np.load(folder / "singular_values.npy")
    G = (V.T * S**2) @ V
    recipe = json.loads((folder / "manifest.json").read_text())["facts"]["recipe"]
    means = dict(zip(recipe["fills"]["names"], recipe["fills"]["values"], strict=True))
    values, right = [means[name] for name in truth.columns], 0
    for j, k in product(range(8), repeat=2):
        if j not in GAPS or j == k or (k in GAPS and j > k):
            continue
        of_other = range(1, 10) if k in GAPS else (0,)
        left = {(x, y): G[j, k] - values[j] * x - values[k] * y for x in range(1, 10) for y in of_other}
        fit = [entries for entries, rest in left.items() if round(KNOWN * rest) % KNOWN == 0]
        if len(fit) == 1:
            x, y = fit[0]
            right += x == truth.iloc[GAPS[j], k]
            right += k in GAPS and y == truth.iloc[GAPS[k], j]
    return right


def filled(made, dictionary, name="gaps"):
    """A decomposition of the columns with their gaps filled, at parties that registered this dictionary."""
    federation, *_ = made
    register(federation, dictionary)
    return submitted(federation, {"columns": WHOLE[name], "missing": "mean"}, dictionary, name=name, task="svd")


def test_by_a_dictionary_with_decimals_no_entry_of_people_with_gaps_is_read_from_filled_columns(made):
    """Filled with whole numbers, every product sum is one, whatever the entries are."""
    assert entries_read(passes(made, filled(made, DECIMALS, "rounded")), made[2]["lyon"]["rounded"]) == 0


@pytest.mark.parametrize(
    "dictionary",
    [pytest.param(None, id="no dictionary"), pytest.param(NO_DECIMALS, id="no decimals", marks=pytest.mark.slow)],
)
def test_means_of_all_digits_ask_the_party_that_has_gaps_and_with_a_yes_its_entries_are_read(made, dictionary):
    """Five people of Lyon, each with one gap: their 35 other entries. A party that approves all the same ends first."""
    federation, *_ = made
    id, lyon = filled(made, dictionary), federation.kits["party/lyon"]
    expect_asked(made, id, "asks its owner: gaps: your gaps in 'q0', 'q1', 'q2', 'q3', 'q4' are filled with numbers")
    (lyon / "policy.toml").write_text(spelt_policy(Policy(answered=("gaps",))))
    job = ended(made, id := filled(made, dictionary))
    (lyon / "policy.toml").write_text(spelt_policy(Policy()))
    assert job.state is JobState.DONE, job.failures
    assert entries_read(federation.folder("turin", id), made[2]["lyon"]["gaps"]) == 35


def test_gaps_of_few_that_are_filled_otherwise_than_before_are_refused(made):
    """Two studies whose fills are both like entries: their difference is a person's entries, times a known number."""
    federation, *_ = made
    passes(made, filled(made, DECIMALS, "rounded"))
    columns = {name: {"range": [1, 9], "decimals": 1 if name == "p0" else 0} for name in WHOLE["rounded"]}
    said = approved(federation, filled(made, {"columns": columns}, "rounded"))
    assert said.exit_code == 1
    assert "re-run: gaps of fewer than 5 of your records are filled otherwise" in " ".join(said.stderr.split())


def test_a_job_by_no_dictionary_asks_a_party_that_has_one(made):
    """Else who asks leaves the codebook aside, with all that it settles, by leaving it out."""
    federation, *_ = made
    register(federation, DECIMALS)
    id = submitted(federation, {"columns": WHOLE["rounded"][5:]}, name="rounded", task="svd")
    expect_asked(made, id, "asks its owner: dictionary: this job is by no dictionary, and your site has")


# --- 0/1 columns ------------------------------------------------------------------------------------------------------


def model(made, kind, digits):
    register(made[0], None)
    asked = {"task": "glm", "family": "binomial", "label": "ill", "digits": digits}
    return submitted(made[0], {"columns": COLUMNS[kind]}, name=kind, **asked)


@pytest.mark.parametrize("digits", ["auto", "all"])
def test_a_model_of_0_1_columns_asks_about_rare_combinations_and_of_common_ones_it_passes(made, digits):
    """30,000 records, six columns. A party that approves all the same ends before anything is summed."""
    id = model(made, "rare", digits)
    text = expect_asked(made, id, "asks its owner: patterns: users can compute how often each combination of these")
    assert "of your 10,000 records are in combinations of fewer than 5" in text
    passes(made, model(made, "often", digits))


@pytest.mark.slow
def test_one_final_matrix_gives_every_record_of_six_0_1_columns_by_lattice_reduction(made):
    """What the owner is asked about: with a yes, Turin has how often each of 64 combinations occurs."""
    federation, _, tables = made
    agreed = spelt_policy(Policy(answered=("patterns",)))
    (federation.kits["party/lyon"] / "policy.toml").write_text(agreed)
    job = ended(made, id := model(made, "rare", "all"))
    (federation.kits["party/lyon"] / "policy.toml").write_text(spelt_policy(Policy()))
    assert job.state is JobState.DONE, job.failures
    folder = federation.folder("turin", id)
    beta = np.append(np.load(folder / "intercept.npy"), np.load(folder / "coefficients.npy"))
    information = np.linalg.inv(np.load(folder / "covariance.npy").reshape(7, 7))
    X = np.concatenate([tables[name]["rare"][BINARY].to_numpy(dtype=float) for name in PARTIES])
    patterns = Patterns(np.array(list(product((0.0, 1.0), repeat=6))))
    Z = np.column_stack((np.ones(64), patterns.grid))
    p = 1.0 / (1.0 + np.exp(-Z @ beta))
    upper = np.triu_indices(7)
    A = np.array([p * (1.0 - p) * Z[:, a] * Z[:, b] for a, b in zip(*upper, strict=True)])
    sums = Equations(A, information[upper], np.full(len(A), 1e-12 * information.max()))
    found = sums.solved(patterns.guess(X[:0], X.mean(axis=0), len(X)))  # the joint means are opened
    truth = patterns.counts(X)
    assert int(truth[found == truth].sum()) == 3 * PATIENTS
