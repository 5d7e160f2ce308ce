"""The report's job file, read by our own parser, is the same job: same study, same plan of every session."""

import tomllib
from pathlib import Path

import pytest

from fedsvd.protocol.asked import Asked
from fedsvd.protocol.certificate import Certificate
from fedsvd.results.report.page import job_file
from fedsvd.results.result import PartyResult
from fedsvd.service.enlist import plan_of
from fedsvd.service.records import EnlistedFacts
from fedsvd.storage.toml import spelt_toml
from fedsvd.studies.job_file import MasksSection, job_from, study_of
from fedsvd.studies.job_stages import stages_of
from fedsvd.studies.match_section import MatchSection
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.study_section import StudySection
from fedsvd.studies.submitted import asked_of, member_callers, submitted_file
from fedsvd.types import SessionId

ROWS = {"task": "lr", "label": "y"}
COLUMNS = {"task": "lr", "split": "vertical", "label": "y", "label_party": "a", "id": "key"}
CASES = {
    "svd": {"job": {"task": "svd"}},
    "svd, in full": {
        "job": {"task": "svd"},
        "masks": {"scheme": "mask", "block_size": 200},
        "authority": {"name": "ta"},
    },
    "svd verified": {"job": {"task": "svd", "verify": "sample", "write": "none"}},
    "svd of split columns": {"job": {"task": "svd", "split": "vertical", "id": "key", "sort_by_id": True}},
    "svd of trusted rows": {"job": {"task": "svd", "split": "vertical", "ids": "trust", "memory": "3 GiB"}},
    "svd opened by the CSP": {"job": {"task": "svd"}, "masks": {"scheme": "sum", "mode": "B"}},
    "svd written as Parquet, on a GPU": {
        "job": {"task": "svd", "write": "parquet", "device": "cuda", "engine": "dask"}
    },
    "lsa": {"job": {"task": "lsa", "components": 3}},
    "pca": {"job": {"task": "pca", "components": 3, "release": ["components", "mean", "spectrum"]}},
    "pca by a share": {"job": {"task": "pca", "components": 0.9, "unit_variance": True}},
    "pca by a rule": {"job": {"task": "pca", "components": "parallel"}},
    "cca": {"job": {"task": "cca", "components": 2, "id": "key"}},
    "pcr": {"job": {"task": "pcr", "label": "y", "components": "mle"}},
    "lr": {"job": {**ROWS, "intercept": False, "alpha": 0.5}},
    "lr with HC3": {"job": {**ROWS, "inference": True, "cov_type": "HC3"}},
    "lr with weights": {"job": {**ROWS, "inference": True, "weights": "w"}},
    "lr with clusters": {"job": {**ROWS, "inference": True, "cluster": "ward", "clusters": "own"}},
    "lr with penalties": {"job": {**ROWS, "alphas": [0.1, 1.0, 10], "choose_by": "gcv"}},
    "lr of two labels": {"job": {"task": "lr", "label": ["y", 'z "quoted" \\ \u00e4']}},
    "lr of split columns": {"job": {**COLUMNS, "inference": True}},
    "lr of split columns, penalties": {"job": {**COLUMNS, "alphas": [1.0, 2.0], "choose_by": "gcv"}},
    "glm": {
        "job": {
            "task": "glm",
            "label": "y",
            "family": "binomial",
            "link": "probit",
            "weights": "w",
            "offset": "o",
            "tolerance": 1e-7,
            "max_iterations": 40,
            "least_class": 3,
            "least_events": 2,
        }
    },
    "glm with its quality": {"job": {"task": "glm", "label": "y", "family": "binomial", "quality": True}},
    "glm with its ROC curve": {
        "job": {"task": "glm", "label": "y", "family": "binomial", "roc": 1, "thresholds": [0.2]}
    },
    "glm of three classes": {"job": {"task": "glm", "label": "y", "family": "multinomial", "classes": ["a", 2, "c"]}},
    "pca by a dictionary": {
        "job": {"task": "pca", "components": 2},
        "prepare": {"missing": "drop", "view": "all"},
        "dictionary": {
            "says": {
                "name": "a consortium's",
                "columns": {"age": {"range": [18, 100]}, "dose": {"range": [0, 5], "unit": "mg"}},
                "views": {"all": ["age", "dose"]},
            }
        },
    },
    "glm of few digits": {"job": {"task": "glm", "label": "y", "family": "poisson", "digits": "table"}},
    "cox": {
        "job": {
            "task": "cox",
            "label": "y",
            "event": "died",
            "entry": "came",
            "strata": "clinic",
            "ties": "breslow",
            "schoenfeld": "log",
            "weights": "w",
        }
    },
    "cox with a common baseline": {
        "job": {"task": "cox", "label": "y", "event": "died", "baseline": "common", "times": [6.0], "least_count": 7}
    },
    "cox in bins": {
        "job": {
            "task": "cox",
            "label": "y",
            "event": "died",
            "ties": "breslow",
            "baseline": "bins",
            "times": [6.0, 9.0],
        }
    },
    "ordinal": {"job": {"task": "ordinal", "label": "y", "classes": ["low", "mid", "high"], "link": "probit"}},
    "survival": {
        "job": {
            "task": "survival",
            "label": "y",
            "event": "died",
            "group": "arm",
            "groups": ["a", "b"],
            "causes": ["relapse", "death"],
            "times": [6.0, 12.0],
            "counts": "exact",
            "least_count": 10,
            "test": "peto",
            "conf_type": "log",
            "level": 0.9,
            "until": 9.0,
        }
    },
    "propensity": {
        "job": {
            "task": "propensity",
            "label": "y",
            "treatment": "w",
            "family": "poisson",
            "estimand": "ATT",
            "stabilised": True,
            "trim": 0.05,
        }
    },
    "description by a dictionary": {
        "job": {
            "task": "describe",
            "by": "arm",
            "nonnormal": ["dose"],
            "counts": "exact",
            "quantiles": True,
            "correlations": True,
        },
        "dictionary": {
            "says": {"columns": {"age": {"range": [18, 100]}, "dose": {"range": [0, 5]}, "arm": {"levels": ["a", "b"]}}}
        },
    },
    "mixed": {
        "job": {
            "task": "mixed",
            "label": "y",
            "subject": "patient",
            "slope": "year",
            "criterion": "ml",
            "correlated": False,
        }
    },
    "matched": {
        "job": {**COLUMNS, "id": ["name", "born"]},
        "match": {
            "align": "server",
            "case": "exact",
            "spaces": "remove",
            "dates": ["born"],
            "month_first": True,
            "least_overlap": 12,
        },
    },
    "matched by points": {"job": {"task": "svd", "split": "vertical", "id": "key"}, "match": {"align": "ecdh"}},
    "prepared": {
        "job": ROWS,
        "prepare": {
            "columns": ["age", "sex", "stage", "dose", "y"],
            "rename": {"Age": "age", "a b": "dose"},
            "missing": "mean",
            "indicators": ["age"],
            "ordinal": {"stage": ["I", "II"]},
            "categories": {"sex": {"reference": "f", "missing": "not said"}},
            "minimum": 6,
            "most_levels": 9,
        },
    },
    "prepared by constants": {
        "job": ROWS,
        "prepare": {"drop": ["name"], "missing": "constant", "constant": -1.5, "indicators": True},
    },
    "prepared by low rank": {"job": ROWS, "prepare": {"missing": "low-rank", "penalty": 0.25, "rounds": 7, "rank": 3}},
    "prepared by a formula": {
        "job": {"task": "lr", "inference": True},
        "prepare": {"formula": "y ~ age + C(sex) + site", "centre": "none"},
    },
    "prepared by ComBat": {
        "job": {"task": "pca"},
        "prepare": {"combat": True, "preserve": ["age"], "covariates": ["dose"], "centre": "joint", "scale": "site"},
    },
    "prepared, dealt by the TA": {"job": ROWS, "prepare": {"missing": "mean"}, "authority": {"name": "ta"}},
}
NAMES = ("a", "b", "c")


def job_of(name):
    file = CASES[name]
    return job_from(
        {**file, "job": {"name": "study", **file["job"]}, "party": [{"name": party} for party in NAMES]}, Path()
    )


def plans(job):
    """The plans of all sessions of this job, from made-up shapes."""
    members = member_callers(job)
    asked = Asked(submitted_file(job), "researcher/res", members, "00" * 16).digest
    facts = {
        member: EnlistedFacts(rows=90, columns=7, label=member == "party/a", signing=f"{place:064x}", features="f")
        for place, member in enumerate(members)
    }
    return [plan_of(job, facts, SessionId("ab" * 16), stage=stage, asked=asked) for stage in stages_of(job)]


def in_report(job):
    """The job file as a report has it."""
    plan = plans(job)[-1]
    held = Certificate(plan_digest=plan.digest, residual=0.0, orthogonality=0.0, rank=2, versions={})
    result = PartyResult("study", NAMES, plan, held, file=submitted_file(job, every=True))
    return job_file(result)


@pytest.mark.parametrize("name", CASES)
def test_the_job_file_of_a_report_is_read_as_the_same_job_with_the_same_plans(name):
    job = job_of(name)
    again = job_from(tomllib.loads(in_report(job)), Path())
    assert study_of(again) == study_of(job)
    assert submitted_file(again) == submitted_file(job)
    assert asked_of(again).digest == asked_of(job).digest
    assert [plan.digest for plan in plans(again)] == [plan.digest for plan in plans(job)]


def test_the_cases_have_every_key_of_a_job_file():
    for section, model in {
        "job": StudySection,
        "match": MatchSection,
        "prepare": PrepareSection,
        "masks": MasksSection,
    }.items():
        used = {key for case in CASES.values() for key in case.get(section, {})} | {"name"}
        assert set(model.model_fields) <= used, section


@pytest.mark.parametrize("name", CASES)
def test_defaults_are_written_too_so_that_they_may_change_later(name):
    """A key that the task heeds and the author left out stands in the report with the value it had."""
    job = job_of(name)
    written = tomllib.loads(in_report(job))["job"]
    for key in ("alpha", "intercept", "cov_type", "tolerance"):
        if key in written:
            assert getattr(job.study, key) == written[key]
    if job.study.task == "lr":
        assert {"alpha", "intercept", "inference", "cov_type"} <= set(written)
    assert "device" not in written


@pytest.mark.parametrize(
    "record",
    [
        {
            "job": {
                "a b": 'x"\\\n\t\x7fä',
                "n": -1,
                "x": 1e-9,
                "t": True,
                "l": [1, [2, "3"]],
                "d": {},
                "e": {"k.l": {"m": []}},
            }
        },
        {"party": [{"name": "a"}, {"name": "b"}], "prepare": {"rename": {"": "q"}}},
    ],
)
def test_what_is_spelt_as_toml_is_read_as_it_was(record):
    assert tomllib.loads(spelt_toml(record)) == record
