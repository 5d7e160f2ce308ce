"""Options of a description (Table 1)."""

from functools import partial

from fedsvd.protocol.tasks import Task
from fedsvd.tasks.option import Option
from fedsvd.tasks.values import FLAG, NAMES, named_column

_table = partial(Option, tasks=(Task.DESCRIBE,))

DESCRIBE = (
    named_column(
        "by",
        "The column whose levels are the groups of Table 1.",
        "the category whose levels are the groups of the table (`describe`); all records together where left out",
        unset="no groups",
        tasks=(Task.DESCRIBE,),
    ),
    _table(
        "nonnormal",
        NAMES,
        (),
        "A number that is shown by median and quartiles; once for each.",
        (
            "numbers that the table shows by median and quartiles, with a test of ranks within sites, and not by mean "
            "and standard deviation (`describe`)"
        ),
        unset="none",
    ),
    _table(
        "quantiles",
        FLAG,
        True,
        "Whether counts on grids are opened, for quartiles and histograms.",
        "counts of all numbers on public grids, from which quartiles and histograms are drawn (`describe`)",
    ),
    _table(
        "correlations",
        FLAG,
        False,
        "Correlations of all numbers: opens their joint Gram matrix in few digits.",
        (
            "Pearson's correlations of all numbers with Fisher's intervals, among records that miss none of them "
            "(`describe`): their joint Gram matrix is opened in 16 bits"
        ),
    ),
)
