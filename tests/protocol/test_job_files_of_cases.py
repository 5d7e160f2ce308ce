"""Every case that a job file can ask for is written by the report so that it is read as the same plan."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.protocol.cases import CASES

from fedsvd.protocol.tasks import Check, Item, Robust, Split, Task, Trust
from fedsvd.storage.toml import spelt_toml
from fedsvd.studies.job_file import job_from, study_of
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import released
from fedsvd.studies.submitted import written_file
from fedsvd.tasks.option import TASKS
from fedsvd.tasks.options import option_of, section_of
from fedsvd.types import SessionId

NAMES = ("a", "b")
# What a role computes with is settled where it runs.
OF_THIS_MACHINE = {"device", "engine"}
MATCHED = [name for name in CASES if name.startswith("match")]
PREPARED = {"missing": "mean", "indicators": True, "categories": "g", "covariates": ["b"], "most_levels": 4}


def asked_in(study):
    """The job file that a person would write for this study."""
    job = {"name": "case", "task": str(study.task)}
    said = {
        "components": study.components_by or study.components,
        "alpha": study.alpha,
        "alphas": list(study.alphas),
        "choose_by": study.chosen_by if study.alphas else None,
        "unit_variance": study.unit_variance,
        "memory": study.memory,
        "verify": None if study.check is Check.NONE else str(study.check),
        "write": "none" if study.check is Check.SAMPLE else None,
        "id": "key" if study.check_ids else None,
        "weights": "w" if study.weighted else None,
        "cluster": "ward" if study.robust is Robust.CLUSTER else None,
        "cov_type": str(study.robust) if study.robust not in (None, Robust.CLUSTER) else None,
        "split": str(study.split) if study.task not in (Task.CCA, Task.FOREIGN) else None,
    }
    job |= {key: value for key, value in said.items() if value}
    if study.centre is False:
        job["intercept"] = False
    if study.targets:
        job["label"] = [f"y{column}" for column in range(study.targets)]
    if study.task is Task.LR:
        job["digits"] = str(study.digits)
    if study.task is Task.LR and study.split is Split.VERTICAL:
        job["label_party"] = NAMES[study.label_user - 1]
    if study.release is not None:
        named = [str(item) for item in study.release if item not in (Item.OWN_PART, Item.ROBUST, Item.RIDGE_PATH)]
        job |= {"release": named} if study.task in option_of("job", "release").tasks else {}
    if study.glm is not None:
        classes = [f"c{place}" for place in range(study.glm.classes)]
        job |= {key: getattr(study.glm, key) for key in ("tolerance", "digits")}
        if study.task is not Task.MIXED:
            job |= {key: getattr(study.glm, key) for key in ("least_class", "least_events")}
        if study.task is Task.COX:
            job |= {"label": "y", "event": "died", "ties": str(study.glm.ties)}
            job |= {"strata": "clinic"} if "strata" in study.glm.beside else {}
            said = dict(study.options)
            job |= {key: said[key] for key in ("schoenfeld", "baseline") if key in said}
            job |= {"times": json.loads(said["times"])} if "times" in said else {}
        elif study.task is Task.MIXED:
            job |= {"label": "y", "subject": "patient", "criterion": "reml" if study.glm.reml else "ml"}
        elif study.task is Task.PROPENSITY:
            of_times = "event" in study.glm.beside
            job |= {"label": "y", "treatment": "who", **({"event": "died"} if of_times else {"family": "gaussian"})}
            job |= dict(study.options)
        elif study.task is Task.ORDINAL:
            job["link"] = study.glm.link
        else:
            job["family"], job["quality"] = str(study.glm.family), Item.QUALITY in (study.release or ())
            job["roc"] = dict(study.options).get("roc", 0)
        job |= {"classes": classes} if classes else {}
    if study.task is Task.SURVIVAL:
        job |= {"label": "y", "event": "died", "group": "arm", "groups": ["a", "b"], "times": [2.0, 4.0, 6.0, 8.0]}
        job["digits"] = str(study.digits)
    masks = {"scheme": study.scheme, "mode": study.mode, "block_size": study.block_size}
    record = {"job": job, "masks": {key: value for key, value in masks.items() if value}}
    if study.foreign is not None:
        declaration = study.foreign.declaration
        record["foreign"] = {"name": declaration.name, "options": {"most": 2}, "declaration": declaration.record}
    if study.table is not None:
        about = study.table
        job |= {"counts": about.counts, "correlations": about.correlations, "digits": str(about.digits)}
        job |= {"by": about.by} if about.by else {}
        columns = {
            each.name: {"levels": each.levels} if each.levels else {"range": [each.low, each.high], "decimals": 0}
            for each in about.variables
        }
        record["dictionary"] = {"says": {"columns": columns}}
    record |= {"authority": {"name": "ta"}} if study.trust is Trust.AUTHORITY else {}
    return record | {"party": [{"name": name} for name in NAMES]}


def plan_of(job, case):
    """The plan of this job on the shapes of a case."""
    m = case.assemble().plan
    study = replace(study_of(job, m.label_user), certain_bound=case.study.certain_bound)
    return plan_study(study, m.m, m.counts, SessionId("ab" * 16)).plan


ASKED = [name for name in CASES if CASES[name]().study.task in TASKS]


@pytest.mark.parametrize("name", ASKED)
def test_the_job_file_of_a_report_comes_to_the_plan_of_the_case(name):
    case = CASES[name]()
    job = job_from(asked_in(case.study), Path())
    text = spelt_toml(written_file(job, every=True))
    again = job_from(tomllib.loads(text), Path())
    assert study_of(again) == study_of(job)
    assert plan_of(again, case).digest == plan_of(job, case).digest
    # The job file is that of the case: plans differ in keys, and in an own part, which a job file always asks for.
    plan, made = case.assemble().plan, plan_of(job, case)
    asked = plan.release if case.study.release is None else released(job.study.task, case.study.release)
    keys = {"session": made.session, "identities": (), "prekeys": (), "csp_identity": "", "ticket": ""}
    unlike = {} if set(asked) == set(plan.release) else {"steps": (), "why": ()}
    assert replace(made, **unlike) == replace(plan, release=asked, **keys, **unlike)


@pytest.mark.parametrize("name", ASKED)
def test_every_option_of_the_task_is_written_that_has_a_value(name):
    job = job_from(asked_in(CASES[name]().study), Path())
    written = tomllib.loads(spelt_toml(written_file(job, every=True)))
    for section, model in (("job", job.study), ("masks", job.masks)):
        heeded = {option.key for option in section_of(section) if job.study.task in option.tasks} - OF_THIS_MACHINE
        valued = {key for key in heeded if getattr(model, key) is not None}
        assert valued <= set(written[section]), section
        assert set(written[section]) <= heeded | {"split"}


@pytest.mark.parametrize("align", ["server", "ecdh"])
def test_the_job_file_of_a_matching_is_read_as_the_same_matching(align):
    assert MATCHED
    record = {
        "job": {"name": "case", "task": "svd", "split": "vertical", "id": "key"},
        "match": {"align": align, "least_overlap": 3},
        "party": [{"name": name} for name in NAMES],
    }
    job = job_from(record, Path())
    written = tomllib.loads(spelt_toml(written_file(job, every=True)))
    assert set(written["match"]) == {option.key for option in section_of("match")}
    assert study_of(job_from(written, Path())) == study_of(job)


def test_the_job_file_of_a_preparation_is_read_as_the_same_preparation():
    record = {
        "job": {"name": "case", "task": "svd"},
        "prepare": PREPARED,
        "party": [{"name": name} for name in NAMES],
    }
    job = job_from(record, Path())
    rule = CASES["preparation"]().study.rule
    # The case leaves the smallest count of its rule as the rule has it; a job file has its own default.
    assert replace(job.prepare.joint, minimum=rule.minimum) == rule
    written = tomllib.loads(spelt_toml(written_file(job, every=True)))
    # A view is one of a dictionary's, and this job has no dictionary; its columns are too few for a rank.
    assert set(written["prepare"]) == {option.key for option in section_of("prepare")} - {"view", "rank"}
    assert job_from(written, Path()).prepare == job.prepare
