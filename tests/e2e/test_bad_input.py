"""Bad input gets one clear error, with a code and a fix and nothing of the data in it, before anything is sent.

One section for each kind of bad input. What only all parties together can know (ids that differ, a joint table
without variance) is found before anything is uploaded.
"""

import re
import shutil
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from tests.tolerances import VALUES_BAR

from fedsvd.data.open import open_source
from fedsvd.errors import (
    ConfigError,
    ConstantData,
    DuplicateNames,
    EmptyData,
    FedSVDError,
    NotFinite,
    NotNumeric,
    NumericalError,
    RaggedRows,
    RepeatedIds,
    RowsDiffer,
    ShapeError,
    StorageError,
    UnknownFormat,
)
from fedsvd.policy.rules import Policy
from fedsvd.protocol.messages import PaddedBatch, Ready, SumShare
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.run import PartyData, run_study
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation

H, V = Split.HORIZONTAL, Split.VERTICAL
CANARY = 271.8281828  # stands in every table, and in no message
SILENT = Policy(warn=False)


def uploads(federation):
    """What was sent of any user's matrix, masked or as words; and that one was ready for it."""
    return [
        message
        for _, _, message in federation.sent
        if isinstance(message, PaddedBatch | Ready) or (isinstance(message, SumShare) and message.name == "gram")
    ]


def table(rows=6, columns=4, seed=0):
    D = np.random.default_rng(seed).normal(size=(rows, columns))
    D[0, 0] = CANARY
    return D


def refused(error, text, make):
    """``make`` and run a federation: it ends with this error, and nobody has said anything."""
    made: list[Federation] = []

    def run():
        made.append(make())
        made[0].run()

    with pytest.raises(error, match=text) as caught:
        run()
    assert type(caught.value) is error
    message = str(caught.value)
    assert message.startswith(f"{error.code}: ")
    assert ". Fix: " in message, "an error says how to mend it"
    assert "271" not in re.sub(r"\S*/\S*", "", message), "names of files have numbers of their own"
    assert "canary" not in message
    assert [spoken for federation in made for spoken in federation.sent] == []
    return message


# --- NaN and infinity -------------------------------------------------------------------------------------------------

HOLES = {
    "array": lambda D: D,
    "transposed array": lambda D: np.asfortranarray(D),
    "float32": lambda D: D.astype(np.float32),
    "masked array": lambda D: np.ma.masked_invalid(D),
    "masked whole numbers": lambda D: np.ma.MaskedArray(np.ones(D.shape, int), ~np.isfinite(D)),
    "sparse": scipy.sparse.csr_array,
    "list": lambda D: D.tolist(),
    "data frame": lambda D: pd.DataFrame(D),
    "source": lambda D: open_source(D),
}


@pytest.mark.parametrize("task", [Task.SVD, Task.PCA, Task.LR])
@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("party", [1, 2, 3])
def test_a_hole_in_one_partys_table_is_refused(party, hole, task):
    tables = [table(5000, seed=seed) for seed in range(3)]
    tables[party - 1][4999, 2] = hole  # far behind the first chunk
    labels = [np.ones(5000)] * 3 if task is Task.LR else None
    message = refused(
        NotFinite, f"party {party}: .* first at row 4999", lambda: Federation(tables, task, H, labels=labels)
    )
    assert "column 2" in message


@pytest.mark.parametrize("form", HOLES)
def test_a_hole_is_refused_in_every_form_of_data(form):
    D = table()
    D[3, 1] = np.nan
    refused(NotFinite, "row 3", lambda: Federation([table(), HOLES[form](D)], split=H))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
def test_a_hole_is_refused_in_every_kind_of_file(suffix, tmp_path):
    D, path = table(), tmp_path / f"canary.{suffix}"
    D[3, 1] = np.nan
    frame = pd.DataFrame(D, columns=["age", "height", "weight", "pulse"])
    {"csv": lambda: frame.to_csv(path, index=False), "parquet": lambda: frame.to_parquet(path),
     "npy": lambda: np.save(path, D)}[suffix]()  # fmt: skip
    refused(NotFinite, "row 3", lambda: Federation([table(), path], split=H))


@pytest.mark.parametrize("split", Split)
def test_a_hole_in_the_labels_is_refused(split):
    y = np.array([1.0, 2.0, np.nan, CANARY, 5.0, np.inf])
    labels = [y, y] if split is H else [None, y]
    refused(
        NotFinite, "2 of party . 6 labels".replace(" . ", " [12]'s "),
        lambda: Federation([table(), table(seed=1)], Task.LR, split, labels=labels),
    )  # fmt: skip


# --- wrong type -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        np.array([["1.5", "canary"], ["2", "3"]]),
        np.array([[1 + 2j, CANARY], [3, 4]]),
        np.array([["2024-01-01", "2024-01-02"]], dtype="datetime64[D]"),
        np.array([[1.0, "canary"], [2.0, None]], dtype=object),
        pd.DataFrame({"a": [1.0, 2.0], "b": ["canary", "y"]}),
        [[1.0, "canary"], [2.0, 3.0]],
    ],
    ids=["text", "complex", "dates", "objects", "frame with text", "list with text"],
)
def test_data_that_is_not_numbers_is_refused(data):
    refused(NotNumeric, "not numbers", lambda: Federation([table(2, 2), data], split=H))


def test_dates_of_a_frame_are_refused_with_the_map_that_reads_them():
    dates = pd.DataFrame({"a": [1.0, 2.0], "b": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    refused(
        NotNumeric,
        r'dates\. Fix: read it so by b = \{ date = "%Y-%m-%d"',
        lambda: Federation([table(2, 2), dates], split=H),
    )


def test_data_that_is_no_table_is_refused():
    refused(ShapeError, "1 dimension", lambda: Federation([table(), np.ones(4)], split=H))
    refused(ShapeError, "3 dimension", lambda: Federation([table(), np.ones((2, 2, 2))], split=H))
    refused(UnknownFormat, "no reader", lambda: Federation([table(), {"canary": 1}], split=H))


def test_columns_of_one_name_are_refused():
    frame = pd.DataFrame(table(), columns=["a", "b", "a", "c"])
    refused(DuplicateNames, "'a'", lambda: Federation([table(), frame], split=H))


# --- ragged or mismatched rows ----------------------------------------------------------------------------------------


def test_ragged_rows_are_refused(tmp_path):
    refused(RaggedRows, "row 1", lambda: Federation([[[1.0, 2.0], [3.0]], table(2, 2)], split=H))
    path = tmp_path / "ragged.csv"
    path.write_text(f"a,b,c\n1,2,3\n4,{CANARY},6\n7,8\n")
    refused(RaggedRows, "line 4", lambda: Federation([path, table(3, 3)], split=H))


@pytest.mark.parametrize(("split", "what"), [(V, "rows"), (H, "columns")])
def test_tables_that_do_not_fit_together_are_refused(split, what):
    shapes = [(6, 4), (6, 4), (7, 4)] if split is V else [(6, 4), (6, 5), (6, 4)]
    odd = "party 3 has 7" if split is V else "party 2 has 5"
    text = rf"different numbers of {what}: party 1 has \d, {odd}"
    refused(ShapeError, text, lambda: Federation([table(*shape) for shape in shapes], split=split))


def test_labels_that_do_not_fit_the_rows_are_refused():
    refused(
        ShapeError, r"labels of shape \(5, 1\), expected \(6, 1\)",
        lambda: Federation([table(), table()], Task.LR, V, labels=[None, np.ones(5)]),
    )  # fmt: skip
    refused(
        ShapeError, r"party 2 has labels of shape \(6, 2\), expected \(6, 1\)",
        lambda: Federation([table(), table()], Task.LR, H, labels=[np.ones(6), np.ones((6, 2))]),
    )  # fmt: skip


def test_ids_in_another_order_are_refused_without_a_count_before_anything_is_uploaded():
    ids = [np.array([f"canary-{row}" for row in order]) for order in ((0, 1, 2, 3, 4, 5), (0, 2, 1, 3, 4, 5))]
    federation = Federation([table(), table()], ids=ids, check_ids=True)
    with pytest.raises(RowsDiffer, match=r"rows have different ids.*Fix: sort every") as caught:
        federation.run()
    assert not any(digit.isdigit() for digit in caught.value.fault)  # a count would answer who is in another's table
    assert "canary" not in str(caught.value)
    assert not uploads(federation)


# --- ids --------------------------------------------------------------------------------------------------------------


def test_duplicate_ids_are_refused():
    ids = [np.arange(6), np.array([0, 1, 1, 3, 4, 4])]
    refused(
        RepeatedIds, "2 of party 2's 6 row ids occur more than once",
        lambda: Federation([table(), table()], ids=ids, check_ids=True),
    )  # fmt: skip


def test_duplicate_ids_as_text_are_refused_and_not_named():
    ids = [np.array(["canary", "b", "canary", "d", "e", "f"]), np.arange(6)]
    refused(RepeatedIds, "1 of party 1's", lambda: Federation([table(), table()], ids=ids, check_ids=True))


def test_missing_ids_are_refused():
    refused(
        ConfigError, "party 2 has no row ids",
        lambda: Federation([table(), table()], ids=[np.arange(6), None], check_ids=True),
    )  # fmt: skip
    refused(
        ShapeError, r"party 1 has ids of shape \(5,\) for 6 rows",
        lambda: Federation([table(), table()], ids=[np.arange(5), np.arange(6)], check_ids=True),
    )  # fmt: skip


# --- empty party, one party -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 4), (6, 0), (0, 0)])
def test_an_empty_party_is_refused(shape):
    refused(EmptyData, "shape", lambda: Federation([table(), np.empty(shape)], split=H))


@pytest.mark.parametrize("count", [0, 1])
def test_one_party_is_no_federation(count):
    refused(ConfigError, f"at least two parties, got {count}", lambda: Federation([table()] * count))


# --- components -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("components", [5, 100])
@pytest.mark.parametrize("task", [Task.SVD, Task.LSA, Task.PCA])
def test_more_components_than_the_smaller_side_are_refused(task, components):
    message = refused(
        ConfigError, f"components = {components}", lambda: Federation([table()] * 2, task, H, components=components)
    )
    assert "between 1 and 4 for a joint table of 12 rows and 4 columns" in message


@pytest.mark.parametrize("components", [0, -1, 2.5, "3"])
def test_components_that_are_no_count_are_refused(components):
    refused(ConfigError, "components", lambda: Federation([table()] * 2, components=components))


# --- constant data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["sum", "mask"])
@pytest.mark.parametrize("unit_variance", [False, True])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e10 / 3])
def test_constant_data_has_no_principal_components(value, unit_variance, scheme):
    """Each party's table may be constant and the joint one not, so this is known only after the users' sums."""
    federation = Federation(
        [np.full((40, 3), value), np.full((30, 3), value)], Task.PCA, H, unit_variance=unit_variance, scheme=scheme
    )
    with pytest.raises(ConstantData, match=r"no column of the joint table varies.*Fix: ") as caught:
        federation.run()
    assert caught.value.code == "FSVD-210"
    assert not uploads(federation)


def test_parties_that_are_constant_each_in_its_own_way_are_fine():
    result = Federation([np.zeros((5, 3)), np.ones((5, 3))], Task.PCA, H).run()[0]
    assert result.rank == 1


# --- sizes and magnitudes ---------------------------------------------------------------------------------------------


def test_a_budget_that_holds_no_panel_is_refused():
    message = refused(
        StorageError,
        "a memory budget of 50000 bytes has no space for",
        lambda: Federation([table(60, 600)] * 2, memory=50_000),
    )
    assert "allow at least" in message


def test_a_full_svd_beyond_the_budget_is_refused_and_the_top_is_not():
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(560, 450)) for _ in range(2)]
    budget = 48 * 560 * 520
    message = refused(StorageError, "a full SVD of 560 x 900", lambda: Federation(parts, memory=budget, scheme="mask"))
    assert "ask for a number of components, or allow more memory" in message


def test_a_masked_matrix_beyond_the_budget_asks_for_a_scratch_folder():
    parts = [np.random.default_rng(4).normal(size=(3200, 280)) for _ in range(2)]
    federation = Federation(parts, components=2, memory=4_500_000, scheme="mask")
    with pytest.raises(StorageError, match=r"3200 x 560 matrix does not fit.*Fix: name a scratch folder"):
        federation.run()
    assert not [message for _, _, message in federation.sent if isinstance(message, PaddedBatch)]


def test_a_disk_too_small_for_the_masked_matrix_is_refused_before_the_upload(monkeypatch, tmp_path):
    rng = np.random.default_rng(4)
    parts = [rng.normal(size=(3200, 280)) for _ in range(2)]
    federation = Federation(parts, components=2, memory=4_500_000, scheme="mask", scratch=tmp_path)
    full = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(StorageError, match=r"1000 B are free.*Fix: ") as caught:
        federation.run()
    assert caught.value.code == "FSVD-350"
    assert not [message for _, _, message in federation.sent if isinstance(message, PaddedBatch)]


@pytest.mark.parametrize(
    ("task", "scheme"),
    [*product([Task.SVD, Task.PCA], ["sum", "mask"]), (Task.LR, "sum")],
)
def test_numbers_whose_squares_leave_float64_are_refused_before_the_upload(task, scheme):
    labels = [np.arange(6.0)] * 2 if task is Task.LR else None
    federation = Federation([1e200 * table(), 1e200 * table(seed=1)], task, H, labels=labels, scheme=scheme)
    with pytest.raises(NumericalError, match=r"leaves the range of float64.*Fix: take a larger unit"):
        federation.run()
    assert not uploads(federation)


@pytest.mark.parametrize("components", [None, 2], ids=["mode A", "mode B"])
@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150])
def test_tables_of_very_small_and_very_large_numbers_have_the_spectrum_they_have(size, components):
    D = [table(), table(seed=1)]
    results = Federation([size * D_i for D_i in D], Task.SVD, H, components=components, scheme="sum").run()
    exact = np.linalg.svd(np.vstack(D), compute_uv=False)[:components]
    np.testing.assert_allclose(results[0].sigma / size, exact, rtol=0, atol=VALUES_BAR * exact[0])


# --- labels, weights, options -----------------------------------------------------------------------------------------


def test_labels_that_nobody_or_two_parties_hold_are_refused():
    tables = [table(), table(seed=1)]
    refused(ConfigError, "party 2 has no labels", lambda: Federation(tables, Task.LR, V, targets=1, label_user=2))
    refused(
        ConfigError, "party 2 has labels, and party 1 holds them",
        lambda: Federation(tables, Task.LR, V, labels=[np.ones(6), np.ones(6)]),
    )  # fmt: skip
    refused(ConfigError, "party 2 has no labels", lambda: Federation(tables, Task.LR, H, labels=[np.ones(6), None]))
    refused(ConfigError, "label_user = 3", lambda: Federation(tables, Task.LR, V, targets=1, label_user=3))
    refused(ConfigError, "label_user = 0", lambda: Federation(tables, Task.LR, V, targets=1))


def test_coefficients_of_other_columns_are_refused():
    tables, w = [table(), table()], (np.ones((4, 1)), np.ones(1))
    refused(
        ConfigError, "party 2 has no coefficients",
        lambda: Federation(tables, Task.PREDICT, V, weights=[w, None], label_user=1),
    )  # fmt: skip
    refused(
        ShapeError, r"party 2 has coefficients of shape \(3, 1\), expected \(4, 1\)",
        lambda: Federation(tables, Task.PREDICT, V, weights=[w, (np.ones((3, 1)), np.ones(1))], label_user=1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("task", "asked"),
    [
        (Task.SVD, {"centre": True}),
        (Task.SVD, {"unit_variance": True}),
        (Task.SVD, {"alpha": 1.0}),
        (Task.SVD, {"targets": 1}),
        (Task.PCA, {"centre": False}),
        (Task.SVD, {"scheme": "paper"}),
        (Task.SVD, {"scheme": "fastest"}),
        (Task.SVD, {"block_size": -1}),
        (Task.SVD, {"mode": "C"}),
        (Task.SVD, {"mode": "A", "scheme": "mask"}),
        (Task.SVD, {"scheme": "compressed"}),
        (Task.SVD, {"memory": 0}),
    ],
    ids=repr,
)
def test_options_without_sense_are_refused(task, asked):
    refused(ConfigError, "FSVD-100", lambda: Federation([table(), table()], task, H, **asked))


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf])
def test_a_ridge_that_is_no_number_is_refused(alpha):
    refused(ConfigError, "alpha", lambda: Federation([table()] * 2, Task.LR, H, labels=[np.ones(6)] * 2, alpha=alpha))


def test_pca_of_split_columns_is_refused():
    refused(ConfigError, "PCA needs samples split", lambda: Federation([table(), table()], Task.PCA, V))


def test_the_product_refuses_as_the_tests_federation_does():
    """``run_study`` and ``fedsvd.testing`` go through the same check."""
    D = table()
    D[1, 1] = np.nan
    with pytest.raises(NotFinite, match="party 2"):
        run_study(Study(Task.SVD, H), [PartyData(open_source(table())), PartyData(open_source(D))], policy=SILENT)
    with pytest.raises(FedSVDError, match="at least two parties"):
        run_study(Study(Task.SVD, H), [PartyData(open_source(table()))], policy=SILENT)
