"""Joint preparation of tables: sums whose list follows from the rule of preparation (``prepare/rule.py``)."""

from fedsvd.protocol.reasons import Why
from fedsvd.protocol.tasks import Answer, Split, Task
from fedsvd.tasks.declared import Declared

TASK = Declared(Task.PREPARE, Answer.SUMS, (Split.HORIZONTAL,), opened_by_users=Why.PREPARATION)
