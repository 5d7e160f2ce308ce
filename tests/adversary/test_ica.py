"""Adversary test 4: independent component analysis on what the CSP saw, and on what a user gets.

Alternating whitened ICA with integer refinement reads MovieLens through the paper's masks; under haar and mixing masks
it is at chance. The paper's own attack, scored the paper's way, sees next to nothing either way (C11). Smaller versions
of the same attacks, quick enough for every run, are in ``tests/unit/lab``.
"""

import numpy as np
import pytest
import scipy.optimize
from tests import datasets
from tests.tolerances import ACCEPTED, REJECTED, REJECTED_BY_FEW

from fedsvd.audit.attacks.alternating import WholeNumbers, alternating_ica
from fedsvd.audit.attacks.outputs import others_gram, records_from_gram
from fedsvd.audit.attacks.score import correlations, exact_entries
from fedsvd.audit.attacks.unmix import Cuts
from fedsvd.linalg.windows import MIXING_BLOCK, Form
from fedsvd.protocol.tasks import Item
from fedsvd_lab.attacks.calibration import calibrate
from fedsvd_lab.attacks.ica_table import referee, seen_of
from fedsvd_lab.attacks.referee import as_published, published_baseline, record_tables
from fedsvd_lab.attacks.rica import rica

B = 100
TOP = {"components": 1, "release": (Item.COMPONENTS, Item.SPECTRUM)}
OURS = {"mask": {"forms": (Form.MIXING, Form.MIXING)}}


@pytest.fixture(scope="module")
def ratings():
    return datasets.movielens()


@pytest.mark.slow
def test_more_than_nine_in_ten_ratings_are_read_exactly_through_the_papers_masks(ratings):
    run = seen_of(ratings, "blocks", B, 0)
    cuts = Cuts.of_width(run.Y.shape, B)
    assert min(rows.stop - rows.start for rows in cuts.rows) >= B
    found = referee(run, alternating_ica(run.Y, cuts, WholeNumbers()), cuts)
    exact, false = exact_entries(np.clip(found, 0.0, 5.0), ratings)
    assert exact > 0.9
    assert false < 0.01


@pytest.mark.slow
def test_while_the_papers_own_attack_and_score_take_the_same_masks_for_noise(ratings):
    run = seen_of(ratings, "blocks", B, 0)
    blocks = Cuts.of_width(ratings.shape, B)
    found = rica(run.Y.T, blocks, iterations=60)
    assert as_published(found, ratings) < published_baseline(ratings) + 0.1
    assert exact_entries(found, ratings)[0] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("scheme", OURS)
def test_the_same_attack_reads_nothing_under_our_schemes(ratings, scheme):
    """No more ratings come out than stand in the masked matrix by accident, whatever their order."""
    run = record_tables(np.array_split(ratings, 2), scheme=scheme, **OURS[scheme], **TOP)
    Y = run.csp.Y
    found = alternating_ica(Y, Cuts.of_width(Y.shape, B), WholeNumbers(passes=40)).found.T
    shuffled = ratings[np.random.default_rng(1).permutation(len(ratings))]
    exact, chance = (exact_entries(np.clip(found, 0.0, 5.0), table)[0] for table in (ratings, shuffled))
    assert abs(exact - chance) < 0.01


@pytest.mark.slow
def test_a_user_with_u_and_s_alone_rebuilds_most_of_a_partner_of_100_records(ratings):
    order = np.random.default_rng(1).permutation(len(ratings))
    parts = [ratings[order[100:]], ratings[order[:100]]]
    gram = others_gram(record_tables(parts).user(1, parts[0].T))
    found = records_from_gram(gram, 100, WholeNumbers()).T
    table = correlations(found, parts[1])
    rows, places = scipy.optimize.linear_sum_assignment(-table)
    rebuilt = np.empty_like(parts[1])
    rebuilt[places] = found[rows]
    assert np.mean([np.array_equal(np.rint(mine), true) for mine, true in zip(rebuilt, parts[1], strict=True)]) > 0.9
    assert exact_entries(rebuilt, parts[1])[0] > 0.95


@pytest.mark.slow
def test_p_values_under_mixing_masks_are_uniform_and_far_from_it_under_their_blocks_alone(ratings):
    """Both sides longer than two blocks. Without what a mixing mask has before them, blocks show in records."""
    films = np.argsort(-np.count_nonzero(ratings, axis=0), kind="stable")[:600]
    raters = np.argsort(-np.count_nonzero(ratings, axis=1), kind="stable")[:640]
    halves = np.array_split(ratings[np.sort(raters)][:, np.sort(films)], 2)
    ours = calibrate("ratings", halves, "mask", b=MIXING_BLOCK, repeats=12)
    assert set(ours.p) == {"features", "records"}
    assert min(ours.uniform.values()) > ACCEPTED
    assert min(calibrate("ratings", halves, "blocks", b=MIXING_BLOCK, repeats=12).uniform.values()) < REJECTED_BY_FEW


@pytest.mark.slow
def test_p_values_on_wine_are_uniform_along_its_records_and_far_from_it_under_blocks():
    """Wine has 12 features: a mixing mask over them would be one Haar matrix, and is not counted."""
    halves = np.array_split(datasets.wine(), 2)
    ours = calibrate("wine", halves, "mask", repeats=20)
    assert set(ours.p) == {"records"}
    assert ours.uniform["records"] > ACCEPTED
    assert min(calibrate("wine", halves, "blocks", repeats=20).uniform.values()) < REJECTED
