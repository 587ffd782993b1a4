"""Settings that hold for every test."""

from __future__ import annotations

import signal

from hypothesis import settings

# Tests are not timed: a busy machine says nothing about the code. The same examples are tried in every run.
settings.register_profile("numaforge", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("numaforge")

# Whoever ends a run in the background does it with SIGTERM, and what was started is to be stopped then, too.
signal.signal(signal.SIGTERM, signal.default_int_handler)
