"""A job file of every task, on small tables that three parties hold by rows or by columns."""

from pathlib import Path

from tests.studies import companies, hospitals

COLUMNS = {"split": "vertical", "id": "patient", "sort_by_id": True}
REGRESSION = {"task": "lr", "label": "outcome", "id": "patient"}

JOBS: dict[str, dict[str, object]] = {
    "svd": {"task": "svd", "id": "patient"},
    "svd of split columns": {"task": "svd", **COLUMNS},
    "svd dealt by the TA": {"task": "svd", "id": "patient", "authority": True},
    "lsa": {"task": "lsa", "components": 2, "id": "patient"},
    "pca": {"task": "pca", "components": 2, "id": "patient"},
    "pca by parallel analysis": {"task": "pca", "components": "parallel", "unit_variance": True, "id": "patient"},
    "pca opened by the users": {"task": "pca", "components": 2, "id": "patient", "masks": 'mode = "A"'},
    "pca under masks": {"task": "pca", "components": 2, "id": "patient", "masks": 'scheme = "mask"'},
    "cca": {"task": "cca", **COLUMNS},
    "pcr": {"task": "pcr", "label": "outcome", "components": 2, "id": "patient"},
    "lr": {**REGRESSION},
    "lr with standard errors": {**REGRESSION, "inference": True},
    "lr with robust errors": {**REGRESSION, "inference": True, "cov_type": "HC3"},
    "lr with a weight": {**REGRESSION, "inference": True, "weights": "weight"},
    "lr with penalties": {**REGRESSION, "alphas": [0.1, 1.0, 10.0]},
    "lr of split columns": {"task": "lr", "label": "outcome", **COLUMNS},
    "lr of split columns with standard errors": {"task": "lr", "label": "outcome", **COLUMNS, "inference": True},
    "lr of split columns with penalties": {
        "task": "lr",
        "label": "outcome",
        **COLUMNS,
        "alphas": [0.1, 10.0],
        "choose_by": "gcv",
    },
    "svd of matched records": {
        "task": "svd",
        "split": "vertical",
        "id": "patient",
        "more": '[match]\nalign = "server"',
    },
    "svd of prepared tables": {"task": "svd", "id": "patient", "more": '[prepare]\nmissing = "mean"\nscale = "site"'},
    "glm": {"task": "glm", "label": "outcome", "family": "binomial", "classes": ["no", "yes"], "id": "patient"},
    "survival": {"task": "survival", "label": "outcome", "event": "event", "times": [1.0, 2.0, 3.0], "id": "patient"},
    "description": {
        "task": "describe",
        "by": "older",
        "id": "patient",
        "more": '[dictionary]\nfile = "dictionary.toml"\n[prepare]\ncolumns = ["age", "high", "weight"]',
    },
    "cox": {"task": "cox", "label": "outcome", "event": "event", "ties": "breslow", "id": "patient"},
    "propensity": {
        "task": "propensity",
        "label": "outcome",
        "treatment": "treated",
        "estimand": "ATT",
        "id": "patient",
    },
    "ordinal": {"task": "ordinal", "label": "outcome", "classes": ["low", "mid", "high"], "id": "patient"},
}

DICTIONARY = """
[columns.patient]
role = "id"
[columns.age]
range = [40, 60]
groups = { older = [50] }
[columns.dose]
range = [-5, 10]
groups = { high = [2, 4] }
[columns.weight]
range = [60, 100]
[views]
main = ["age", "dose", "weight"]
"""
"""Of the job that describes a table: groups by age, levels of the dose."""

FEW_DIGITS = {"cox", "ordinal", "propensity"}
"""Jobs of which no report is recorded: how often their sums are asked for depends on the noise of a run."""


def folder_of(name: str, folder: Path) -> Path:
    """The job file of this name, written with its tables into a folder of its own."""
    place = folder / name.replace(" ", "-")
    place.mkdir(exist_ok=True)
    asked = dict(JOBS[name])
    if asked.get("split") == "vertical" or asked["task"] == "cca":
        files = companies(place)
    else:
        classes = asked.get("classes")
        named = tuple(classes) if isinstance(classes, list) else None
        files = hospitals(place, named, "event" in asked, "treatment" in asked)
    (place / "dictionary.toml").write_text(DICTIONARY, encoding="utf-8")
    more = asked.pop("more", "")
    job = files.job(**asked)
    if more:
        job.write_text(f"{job.read_text(encoding='utf-8')}{more}\n", encoding="utf-8")
    return job
