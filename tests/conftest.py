"""Settings that hold for every test."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

from lab.paths import REPOSITORY

# Tests are not timed: a busy machine says nothing about the code. The same examples are tried in every run.
settings.register_profile("numaforge", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("numaforge")

# Tests that run side by side have a lab each: the first worker the usual one.
if (worker := os.environ.get("PYTEST_XDIST_WORKER", "gw0")) != "gw0":
    os.environ["NUMAFORGE_LAB_DIR"] = str(REPOSITORY / f".lab-{worker}")

# Whoever ends a run in the background does it with SIGTERM, and what was started is to be stopped then, too.
signal.signal(signal.SIGTERM, signal.default_int_handler)
