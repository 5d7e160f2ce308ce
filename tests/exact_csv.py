"""Tables of result folders with numbers as Python reads them; pandas 3 no longer takes the word that pandas 2 needs."""

import pandas as pd


def read_exact(file, **options):
    """The table of a CSV file; a column in which every entry is a number has the nearest float64 of each."""
    return pd.read_csv(file, dtype=str, **options).apply(_numbers)


def _numbers(column):
    try:
        return column.map(float, na_action="ignore").astype(float)
    except ValueError:
        return column
