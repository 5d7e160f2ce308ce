"""Three hospitals' tables from the breast cancer data that comes with scikit-learn: 569 patients, 30 measurements."""

import csv
from pathlib import Path

from sklearn.datasets import load_breast_cancer

HOSPITALS = {"hospital-a": slice(0, 200), "hospital-b": slice(200, 350), "hospital-c": slice(350, 569)}


def main() -> None:
    bundled = load_breast_cancer()
    Path("data").mkdir(exist_ok=True)
    for name, rows in HOSPITALS.items():
        with Path(f"data/{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["patient", *bundled.feature_names])
            for number, row in zip(range(569)[rows], bundled.data[rows].tolist(), strict=True):
                writer.writerow([f"p{number:03d}", *row])


if __name__ == "__main__":
    main()
