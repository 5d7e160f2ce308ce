"""How hypothesis works in this house: no deadline, and the same examples on every machine of a CI.

A deadline measures the machine, not the code. On a developer's machine examples are fresh at every run, so that new
ones are found; a CI (which sets ``CI``) must not fail for what the commit under test did not change.
"""

import os

from hypothesis import settings

settings.register_profile("workshop", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "workshop")
