"""Cox models with entries, strata, an offset, weights, a ridge, robust and clustered errors, on every surface: R's."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.survival_data import table
from tests.tolerances import DIGITS_MORE_BAR, DIGITS_STEP_BAR, SCORE_TEST_BAR, SEVEN_DIGITS

from fedsvd import FederatedCox, load

pytestmark = pytest.mark.filterwarnings("ignore")
VECTORS = Path(__file__).parents[2] / "vectors"
R = json.loads((VECTORS / "cox-r.json").read_text(encoding="utf-8"))
BINS = json.loads((VECTORS / "bins-r.json").read_text(encoding="utf-8"))["made"]
BESIDE = {"label": "time", "event": "status", "entry": "entry", "strata": "s", "offset": "o", "weights": "w"}
FORMULA = f"Surv(entry, time, status) ~ {' + '.join(R['terms'])} + strata(s) + offset(o)"
KINDS = {"HC0": {"cov_type": "HC0"}, "cluster": {"cluster": "ward"}, "ridge": {"alpha": 2.0}}


def sites():
    """The table that R was given, a frame for each of its five sites."""
    data = table("made").reset_index(drop=True)
    number = np.arange(1, len(data) + 1)
    entry = np.floor(data["time"] * (number % 7) / 9) - number % 3
    made = {"entry": entry, "w": 1 + number % 3, "o": number % 5 / 4 - 0.5, "s": number % 2, "ward": number % 23}
    data = data.assign(**made)[[*R["terms"], "time", "status", "site", *made]]
    return [own.drop(columns="site").reset_index(drop=True) for _, own in data.groupby("site")]


def by_estimator(fedsvd, frames, kind, ties):
    words = f"{FORMULA} + cluster(ward)" if kind == "cluster" else FORMULA
    words, more = (words, {}) if kind == "cluster" else (words, KINDS[kind])
    return FederatedCox(ties=ties, digits="more", **more).fit(frames, formula=words, sample_weight="w")


def by_command(fedsvd, frames, kind, ties):
    options = {**BESIDE, **KINDS[kind], "ties": ties, "digits": "more", "least_events": 0, "least_class": 0}
    kept = [] if kind == "cluster" else ["--drop", "ward"]
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
    parties = [word for place in range(len(frames)) for word in ("--party", f"{place}.csv")]
    said = fedsvd("cox", *parties, *words, *kept, "--out", "out")
    assert said.code == 0, said.err
    return load("out")


def by_job_file(fedsvd, frames, kind, ties):
    job = {"name": "all", "task": "cox", "weights": "w", **KINDS[kind], "ties": ties, "digits": "more"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in job.items()]
    parties = [f'[[party]]\nname = "p{place}"\ndata = "{place}.csv"' for place in range(len(frames))]
    bars = "least_class = 0\nleast_events = 0"
    text = "\n".join(["[job]", *lines, bars, f'[prepare]\nformula = "{FORMULA}"', *parties, ""])
    Path("job.toml").write_text(text, encoding="utf-8")
    said = fedsvd("run", "job.toml", "-q")
    assert said.code == 0, said.err
    return load("results/all")


@pytest.fixture
def frames(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = sites()
    for place, own in enumerate(found):
        own.to_csv(f"{place}.csv", index=False)
    return found


@pytest.mark.parametrize("ties", ["efron", pytest.param("breslow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("surface", [by_estimator, by_command, by_job_file])
def test_all_that_coxph_takes_at_once_is_rs(fedsvd, frames, surface, kind, ties):
    found, said = surface(fedsvd, frames, kind, ties), R[ties]
    if kind == "ridge":
        assert np.max(np.abs(found.coef_ / np.array(said["ridge"]) - 1.0)) < SEVEN_DIGITS
        return
    model = found.inference_[0]
    assert np.max(np.abs(found.coef_ - said["coef"]) / said["nonrobust"]) < DIGITS_STEP_BAR
    assert np.max(np.abs(model.standard_errors / said[kind] - 1.0)) < DIGITS_MORE_BAR
    assert np.max(np.abs(np.sqrt(np.diag(model.naive)) / said["nonrobust"] - 1.0)) < DIGITS_MORE_BAR
    assert abs(model.log_likelihood / said["loglik"][1] - 1.0) < DIGITS_MORE_BAR
    digits = DIGITS_MORE_BAR * abs(2.0 * said["loglik"][1])  # a difference of two deviances of that many digits
    assert abs(model.likelihood_ratio[0] - said["lr"]) < digits
    assert abs(model.score[0] / said["score"] - 1.0) < SCORE_TEST_BAR
    assert "likelihood ratio and score tests assume independent records" in str(found.summary())
    if kind == "cluster":
        assert abs(model.wald[0] / said["wald"] - 1.0) < SEVEN_DIGITS
        assert model.errors.clusters == said["clusters"]
    assert R["note"].startswith("(Note: the likelihood ratio and score tests assume independence of observations")


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_in_bins_a_command_has_rs_clustered_errors_of_weighted_rows(fedsvd, tmp_path, monkeypatch, ties):
    monkeypatch.chdir(tmp_path)
    data = table("made").reset_index(drop=True)
    number = np.arange(1, len(data) + 1)
    data = data.assign(w=1 + number % 3, ward=100 * data["site"] + number % 23)
    parties = []
    for site, own in data.groupby("site"):
        own[[*BINS["terms"], "time", "status", "w", "ward"]].to_csv(f"{site}.csv", index=False)
        parties += ["--party", f"{site}.csv"]
    words = ["--label", "time", "--event", "status", "--weights", "w", "--cluster", "ward", "--ties", ties]
    words += ["--baseline", "bins", "--digits", "more", *(word for edge in BINS["edges"] for word in ("--times", edge))]
    said = fedsvd("cox", *parties, *words, "--out", "out")
    assert said.code == 0, said.err
    found, of_r = load("out").inference_[0], BINS["weighted"]["cloglog" if ties == "efron" else "log"]
    assert np.max(np.abs(found.coefficients - of_r["coef"]) / of_r["se"]) < DIGITS_STEP_BAR
    assert np.max(np.abs(found.standard_errors / of_r["cluster"] - 1.0)) < DIGITS_MORE_BAR
    assert found.errors.clusters == BINS["clusters"]
