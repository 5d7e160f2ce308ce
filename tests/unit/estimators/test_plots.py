"""``plot`` draws the numbers of the joint table: artists' data are compared with scikit-learn and statsmodels."""

import pickle
import re

import matplotlib
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.calibration import calibration_curve
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA
from sklearn.metrics import roc_curve
from tests.studies import FEATURES, hospitals
from tests.tolerances import GLM_BAR, RESULT_BAR, STATISTIC_BAR, assert_close
from tests.unit.results.report.pages import study

import fedsvd
from fedsvd import (
    FederatedCCA,
    FederatedGLM,
    FederatedKaplanMeier,
    FederatedLinearRegression,
    FederatedLogisticRegression,
    FederatedMixedLM,
    FederatedPCA,
    FederatedTable,
)
from fedsvd.errors import ConfigError, MissingExtra
from fedsvd.estimators.plots import Plots
from fedsvd.protocol.tasks import Task
from fedsvd.results.drawings import axes
from fedsvd.results.drawings.declared import DRAWINGS, all_pictures
from fedsvd.results.drawings.described import BALANCED
from fedsvd.results.drawings.picture import Effect, Line, Named, Picture, Plane, Rows
from fedsvd.results.report import charts
from fedsvd.results.write import read_result
from fedsvd.tasks.declared import outputs_of

matplotlib.use("Agg")
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def patients(seed=4):
    rng = np.random.default_rng(seed)
    tables = []
    for n in (120, 150, 90):
        X = pd.DataFrame(rng.normal(size=(n, 3)) * [10.0, 2.0, 1.0], columns=["age", "dose $", "smoker"])
        died = rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ [0.08, -0.3, 0.9] - 0.4)))
        tables.append(X.assign(died=died.astype(int), pressure=X @ [0.5, -2.0, 1.0] + rng.normal(size=n)))
    return tables


X_OF = ["age", "dose $", "smoker"]


@pytest.fixture(scope="module")
def logistic():
    tables = patients()
    return pd.concat(tables), FederatedLogisticRegression().fit([t[X_OF] for t in tables], [t["died"] for t in tables])


@pytest.fixture(scope="module")
def linear():
    tables = patients()
    fit = FederatedLinearRegression(inference=True).fit([t[X_OF] for t in tables], [t["pressure"] for t in tables])
    return pd.concat(tables), fit


@pytest.fixture(scope="module")
def pca():
    tables = [t[X_OF] for t in patients()]
    return pd.concat(tables), FederatedPCA().fit(tables)


def dots(ax, place=0):
    return np.asarray(ax.collections[place].get_offsets())


def solid(ax):
    return [line.get_xydata() for line in ax.lines if line.get_linestyle() == "-"]


def test_every_drawing_is_declared_by_a_task_and_is_a_method_of_plot():
    declared = {name for task in Task for output in _outputs(task) for name in output.draws}
    assert declared == set(DRAWINGS)
    assert [name for name in DRAWINGS if not hasattr(Plots, name)] == []


def _outputs(task):
    try:
        return outputs_of(task)
    except ModuleNotFoundError:
        return ()


def test_scree_and_scores_are_those_of_scikit_learn(pca):
    joint, found = pca
    twin = PCA().fit(joint)
    bars = [bar.get_height() for bar in found.plot.scree().patches]
    assert_close(bars, twin.explained_variance_, RESULT_BAR)
    ax = found.plot.scores()
    assert_close(dots(ax), twin.transform(joint)[:, :2], RESULT_BAR)
    assert ax.get_title() == "Scores: records of all parties"
    coloured = found.plot.scores(colour="party")
    assert [len(each.get_offsets()) for each in coloured.collections] == [120, 150, 90]
    third = found.plot.biplot(components=(1, 3), colour=joint["age"].to_numpy())
    assert_close(dots(third), twin.transform(joint)[:, [0, 2]], RESULT_BAR)
    assert_close(third.collections[0].get_array(), joint["age"].to_numpy(), RESULT_BAR)


def test_correlations_of_the_features_follow_from_all_components(pca):
    joint, found = pca
    assert_close(found.plot.correlations().images[0].get_array(), joint.corr().to_numpy(), RESULT_BAR)
    few = FederatedPCA(2).fit([t[X_OF] for t in patients()])
    with pytest.raises(ConfigError, match="need all components"):
        few.plot.correlations()


def test_a_forest_of_odds_ratios_is_that_of_statsmodels(logistic):
    joint, found = logistic
    theirs = sm.Logit(joint["died"], sm.add_constant(joint[X_OF])).fit(disp=0, tol=1e-12)
    ax = found.plot.forest(exponentiate=True, level=0.9)
    assert ax.get_xscale() == "log"
    assert_close(dots(ax, 1)[:, 0], np.exp(theirs.params.to_numpy()[1:]), GLM_BAR)
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    assert_close(ends, np.exp(theirs.conf_int(0.1).to_numpy())[1:], GLM_BAR)
    assert [text.get_text() for text in ax.get_yticklabels()] == X_OF
    plain = found.plot.forest()
    assert_close(dots(plain, 1)[:, 0], theirs.params.to_numpy()[1:], GLM_BAR)


def test_a_forest_of_a_linear_regression_is_in_own_units_or_in_deviations(linear):
    joint, found = linear
    theirs = sm.OLS(joint["pressure"], sm.add_constant(joint[X_OF])).fit()
    assert_close(dots(found.plot.forest(), 1)[:, 0], theirs.params.to_numpy()[1:], STATISTIC_BAR)
    by_deviation = theirs.params.to_numpy()[1:] * joint[X_OF].std().to_numpy()
    order = np.argsort(-np.abs(by_deviation))
    assert_close(dots(found.plot.forest(standardised=True), 1)[:, 0], by_deviation[order], STATISTIC_BAR)
    with pytest.raises(ConfigError, match="no ratio"):
        found.plot.forest(exponentiate=True)


def test_roc_and_calibration_of_given_rows_are_those_of_scikit_learn(logistic):
    joint, found = logistic
    chance = found.predict_proba(joint[X_OF])[:, 1]
    false, true, _ = roc_curve(joint["died"], chance, drop_intermediate=False)
    ax = found.plot.roc(joint[X_OF], joint["died"])
    assert_close(solid(ax)[0], np.column_stack((false, true)), RESULT_BAR)
    assert "records given" in ax.get_title()
    share, mean = calibration_curve(joint["died"], chance, n_bins=10, strategy="quantile")
    drawn = solid(found.plot.calibration(joint[X_OF], joint["died"]))[0]
    assert_close(drawn, np.column_stack((mean, share)), RESULT_BAR)
    tables = patients()
    as_parties = found.plot.roc([t[X_OF] for t in tables], [t["died"] for t in tables])
    assert_close(solid(as_parties)[0], np.column_stack((false, true)), RESULT_BAR)


def test_residuals_and_quantiles_are_those_of_statsmodels(linear):
    joint, found = linear
    theirs = sm.OLS(joint["pressure"], sm.add_constant(joint[X_OF])).fit()
    drawn = dots(found.plot.residuals(joint[X_OF], joint["pressure"]))
    assert_close(drawn, np.column_stack((theirs.fittedvalues, theirs.resid)), STATISTIC_BAR)
    law = sm.ProbPlot(theirs.resid / np.sqrt(np.mean(theirs.resid**2)), a=0.5)
    found_law = dots(found.plot.qq(joint[X_OF], joint["pressure"]))
    assert_close(found_law, np.column_stack((law.theoretical_quantiles, law.sample_quantiles)), STATISTIC_BAR)


def test_canonical_correlations_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    common = rng.normal(size=(200, 2))
    A, B = common @ rng.normal(size=(2, 3)) + rng.normal(size=(200, 3)), common + rng.normal(size=(200, 2))
    found = FederatedCCA(2, ids="trust").fit([A, B])
    twin = CCA(2, max_iter=5000, tol=1e-14).fit(A, B)
    expected = [np.corrcoef(u, v)[0, 1] for u, v in zip(*(side.T for side in twin.transform(A, B)), strict=True)]
    assert_close([bar.get_height() for bar in found.plot.correlations().patches], expected, GLM_BAR)


def test_a_partys_folder_draws_its_own_records_and_the_shared_one_says_who_has_them(tmp_path):
    files = hospitals(tmp_path, classes=("no", "yes"))
    out = study(files.job(task="glm", family="binomial", label="outcome", id="patient", classes=["no", "yes"]))
    own, shared = fedsvd.load(out / "parties" / "north"), fedsvd.load(out)
    north = files.joint[:40]
    ax = own.plot.roc()
    assert "own records" in ax.get_title()
    twin = sm.Logit(files.joint["outcome"] == "yes", sm.add_constant(files.D)).fit(disp=0, tol=1e-12)
    false, true, _ = roc_curve(north["outcome"] == "yes", twin.predict()[:40], drop_intermediate=False)
    assert_close(solid(ax)[0], np.column_stack((false, true)), RESULT_BAR)
    # ``load`` of a job folder has every party's folder inside, so that all records are here.
    assert "records of all parties" in shared.plot.roc().get_title()
    for folder in (out / "parties").iterdir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    with pytest.raises(ConfigError, match=r"each party has its own .*\(north, south, west\)"):
        fedsvd.load(out).plot.roc()
    assert dots(fedsvd.load(out).plot.forest(), 1).shape == (len(FEATURES), 2)


def test_report_and_matplotlib_draw_the_same_pictures(tmp_path):
    files = hospitals(tmp_path)
    out = study(files.job(task="lr", label="outcome", id="patient", inference=True))
    result = read_result(out / "parties" / "south")
    pictures = all_pictures(result)
    assert [picture.name for picture in pictures] == ["forest", "coefficients", "residuals", "qq", "leverage"]
    html = (out / "parties" / "south" / "report.html").read_text()
    for picture in pictures:
        assert (charts.drawn(picture) in html) == (picture.name != "coefficients")  # which the forest replaces
        ax = axes.on_axes(picture)
        if isinstance(picture.body, Rows):
            values = [bar.get_width() for bar in ax.patches] or dots(ax, 1)[:, 0]
            assert_close(values, [each.value for each in picture.body.effects], RESULT_BAR)
        else:
            assert_close(dots(ax), picture.body.marks[-1].points, RESULT_BAR)


def test_a_picture_is_a_file_of_each_format_and_the_same_one_when_it_is_drawn_again(pca):
    picture = all_pictures(pca[1].plot.result)[0]
    found = axes.as_files(picture)
    assert [found["png"][:4], found["pdf"][:4]] == [b"\x89PNG", b"%PDF"]
    assert axes.as_files(picture)["pdf"] == found["pdf"]


def test_what_cannot_be_drawn_is_refused_in_words(logistic, pca):
    joint, found = logistic
    with pytest.raises(ConfigError, match="task 'glm' has no scree to draw"):
        found.plot.scree()
    with pytest.raises(ConfigError, match="give X and y"):
        found.plot.roc()
    with pytest.raises(ConfigError, match="do not follow a normal law"):
        found.plot.qq(joint[X_OF], joint["died"])
    with pytest.raises(ConfigError, match="colour has 3 values"):
        pca[1].plot.scores(colour=[1, 2, 3])
    with pytest.raises(ConfigError, match="between 1 and 3"):
        pca[1].plot.scores(components=(1, 4))
    with pytest.raises(ConfigError, match="number 1"):
        found.plot.forest(1)


def test_without_matplotlib_the_extra_is_named(monkeypatch, pca):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"fedsvd\[report\]"):
        pca[1].plot.scree()


def test_an_estimator_that_was_saved_draws_the_same(pca):
    again = pickle.loads(pickle.dumps(pca[1]))  # noqa: S301
    assert_close(dots(again.plot.scores()), dots(pca[1].plot.scores()), RESULT_BAR)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_both_renderers_draw_every_picture_of_every_kind_of_study():
    rng = np.random.default_rng(0)
    rows, columns = [t[X_OF] for t in patients()], [rng.normal(size=(80, n)) for n in (2, 3)]
    y, of_three = [t["pressure"] for t in patients()], [rng.integers(0, 3, len(t)) for t in rows]
    fits = [
        fedsvd.FederatedSVD(2).fit(rows),
        fedsvd.FederatedSVD(2, split="vertical", ids="trust").fit(columns),
        FederatedPCA("parallel", unit_variance=True).fit(rows),
        FederatedPCA(2, release_spectrum=False).fit(rows),
        fedsvd.FederatedPCR(2).fit(rows, y),
        fedsvd.FederatedRidgeCV([0.1, 1.0, 10.0]).fit(rows, y),
        FederatedLinearRegression(inference=True, split="vertical", ids="trust").fit(columns, columns[0][:, 0] + 1.0),
        FederatedLogisticRegression(multi_class="ovr").fit(rows, of_three),
        FederatedLogisticRegression().fit(rows, of_three),
        FederatedGLM(fit_intercept=False).fit(rows, y),
        FederatedGLM().fit([t.assign(again=t["age"]) for t in rows], y),
        FederatedCCA(2, ids="trust").fit(columns),
        FederatedTable(by="arm").fit([t.assign(arm=np.arange(len(t)) % 2) for t in rows]),
        curves(),
        visits(),
    ]
    drawn = set()
    for found in fits:
        for picture in all_pictures(found.plot.result):
            axes.on_axes(picture)
            assert "nan" not in charts.drawn(picture)
            drawn.add(picture.name)
        matplotlib.pyplot.close("all")
    assert drawn == set(DRAWINGS) - {"outliers", "leverage", "roc", "calibration"}
    assert fits[7].plot.roc(rows, of_three, target=2).get_title() == "ROC curve of y = 2: records given"
    assert len(dots(fits[6].plot.residuals(columns, columns[0][:, 0]))) == 80


def test_a_count_has_rate_ratios():
    tables = patients()
    rng = np.random.default_rng(2)
    counts = [rng.poisson(np.exp(0.02 * t["age"] + 1.0)) for t in tables]
    found = FederatedGLM("poisson").fit([t[X_OF] for t in tables], counts)
    assert found.plot.forest(exponentiate=True).get_title() == "Rate ratios of y"


# --- what a drawing must show on both renderers -----------------------------------------------------------------------


def curves():
    rng = np.random.default_rng(6)
    times = [np.ceil(rng.exponential(9.0, n)) for n in (160, 210, 120)]
    seen = [(rng.random(len(own)) < 0.7).astype(float) for own in times]
    return FederatedKaplanMeier(range(2, 25, 2)).fit(None, times, seen, [np.arange(len(own)) % 2 for own in times])


def test_survival_curves_have_bands_and_numbers_at_risk_below():
    found = curves()
    ax = found.plot.survival()
    bands = [each.get_paths()[0].vertices for each in ax.collections]
    assert len(bands) == 2
    for curve, band in zip(found.curves_, bands, strict=True):
        assert {round(value, 9) for value in curve.low} <= {round(value, 9) for value in band[:, 1]}
        assert {round(value, 9) for value in curve.high} <= {round(value, 9) for value in band[:, 1]}
    written = [text.get_text() for text in ax.texts]
    assert "numbers at risk" in written
    assert ax.get_xticks().tolist() == [0.0, 10.0, 20.0], "round times, at which bins begin"
    for curve in found.curves_:
        for place in (0, 5, 10):
            assert f"{curve.at_risk[place]:.0f}" in written
    (picture,) = all_pictures(found.plot.result)
    drawn = charts.drawn(picture)
    assert drawn.count('class="band s') == 2
    assert drawn.count("L") > 4 * len(found.curves_[0].time)  # bands are outlines, not lines from end to end


def test_a_dashed_line_of_a_report_goes_through_all_of_its_points():
    places = np.array([(0.0, 0.0), (1.0, 2.0), (2.0, 0.5)])
    body = Plane("x", "y", (Line(places, dashed=True),))
    drawn = charts.drawn(Picture("survival", "t", "c", body))
    (path,) = re.findall(r'd="M([^"]*)" class="zero"', drawn)
    assert len(path.split("L")) == 3


def test_the_names_of_a_legend_are_whole_where_there_is_space():
    labels = ("own records: area 0.1234", "records of all parties: area 0.5678")
    lines = tuple(Line(np.eye(2), k, label=label) for k, label in enumerate(labels, start=1))
    drawn = charts.drawn(Picture("roc", "t", "c", Plane("x", "y", lines)))
    assert all(label in drawn for label in labels)


@pytest.mark.parametrize(("low", "high"), [(0.97, 1.04), (0.9, 1.6), (0.5, 3.0), (0.01, 40.0)])
def test_a_scale_of_ratios_has_round_ones_and_1_among_them(low, high):
    ticks = axes.round_ratios(low, high)
    assert 1.0 in ticks
    assert all(low <= tick <= high for tick in ticks)
    assert 4 <= len(ticks) <= 12


def test_a_number_of_an_axis_is_whole():
    """Of errors that differ in their sixth digit Matplotlib would write "+1.128e2" in a corner."""
    lines = (Line(np.array([(0.0, 112.8021), (1.0, 112.8042)]), marked=True),)
    ax = axes.on_axes(Picture("ridge", "t", "c", Plane("x", "y", lines)))
    ax.figure.canvas.draw()
    assert ax.yaxis.get_major_formatter().get_offset() == ""
    wide = Rows((Effect("a", 245.0, 2.0, 2734.0, ""),), intervals=True, ratio=True)
    labels = re.findall(r">([^<>]+)</text>", charts.drawn(Picture("forest", "t", "c", wide)))
    assert {"1", "10", "100", "1000"} <= set(labels)


def test_a_long_name_at_the_right_stays_in_the_frame():
    places = np.array([(-20.0, 1.0), (19.0, -1.0), (26.0, 5.0)])
    names = ("systolic_blood_pressure", "diastolic_pressure", "age")
    ax = axes.on_axes(Picture("features", "t", "c", Plane("x", "y", (Named(places, names),))))
    ax.figure.canvas.draw()
    frame = ax.get_window_extent()
    assert [text.get_text() for text in ax.texts] == list(names)
    for text in ax.texts:
        box = text.get_window_extent()
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1


def test_t2_stands_alone_where_all_components_leave_nothing_of_a_record(tmp_path):
    files = hospitals(tmp_path)
    release = ["components", "mean", "spectrum"]
    out = study(files.job(task="pca", components=6, unit_variance=True, release=release, id="patient"))
    found = fedsvd.load(out / "parties" / "north")
    ax = found.plot.outliers()
    joint = files.joint.drop(columns="patient").to_numpy()
    scores = PCA(whiten=True).fit_transform((joint - joint.mean(axis=0)) / joint.std(axis=0))
    drawn = np.vstack([dots(ax, place) for place in range(len(ax.collections))])
    drawn = drawn[np.argsort(drawn[:, 0])]
    expected = np.sum(scores**2, axis=1)[:40]  # north has the first rows
    assert_close(drawn, np.column_stack((np.arange(40.0), expected)), STATISTIC_BAR)
    assert ax.get_ylabel() == "T²: within the components"


def test_q_is_drawn_where_components_leave_something_of_a_record(tmp_path):
    files = hospitals(tmp_path)
    release = ["components", "mean", "spectrum"]
    out = study(files.job(task="pca", components=2, unit_variance=True, release=release, id="patient"))
    ax = fedsvd.load(out / "parties" / "north").plot.outliers()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("T²: within the components", "Q: outside of them")
    joint = files.joint.drop(columns="patient").to_numpy()
    Z = (joint - joint.mean(axis=0)) / joint.std(axis=0)
    left = Z - PCA(2).fit(Z).inverse_transform(PCA(2).fit_transform(Z))
    drawn = np.vstack([dots(ax, place) for place in range(len(ax.collections))])
    assert_close(np.sort(drawn[:, 1]), np.sort(np.sum(left**2, axis=1)[:40]), STATISTIC_BAR)


def test_a_love_plot_is_points_with_the_limit_of_balance():
    rng = np.random.default_rng(2)
    ages = [rng.normal(60, 9, n).round() for n in (90, 80, 70)]
    tables = [pd.DataFrame({"age": age, "arm": rng.choice(["a", "b"], len(age))}) for age in ages]
    ax = FederatedTable(by="arm").fit(tables).plot.love()
    assert len(ax.collections[0].get_offsets()) == 1
    assert BALANCED in [line.get_xdata()[0] for line in ax.lines]


def test_plots_of_a_family_are_those_that_it_has():
    tables = patients()
    X, died = [t[X_OF] for t in tables], [t["died"] for t in tables]
    assert repr(FederatedGLM("poisson").fit(X, died).plot) == "Plots(forest, residuals)"
    assert repr(FederatedLogisticRegression().fit(X, died).plot) == "Plots(forest, roc, calibration)"
    with pytest.raises(ConfigError, match=r"load a party's folder$"):
        FederatedPCA(2).fit(X).plot.outliers()


def visits(effect=2.0):
    """A mixed model of five visits of each of 36 patients, who differ by this deviation or not at all."""
    rng = np.random.default_rng(8)
    groups = [np.repeat(np.arange(n), 5) for n in (14, 12, 10)]
    X = [rng.normal(size=(len(own), 1)) for own in groups]
    noise = [rng.normal(size=len(own)) for own in groups]
    effects = [effect * rng.normal(size=own.max() + 1)[own] for own in groups]
    if not effect:
        effects = [-np.bincount(own, e)[own] / 5 for e, own in zip(noise, groups, strict=True)]
    return FederatedMixedLM().fit(X, [e + u for e, u in zip(noise, effects, strict=True)], groups)


def test_a_caterpillar_has_a_band_and_none_where_all_groups_are_alike():
    ax = visits().plot.caterpillar()
    assert len(dots(ax, 1)) == 36
    assert (np.diff(dots(ax, 1)[:, 1]) >= 0.0).all()
    with pytest.raises(ConfigError, match="all groups are alike"):
        visits(effect=0.0).plot.caterpillar()


def test_residuals_of_times_are_those_of_deviance_in_a_partys_folder(tmp_path):
    rng = np.random.default_rng(9)
    lines = ['[job]\nname = "hazard"\ntask = "cox"\nlabel = "months"\nevent = "died"']
    for name, n in (("north", 80), ("south", 90), ("west", 70)):
        table = pd.DataFrame({"age": rng.normal(size=n), "months": np.ceil(rng.exponential(9.0, n)), "died": 1})
        table.loc[: n // 4, "died"] = 0
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        lines.append(f'[[party]]\nname = "{name}"\ndata = "{name}.csv"')
    (tmp_path / "job.toml").write_text("\n".join(lines))
    out = study(tmp_path / "job.toml")
    own = fedsvd.load(out / "parties" / "north")
    drawn = dots(own.plot.residuals())
    result = read_result(out / "parties" / "north")
    assert drawn[:, 1].tolist() == result.arrays["deviance_residuals"][:, 0].tolist()
    assert_close(drawn[:, 0], np.log(result.arrays["fitted"][:, 0]), RESULT_BAR)
    with pytest.raises(ConfigError, match="risk sets"):
        own.plot.residuals(np.zeros((3, 1)), np.ones(3))
