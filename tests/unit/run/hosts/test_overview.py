"""The overview of a run: a failed host without a reason of ours points at messages only where it has some."""

import logging

from pyinfra.api import Config, Inventory, State

from numaforge.run.hosts.overview import Overview
from tests.fixtures.tables import cases


@cases(
    "level, message, reason",
    {
        "its error": (logging.ERROR, "[gpu-1] Error: no such file", "see the messages above"),
        "in colour": (
            logging.ERROR,
            "\x1b[0m[\x1b[31m\x1b[1mgpu-1\x1b[0m] \x1b[31mError\x1b[0m",
            "see the messages above",
        ),
        "another's": (logging.ERROR, "[gpu-2] Error", "without a message: run it again with -v"),
        "no error": (logging.INFO, "[gpu-1] Ready", "without a message: run it again with -v"),
    },
)
def test_failed_host_shows_its_reason(level: int, message: str, reason: str) -> None:
    state = State(Inventory((["gpu-1", "gpu-2"], {})), Config())
    host = state.inventory.get_host("gpu-1")
    overview = Overview()
    assert overview.heard(logging.LogRecord("pyinfra", level, "", 0, message, (), None))
    state.failed_hosts.add(host)
    (summary, _) = overview.hosts(state)
    assert summary.state == "failed"
    assert reason in summary.reason
