"""A statistic from outside: steps and outputs are in its own declaration (``declaration.py``), which the plan has."""

from fedsvd.protocol.reasons import Why
from fedsvd.protocol.tasks import Answer, Split, Task
from fedsvd.tasks.declared import Declared

TASK = Declared(Task.FOREIGN, Answer.SUMS, (Split.HORIZONTAL,), opened_by_users=Why.FOREIGN)
