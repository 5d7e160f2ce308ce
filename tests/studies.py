"""A small study on files: a joint table, and the same table as three parties hold it, by rows or by columns.

Expected values come from scikit-learn and NumPy on the joint table, which pandas puts together; nothing of fedsvd
has a part in them.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from tests.tolerances import product

FEATURES = ["age", "dose", "heart rate", "weight", "pressure"]
ROWS = 120
CLOSE = product(ROWS, 50)
"""Rounding of a few dozen products on this well conditioned table, relative to its largest numbers."""


@dataclass(frozen=True)
class Files:
    """Where the parties' files are, and the joint table: columns ``patient``, FEATURES, ``outcome``."""

    folder: Path
    joint: pd.DataFrame
    parties: tuple[tuple[str, str], ...]  # names and files

    @property
    def D(self) -> np.ndarray:
        return self.joint[FEATURES].to_numpy()

    @property
    def y(self) -> np.ndarray:
        return self.joint["outcome"].to_numpy()

    def options(self) -> list[str]:
        """``--party NAME=FILE`` for every party."""
        return [word for name, file in self.parties for word in ("--party", f"{name}={self.folder / file}")]

    def job(self, name: str = "study", *, masks: str = "", authority: bool = False, **keys: object) -> Path:
        """A job file with these keys in its [job] table."""
        lines = ["[job]", f'name = "{name}"', *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
        lines += ["[masks]", masks] if masks else []
        lines += ["[authority]", 'name = "ta"'] if authority else []
        for party, file in self.parties:
            lines += ["[[party]]", f'name = "{party}"', f'data = "{file}"']
        path = self.folder / "job.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path


def joint_table(seed: int = 7, rows: int = ROWS) -> pd.DataFrame:
    """Correlated features with means of their own, and an outcome that depends on all of them."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(rows, 5)) @ (np.eye(5) + 0.3 * rng.normal(size=(5, 5))) + [50.0, 2.0, 70.0, 80.0, 120.0]
    table = pd.DataFrame(D, columns=FEATURES)
    table.insert(0, "patient", [f"p{place:04d}" for place in range(rows)])
    table["outcome"] = D @ [0.5, -1.0, 0.25, 2.0, -0.125] + rng.normal(size=rows) + 3.0
    return table


def hospitals(
    folder: Path, classes: tuple[str, ...] | None = None, events: bool = False, treated: bool = False
) -> Files:
    """Rows are split: three hospitals with the same columns, in three formats; an outcome in classes of one size.

    With ``events`` the outcome is a time, at which two of three records have an event; half may have been ``treated``.
    """
    joint = joint_table()
    if events:
        joint["event"] = (np.arange(len(joint)) % 3 > 0).astype(int)
    if treated:
        joint["treated"] = np.arange(len(joint)) // 2 % 2
    if classes:
        edges = joint["outcome"].quantile(np.arange(1, len(classes)) / len(classes)).to_numpy()
        joint["outcome"] = np.array(classes)[np.searchsorted(edges, joint["outcome"].to_numpy())]
    joint[:40].to_csv(folder / "north.csv", index=False)
    joint[40:75].to_parquet(folder / "south.parquet", index=False)
    joint[75:].to_csv(folder / "west.tsv", index=False, sep="\t")
    return Files(folder, joint, (("north", "north.csv"), ("south", "south.parquet"), ("west", "west.tsv")))


def companies(folder: Path, shuffled: bool = True) -> Files:
    """Columns are split: three companies with the same patients, each in an order of its own."""
    joint = joint_table()
    columns = {"bank": FEATURES[:2], "shop": FEATURES[2:4], "insurer": [*FEATURES[4:], "outcome"]}
    for seed, (name, own) in enumerate(columns.items()):
        table = joint[["patient", *own]]
        table = table.sample(frac=1, random_state=seed) if shuffled else table
        table.to_csv(folder / f"{name}.csv", index=False)
    return Files(folder, joint, tuple((name, f"{name}.csv") for name in columns))
