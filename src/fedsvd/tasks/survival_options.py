"""Options of ``[job]`` that describe survival curves: groups, the grid of times, how counts are opened, the test."""

from functools import partial

from fedsvd.protocol.tasks import Counts, Interval, RankTest, Task
from fedsvd.statistics.fives import LEAST_COUNT
from fedsvd.tasks.option import Option
from fedsvd.tasks.values import CLASSES, TIMES, named_column, number, whole, word

_TASKS = (Task.SURVIVAL,)
_curves = partial(Option, tasks=_TASKS, script=True)

SURVIVAL = (
    named_column(
        "group",
        "The column of groups; a curve for each.",
        "the column of groups: each of `groups` has a curve of its own",
        unset="all records are one group",
        tasks=_TASKS,
    ),
    _curves(
        "groups",
        CLASSES,
        (),
        "The values of the column of groups; once for each.",
        "the values of `group`, as texts or numbers; a dictionary's levels where it has some",
        unset="the dictionary's levels",
    ),
    _curves(
        "causes",
        CLASSES,
        (),
        "The values of the column of events where causes compete; once for each. 0 is the end of follow-up.",
        (
            "the values of `event` that are causes which exclude each other (competing risks), as texts or numbers; 0 "
            "is the end of follow-up. Results have the cumulative incidence of each, and the test compares hazards of "
            "the first"
        ),
        unset="events are 1",
    ),
    _curves(
        "times",
        TIMES,
        (),
        "The times at which counts are opened, rising, at most 200; once for each.",
        (
            "the times at which counts of events and departures are opened: rising numbers, at most 200. Public, and "
            "chosen before any data is seen; a dictionary's `times` of the label column, of which a job's are some. Of "
            "`cox` those between which a baseline of all parties is level"
        ),
        unset="the dictionary's `times`",
        tasks=(*_TASKS, Task.COX),
    ),
    _curves(
        "counts",
        word(Counts),
        Counts.FIVES,
        "How own counts are opened: fives, rounded at home, or exact, which may ask.",
        (
            '`"fives"`: each party rounds its own counts to multiples of `least_count` at home, so that a total is off '
            'by at most 2 records a party; `"exact"`: as they are, which asks the owner of a bin of 1 to 4 records'
        ),
        tasks=(*_TASKS, Task.DESCRIBE),
    ),
    _curves(
        "least_count",
        whole(2, 1000),
        LEAST_COUNT,
        "Counts are rounded to multiples of this number.",
        "what counts in fives are multiples of; a party refuses less than its own `least_count`",
        tasks=(*_TASKS, Task.COX),
    ),
    _curves(
        "test",
        word(RankTest),
        RankTest.LOG_RANK,
        "The comparison of groups within sites.",
        (
            'how groups are compared within sites, as R\'s `survdiff(... + strata(site))`: `"log-rank"`, or weighted '
            'by the number at risk (`"gehan"`), its root (`"tarone-ware"`), survival (`"peto"`) or survival times '
            'what is gone (`"fleming-harrington"`); `"none"`'
        ),
    ),
    _curves(
        "conf_type",
        word(Interval),
        Interval.LOG_LOG,
        "The scale of intervals: log-log, log or plain.",
        "the scale on which intervals of a curve are symmetric, as R's `conf.type`",
    ),
    _curves(
        "level",
        number(gt=0, lt=1),
        0.95,
        "Of intervals.",
        "the level of intervals",
    ),
    _curves(
        "until",
        number(ge=0, allow_inf_nan=False),
        0.0,
        "The time up to which the mean is taken; 0 for the last of the times.",
        "the time up to which the restricted mean is taken; 0 for the last of `times`",
    ),
)
