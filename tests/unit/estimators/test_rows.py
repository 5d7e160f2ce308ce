"""Rows of split features belong together: their labels are compared, or it is said that they were not."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from tests.tolerances import RESULT_BAR, assert_close, product

from fedsvd import (
    FederatedGLM,
    FederatedLinearRegression,
    FederatedLogisticRegression,
    FederatedLSA,
    FederatedOrdinalRegression,
    FederatedPCA,
    FederatedRidgeCV,
    FederatedSVD,
)
from fedsvd.errors import ConfigError, DataWarning, EmptyData, NotFinite, RowsDiffer, RowsNotCompared

from .joint import least_squares_bar

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


@pytest.fixture(scope="module")
def diabetes():
    """scikit-learn's table of 442 patients as two parties hold it, and the outcome."""
    bundled = load_diabetes(as_frame=True)
    return bundled.data.iloc[:, :5], bundled.data.iloc[:, 5:], bundled.target


def regression(**how):
    return FederatedLinearRegression(split="vertical", **how)


def expect_twin(found, D, y):
    """The coefficients are those of scikit-learn, to the rounding of least squares on this table."""
    D, y = np.asarray(D), np.asarray(y)
    twin = LinearRegression(tol=1e-14).fit(D, y)
    bar = least_squares_bar(D - D.mean(axis=0), y - y.mean(), twin.coef_)
    np.testing.assert_allclose(found.coef_, twin.coef_, rtol=0, atol=bar)


def expect_quiet(fit):
    """Neither a word about rows nor one about columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        return fit()


def r2(D, y):
    return LinearRegression().fit(D, y).score(D, y)


def test_a_shuffled_frame_is_refused_where_it_was_regressed_and_called_verified(diabetes):
    one, two, y = diabetes
    shuffled = two.sample(frac=1, random_state=0)
    with pytest.raises(RowsDiffer, match=r"index of y and that of party 2's table.*differ in 440 of 442") as caught:
        regression().fit([one, shuffled], y)
    assert "reindex" in caught.value.fix
    assert 'ids="trust"' in caught.value.fix
    with pytest.raises(RowsDiffer, match="rows have different ids at different parties"):
        regression(label_party=0).fit([one, shuffled], y)
    # The two figures of the fault: of the rows as they belong together, and as they were put together.
    assert r2(np.hstack([one, two]), y) == pytest.approx(0.518, abs=5e-4)
    assert r2(np.hstack([one, shuffled]), y) == pytest.approx(0.409, abs=5e-4)
    expect_twin(expect_quiet(lambda: regression(ids="trust").fit([one, shuffled], y)), np.hstack([one, shuffled]), y)
    again = shuffled.reindex(one.index)
    right = regression().fit([one.loc[shuffled.index], shuffled], y.loc[shuffled.index])
    assert right.plan_.check_ids
    expect_twin(right, np.hstack([one, again]), y)


@pytest.mark.parametrize("make", [FederatedSVD, lambda **how: FederatedLSA(2, **how)], ids=["svd", "lsa"])
def test_factors_compare_rows_too(diabetes, make):
    one, two, _ = diabetes
    with pytest.raises(RowsDiffer, match="rows have different ids at different parties"):
        make(split="vertical").fit([one, two.sample(frac=1, random_state=0)])
    named = [part.set_index(np.array([f"p{row}" for row in range(442)])) for part in (one, two)]
    found = expect_quiet(lambda: make(split="vertical").fit(named))
    assert found.plan_.check_ids
    sigma = np.linalg.svd(np.hstack([one, two]), compute_uv=False)
    bar = product(442, 10) * sigma[0]
    np.testing.assert_allclose(found.singular_values_, sigma[: len(found.singular_values_)], rtol=0, atol=bar)


NOTHING = {
    "arrays": lambda frame: frame.to_numpy(),
    "frames with the index every frame has": lambda frame: frame,
    "polars": pl.from_pandas,
    "an index that says the same of all rows": lambda frame: frame.set_index(np.zeros(len(frame))),
}


@pytest.mark.parametrize("kind", NOTHING)
def test_where_nothing_says_which_rows_belong_together_it_warns_at_the_callers_line(diabetes, kind):
    *parts, y = diabetes
    parts = [NOTHING[kind](part) for part in parts]
    with pytest.warns(RowsNotCompared, match=r"taken together by position alone.*ids=\"trust\"") as caught:
        found = regression().fit(parts, y.to_numpy())
    (warned,) = (each for each in caught if each.category is RowsNotCompared)
    assert warned.filename == __file__
    assert not found.plan_.check_ids
    assert found.plan_.rows_unchecked
    trusted = expect_quiet(lambda: regression(ids="trust").fit(parts, y.to_numpy()))
    assert trusted.plan_.trust_rows
    assert not trusted.plan_.rows_unchecked


def test_the_warning_points_at_the_callers_line_through_scikit_learns_wrappers(diabetes):
    one, two, _ = diabetes
    with pytest.warns(RowsNotCompared) as caught:
        FederatedSVD(2, split="vertical").fit_transform([one, two])
    assert {each.filename for each in caught if each.category is RowsNotCompared} == {__file__}


def test_one_table_that_is_divided_here_and_split_rows_need_no_ids(diabetes):
    one, two, y = diabetes
    D = pd.concat([one, two], axis=1)
    expect_quiet(lambda: regression().fit(D, y))
    expect_quiet(lambda: FederatedLinearRegression().fit([D[:200], D[200:]], y))


def test_dates_texts_levels_and_repeated_labels_are_compared(diabetes):
    one, two, y = diabetes
    y = y.to_numpy()
    for index in (
        pd.date_range("2020-01-01", periods=442, freq="h"),
        pd.MultiIndex.from_product([["a", "b"], range(221)]),
        pd.Index(np.repeat(np.arange(221), 2)),  # two visits each
        pd.Index(np.arange(442) + 1.0),
    ):
        a, b = one.set_index(index), two.set_index(index)
        assert expect_quiet(lambda a=a, b=b: regression().fit([a, b], y)).plan_.check_ids
        with pytest.raises(RowsDiffer):
            regression().fit([a, b[::-1]], y)


def test_ids_are_the_same_as_numbers_and_as_text(diabetes):
    one, two, y = diabetes
    a = one.set_index(pd.Index(np.arange(442) + 7))
    b = two.set_index(pd.Index([str(number + 7) for number in range(442)]))
    assert regression().fit([a, b], y.to_numpy()).plan_.check_ids


def test_a_filtered_frame_beside_one_that_counts_its_rows_is_refused(diabetes):
    one, two, y = diabetes
    filtered = one.iloc[1:]
    with pytest.raises(RowsDiffer):
        regression(label_party=0).fit([filtered, two.iloc[1:].reset_index(drop=True)], y.iloc[1:])


def test_a_frame_with_names_beside_one_without_is_not_compared_and_says_so(diabetes):
    one, two, y = diabetes
    named = one.set_index(np.array([f"p{row}" for row in range(442)]))
    for other in (two, two.to_numpy(), pl.from_pandas(two)):
        with pytest.warns(RowsNotCompared):
            regression().fit([named, other], y.to_numpy())


def test_of_three_parties_the_two_that_have_labels_must_agree(diabetes):
    one, two, y = diabetes
    parts = [one.iloc[::-1], two.iloc[:, :2], two.iloc[:, 2:].to_numpy()]
    with pytest.raises(RowsDiffer, match="the indexes of two parties' tables differ in 442 of 442"):
        regression().fit(parts, y.to_numpy())
    with pytest.warns(RowsNotCompared):
        regression().fit([one.iloc[::-1], two.iloc[::-1, :2], two.iloc[::-1, 2:].to_numpy()], y.to_numpy()[::-1])


def test_y_has_the_index_of_its_own_table(diabetes):
    one, two, y = diabetes
    order = np.random.default_rng(3).permutation(442)
    parts = [one.iloc[order], two.iloc[order]]
    assert regression().fit(parts, y.iloc[order]).plan_.check_ids
    with pytest.raises(RowsDiffer, match="index of y"):
        regression().fit(parts, y)
    with pytest.raises(RowsDiffer, match="index of y"):
        regression().fit(parts, y.to_frame())
    model = regression().fit(parts, y.iloc[order].to_numpy())  # no index, nothing to compare
    assert model.score(parts, y.iloc[order]) == pytest.approx(r2(np.hstack([one, two]), y), abs=product(442, 100))
    with pytest.raises(RowsDiffer, match="index of y"):
        model.score(parts, y)


def test_y_by_party_and_in_one_piece_where_samples_are_split(diabetes):
    one, two, y = diabetes
    D = pd.concat([one, two], axis=1).sample(frac=1, random_state=2)
    split = FederatedLinearRegression()
    labels = y.loc[D.index]
    expect_twin(split.fit([D[:200], D[200:]], labels), D, labels)
    split.fit([D[:200], D[200:]], [labels[:200], labels[200:]])
    for wrong in (y, [labels[:200], labels[200:][::-1]], labels.sort_index()):
        with pytest.raises(RowsDiffer, match="index of y"):
            split.fit([D[:200], D[200:]], wrong)
    reset = [part.reset_index(drop=True) for part in (D[:200], D[200:])]
    split.fit(reset, labels.reset_index(drop=True))  # three indexes that only count


def with_column(diabetes, name="customer_id"):
    one, two, y = diabetes
    ids = 10_000 + np.random.default_rng(8).permutation(90_000)[: len(one)]
    return one.assign(**{name: ids}), two.assign(**{name: ids}), y.to_numpy()


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_an_id_column_is_compared_once_it_is_named_and_never_used_as_a_feature(diabetes, library):
    one, two, y = with_column(diabetes)
    with pytest.raises(ConfigError, match="every party has a column 'customer_id'") as caught:
        regression().fit([library(one), library(two)], y)
    assert 'id="customer_id"' in caught.value.fix
    named = regression(id="customer_id")
    found = expect_quiet(lambda: named.fit([library(one), library(two)], y))
    assert found.plan_.check_ids
    assert found.n_features_in_ == 10
    D = np.hstack([one, two])[:, [*range(5), *range(6, 11)]]
    expect_twin(found, D, y)
    assert_close(found.predict([library(one), library(two)]), LinearRegression().fit(D, y).predict(D), RESULT_BAR)
    shuffled = library(two.sample(frac=1, random_state=5))
    with pytest.raises(RowsDiffer, match="rows have different ids at different parties"):
        named.fit([library(one), shuffled], y)
    with pytest.raises(RowsDiffer):
        found.predict([library(one), shuffled])


def test_text_ids_are_named_in_the_refusal(diabetes):
    one, two, y = with_column(diabetes)
    parts = [
        part.assign(customer_id=part["customer_id"].map(str) + "-x").rename(columns={"customer_id": "who"})
        for part in (one, two)
    ]
    with pytest.raises(ConfigError, match="every party has a column 'who'"):
        regression().fit(parts, y)
    assert regression(id="who").fit(parts, y).n_features_in_ == 10


def test_an_id_is_left_out_where_samples_are_split_or_one_table_is_given(diabetes):
    one, two, _ = diabetes
    D = pd.concat([one, two], axis=1)
    tagged = D.assign(patient_id=np.arange(442) + 1)
    for X in (tagged, [tagged[:200], tagged[200:]]):
        pca = expect_quiet(lambda X=X: FederatedPCA(2, id="patient_id").fit(X))
        assert pca.n_features_in_ == 10
        assert "patient_id" not in pca.feature_names_in_
        assert_close(pca.transform(tagged), pca.transform(D), RESULT_BAR)
    with pytest.raises(ConfigError, match="no column is named 'patient_id'"):
        FederatedPCA(2, id="patient_id").fit([D[:200], D[200:]])


def test_new_rows_are_compared_in_predictions_and_projections(diabetes):
    one, two, y = diabetes
    order = np.random.default_rng(4).permutation(442)
    one, two, y = one.iloc[order], two.iloc[order], y.iloc[order]
    model = regression().fit([one, two], y)
    D = np.hstack([one, two])
    predicted = expect_quiet(lambda: model.predict([one, two]))
    assert_close(predicted, LinearRegression().fit(D, y).predict(D), RESULT_BAR)
    svd = FederatedSVD(2, split="vertical").fit([one, two])
    expect_quiet(lambda: svd.transform([one, two]))
    for use in (model.predict, svd.transform):
        with pytest.raises(RowsDiffer):
            use([one, two.sort_index()])
        with pytest.warns(RowsNotCompared):
            use([one.to_numpy(), two.to_numpy()])
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model.set_params(ids="trust").predict([one.to_numpy(), two.to_numpy()])
        svd.set_params(ids="trust").transform([one, two.sort_index()])


def test_a_word_that_is_neither_is_refused(diabetes):
    one, two, y = diabetes
    with pytest.raises(ConfigError, match="ids is 'never'"):
        regression(ids="never").fit([one, two], y)


def test_a_patient_id_among_the_data_is_pointed_out():
    rng = np.random.default_rng(9)
    D = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd")).assign(patient_id=np.arange(300) + 10_000)
    with pytest.warns(DataWarning, match=r"party 1, party 2: column 'patient_id'.*id=\"patient_id\"") as caught:
        pca = FederatedPCA().fit([D[:150], D[150:]])
    assert {each.filename for each in caught if each.category is DataWarning} == {__file__}
    assert pca.explained_variance_ratio_[0] > 0.999  # which is why
    expect_quiet(lambda: FederatedPCA(id="patient_id").fit([D[:150], D[150:]]))


def test_a_list_of_ratings_is_pointed_out_to_an_lsa_alone():
    rng = np.random.default_rng(10)
    listed = pd.DataFrame({"user": rng.integers(0, 50, 900), "item": rng.integers(0, 80, 900)}).drop_duplicates()
    listed["rating"] = rng.integers(1, 6, len(listed))
    parts = [listed[:400], listed[400:]]
    with pytest.warns(DataWarning, match=r"list of ratings.*coo_array"):
        FederatedLSA(2).fit(parts)
    expect_quiet(lambda: FederatedSVD(2).fit(parts))


def test_a_zero_one_outcome_is_a_linear_probability_model(diabetes):
    one, two, y = diabetes
    D, high = pd.concat([one, two], axis=1), (y > 150).astype(int)
    with pytest.warns(DataWarning, match=r"the outcome 'target' is 0 or 1 in every row.*linear probability model"):
        FederatedLinearRegression().fit([D[:200], D[200:]], high)
    with pytest.warns(DataWarning, match="the outcome 'y1' is 0 or 1"):
        regression(ids="trust").fit([one, two], np.column_stack([y, high]))
    expect_quiet(lambda: regression(ids="trust").fit([one, two], high + 1))
    expect_quiet(lambda: FederatedLinearRegression().fit([D[:200], D[200:]], np.ones(442)))


MODELS = {
    "linear": (FederatedLinearRegression(), lambda y: y),
    "counts": (FederatedGLM("poisson"), lambda y: y),
    "classes": (FederatedLogisticRegression(), lambda y: y),
    "texts": (FederatedLogisticRegression(), lambda y: np.where(np.isnan(y), None, np.where(y > 0.0, "yes", "no"))),
    "whole": (FederatedLogisticRegression(), lambda y: np.array([None if np.isnan(v) else int(v) for v in y])),
    "grades": (FederatedOrdinalRegression(), lambda y: y),
    "ridge": (FederatedRidgeCV(), lambda y: y),
}


@pytest.mark.parametrize("model", MODELS)
def test_labels_with_a_gap_are_refused_with_their_party_and_row(model):
    estimator, written = MODELS[model]
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(12, 2)) for _ in range(3)]
    y = [(np.arange(12) % 3).astype(float) for _ in X]
    y[1][[4, 7]] = np.nan
    with pytest.raises(NotFinite, match=r"y of party 2 contains NaN: 2 of 12 rows, the first is row 4") as refused:
        estimator.fit(X, [written(part) for part in y])
    assert "leave out these rows, of X and y alike" in str(refused.value)


@pytest.mark.parametrize("model", ["linear", "classes"])
def test_infinite_labels_of_one_array_are_refused_with_their_row(model):
    y = np.where(np.arange(12) == 3, np.inf, 1.0)
    with pytest.raises(NotFinite, match=r"y contains infinity: 1 of 12 rows, the first is row 3"):
        MODELS[model][0].fit(list(np.random.default_rng(6).normal(size=(2, 6, 2))), y)


def test_a_party_without_labels_is_named():
    rng = np.random.default_rng(7)
    with pytest.raises(EmptyData, match="y of party 2 has no entries"):
        FederatedLogisticRegression().fit([rng.normal(size=(8, 2)), np.empty((0, 2))], [np.arange(8) % 2, []])
