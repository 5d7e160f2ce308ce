"""A CSP whose test decides how long a member waits at a stage."""

import threading

from tests.e2e.commands import GENEROUS

from fedsvd.service.csp import CspNode


class HeldCsp(CspNode):
    """A CSP in this process that can make a member wait at a stage: it is slow to answer that the stage was told."""

    def __init__(self, *how, **more):
        self.hold, self.gate, self.told = None, threading.Event(), []
        super().__init__(*how, **more)

    def _report(self, caller, asked):
        answer = super()._report(caller, asked)
        progress = asked.progress
        self.told.append((self.jobs.get(asked.id).attempt, caller, progress.stage, progress.total or None))
        if self.hold == (caller, progress.stage):
            self.gate.wait(GENEROUS)
        return answer

    def hold_at(self, caller, stage):
        self.hold = caller, stage
        self.gate.clear()

    def release(self):
        self.hold = None
        self.gate.set()

    def stop(self):
        self.release()
        super().stop()
