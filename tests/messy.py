"""Three hospitals with tables as they are: decimal commas, a byte order mark, other orders and names, gaps, text.

The joint table is pandas'; what is expected of a study on the files is computed from it by pandas and scikit-learn.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

NUMBERS = ["mean radius", "mean texture", "mean area"]
COLUMNS = [*NUMBERS, "grade"]
GRADES = ["low", "mid", "high"]
PARTIES = {"north": "north.csv", "south": "south.csv", "west": "west.xlsx"}
PREPARE = {
    "columns": COLUMNS,
    "missing": "drop",
    "rename": {"Fläche": "mean area"},
    "ordinal": {"grade": GRADES},
}


def messy_hospitals(folder: Path, rows: int = 480) -> pd.DataFrame:
    """Write the three files; the joint table with its gaps, features as ``COLUMNS``, and ``patient``, ``outcome``."""
    rng = np.random.default_rng(21)
    joint = load_breast_cancer(as_frame=True).data[NUMBERS][:rows].copy()
    joint["grade"] = rng.choice(GRADES, rows)
    joint["outcome"] = joint["mean radius"] - joint["mean texture"] / 2 + rng.normal(size=rows)
    joint[NUMBERS] = joint[NUMBERS].mask(rng.random((rows, len(NUMBERS))) < 0.05)
    joint.insert(0, "patient", [f"P{place:04d}" for place in range(rows)])
    joint["ward"] = rng.choice(["east wing", "west wing"], rows)
    north, south, west = joint[:150], joint[150:310], joint[310:]
    north.to_csv(folder / "north.csv", sep=";", decimal=",", encoding="utf-8-sig", index=False)
    south[south.columns[::-1]].to_csv(folder / "south.csv", index=False)
    west.rename(columns={"mean area": "Fläche"}).to_excel(folder / "west.xlsx", index=False)
    return joint


def record(folder: Path | None, prepare: dict[str, Any], task: str = "pca", **job: Any) -> dict[str, Any]:
    """A job file on these files, parsed; without a folder, as it is submitted."""
    party = [
        {"name": name, **({} if folder is None else {"data": str(folder / file)})} for name, file in PARTIES.items()
    ]
    return {"job": {"name": "messy", "task": task, "id": "patient", **job}, "prepare": prepare, "party": party}


def write_job(folder: Path, file: dict[str, Any]) -> Path:
    """The same as a TOML file."""
    prepare = dict(file["prepare"])
    inner = {key: prepare.pop(key) for key in ("rename", "ordinal") if key in prepare}
    lines = ["[job]", *_lines(file["job"]), "[prepare]", *_lines(prepare)]
    for key, table in inner.items():
        lines += [f"[prepare.{key}]", *_lines(table)]
    for party in file["party"]:
        lines += ["[[party]]", *_lines(party)]
    path = folder / "job.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _lines(table: dict[str, Any]) -> list[str]:
    shown = {key: json.dumps(value, ensure_ascii=False) for key, value in table.items()}
    return [f"{json.dumps(key, ensure_ascii=False)} = {value}" for key, value in shown.items()]


def numbers(joint: pd.DataFrame) -> pd.DataFrame:
    """The features with grades as numbers, gaps as they are."""
    codes = joint["grade"].map({grade: float(place) for place, grade in enumerate(GRADES)})
    return joint[COLUMNS].assign(grade=codes)
