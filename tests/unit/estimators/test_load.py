"""``fedsvd.load``: what a results folder holds is a fitted estimator again, equal to its twin on the joint table."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LinearRegression, Ridge
from tests.studies import CLOSE, FEATURES, companies, hospitals

import fedsvd
from fedsvd.errors import ConfigError, ShapeError, StorageError
from fedsvd.policy.rules import Policy
from fedsvd.results.write import write_job
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import read_job
from fedsvd.studies.jobs import results_of, run_job

# One table is divided here, so its rows are in one order.
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore::fedsvd.errors.RowsNotCompared")
COLUMNS = [*FEATURES, "outcome"]


def ran(files, **keys):
    prepared = prepare(read_job(files.job(id="patient", **keys)))
    write_job(files.folder / "out", results_of(prepared, run_job(prepared, policy=Policy.permissive())))
    return files.folder / "out"


def close(found, expected, scale=None):
    scale = np.abs(expected).max() if scale is None else scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE * scale)


@pytest.mark.parametrize("unit_variance", [False, True])
@pytest.mark.parametrize("place", ["", "parties/south"])
def test_a_pca_scores_new_data_from_a_partys_folder_and_from_the_jobs(place, unit_variance, tmp_path):
    files = hospitals(tmp_path)
    keys = {"components": 3, "release": ["components", "mean", "spectrum"], "unit_variance": unit_variance}
    pca = fedsvd.load(ran(files, task="pca", **keys) / place)
    D = files.joint[COLUMNS]
    scale = D.std(ddof=0) if unit_variance else 1.0
    twin = PCA(3, svd_solver="full").fit((D / scale).to_numpy())
    assert isinstance(pca, fedsvd.FederatedPCA)
    assert pca.feature_names_in_.tolist() == COLUMNS
    new = D.iloc[:7] + 1.0
    close(pca.transform(new), twin.transform((new / scale).to_numpy()))
    close(pca.explained_variance_ratio_, twin.explained_variance_ratio_)
    assert pca.noise_variance_ == pytest.approx(twin.noise_variance_, rel=CLOSE)
    back = twin.inverse_transform(twin.transform((new / scale).to_numpy())) * np.asarray(scale)
    close(pca.inverse_transform(pca.transform(new)), back)
    rows = slice(40, 75) if place else slice(None)
    close(np.vstack([party.scores_ for party in pca.parties_]), twin.transform((D / scale).to_numpy())[rows])
    assert len(pca.parties_) == (1 if place else 3)


def test_a_pca_without_its_spectrum_still_scores(tmp_path):
    files = hospitals(tmp_path)
    pca = fedsvd.load(ran(files, task="pca", components=2))
    twin = PCA(2, svd_solver="full").fit(files.joint[COLUMNS])
    close(pca.transform(files.joint[COLUMNS]), twin.transform(files.joint[COLUMNS]))
    assert not hasattr(pca, "explained_variance_")
    assert pca.get_params()["release_spectrum"] is False


def test_an_svd_of_split_rows_projects_from_any_folder_and_holds_the_rows_that_are_there(tmp_path):
    files = hospitals(tmp_path)
    out = ran(files, task="svd")
    D = files.joint[COLUMNS]
    expected = np.linalg.svd(D.to_numpy(), compute_uv=False)
    whole, south = fedsvd.load(out), fedsvd.load(out / "parties" / "south")
    for svd in (whole, south):
        assert isinstance(svd, fedsvd.FederatedSVD)
        close(svd.singular_values_, expected)
        close(svd.transform(D), D.to_numpy() @ svd.components_.T)
        close(svd.components_ @ svd.components_.T, np.eye(6))
    close(whole.U_ * whole.singular_values_ @ whole.components_, D.to_numpy())
    close(south.U_ * south.singular_values_ @ south.components_, D.to_numpy()[40:75])
    close(whole.explained_variance_, np.var(D.to_numpy() @ whole.components_.T, axis=0))
    assert not hasattr(south, "explained_variance_"), "the variances of one party's rows are not the table's"
    assert [part.U_.shape for part in whole.parties_] == [(40, 6), (35, 6), (45, 6)]
    assert [part.U_.shape for part in south.parties_] == [(35, 6)]


def test_what_all_parties_share_is_enough_to_project(tmp_path):
    files = hospitals(tmp_path)
    out = ran(files, task="lsa", components=2)
    for path in (out / "parties").iterdir():
        path.rename(tmp_path / f"elsewhere-{path.name}")
    lsa = fedsvd.load(out)
    assert lsa.parties_ == ()
    D = files.joint[COLUMNS]
    close(lsa.transform(D), D.to_numpy() @ lsa.components_.T)
    with pytest.raises(
        AttributeError, match="no U_ here: this folder has what all parties share; north, south and west"
    ):
        lsa.similarity(D.iloc[:2])


def test_an_lsa_finds_the_documents_of_its_folder(tmp_path):
    files = hospitals(tmp_path)
    out = ran(files, task="lsa", components=3)
    D = files.joint[COLUMNS]
    twin = TruncatedSVD(3, algorithm="arpack").fit(D)
    whole, west = fedsvd.load(out), fedsvd.load(out / "parties" / "west")
    close(whole.transform(D), twin.transform(D))
    _, among_all = whole.similarity(D.iloc[[80]], k=1)
    _, among_own = west.similarity(D.iloc[[80]], k=1)
    assert (among_all[0, 0], among_own[0, 0]) == (80, 5)


@pytest.mark.parametrize("task", ["svd", "lsa"])
def test_factors_of_split_columns_are_whole_from_the_jobs_folder_and_a_part_from_a_partys(task, tmp_path):
    files = companies(tmp_path)
    keys = {"components": 3} if task == "lsa" else {}
    out = ran(files, task=task, split="vertical", sort_by_id=True, **keys)
    D = files.joint[COLUMNS]
    whole, bank = fedsvd.load(out), fedsvd.load(out / "parties" / "bank")
    close(whole.transform(D), D.to_numpy() @ whole.components_.T)
    assert whole.feature_names_in_.tolist() == COLUMNS
    assert type(bank).__mro__[1] is type(whole)
    assert bank.feature_names_in_.tolist() == FEATURES[:2]
    close(bank.components_, whole.components_[:, :2])
    close(bank.U_, whole.U_)
    assert [part.components_.shape[1] for part in bank.parties_] == [2]
    with pytest.raises(ConfigError, match="one party's columns"):
        bank.transform(D[FEATURES[:2]])


def test_a_regression_on_split_rows_predicts_from_every_folder(tmp_path):
    files = hospitals(tmp_path)
    out = ran(files, task="lr", label="outcome", alpha=1.5)
    twin = Ridge(1.5, solver="svd").fit(files.D, files.y)
    for place in (out, out / "parties" / "north"):
        regression = fedsvd.load(place)
        assert isinstance(regression, fedsvd.FederatedLinearRegression)
        assert regression.get_params()["alpha"] == 1.5
        assert regression.coef_.shape == twin.coef_.shape
        new = files.joint[FEATURES].iloc[:9] * 1.5
        close(regression.predict(new), twin.predict(new.to_numpy()))
        assert regression.score(files.joint[FEATURES], files.y) == pytest.approx(
            twin.score(files.D, files.y), rel=CLOSE
        )


def test_a_regression_on_split_columns_predicts_whole_and_refuses_in_part(tmp_path):
    files = companies(tmp_path)
    out = ran(files, task="lr", split="vertical", label="outcome", sort_by_id=True)
    twin = LinearRegression().fit(files.D, files.y)
    whole, bank = fedsvd.load(out), fedsvd.load(out / "parties" / "bank")
    close(whole.predict(files.joint[FEATURES]), twin.predict(files.D))
    parts = [files.joint[FEATURES[:2]], files.joint[FEATURES[2:4]], files.joint[FEATURES[4:]]]
    close(whole.predict(parts), twin.predict(files.D))
    assert whole.get_params()["label_party"] == 2
    close(bank.coef_, whole.coef_[:2])
    with pytest.raises(ConfigError, match="coefficients of one party's columns"):
        bank.predict(files.joint[FEATURES[:2]])
    for path in (out / "parties").iterdir():
        path.rename(tmp_path / f"elsewhere-{path.name}")
    shared = fedsvd.load(out)
    close(shared.intercept_, twin.intercept_)
    with pytest.raises(AttributeError, match=r"no coef_ here: .* have their own"):
        _ = shared.coef_
    with pytest.raises(ConfigError, match="coefficients of one party's columns"):
        shared.predict(files.D)


def test_several_targets_and_no_intercept_come_back(tmp_path):
    files = hospitals(tmp_path)
    labels = ["outcome", "pressure"]
    regression = fedsvd.load(ran(files, task="lr", label=labels, intercept=False))
    X = files.joint[FEATURES[:4]]
    twin = LinearRegression(fit_intercept=False).fit(X, files.joint[labels])
    close(regression.coef_, twin.coef_)
    close(regression.predict(X), twin.predict(X))
    assert regression.intercept_ == 0.0


def test_data_without_names_gives_an_estimator_without_names(tmp_path):
    D = np.random.default_rng(3).normal(size=(90, 4))
    for name, rows in (("a", D[:30]), ("b", D[30:])):
        np.save(tmp_path / f"{name}.npy", rows)
    text = '[job]\nname = "j"\ntask = "pca"\ncomponents = 2\n'
    text += "".join(f'[[party]]\nname = "{name}"\ndata = "{name}.npy"\n' for name in "ab")
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    prepared = prepare(read_job(tmp_path / "job.toml"))
    write_job(tmp_path / "out", results_of(prepared, run_job(prepared, policy=Policy.permissive())))
    pca = fedsvd.load(tmp_path / "out")
    assert not hasattr(pca, "feature_names_in_")
    close(pca.transform(D), PCA(2, svd_solver="full").fit_transform(D))
    assert pd.read_csv(tmp_path / "out" / "components.csv")["feature"].tolist() == ["x0", "x1", "x2", "x3"]


def test_lost_rank_comes_back_with_the_zeros_scikit_learn_promises(tmp_path):
    rng = np.random.default_rng(5)
    D = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 4))
    np.save(tmp_path / "a.npy", D[:30])
    np.save(tmp_path / "b.npy", D[30:])
    text = '[job]\nname = "j"\ntask = "svd"\n'
    text += "".join(f'[[party]]\nname = "{name}"\ndata = "{name}.npy"\n' for name in "ab")
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    prepared = prepare(read_job(tmp_path / "job.toml"))
    write_job(tmp_path / "out", results_of(prepared, run_job(prepared, policy=Policy.permissive())))
    svd = fedsvd.load(tmp_path / "out")
    assert svd.rank_ == 2
    assert svd.U_.shape == (80, 4)
    assert not svd.singular_values_[2:].any()
    close(svd.U_ * svd.singular_values_ @ svd.components_, D)


def test_a_table_of_one_column_and_one_of_zeros_come_back(tmp_path):
    D = np.zeros((12, 3))
    D[:, 0] = np.arange(12.0)
    for table, rank in ((D, 1), (0 * D, 0)):
        np.save(tmp_path / "a.npy", table[:5])
        np.save(tmp_path / "b.npy", table[5:])
        text = '[job]\nname = "j"\ntask = "svd"\n'
        text += "".join(f'[[party]]\nname = "{name}"\ndata = "{name}.npy"\n' for name in "ab")
        (tmp_path / "job.toml").write_text(text, encoding="utf-8")
        prepared = prepare(read_job(tmp_path / "job.toml"))
        write_job(tmp_path / "out", results_of(prepared, run_job(prepared, policy=Policy.permissive())), overwrite=True)
        svd = fedsvd.load(tmp_path / "out")
        assert svd.rank_ == rank
        assert svd.U_.shape == (12, 3)
        close(svd.U_ * svd.singular_values_ @ svd.components_, table, scale=D.max())


def test_a_loaded_estimator_is_like_any_other(tmp_path):
    files = hospitals(tmp_path)
    pca = fedsvd.load(str(ran(files, task="pca", components=2)))
    D = files.joint[COLUMNS]
    again = pickle.loads(pickle.dumps(pca))  # noqa: S301 - its owner's own file
    np.testing.assert_array_equal(again.transform(D), pca.transform(D))
    rows = files.joint[["patient", *COLUMNS]]  # the job names the column of ids, and so does its estimator
    refitted = clone(pca).fit([rows[:40], rows[40:]])
    close(refitted.components_, pca.components_)
    assert isinstance(pca.set_output(transform="pandas").transform(D), pd.DataFrame)
    with pytest.raises((ShapeError, ValueError), match="feature"):
        pca.transform(D[FEATURES])


def test_a_damaged_folder_or_none_is_refused(tmp_path):
    out = ran(hospitals(tmp_path), task="pca", components=2)
    with pytest.raises(StorageError, match="manifest") as caught:
        fedsvd.load(tmp_path)
    assert caught.value.code == "FSVD-350"
    mean = (out / "mean.npy").read_bytes()
    (out / "mean.npy").write_bytes(mean[:-1] + bytes([mean[-1] ^ 1]))
    with pytest.raises(StorageError, match=r"mean\.npy is not as it was written"):
        fedsvd.load(out)
    (out / "mean.npy").write_bytes(mean)
    scores = out / "parties" / "south" / "scores.npy"
    scores.write_bytes(scores.read_bytes()[:-8])
    with pytest.raises(StorageError, match=r"scores\.npy"):
        fedsvd.load(out)
    record = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    record["rank"] = 1
    (out / "manifest.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(StorageError, match=r"manifest\.json is not as it was written"):
        fedsvd.load(out)
