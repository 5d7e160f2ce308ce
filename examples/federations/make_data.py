"""Three clinics' tables from the diabetes data that comes with scikit-learn: 442 patients, ten measurements."""

import csv
from pathlib import Path

from sklearn.datasets import load_diabetes

CLINICS = {"east": slice(0, 160), "north": slice(160, 300), "west": slice(300, 442)}


def main() -> None:
    bundled = load_diabetes(scaled=False)
    Path("data").mkdir(exist_ok=True)
    for name, rows in CLINICS.items():
        with Path(f"data/{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*bundled.feature_names, "progression"])
            for row, progression in zip(bundled.data[rows].tolist(), bundled.target[rows].tolist(), strict=True):
                writer.writerow([*row, progression])


if __name__ == "__main__":
    main()
