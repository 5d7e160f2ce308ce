"""Hash trees over files (ADR 0052), computed here by hand with hashlib alone, from reference/formats.md."""

import hashlib
import json

import numpy as np
import pytest

from fedsvd.protocol.tasks import Split, Task
from fedsvd.results.file_tree import Leaf, differences, leaf_of, manifest_leaf, root_of, shared_among
from fedsvd.results.folder import Table, save_array, save_table, table_writers, write_array
from fedsvd.tasks.declared import outputs_of


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def with_lengths(*parts):
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def leaf(name, content):
    return sha(b"\x00", with_lengths(name, str(len(content)).encode(), sha(content)))


CONTENT = {f"{letter}.npy": letter.encode() * (place + 1) for place, letter in enumerate("abcde")}
LEAVES = {name: Leaf(len(content), hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items()}


def test_a_root_is_that_of_a_binary_tree_with_an_odd_one_carried_up():
    a, b, c, d, e = (leaf(name.encode(), content) for name, content in CONTENT.items())
    assert root_of(LEAVES) == sha(b"\x01", sha(b"\x01", sha(b"\x01", a, b), sha(b"\x01", c, d)), e)
    assert root_of({"a.npy": LEAVES["a.npy"]}) == a
    assert root_of(dict(reversed(LEAVES.items()))) == root_of(LEAVES)


@pytest.mark.parametrize("name", list(LEAVES))
def test_a_root_changes_with_every_name_length_and_content(name):
    held = LEAVES[name]
    others = [{**LEAVES, name: Leaf(held.bytes + 1, held.sha256)}, {**LEAVES, name: Leaf(held.bytes, "00" * 32)}]
    others.append({("x" + key if key == name else key): value for key, value in LEAVES.items()})
    others.append({key: value for key, value in LEAVES.items() if key != name})
    assert len({root_of(LEAVES), *map(root_of, others)}) == 5


def test_what_is_shared_leaves_out_own_files_and_the_table_with_row_ids():
    names = ("left_vectors.npy", "left_vectors.csv", "intercept.csv", "fitted.npy", "manifest.json")
    leaves = dict.fromkeys((*names, "certificate-match.json"), Leaf(1, "00" * 32))
    only = {"manifest.json": Leaf(2, "11" * 32), "left_vectors.csv": Leaf(3, "22" * 32)}
    outputs = (*outputs_of(Task.SVD), *outputs_of(Task.LR))
    found = shared_among(leaves, only, outputs, Split.VERTICAL)
    assert set(found) == {"left_vectors.npy", "intercept.csv", "certificate-match.json", *only}
    assert {name: found[name] for name in only} == only


SIGNED = {"reader": "party", "facts": {"r2": 0.25}, "parties": ["a", "b"], "versions": {"numpy": "2"}}
HELD = {"plan_digest": "ab", "residual": 1e-15, "orthogonality": 2e-16, "rank": 3}


def manifest(**changes):
    local = {"created": "2026-01-01", "files": {}, "only_as_npy": [], "proved": ""}
    return {**SIGNED, **local, "certificate": {**HELD, "bytes_total": 12, "seconds_total": 0.5}, **changes}


def test_the_leaf_of_a_manifest_is_of_what_is_known_before_it_is_signed():
    plain = json.dumps({**SIGNED, "certificate": HELD}, sort_keys=True, separators=(",", ":")).encode()
    assert manifest_leaf(manifest()) == Leaf(len(plain), hashlib.sha256(plain).hexdigest())
    later = {"created": "2027-01-01", "files": {"a.npy": {}}, "not_finished": "stopped", "only_as_npy": ["a"]}
    assert manifest_leaf(manifest(**later)) == manifest_leaf(manifest())
    tuples = {"parties": ("a", "b"), "certificate": {**HELD, "bytes_total": 99, "seconds_by_stage": {}}}
    assert manifest_leaf(manifest(**tuples)) == manifest_leaf(manifest())


@pytest.mark.parametrize(
    "change",
    [
        {"facts": {"r2": 0.75}},
        {"parties": ["b", "a"]},
        {"versions": {"numpy": "1"}},
        {"certificate": {**HELD, "residual": 0.0}},
        {"certificate": {**HELD, "rank": 4}},
        {"more": "a key that no manifest has"},
    ],
)
def test_any_other_change_of_a_manifest_changes_its_leaf(change):
    assert manifest_leaf(manifest(**change)) != manifest_leaf(manifest())


def test_versions_of_one_site_are_not_what_all_share():
    shared = manifest(reader="of all")
    assert manifest_leaf({**shared, "versions": {"numpy": "1"}}) == manifest_leaf(shared)


def test_what_is_hashed_is_what_is_written(tmp_path):
    """Through a sink that only takes bytes, as they are hashed before they are written."""
    rng = np.random.default_rng(2)
    array = rng.normal(size=(40, 3)).T
    table = Table("scores", {"id": [f"p, {n}" for n in range(40)], "x": array[0]})
    save_array(tmp_path, "components", array)
    save_table(tmp_path, table)
    taken = {"components.npy": lambda file: write_array(file, array)}
    taken |= {f"scores.{suffix}": write for suffix, write in table_writers(table).items()}
    for name, write in taken.items():
        with (tmp_path / f"again-{name}").open("wb") as file:
            write(file)
        assert (tmp_path / f"again-{name}").read_bytes() == (tmp_path / name).read_bytes()


def test_differences_name_every_file(tmp_path):
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    assert differences(tmp_path, LEAVES) == []
    assert leaf_of(tmp_path / "a.npy") == LEAVES["a.npy"]
    (tmp_path / "b.npy").write_bytes(b"bc")
    (tmp_path / "c.npy").unlink()
    (tmp_path / "new.csv").write_text("x")
    found = differences(tmp_path, LEAVES, others=("report.html",))
    assert found == ["b.npy was altered", "c.npy is missing", "new.csv was added"]
