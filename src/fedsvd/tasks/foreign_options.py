"""Options of ``[foreign]``: which foreign task, and what it is asked for; its own options are its declaration's."""

from functools import partial

from fedsvd.protocol.tasks import Task
from fedsvd.tasks.option import NEEDED, Option
from fedsvd.tasks.values import NAMED, RECORD, SETTINGS

_foreign = partial(Option, section="foreign", tasks=(Task.FOREIGN,))

FOREIGN = (
    _foreign(
        "name",
        NAMED,
        NEEDED,
        "",
        "the task, as the distribution that brings it calls it; `fedsvd tasks` lists those that are installed",
    ),
    _foreign(
        "options",
        SETTINGS,
        {},
        "",
        (
            'its options, `{ group = "ward", groups = 3 }`: texts, numbers, `true` or `false`. `fedsvd tasks show '
            "NAME` lists them with their defaults; one that it does not declare is refused"
        ),
    ),
    _foreign(
        "declaration",
        RECORD,
        {},
        "",
        (
            "what the task declares, word for word; a file leaves it out, and a job that is submitted has it. A party "
            "refuses one that is not that of the distribution it has installed"
        ),
        unset="that of what is installed",
    ),
)
