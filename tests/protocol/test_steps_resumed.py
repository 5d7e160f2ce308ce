"""A search by steps that was interrupted goes on where all parties have the same, or starts again."""

import os
import stat
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from tests.tolerances import VALUES_BAR, assert_close, assert_same_vectors, found_by_steps
from tests.unit.linalg.steps_cases import factors, noise, of_spectrum

from fedsvd.protocol.directions import memory_of_steps
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.storage.record_file import RecordFile
from fedsvd.studies.run import UserFiles
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
RELEASE = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)


class Killed(Exception):
    """What a kill looks like from inside."""


def killed_at(name):
    def meddle(origin, to, message):
        if isinstance(message, SumShare) and message.name == name:
            raise Killed
        return (message,)

    return meddle


def pca(X, folder, k=3, seed=1, sparse=False, **asked):
    parts = [scipy.sparse.csr_array(part) if sparse else part for part in np.array_split(X, k)]
    study = {"scheme": "steps", "components": 3, "release": RELEASE} | asked
    return Federation(
        parts,
        Task.PCA,
        Split.HORIZONTAL,
        insecure_seed=bytes([seed]) * 32,
        files=lambda plan, i: UserFiles(search=RecordFile(folder / f"{i}.steps")),
        **study,
    )


def interrupted(X, folder, at="step 4", **asked):
    with pytest.raises(Killed):
        pca(X, folder, **asked).run(meddle=killed_at(at))


def resumed(X, folder, **asked):
    """What a second session ends with, and the numbers of the steps that it plays."""
    federation = pca(X, folder, seed=2, **asked)
    results = federation.run()
    names = dict.fromkeys(m.name for *_, m in federation.sent if isinstance(m, SumShare) and m.name.startswith("step "))
    return results, [int(name.removeprefix("step ")) for name in names]


def expect_right(results, X, scaled=False):
    C = X - X.mean(axis=0)
    C = C / C.std(axis=0) if scaled else C
    U, s, Vt = np.linalg.svd(C, full_matrices=False)
    assert_close(results[0].sigma, s[:3], VALUES_BAR, s[0])
    assert_same_vectors(results[0].U.T, Vt[:3], s)
    scores = np.concatenate([np.asarray(found.scores_i) for found in results])
    assert_same_vectors((scores / s[:3]).T, U[:, :3].T, s)
    assert results[0].residual <= found_by_steps(3, X.shape[1])


@pytest.mark.parametrize("asked", [{}, {"unit_variance": True}, {"sparse": True}])
def test_a_search_that_was_killed_between_steps_goes_on_and_ends_right(asked, tmp_path):
    X = np.round(factors(60, 90), 2)
    X[np.abs(X) < 1.0] = 0.0
    interrupted(X, tmp_path, **asked)
    results, played = resumed(X, tmp_path, **asked)
    expect_right(results, X, asked.get("unit_variance", False))
    assert played[0] == 4
    said = results[0].checked.order
    assert len(said.passes) == 1 + played[-1]
    assert said.directions > 3 * (1 + len(played))


def test_a_search_whose_basis_started_again_goes_on_from_there(tmp_path):
    """26 directions are held at a time: the basis starts again after step 5 and after each later one."""
    X = noise(60, 90)
    memory = memory_of_steps(replace(pca(X, tmp_path).assemble().plan, memory=1))
    interrupted(X, tmp_path, "step 8", memory=memory)
    results, played = resumed(X, tmp_path, memory=memory)
    expect_right(results, X)
    assert played[0] == 8
    assert results[0].checked.order.directions > 26


def test_a_second_search_for_copies_goes_on(tmp_path):
    """40 equal values, of which a first search from 16 directions finds 16; it was killed in the second one."""
    X = of_spectrum([3.0, *[2.0] * 40, *np.linspace(1.5, 0.1, 40)], 90, 150)
    interrupted(X, tmp_path, "step 6", components=34)
    results, played = resumed(X, tmp_path, components=34)
    s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    assert_close(results[0].sigma, s[:34], VALUES_BAR, s[0])
    assert played[0] == 6
    assert "from 32 random ones" in results[0].checked.order.text


def test_means_far_from_zero_are_those_of_the_first_session_to_the_last_digit(tmp_path):
    """Noise of a second session in the last digit of a mean would be in the ninth digit of what is left of it."""
    X = factors(60, 90) + 1e7
    interrupted(X, tmp_path)
    results, played = resumed(X, tmp_path)
    assert played[0] == 4
    assert results[0].residual <= found_by_steps(3, 90)


def test_a_party_that_is_one_step_behind_takes_all_back_by_one(tmp_path):
    X = factors(60, 90)
    interrupted(X, tmp_path)
    cut_last(tmp_path / "1.steps")
    results, played = resumed(X, tmp_path)
    expect_right(results, X)
    assert played[0] == 3


def cut_last(path):
    whole = RecordFile(path).read()
    os.truncate(path, path.stat().st_size - len(whole[-1]))


def test_user_1_may_be_the_one_that_is_behind(tmp_path):
    X = factors(60, 90)
    interrupted(X, tmp_path)
    cut_last(tmp_path / "0.steps")
    results, played = resumed(X, tmp_path)
    expect_right(results, X)
    assert played[0] == 3


def test_a_second_interruption_goes_on_from_both_sessions(tmp_path):
    X = factors(60, 90)
    interrupted(X, tmp_path, at="step 3")
    with pytest.raises(Killed):
        pca(X, tmp_path, seed=3).run(meddle=killed_at("step 6"))
    results, played = resumed(X, tmp_path)
    expect_right(results, X)
    assert played[0] == 6


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("party", [0, 2])
@pytest.mark.parametrize("trouble", ["damaged", "gone", "of another search"])
def test_a_file_that_differs_at_one_party_starts_the_search_again(trouble, party, tmp_path):
    X = factors(60, 90)
    interrupted(X, tmp_path)
    path = tmp_path / f"{party}.steps"
    if trouble == "damaged":
        content = bytearray(path.read_bytes())
        content[40] ^= 1
        path.write_bytes(content)
    elif trouble == "gone":
        path.unlink()
    else:
        (tmp_path / "other").mkdir()
        interrupted(X * 2.0, tmp_path / "other")
        os.replace(tmp_path / "other" / f"{party}.steps", path)
    results, played = resumed(X, tmp_path)
    expect_right(results, X)
    assert played[0] == 0


def test_damage_behind_some_steps_takes_what_is_before_it(tmp_path):
    """A party that lost more than its last step is not waited for: user 1 offers its last two."""
    X = factors(60, 90)
    interrupted(X, tmp_path)
    damage(tmp_path / "2.steps")
    results, played = resumed(X, tmp_path)
    expect_right(results, X)
    assert played[0] == 0


@pytest.mark.parametrize("sparse", [False, True])
def test_a_table_that_changed_anywhere_starts_the_search_again(sparse, tmp_path):
    X = np.round(factors(60, 90), 2)
    interrupted(X, tmp_path, sparse=sparse)
    X[31, 44] += 1e-6
    results, played = resumed(X, tmp_path, sparse=sparse)
    expect_right(results, X)
    assert played[0] == 0


def test_a_search_that_starts_again_opens_the_directions_of_the_first(tmp_path):
    """What a second attempt opens is known from the first, but for rounding: it counts once."""
    X, first = factors(60, 90), []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        interrupted(X, folder, seed=seed, at="step 1")
        records = [RecordFile(folder / f"{i}.steps").read() for i in range(3)]
        assert {len(each) for each in records} == {2}
        first.append(np.frombuffer(records[0][1][8 + 16 : 8 + 16 + 8 * 90 * 11], "<f8").reshape(90, 11))
    assert np.abs(first[0] - first[1]).max() <= VALUES_BAR * np.abs(first[0]).max()


def test_files_of_a_search_are_their_owners_alone(tmp_path):
    interrupted(factors(60, 90), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.steps", "1.steps", "2.steps"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
