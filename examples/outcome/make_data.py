"""Three hospitals' tables from the breast cancer data of scikit-learn: four measurements and the finding."""

import csv
from pathlib import Path

from sklearn.datasets import load_breast_cancer

HOSPITALS = {"north": slice(0, 250), "south": slice(250, 430), "west": slice(430, 569)}
COLUMNS = ["mean texture", "mean area", "mean smoothness", "mean symmetry"]
FINDINGS = ("malignant", "benign")


def main() -> None:
    bundled = load_breast_cancer(as_frame=True)
    table = bundled.data[COLUMNS].copy()
    table["mean area"] /= 100  # units in which odds can be read
    table[["mean smoothness", "mean symmetry"]] *= 100
    Path("data").mkdir(exist_ok=True)
    for name, rows in HOSPITALS.items():
        with Path(f"data/{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["patient", *COLUMNS, "finding"])
            parts = zip(range(569)[rows], table[rows].to_numpy().tolist(), bundled.target[rows].tolist(), strict=True)
            for number, row, found in parts:
                writer.writerow([f"p{number:03d}", *row, FINDINGS[found]])


if __name__ == "__main__":
    main()
