"""A CSP whose test decides how long a member waits at a stage."""

import threading

from tests.e2e.commands import GENEROUS

from fedsvd.service import api
from fedsvd.service.csp import CspNode


class HeldCsp(CspNode):
    """A CSP in this process that can make a member wait at a stage: it is slow to answer that the stage was told."""

    def __init__(self, *how, **more):
        self.hold, self.gate, self.told = None, threading.Event(), []
        super().__init__(*how, **more)

    def handle(self, verb, caller, asked):
        answer = super().handle(verb, caller, asked)
        if verb is api.REPORT:
            self.reported(caller, asked)
        return answer

    def reported(self, caller, asked):
        """A member has said at which stage it is, and waits for the answer."""
        progress = asked.progress
        self.told.append((self.jobs.get(asked.id).attempt, caller, progress.stage, progress.total or None))
        if self.hold == (caller, progress.stage):
            self.gate.wait(GENEROUS)

    def hold_at(self, caller, stage):
        self.hold = caller, stage
        self.gate.clear()

    def release(self):
        self.hold = None
        self.gate.set()

    def stop(self):
        self.release()
        super().stop()
