"""Declared outputs: who gets what, and one writer that writes what is declared and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.protocol.cases import CASES

from fedsvd.errors import ConfigError
from fedsvd.protocol.outputs import Kind, Output, To, array, column, fact, is_shared_file, output_of, shared_by
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Split, Task
from fedsvd.results.folder import save_table
from fedsvd.results.outputs import Values, shared_part, written
from fedsvd.results.result import PartyResult
from fedsvd.results.tables import party_result, shared_result
from fedsvd.results.write import read_result, write_result
from fedsvd.tasks.declared import declared, outputs_of

H, V = Split.HORIZONTAL, Split.VERTICAL
ESTIMATED = (Task.SVD, Task.LSA, Task.PCA, Task.PCR, Task.CCA, Task.LR, Task.GLM)
# Written by hand, from what the approvals of each task say that all parties get.
SPECTRUM = {"singular_values", "explained_variance", "explained_variance_ratio", "spectrum_threshold"}
COMPONENTS = {"components", "mean", "scale", "loadings", *SPECTRUM}
SHARED_ARRAYS = {
    (Task.SVD, H): {"components", "singular_values"},
    (Task.SVD, V): {"left_vectors", "singular_values"},
    (Task.LSA, H): {"components", "singular_values"},
    (Task.LSA, V): {"left_vectors", "singular_values"},
    (Task.PCA, H): COMPONENTS,
    (Task.PCR, H): COMPONENTS | {"component_coefficients", "component_covariance", "coefficients", "intercept"},
    (Task.CCA, V): {"left_vectors", "singular_values", "correlations"},
    (Task.LR, H): {
        *("coefficients", "intercept", "covariance", "estimates", "vif", "ridge_path", "ridge_errors"),
    },
    (Task.LR, V): {"intercept"},
    (Task.GLM, H): {"coefficients", "intercept", "contrasts", "estimates", "covariance", "naive_covariance", "roc"},
    (Task.PREDICT, V): set(),
}  # fmt: skip


@pytest.mark.parametrize(("task", "split"), SHARED_ARRAYS)
def test_what_all_parties_share_of_each_task_is_this_list_and_no_more(task, split):
    shared = shared_by(outputs_of(task), split)
    assert {output.name for output in shared if output.kind is Kind.ARRAY} == SHARED_ARRAYS[task, split]


@pytest.mark.parametrize("task", Task)
def test_declarations_are_plain_data_and_each_name_is_declared_once(task):
    outputs = outputs_of(task)
    again = [output_of(record) for record in json.loads(json.dumps([output.record() for output in outputs]))]
    assert tuple(again) == outputs
    named = [(output.name, output.kind is Kind.FACT) for output in outputs]
    assert len(set(named)) == len(named)


def about(federation, **more) -> PartyResult:
    names = tuple(f"p{i}" for i in range(federation.plan.k))
    targets = tuple(f"y{j}" for j in range(federation.plan.targets)) if federation.plan.glm is None else ("y",)
    plan, certificate = federation.plan, federation.certificate
    known = {"job": "j", "names": names, "plan": plan, "certificate": certificate, "targets": targets}
    return PartyResult(**{**known, "outputs": outputs_of(plan.task), **more})


@pytest.mark.parametrize("name", [name for name, make in CASES.items() if make().study.task in ESTIMATED])
def test_no_reader_gets_what_is_declared_for_another(name):
    federation = CASES[name](2)
    results = federation.run()
    study = about(federation)
    shared = shared_result(study, results[0], federation.parties[0])
    assert set(shared.arrays) <= SHARED_ARRAYS[federation.plan.task, federation.plan.split]
    assert shared.arrays
    facts = {output.name for output in shared_by(study.outputs, federation.plan.split) if output.kind is Kind.FACT}
    assert {*shared.facts, *shared.objects} <= facts
    for place, (computed, data) in enumerate(zip(results, federation.parties, strict=True), start=1):
        own = party_result(study, user(place), computed, data)
        assert set(own.arrays) >= set(shared.arrays)
        holders = {o.name for o in study.outputs if o.receiver(federation.plan.split) is To.HOLDER}
        if place != federation.plan.label_user:
            assert not holders & {*own.arrays, *own.facts}
        again = shared_part(own)
        assert set(again.arrays) == set(shared.arrays)
        assert set(again.facts) == set(shared.facts)
        assert {table.name for table in own.tables} <= {output.table for output in study.outputs}


def played():
    federation = CASES["lr vertical with score"](2)
    federation.run()
    return federation


def test_a_value_that_is_not_declared_is_refused():
    study = about(played())
    for values in (Values({"rows": np.ones(3)}), Values(facts={"rows": 3})):
        with pytest.raises(ConfigError, match="gives rows, which it does not declare"):
            written(replace(study, reader=user(1)), values)


def test_what_only_the_label_holder_gets_reaches_no_other_reader():
    study, scores = about(played()), Values({"fitted": np.ones((8, 1))})
    holder = study.plan.label_user
    held = {place: written(replace(study, reader=user(place)), scores) for place in (1, 2)}
    assert "fitted" in held[holder].arrays
    assert "fitted" not in held[3 - holder].arrays
    assert not held[3 - holder].tables
    assert "fitted" not in written(study, scores).arrays


def test_a_table_of_records_is_not_shared_though_its_array_is():
    outputs = outputs_of(Task.SVD)
    assert is_shared_file(outputs, V, "left_vectors.npy")
    assert not is_shared_file(outputs, V, "left_vectors.csv")
    assert not is_shared_file(outputs, H, "left_vectors.npy")
    assert is_shared_file(outputs, H, "components.csv")
    assert not is_shared_file(outputs, V, "components.csv")
    assert is_shared_file(outputs, V, "spectrum.parquet")
    assert not is_shared_file(outputs, V, "row_ids.npy")


GROUPS = """[
  {"name": "variance", "axes": ["group", "feature"], "to": "all parties", "table": "variance"},
  {"name": "weight", "axes": ["group"], "to": "all parties", "table": "weight", "heading": "total"},
  {"name": "distance", "axes": ["record"], "to": "each party its own", "table": "distance"},
  {"name": "groups", "axes": [], "to": "all parties", "kind": "fact"}
]"""


def test_a_declaration_from_json_is_written_without_its_task(tmp_path):
    outputs = tuple(output_of(record) for record in json.loads(GROUPS))
    study = about(played(), outputs=outputs, features=("a", "b"))
    values = Values(
        {"variance": np.array([[1.5, 2.5], [3.5, 4.5]]), "weight": np.array([5.5, 6.5]), "distance": np.array([0.5])},
        {"groups": 2},
        labels={"group": ("f", "m")},
    )
    own = written(replace(study, reader=user(1)), values, np.array(["r1"]))
    for table in own.tables:
        save_table(tmp_path, table)
    assert (tmp_path / "variance.csv").read_text() == "feature,f,m\na,1.5,3.5\nb,2.5,4.5\n"
    assert (tmp_path / "weight.csv").read_text() == "group,total\nf,5.5\nm,6.5\n"
    assert (tmp_path / "distance.csv").read_text() == "id,distance\nr1,0.5\n"
    shared = written(study, values)
    assert (set(shared.arrays), shared.facts) == ({"variance", "weight"}, {"groups": 2})
    write_result(tmp_path / "out", own)
    again = read_result(tmp_path / "out")
    assert again.outputs == outputs
    np.testing.assert_array_equal(again.arrays["variance"], values.arrays["variance"])


def test_columns_of_one_table_stand_side_by_side_and_one_of_a_table_alone_has_no_file():
    outputs = (
        column("sigma", "component", "spectrum", "singular_value"),
        column("taken", "component", "spectrum", "taken", kind=Kind.COLUMN),
        array("scores", "record", "component", to=To.OWN),
        fact("count"),
    )
    study = about(played(), outputs=outputs)
    found = written(study, Values({"sigma": np.array([2.0, 1.0]), "taken": np.array([True, False])}))
    (table,) = found.tables
    assert list(table.columns) == ["component", "singular_value", "taken"]
    assert table.columns["component"].tolist() == [1, 2]
    assert set(found.arrays) == {"sigma"}


def row(task: Task, output: Output) -> str:
    """A row of the page, from a declaration."""
    by_columns = "" if output.by_columns is None else f"; split columns: {output.by_columns}"
    what = "fact" if output.kind is Kind.FACT else f"({', '.join(output.axes)})"
    shown = f"`{output.table}.csv`" if output.table else ""
    attribute = f"`{output.attribute}`" if output.attribute else ""
    return f"| {task} | `{output.name}` | {what} | {output.to}{by_columns} | {shown} | {attribute} |"


def test_the_page_of_formats_lists_the_outputs_of_every_task():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    expected = [row(task, output) for task in Task for output in declared(task).outputs]
    listed = [line for line in page.splitlines() if any(line.startswith(f"| {task} | `") for task in Task)]
    assert listed == expected
