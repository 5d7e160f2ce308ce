"""ComBat by sums equals neuroCombat on the joint table, to 1e-8 of the data and far beyond.

neuroCombat rounds continuous covariates to float32 (``dtype='float32'`` in its design matrix). Where they are numbers
of that type already, whole years, say, the two agree to rounding; elsewhere they differ by some 1e-9 to 1e-8 of the
data, which is that rounding. Both stop the empirical Bayes iteration at the same step, a relative change of 1e-4.
"""

import numpy as np
import pandas as pd
import pytest
from neuroCombat import neuroCombat
from tests.tolerances import assert_close, digits_lost
from tests.unit.prepare.jointly import joint_totals

from fedsvd.data.open import open_source
from fedsvd.errors import DataError
from fedsvd.prepare.combat import Harmonised, adjustment, fit, residual_squares, within_site
from fedsvd.prepare.sites import CovariateSums

GENES = tuple(f"g{j}" for j in range(12))
SIZES = (20, 31, 14)


@pytest.fixture(params=[1 << 20, 60], ids=["one panel", "many panels"])
def parts(request, monkeypatch):
    monkeypatch.setattr("fedsvd.prepare.derived.PANEL_CELLS", request.param)
    rng = np.random.default_rng(12)
    frames = []
    for size in SIZES:
        age, sex = rng.integers(20, 80, size).astype(float), rng.integers(0, 2, size).astype(float)
        X = (
            rng.normal(size=(size, 12)) * rng.uniform(0.5, 2, 12)
            + rng.normal(size=12)
            + np.outer(age, rng.normal(size=12)) / 20
        )
        frames.append(pd.DataFrame(X, columns=GENES).assign(age=age, sex=sex))
    return frames


def harmonised(parts, covariates, **options):
    tables = [open_source(part[[*GENES, *covariates]]) for part in parts]
    joined = joint_totals(tables)
    means, rows = joined.means(tables[0].names), joined.rows
    covariates, within = tuple(covariates), None
    if covariates:
        first = np.sum([within_site(table, covariates).vector() for table in tables], axis=0)
        within = CovariateSums.of_vector(first, len(covariates), len(GENES))
    model = fit(within, covariates, means, rows)
    second = sum(residual_squares(table, model) for table in tables)
    return [Harmonised(table, model, adjustment(table, model, second, **options)) for table in tables]


def reference(parts, categorical, continuous, **options):
    whole = pd.concat(parts, ignore_index=True)
    covars = whole[[*categorical, *continuous]].assign(site=np.repeat(np.arange(len(parts)), [len(p) for p in parts]))
    data = whole[list(GENES)].to_numpy().T.copy()
    found = neuroCombat(
        dat=data, covars=covars, batch_col="site", categorical_cols=categorical, continuous_cols=continuous, **options
    )
    return found["data"].T


@pytest.mark.parametrize("categorical, continuous", [([], []), ([], ["age"]), (["sex"], ["age"])])
@pytest.mark.parametrize(
    "ours, theirs",
    [({}, {}), ({"mean_only": True}, {"mean_only": True}), ({"empirical_bayes": False}, {"eb": False})],
    ids=["empirical Bayes", "mean only", "location and scale"],
)
def test_it_equals_neurocombat_on_the_joint_table(parts, categorical, continuous, ours, theirs):
    expected = reference(parts, categorical, continuous, **theirs)
    found = harmonised(parts, [*categorical, *continuous], **ours)
    assert found[0].names == GENES
    rows = np.vstack([table.rows(0, table.shape[0]) for table in found])
    assert_close(rows, expected, digits_lost(4))


def test_what_is_left_to_neurocombat_is_its_rounding_of_covariates_to_single_precision(parts):
    rng = np.random.default_rng(3)
    exact = [part.assign(age=part["age"] + rng.random(len(part))) for part in parts]
    single = [part.assign(age=part["age"].astype(np.float32).astype(float)) for part in exact]
    found = [np.vstack([t.rows(0, t.shape[0]) for t in harmonised(given, ["age"])]) for given in (exact, single)]
    expected = [reference(given, [], ["age"]) for given in (exact, single)]
    assert np.array_equal(*expected), "it does the rounding itself"
    assert_close(found[1], expected[1], digits_lost(4))
    assert_close(found[0], expected[0], float(np.finfo(np.float32).eps))
    with pytest.raises(AssertionError):
        assert_close(found[0], expected[0], digits_lost(5))


def test_site_means_are_nearer_to_each_other_than_before(parts):
    shifted = [part.assign(**{gene: part[gene] + 3.0 * i for gene in GENES}) for i, part in enumerate(parts)]
    found = harmonised(shifted, [])
    before = np.array([part[list(GENES)].mean() for part in shifted])
    after = np.array([table.rows(0, table.shape[0]).mean(axis=0) for table in found])
    assert np.ptp(after, axis=0).max() < 0.2 * np.ptp(before, axis=0).max()


def test_panels_of_rows_and_columns_agree(parts):
    table = harmonised(parts, ["age"])[0]
    assert_close(table.columns(3, 7), table.rows(0, SIZES[0])[:, 3:7], digits_lost(2))


def test_what_it_cannot_do_is_refused(parts):
    with pytest.raises(DataError, match="cannot be separated"):
        harmonised([part.assign(age=float(i)) for i, part in enumerate(parts)], ["age"])
    with pytest.raises(DataError, match="does not vary"):
        harmonised([part.assign(g3=1.0) for part in parts], [])
    with pytest.raises(DataError, match="two rows"):
        harmonised([parts[0][:1], *parts[1:]], [])
    with pytest.raises(DataError, match="two sites"):
        harmonised(parts[:1], [])
