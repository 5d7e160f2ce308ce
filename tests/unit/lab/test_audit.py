"""An audit finds what is there, says nothing where there is nothing, and keeps the data to itself."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.tolerances import ACCEPTED, digits_lost
from tests.unit.lab.ratings import ratings

from fedsvd.audit import audit as module
from fedsvd.audit.audit import audit
from fedsvd.audit.finding import Verdict
from fedsvd.audit.page import render
from fedsvd.audit.subject import audited
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import Mode, Scheme
from fedsvd.studies.job_file import job_from

PLENTY = 600.0  # seconds; tables here take a few
CANARY = 7391.158273645


@pytest.fixture(autouse=True)
def few_runs(monkeypatch):
    monkeypatch.setattr(module, "MOST_RUNS", 3)


def job(tmp_path, *, task="svd", parties=2, masks=None, **study):
    record = {"job": {"name": "audit", "task": task, **study}, "party": [{"name": f"p{i}"} for i in range(parties)]}
    return job_from({**record, "masks": masks or {}}, tmp_path)


def by_attack(found):
    return {finding.attack: finding for finding in found.findings}


@pytest.fixture(scope="module")
def table():
    D = ratings(120, 130, density=0.1, seed=3)  # large enough for the attack to succeed whatever the masks
    return D[:, np.argsort(-np.count_nonzero(D, axis=0))]


def test_in_mode_a_the_csp_sees_uniform_bytes_and_three_parties_get_sums(tmp_path, table):
    found = audit(open_source(table), job(tmp_path, parties=3), budget=PLENTY)
    attacks = by_attack(found)
    assert (found.plan.scheme, found.plan.mode) == (Scheme.SUM, Mode.A)
    assert attacks["the sums it adds up"].verdict is Verdict.STATED
    assert attacks["the sums it adds up"].p > ACCEPTED
    assert attacks["Gram matrix from U and S"].verdict is Verdict.STATED
    assert attacks["the opened sum less its own"].verdict is Verdict.STATED
    assert not {"tile spectra", "alternating whitened ICA", "whole numbers from ratios"} & set(attacks)
    assert "shapes and no more" in found.why
    assert not [finding for finding in found.findings if finding.verdict is Verdict.LEFT_OUT]


def test_what_a_full_svd_shows_a_party_is_found_and_the_worst_is_said_first(tmp_path, table):
    told = []
    found = audit(open_source(table), job(tmp_path), budget=PLENTY, report=told.append)
    attacks = by_attack(found)
    assert attacks["Gram matrix from U and S"].figures["error"] < digits_lost(6)
    assert attacks["two runs that differ by one record"].figures["error"] < digits_lost(10)
    assert attacks["membership from components"].verdict is Verdict.LEAKS
    assert found.findings[0].verdict is Verdict.RECOVERED
    assert len(told) > 3


def test_in_mode_b_the_csp_sees_whole_numbers_in_ratios_and_no_share_by_lattice_reduction(tmp_path):
    flags = (np.random.default_rng(7).random((40, 5)) < 0.3).astype(float)
    study = {"components": 2, "parties": 2}
    found = audit(open_source(flags), job(tmp_path, **study), budget=PLENTY)
    attacks = by_attack(found)
    assert found.plan.mode is Mode.B
    ones = int(sum(part.sum() for part in found.subject.tables))
    assert attacks["whole numbers from ratios"].verdict is Verdict.LEAKS
    assert ones % int(attacks["whole numbers from ratios"].figures["a"]) == 0
    assert attacks["lattice reduction of the exact sum"].figures["columns"] == 0
    assert attacks["the opened sum less its own"].verdict is Verdict.LEAKS  # two parties: yours
    assert attacks["the opened sum less its own"].figures["error"] < digits_lost(4)
    assert found.record()["mode"] == "B"


def test_in_mode_b_numbers_that_are_not_whole_are_not_taken_for_it(tmp_path):
    D = np.random.default_rng(8).gamma(1.0, size=(60, 8))
    attacks = by_attack(audit(open_source(D), job(tmp_path, components=2, parties=3), budget=PLENTY))
    assert attacks["whole numbers from ratios"].verdict is Verdict.NOTHING
    assert attacks["the Gram matrix it opens"].learned.endswith("proven to be all")
    assert attacks["the opened sum less its own"].verdict is Verdict.STATED


def test_under_masks_over_whole_sides_the_csp_gets_nowhere(tmp_path, table):
    found = audit(open_source(table), job(tmp_path, parties=3, masks={"scheme": "mask"}), budget=PLENTY)
    attacks = by_attack(found)
    for attack in ("whitened ICA, one side", "alternating whitened ICA"):
        assert attacks[attack].verdict is Verdict.NOTHING
    assert attacks["the spectrum of the masked matrix"].learned.endswith("proven to be all")


def test_a_pca_of_a_few_components_tells_a_party_little(tmp_path):
    D = np.random.default_rng(4).gamma(1.0, size=(240, 12))
    attacks = by_attack(audit(open_source(D), job(tmp_path, task="pca", components=2, parties=3), budget=PLENTY))
    assert attacks["Gram matrix from components"].verdict is Verdict.NOTHING
    assert attacks["the joint mean less its own"].figures["error"] < digits_lost(6)
    assert attacks["membership from components"].verdict is Verdict.NOTHING


def test_binary_columns_are_found(tmp_path):
    rng = np.random.default_rng(5)
    flags = (rng.random((200, 2)) < 0.3).astype(float)
    D = np.column_stack((rng.standard_normal((200, 6)), flags))
    found = audit(open_source(D), job(tmp_path, split="vertical"), budget=PLENTY)
    assert found.plan.scheme is Scheme.MASK
    assert by_attack(found)["binary columns in the span of U"].figures["found"] == 2


@pytest.mark.parametrize("masks", [{}, {"scheme": "sum"}])
def test_canonical_scores_of_one_partner_are_found_and_of_two_their_sum(tmp_path, masks):
    table = open_source(np.random.default_rng(4).normal(size=(60, 9)))
    options = {"task": "cca", "ids": "trust", "masks": masks}
    two = by_attack(audit(table, job(tmp_path, **options), budget=PLENTY))["scores from common variables"]
    assert two.verdict is Verdict.LEAKS
    assert "span the space of your columns" in two.learned
    assert two.figures["error"] < digits_lost(6)
    three = by_attack(audit(table, job(tmp_path, parties=3, **options), budget=PLENTY))["scores from common variables"]
    assert three.verdict is Verdict.STATED
    assert three.figures["error"] < digits_lost(6)


def test_a_regression_on_components_shows_the_sum_of_gram_matrices(tmp_path):
    table = np.random.default_rng(4).normal(size=(90, 5))
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,c,d,y", comments="")
    options = {"task": "pcr", "label": "y", "components": 2}
    attacks = by_attack(audit(open_source(tmp_path / "t.csv"), job(tmp_path, parties=3, **options), budget=PLENTY))
    assert "the joint Gram matrix of features and labels" in attacks["the sum it opens"].learned


def test_a_large_table_is_thinned_and_stays_in_order(tmp_path):
    D = np.arange(6000.0)[:, None] + np.zeros(40)
    subject = audited(open_source(D), job(tmp_path), budget=10.0)
    rows, columns = subject.used
    assert rows * columns < 40_000
    assert subject.shape == (6000, 40)
    assert np.all(np.diff(subject.X[0]) > 0)
    assert len(subject.strangers) == 187  # a quarter of 750, which are the cells of ten seconds


def test_a_table_too_small_to_be_dealt_is_refused(tmp_path):
    with pytest.raises(ConfigError):
        audited(open_source(np.ones((5, 4))), job(tmp_path, parties=3), budget=10.0)


def test_the_page_is_whole_and_holds_no_entry_of_the_data_unless_asked(tmp_path, table):
    D = table[:40, :30].copy()
    D[::7, 3] = CANARY
    for include in (False, True):
        asked = job(tmp_path, masks={"scheme": "mask"})  # all kinds of pictures
        found = audit(open_source(D), asked, budget=PLENTY, include_data=include)
        html = render(found, found.record(), include)
        for drawing in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
            ElementTree.fromstring(drawing)
        assert html.count("<figure>") > 3
        assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
        assert ("by rank" in html) is not include
        assert ("recovered entry</text>" in html) is include
        assert not include or "asked for it" in html
        if not include:
            assert "7391" not in html + json.dumps(found.record())
