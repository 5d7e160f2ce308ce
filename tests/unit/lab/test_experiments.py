"""Experiments: what their files say, the journal, tables, checks, figures and the page."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from tests.tolerances import EPS, digits_lost

from fedsvd.errors import ConfigError
from fedsvd_lab.baselines.ppd_svd import PpdSvd
from fedsvd_lab.datasets.library import Library
from fedsvd_lab.experiments import figures, large_scale, refined
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.experiment import Check, Experiment, FigureSpec, Ratio, Size, TableSpec, experiments
from fedsvd_lab.experiments.page import Section, page
from fedsvd_lab.experiments.peers import Peer
from fedsvd_lab.experiments.ratios import ratios
from fedsvd_lab.experiments.rivalry import extrapolated
from fedsvd_lab.experiments.rows import Case, Journal, Measurement
from fedsvd_lab.experiments.runners import KINDS, cases_of
from fedsvd_lab.experiments.tables import latex, markdown, number, tables
from fedsvd_lab.experiments.verdicts import verdicts

EXPERIMENTS = experiments()
TEX = Path(__file__).parents[4] / "shared" / "paper" / "fedsvd-kdd22.tex"
OF_THE_PAPER = {
    *("table1", "table2", "table3", "fig2a", "fig2b", "fig4a", "fig4b", "fig4c", "fig4d", "fig4e", "fig4f"),
    *("fig5a", "fig5b", "fig5c", "fig6", "reconstruction"),
}


def experiment(**changes):
    given = {"name": "made", "title": "Made", "place": "here", "kind": "lossless", "said": "", "notes": ()}
    return Experiment(**{**given, "settings": {}, **changes})


def row(method, value, how="measured", metric="time", unit="", **case):
    when = "2026-01-01T00:00:00+00:00"
    return {"method": method, "value": value, "how": how, "metric": metric, "unit": unit, "case": case, "when": when}


class TestFiles:
    def test_every_table_and_figure_of_the_paper_has_a_file(self):
        assert set(EXPERIMENTS) >= OF_THE_PAPER

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_a_file_has_a_known_kind_all_sizes_and_places_for_what_it_quotes(self, name):
        found = EXPERIMENTS[name]
        assert found.kind in KINDS
        assert all(found.at(size) for size in Size) or found.rows_of in EXPERIMENTS
        assert found.tables
        assert all(quoted.place for quoted in found.quoted)

    @pytest.mark.parametrize("name", EXPERIMENTS)
    @pytest.mark.parametrize("size", Size)
    def test_every_size_makes_cases_with_keys_of_their_own(self, name, size):
        found = EXPERIMENTS[name]
        if found.rows_of:
            found = EXPERIMENTS[found.rows_of]
        cases = cases_of(found.kind, found.at(size), Context(Library(())))
        keys = [tuple(sorted(case.key.items(), key=str)) for case in cases]
        assert keys
        assert len(set(keys)) == len(keys)

    @pytest.mark.parametrize("name", ["table1", "table3"])
    def test_quoted_figures_stand_in_the_paper(self, name):
        if not TEX.exists():
            pytest.skip("the paper's text is not here")
        text = TEX.read_text(encoding="utf-8")
        numbers = {float(found) for found in re.findall(r"\d+\.\d+|\d+", text)}
        numbers |= {float(a) * 10.0 ** int(b) for a, b in re.findall(r"(\d+\.\d+)\*10\^\{(-\d+)\}", text)}
        for quoted in EXPERIMENTS[name].quoted:
            assert any(math.isclose(quoted.value, known, rel_tol=digits_lost(4)) for known in numbers), quoted

    def test_a_file_that_is_no_experiment_is_an_error_that_names_it(self, tmp_path):
        (tmp_path / "broken.toml").write_text("title = 'x'")
        with pytest.raises(ConfigError, match=r"broken\.toml"):
            experiments(tmp_path)

    def test_an_unknown_kind_is_an_error_that_lists_the_known(self):
        with pytest.raises(ConfigError, match="lossless"):
            cases_of("losless", {}, Context(Library(())))


class TestJournal:
    def test_a_finished_case_is_remembered_and_another_setting_is_another_case(self, tmp_path):
        case = Case({"n": 1}, list)
        Journal(tmp_path, experiment(), Size.QUICK).add(case, [Measurement("ours", "time", 2.0, "s")], seed=7)
        again = Journal(tmp_path, experiment(), Size.QUICK)
        assert again.has(case)
        assert not again.has(Case({"n": 2}, list))
        assert not Journal(tmp_path, experiment(), Size.FULL).has(case)

    def test_a_row_says_what_it_depends_on(self, tmp_path):
        journal, case = Journal(tmp_path, experiment(), Size.QUICK), Case({"n": 1, "of": "x"}, list)
        journal.add(case, [Measurement("ours", "time", 2.0, "s", scheme="paper", network="relay")], seed=7)
        (found,) = journal.rows([case])
        assert found["case"] == {"n": 1}
        for key in ("hardware", "scheme", "commit", "seeds", "network", "blas", "load", "when"):
            assert found[key]

    def test_a_line_that_was_cut_off_is_run_again(self, tmp_path):
        case = Case({"n": 1}, list)
        Journal(tmp_path, experiment(), Size.QUICK).add(case, [Measurement("ours", "time", 2.0)], seed=7)
        file = tmp_path / "rows" / "made.jsonl"
        file.write_text(file.read_text()[:-20])
        assert not Journal(tmp_path, experiment(), Size.QUICK).has(case)


class TestTables:
    SPEC = TableSpec("Time", ("n",), ("paper: FedSVD", "ours"), {"metric": "time"})
    ROWS = (
        row("paper: FedSVD", 7200.0, "quoted", unit="s", n=2000),
        row("ours", 0.25, unit="s", n=2000),
        row("ours", 3e9, "extrapolated", unit="s", n=100_000),
        row("ours", 5.0, metric="bytes", n=2000),
    )

    def test_the_papers_figure_stands_beside_ours(self):
        (table,) = tables(experiment(tables=(self.SPEC,)), self.ROWS)
        assert table.header == ("n", "paper: FedSVD", "ours")
        assert table.lines == (("2000", "2 h", "250 ms"), ("100,000", "", "95.1 years (extr.)"))

    def test_a_case_that_only_the_paper_has_is_marked(self):
        rows = [*self.ROWS, row("paper: FedSVD", 60.0, "quoted", unit="s", n=5)]
        (table,) = tables(experiment(tables=(self.SPEC,)), rows)
        assert table.lines[-1] == ("5 (not run at this size)", "60 s", "")

    def test_latex_escapes_what_it_must(self):
        (table,) = tables(
            experiment(tables=(TableSpec("50 % & more", ("n_i",), ("ours",), {}),)), [row("ours", 1.0, n_i=3)]
        )
        assert r"50 \% \& more" in latex(table)
        assert r"n\_i" in latex(table)
        assert markdown(table).count("|") == 9

    @pytest.mark.parametrize(
        ("value", "unit", "text"),
        [
            (0.5397, "", "0.5397"),
            (5.51e-10, "", "5.51e-10"),
            (476521920.0, "s", "15.1 years"),
            (191160.0, "s", "2.21 days"),
            (90.0, "s", "90 s"),
            (2_400_000_000_000, "bytes", "2.4 TB"),
            (float("nan"), "", "-"),
        ],
    )
    def test_numbers_are_readable(self, value, unit, text):
        assert number(value, unit) == text


class TestChecks:
    def verdict(self, value, bar, **check):
        rows = [row("ours", value, metric="error", n=1, seed=3), row("paper: FedSVD", bar, "quoted", "error", n=1)]
        asked = Check(**{"title": "t", "of": ("ours",), "than": "paper: FedSVD", "where": {}, **check})
        (found,) = verdicts(experiment(checks=(asked,)), rows)
        return found.holds

    def test_at_most(self):
        assert self.verdict(1.0, 1.0)
        assert not self.verdict(1.1, 1.0)
        assert self.verdict(9.0, 1.0, times=10.0)

    def test_within_a_factor(self):
        assert self.verdict(0.2, 1.0, kind="within a factor", times=10.0)
        assert not self.verdict(0.05, 1.0, kind="within a factor", times=10.0)

    def test_digits(self):
        assert self.verdict(0.53971, 0.5397, kind="digits", times=4.0)
        assert not self.verdict(0.5407, 0.5397, kind="digits", times=4.0)

    def test_the_larger_of_two_bars_counts(self):
        rows = [row("ours", 3.0, n=1), row("paper: FedSVD", 1.0, n=1), row("LAPACK", 4.0, n=1)]
        asked = Check("t", ("ours",), "paper: FedSVD", {}, or_than="LAPACK")
        assert [found.holds for found in verdicts(experiment(checks=(asked,)), rows)] == [True]

    def test_cases_that_differ_are_not_compared(self):
        rows = [row("ours", 1.0, n=1), row("paper: FedSVD", 2.0, n=2)]
        assert verdicts(experiment(checks=(Check("t", ("ours",), "paper: FedSVD", {}),)), rows) == []


class TestRatios:
    def test_a_ratio_is_made_where_both_are_and_is_as_sure_as_the_less_sure(self):
        rows = [
            row("ours", 2.0, n=1),
            row("HE", 10.0, n=1),
            row("HE", 90.0, "extrapolated", n=2),
            row("ours", 3.0, n=2),
        ]
        found = ratios(experiment(ratios=(Ratio("HE", "ours", "time"),)), [*rows, row("HE", 1.0, n=3)])
        assert [(one["value"], one["how"]) for one in found] == [(5.0, "measured"), (30.0, "extrapolated")]
        assert found[0]["method"] == "HE over ours"


class TestPictures:
    FIGURE = FigureSpec("SVD: time over n", "n", "time", "columns", "seconds", ("ours",))
    ROWS = (row("ours", 1.0, n=10), row("ours", 9.0, "extrapolated", n=100), row("paper: FedSVD", 3.0, "quoted", n=50))

    def test_a_figure_has_its_axes_and_the_papers_points(self):
        pytest.importorskip("matplotlib")
        svg, png = figures.draw(self.FIGURE, self.ROWS)
        assert png.startswith(b"\x89PNG")
        for text in ("columns", "seconds", "paper: FedSVD", "ours (not measured)"):
            assert text in svg

    def test_nothing_is_drawn_of_nothing(self):
        assert figures.draw(self.FIGURE, [row("ours", 1.0, metric="bytes", n=1)]) is None

    def test_the_page_takes_nothing_from_elsewhere_and_escapes_what_it_shows(self):
        pytest.importorskip("matplotlib")
        svg, png = figures.draw(self.FIGURE, self.ROWS)
        shown = experiment(notes=("a < b",), tables=(TableSpec("T", ("n",), ("ours",), {}),))
        text = page([Section(shown, self.ROWS, tables(shown, self.ROWS), [svg], [png], [], ["<gone>"])], Size.QUICK)
        assert "a &lt; b" in text
        assert "&lt;gone&gt;" in text
        assert not re.findall(r'(?:src|href)="(?!#)', text.replace("xlink:", ""))
        assert "<script" not in text


class TestArithmetic:
    HADAMARD = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2

    def test_refined_vectors_are_nearer_to_the_truth_than_lapacks(self):
        # Every product here is exact in binary, so the vectors of X are known without rounding.
        X = self.HADAMARD * [8, 4, 2, 1] @ self.HADAMARD.T
        U, sigma, _ = np.linalg.svd(X)
        disturbed = np.linalg.qr(U + 1e-12 * np.random.default_rng(1).normal(size=U.shape))[0]
        truth = refined.top_vectors(X, disturbed, sigma, 2)
        exact = self.HADAMARD[:, :2]
        assert refined.distance(truth, exact) < EPS / 16
        assert refined.distance(truth, disturbed[:, :2]) > digits_lost(3)

    def test_ppd_svd_is_carried_to_other_sizes_by_its_counts(self):
        seconds = {"encrypt": 2.0, "multiply": 3.0, "decrypt": 1.0, "factorise": 9.0}
        ran = PpdSvd(np.ones(1), np.ones((1, 1)), np.ones((1, 1)), seconds, 0, slots=1)
        assert extrapolated(ran, 10, (5, 5), 10, 10) == 6.0
        # Twice the columns: twice the encryptions, four times the powers and openings.
        assert extrapolated(ran, 10, (5, 5), 10, 20) == 4.0 + 12.0 + 4.0
        assert extrapolated(ran, 10, (5, 5), 20, 10) == 4.0 + 6.0 + 1.0

    def test_a_peers_step_grows_with_the_entries(self):
        peer = Peer("p", (10, 10), 2.0, 4, 100.0, 1.0, "")
        assert peer.seconds(20, 30) == 12.0
        assert peer.bytes(3, 7) == 307.0

    def test_a_record_that_is_not_there_or_broken_is_left_out(self, tmp_path):
        assert list(large_scale.recorded("SVD", tmp_path)) == []
        (tmp_path / "scale-50m.json").write_text("{}")
        assert list(large_scale.recorded("SVD", tmp_path)) == []
        (tmp_path / "scale-50m.json").write_text('{"seconds": 12.5}')
        (found,) = large_scale.recorded("SVD", tmp_path)
        assert found.value == 12.5
