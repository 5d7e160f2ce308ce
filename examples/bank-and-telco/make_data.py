"""A bank and a telco with the same 4000 customers, each in an order of its own; the score depends on both."""

import csv
from pathlib import Path

import numpy as np

CUSTOMERS = 4000


def main() -> None:
    rng = np.random.default_rng(11)
    names = np.array([f"c{number:05d}" for number in range(CUSTOMERS)])
    income, debt, age = rng.normal(3, 1, CUSTOMERS), rng.normal(1, 0.5, CUSTOMERS), rng.normal(45, 12, CUSTOMERS)
    calls, roaming, topups = rng.normal(40, 9, CUSTOMERS), rng.normal(2, 1, CUSTOMERS), rng.normal(5, 2, CUSTOMERS)
    score = 600 + 40 * income - 70 * debt + 0.4 * age + 1.5 * calls - 8 * roaming + 3 * topups
    score += rng.normal(0, 20, CUSTOMERS)
    Path("data").mkdir(exist_ok=True)
    write("bank", ["customer", "income", "debt", "age", "score"], names, [income, debt, age, score])
    order = rng.permutation(CUSTOMERS)
    columns = [column[order] for column in (calls, roaming, topups)]
    write("telco", ["customer", "calls", "roaming", "topups"], names[order], columns)


def write(name: str, header: list[str], customers: np.ndarray, columns: list[np.ndarray]) -> None:
    with Path(f"data/{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(zip(customers.tolist(), *(column.tolist() for column in columns), strict=True))


if __name__ == "__main__":
    main()
