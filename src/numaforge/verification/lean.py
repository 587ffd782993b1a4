"""A pytest plugin that is loaded first: it halves the suite's start time, as in our other programs."""

from __future__ import annotations

from numaforge import lean_classes, lean_process


def pytest_addhooks() -> None:
    """Set up before the next plugin is imported: pytest calls this hook at once."""
    begin()


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection: later garbage comes from hosts' answers."""
    lean_process.settle()


def begin() -> None:
    """Create classes with less compilation from now on, and collect garbage rarely."""
    lean_process.begin()
    lean_classes.begin()
