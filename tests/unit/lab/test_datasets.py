"""Data sets: found, checked, fetched only when asked; synthetic ones have the spectra they are named for."""

import gzip
import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.tolerances import spectrum

from fedsvd.errors import ConfigError, DataError
from fedsvd_lab.datasets import catalogue, library, paper, real, synthetic
from fedsvd_lab.datasets.catalogue import DataFile, DataSet
from fedsvd_lab.datasets.library import Library

CONTENT = b"2\tb\n1\ta\n"


def small(**changes):
    """A data set of one file, and what its official place would send."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    return DataSet("small", (replace(DataFile("rows.txt", "https://example.org/x", digest), **changes),), "", "free")


def zipped(name, content):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr(name, content)
    return archive.getvalue()


def here_or_skip(name):
    found = Library.here()
    beside = Path(__file__).parents[4] / "shared" / "data"
    found = Library((*found.folders, beside))
    if not found.has(name):
        pytest.skip(f"the data set {name} is not here; set FEDSVD_DATA to the folder that holds it")
    return found


@pytest.mark.parametrize("name", ["rows.txt", "rows.txt.gz"])
def test_a_local_file_is_read_plain_or_gzipped(tmp_path, name):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / name).write_bytes(gzip.compress(CONTENT) if name.endswith("gz") else CONTENT)
    assert Library((tmp_path,)).read(small(), "rows.txt") == CONTENT


def test_a_file_with_other_content_is_refused(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "rows.txt").write_bytes(CONTENT + b"3\tc\n")
    with pytest.raises(DataError, match="SHA-256 differs"):
        Library((tmp_path,)).read(small(), "rows.txt")


def test_the_order_of_lines_may_differ_where_copies_do(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "rows.txt").write_bytes(b"1\ta\n2\tb\n")
    in_order = hashlib.sha256(b"1\ta\n2\tb\n").hexdigest()
    assert Library((tmp_path,)).read(small(sorted_lines=True, sha256=in_order), "rows.txt")
    (tmp_path / "small" / "rows.txt").write_bytes(CONTENT)
    assert Library((tmp_path,)).read(small(sorted_lines=True, sha256=in_order), "rows.txt") == CONTENT


def test_without_fetching_the_error_names_the_place_and_the_ways(tmp_path):
    with pytest.raises(DataError) as told:
        Library((tmp_path,)).read(small(), "rows.txt")
    for word in (str(tmp_path), "--data", "FEDSVD_DATA", "--fetch", "https://example.org/x", "free"):
        assert word in str(told.value)


@pytest.mark.parametrize("member", ["", "in/rows"])
def test_a_fetched_file_is_kept_and_not_fetched_again(tmp_path, member):
    asked, archive = [], zipped(member, CONTENT) if member else gzip.compress(CONTENT)

    def opener(url):
        asked.append(url)
        return archive

    found = Library((tmp_path,), opener)
    assert found.read(small(member=member), "rows.txt") == CONTENT
    assert found.read(small(member=member), "rows.txt") == CONTENT
    assert asked == ["https://example.org/x"]


def test_a_fetched_file_with_other_content_is_refused_and_not_kept(tmp_path):
    found = Library((tmp_path,), lambda url: gzip.compress(b"something else"))
    with pytest.raises(DataError, match="SHA-256 differs"):
        found.read(small(), "rows.txt")
    assert not list(tmp_path.rglob("rows*"))


def test_a_place_that_does_not_answer_is_an_error_with_a_way_out(tmp_path):
    def opener(url):
        raise OSError("no route")

    with pytest.raises(DataError, match="--data"):
        Library((tmp_path,), opener).read(small(), "rows.txt")


def test_only_https_is_fetched():
    assert all(file.url.startswith("https://") for data_set in catalogue.ALL.values() for file in data_set.files)
    with pytest.raises(DataError, match="https"):
        library.download("file:///etc/hostname")


def test_wine_is_the_table_that_is_well_known():
    D = real.wine(here_or_skip("wine"))
    assert D.shape == (6497, 12)
    assert np.bincount(D[:, 11].astype(int)).tolist() == [0, 0, 0, 30, 216, 2138, 2836, 1079, 193, 5]


def test_movielens_has_its_hundred_thousand_ratings():
    found = here_or_skip("ml-100k")
    X = real.movielens(found)
    assert [int((stars == X).sum()) for stars in range(1, 6)] == [6110, 11370, 27145, 34174, 21201]
    assert real.ages(found).shape == (943,)


def test_the_matrices_of_table_1_have_the_shapes_of_the_authors_code():
    found = here_or_skip("ml-100k")
    sizes = paper.Sizes()
    D, y = paper.regression("ml100k", found, sizes)
    assert (D.shape, y.shape) == ((943, 500), (943,))
    X = paper.factorised("ml100k", found, sizes)
    assert X.shape == (943, 1683)
    assert (X[:, -1] == 1).all()


def test_an_unknown_data_set_is_an_error_that_lists_the_known():
    with pytest.raises(ConfigError, match="ml100k"):
        paper.factorised("mnits", Library(()), paper.Sizes())


def test_the_power_law_of_the_text_has_exactly_its_spectrum():
    sigma = np.linalg.svd(synthetic.power_law(20, 50, 0.5, seed=3), compute_uv=False)
    assert np.abs(sigma - np.arange(1, 21) ** -0.5).max() <= spectrum(20, 50)


def test_the_power_law_of_the_code_has_rows_of_norm_at_most_one_and_a_falling_spectrum():
    X = synthetic.power_law_of_the_code(30, 4000, 1.0, seed=3)
    assert np.linalg.norm(X, axis=1).max() == pytest.approx(1.0)
    sigma = np.linalg.svd(X, compute_uv=False)
    # A Gaussian V makes the law hold roughly: a slope of -1 in logarithms, within a tenth.
    slope = np.polyfit(np.log(np.arange(1, 31)), np.log(sigma), 1)[0]
    assert abs(slope + 1) < 0.1


def test_one_seed_gives_one_matrix():
    one, two = (synthetic.power_law_of_the_code(5, 7, seed=1) for _ in range(2))
    assert (one == two).all()
    assert (one != synthetic.power_law_of_the_code(5, 7, seed=2)).any()


def test_ratings_are_half_stars_with_popular_films_and_the_count_asked_for():
    X = synthetic.ratings(300, 800, 6000, seed=4)
    assert (X.shape, X.nnz) == ((300, 800), 6000)
    assert set(np.unique(X.data)) <= set(np.arange(1, 11) / 2)
    counts = np.bincount(X.tocoo().row, minlength=300)
    assert counts[:30].sum() > 3 * counts[-30:].sum()


def test_ratings_refuse_a_dense_matrix():
    with pytest.raises(ConfigError, match="sparse"):
        synthetic.ratings(10, 10, 60, seed=1)
