"""Weighted mean and variance of every feature within groups, as a foreign task of fedsvd.

The script knows no other party: it yields the name of a step that ``group-variance.json`` declares, with this table's
part of a sum, and gets the joint total back. What it returns are the declared outputs.
"""

import numpy as np


def script(options, columns):
    groups = options["groups"]
    g = columns[options["group"]].astype(int)
    if g.min() < 0 or g.max() >= groups:
        raise ValueError("a group outside of 0 .. groups - 1")
    w = columns[options["weights"]] if options["weights"] else np.ones(len(g))
    aside = (options["group"], options["weights"])
    X = np.column_stack([column for name, column in columns.items() if name not in aside])

    def totals(values):
        return np.stack([w[g == j] @ values[g == j] for j in range(groups)])

    records = yield "records", np.bincount(g, minlength=groups)
    weights = yield "weights", np.bincount(g, weights=w, minlength=groups)
    sums = yield "sums", totals(X).ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums.reshape(groups, -1) / weights[:, None]
        # Around the joint means, in a second pass: the difference of two large squares would lose digits.
        around = np.where(np.isfinite(means), means, 0.0)[g]
        squares = yield "squares", totals((X - around) ** 2).ravel()
        freedom = weights * (records - options["ddof"]) / records
        variances = squares.reshape(groups, -1) / np.where(freedom > 0, freedom, np.nan)[:, None]
    return {"records": records, "mean": means, "variance": variances}
