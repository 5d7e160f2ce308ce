"""``plan`` says everything and does nothing."""

import json
from dataclasses import replace

import pytest

from fedsvd.cli import cost as cost_module
from fedsvd.cli.cost import link_speed, roughly
from fedsvd.cost.calibration import Rated
from fedsvd.cost.rates import DEFAULT
from fedsvd.errors import ConfigError
from fedsvd.studies import run as federation


@pytest.fixture
def nothing_runs(monkeypatch):
    monkeypatch.setattr(federation, "run_once", lambda *_, **__: pytest.fail("a session was opened"))


def test_a_plan_tells_what_by_whom_and_what_is_learned(fedsvd, by_rows, nothing_runs, tmp_path):
    job = by_rows.job(task="pca", components=2, id="patient", authority=True)
    said = fedsvd("plan", job, "--format", "json")
    assert said.code == 0
    record = said.json
    assert (record["samples"], record["features"], record["components"]) == (120, 6, 2)
    assert record["parties"][1] == {"name": "south", "rows": 35, "columns": 6}
    assert set(record["roles"]) == {"parties", "csp", "authority"}
    assert record["released"] == {
        "components": "to every party",
        "mean": "to every party",
        "own part": "to each party its own",
    }
    assert any(line.startswith("The CSP learns") for line in record["learns"])
    assert any("padded" in line for line in record["leaves_each_site"])
    assert not (tmp_path / "results").exists()


def test_a_plan_lists_what_it_opens_and_to_whom(fedsvd, by_rows, nothing_runs):
    """Six features: the triangle of a Gram matrix has 21 numbers, of 53 bits; the CSP sees none."""
    record = fedsvd("plan", by_rows.job(task="svd", id="patient"), "--format", "json").json
    found = {(each["what"], each["to"]): each for each in record["openings"]}
    assert found["gram", "users"]["most"] == found["gram", "users"]["expected"] == {"numbers": 21, "bits": 21 * 53}
    assert found["vectors", "users"]["most"]["bits"] == 0
    assert not any(to == "csp" for _, to in found)


def test_a_plan_in_words_has_the_same_parts(fedsvd, by_rows, nothing_runs):
    said = fedsvd("plan", by_rows.job(task="svd", id="patient"))
    assert said.code == 0
    for title in (
        "By whom",
        "What leaves each party",
        "What is released",
        "What each role learns",
        "What it will cost",
    ):
        assert title in said.out
    assert "hospital" not in said.out
    assert "south" in said.out
    assert said.err.startswith("Privacy: ")
    assert "party south brings 35 records" in said.err.replace("\n  ", " ")


def test_what_leaves_a_site_follows_the_plan(fedsvd, by_columns, nothing_runs):
    keys = {"split": "vertical", "id": "patient", "sort_by_id": True}
    score = ["coefficients", "intercept", "score"]
    record = fedsvd("plan", by_columns.job(task="lr", label="outcome", release=score, **keys), "--format", "json").json
    text = "\n".join(record["leaves_each_site"])
    assert "one keyed hash of all its row ids" in text
    assert "partial scores" in text
    assert record["released"]["coefficients"] == "to each party its own"
    assert record["released"]["score"] == "to the label holder"
    assert any("Party insurer alone gets" in line for line in record["learns"])


def test_the_family_the_mode_and_the_reason_are_shown_with_what_leaves_the_site(fedsvd, by_rows, nothing_runs):
    whole = fedsvd("plan", by_rows.job(task="svd", id="patient"), "--format", "json").json
    assert (whole["scheme"], whole["mode"]) == ("sum", "A")
    assert "the common side is short (6)" in whole["why"]
    assert "U and S are released whole" in whole["why"]
    assert any("the parties open the total" in line for line in whole["leaves_each_site"])
    assert any("nothing of the data" in line for line in whole["learns"])
    top = fedsvd("plan", by_rows.job(task="pca", components=2, id="patient"), "--format", "json").json
    assert (top["scheme"], top["mode"]) == ("sum", "B")
    assert any("the CSP opens the total" in line for line in top["leaves_each_site"])
    assert any("check the CSP's answer" in line for line in top["leaves_each_site"])
    assert any("ratios of the singular values" in line for line in top["learns"])
    assert "sum, mode B: the common side is short" in fedsvd("plan", by_rows.job(task="pca", id="patient")).out


def test_mode_a_of_a_release_without_the_gram_matrix_says_that_all_parties_will_hold_it(fedsvd, by_rows, nothing_runs):
    job = by_rows.job(task="pca", components=2, id="patient", masks='mode = "A"')
    record = fedsvd("plan", job, "--format", "json").json
    assert record["mode"] == "A"
    assert "all parties will hold the joint Gram matrix" in record["why"]
    assert any("All parties will hold the joint Gram matrix (6 x 6)" in line for line in record["learns"])
    assert any("consent_to_gram = true" in notice for notice in record["notices"])


def test_bytes_and_seconds_of_the_other_family_stand_beside_the_plan_where_it_is_possible(
    fedsvd, by_rows, by_columns, nothing_runs, machine
):
    for scheme, other in (("sum", "mask"), ("mask", "sum")):
        job = by_rows.job(task="pca", components=2, id="patient", masks=f'scheme = "{scheme}"')
        beside = fedsvd("plan", job, "--format", "json").json["other_family"]
        assert f'with scheme = "{other}"' in fedsvd("plan", job).out
        asked = by_rows.job(task="pca", components=2, id="patient", masks=f'scheme = "{other}"')
        chosen = fedsvd("plan", asked, "--format", "json").json
        assert (beside["scheme"], beside["mode"]) == (chosen["scheme"], chosen["mode"])
        assert beside["seconds_side_by_side"] == pytest.approx(chosen["cost"]["seconds_side_by_side"])
        assert beside["bytes"] == pytest.approx(chosen["cost"]["bytes"], rel=0.02)  # identities of the CSP beside it
    keys = {"split": "vertical", "id": "patient", "sort_by_id": True, "label": "outcome"}
    record = fedsvd("plan", by_columns.job(task="lr", **keys), "--format", "json").json
    assert (record["scheme"], record["other_family"]) == ("mask", None)


def test_the_names_of_protocol_1_are_answered_with_the_new_ones(fedsvd, by_rows, nothing_runs):
    for old, new in (("compressed", "sum"), ("mixing", "mask"), ("aligned", "mask")):
        said = fedsvd("plan", by_rows.job(task="pca", id="patient", masks=f'scheme = "{old}"'), "--format", "json")
        assert said.json["error"]["code"] == "FSVD-100"
        assert f'scheme = "{new}"' in said.json["error"]["fix"]


def test_a_sum_that_does_not_fit_the_budget_is_refused_with_its_bytes_and_the_other_scheme(
    fedsvd, by_rows, nothing_runs
):
    job = by_rows.job(task="pca", id="patient", memory=2000, masks='scheme = "sum"')
    error = fedsvd("plan", job, "--format", "json").json["error"]
    assert error["code"] == "FSVD-350"
    assert "KiB for a Gram matrix of 6 x 6, the memory budget is 2.0 KiB" in error["fault"]
    assert 'scheme = "mask"' in error["fix"]


def test_a_plan_that_cannot_be_is_refused(fedsvd, by_rows, nothing_runs):
    said = fedsvd("plan", by_rows.job(task="pca", components=60, id="patient"), "--format", "json")
    assert said.code == 1
    assert said.json["error"]["fault"] == "components = 60"
    said = fedsvd("plan", by_rows.job(task="pca", id="patient", memory="1 kB"), "--format", "json")
    assert said.code == 1
    assert "memory" in said.json["error"]["fault"]


def test_the_bytes_that_are_predicted_are_those_that_move(fedsvd, by_rows):
    job = by_rows.job(task="pca", components=2, id="patient", release=["components", "mean", "spectrum"])
    predicted = fedsvd("plan", job, "--format", "json").json["cost"]
    ran = fedsvd("run", job, "--format", "json", "-q").json
    assert predicted["bytes"] == pytest.approx(ran["bytes"], rel=0.01)
    assert set(predicted["roles"]) == {"north", "south", "west", "csp"}
    sent = json.loads((by_rows.folder / "results/study/manifest.json").read_text(encoding="utf-8"))["certificate"]
    assert predicted["roles"]["south"]["sends"] == pytest.approx(sent["bytes_by_link"]["user-2 -> csp"], rel=0.01)
    for role in predicted["roles"].values():
        assert role["seconds"] > 0


def test_the_cost_is_told_before_a_run(fedsvd, by_rows):
    said = fedsvd("svd", *by_rows.options(), "--id", "patient")
    told, ran = said.err.index("expected: "), said.err.index("party north: compress")
    assert told < ran
    assert "party south" in said.err[told:ran]
    assert "expected" not in fedsvd("svd", *by_rows.options(), "--id", "patient", "--overwrite", "-q").err


@pytest.fixture
def machine(monkeypatch):
    """A machine whose rates are known; measured afresh, it is a thousand times slower over messages."""

    def rated(afresh=False):
        slow = replace(DEFAULT, messages=DEFAULT.messages / 1000)
        return Rated(slow if afresh else DEFAULT, "measured in this test" if afresh else "known")

    monkeypatch.setattr(cost_module, "rated", rated)


def test_a_plan_says_which_rates_it_used_and_measures_again_when_asked(fedsvd, by_rows, nothing_runs, machine):
    job = by_rows.job(task="svd", id="patient")
    stored = fedsvd("plan", job, "--format", "json").json["cost"]
    afresh = fedsvd("plan", job, "--calibrate", "--format", "json").json["cost"]
    assert afresh["seconds_on_one_machine"] > stored["seconds_on_one_machine"]
    assert afresh["bytes"] == stored["bytes"]
    assert (stored["rates"], afresh["rates"]) == ("known", "measured in this test")
    assert "(known; the network is not counted)" in fedsvd("plan", job).out


def test_a_plan_asks_for_the_speed_of_the_link_and_counts_it(fedsvd, by_rows, nothing_runs, machine):
    job = by_rows.job(task="svd", id="patient")
    assert '--link "100 Mbit/s" adds the time of the network' in fedsvd("plan", job).out
    without = fedsvd("plan", job, "--format", "json").json["cost"]
    over = fedsvd("plan", job, "--link", "8 kbit/s", "--format", "json").json["cost"]
    assert (without["link"], without["seconds_on_links"]) == (None, None)
    assert over["link"] == 1000.0
    assert over["seconds_on_links"] == pytest.approx(
        (over["roles"]["csp"]["sends"] + over["roles"]["csp"]["receives"]) / 1000
    )
    assert over["seconds_side_by_side"] == pytest.approx(without["seconds_side_by_side"] + over["seconds_on_links"])
    assert "a link of 1000 B/s" in fedsvd("plan", job, "--link", "8 kbit/s").out


@pytest.mark.parametrize(
    ("text", "speed"),
    [("100 Mbit/s", 12.5e6), ("1Gbit/s", 125e6), ("12 MB/s", 12e6), ("2.5 MB/s", 2.5e6), ("56 kbps", 7e3)],
)
def test_the_speed_of_a_link_is_read_in_bits_and_in_bytes(text, speed):
    assert link_speed(text) == pytest.approx(speed)


@pytest.mark.parametrize("text", ["fast", "100", "0 Mbit/s", "-1 Mbit/s", "100 Mbit/h", ""])
def test_a_speed_that_is_none_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match="100 Mbit/s"):
        link_speed(text)


def test_a_run_says_which_rates_it_was_estimated_with_and_how_long_it_took_on_the_clock(fedsvd, by_rows, machine):
    said = fedsvd("svd", *by_rows.options(), "--id", "patient", "--format", "json")
    assert "(known; no network)" in said.err
    assert 0 < said.json["seconds"] < 60


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.002, "less than a second"), (0.7, "about 0.7 s"), (75.0, "about 1 min 15 s")]
)
def test_an_estimate_is_no_finer_than_it_is_known(seconds, text):
    assert roughly(seconds) == text
