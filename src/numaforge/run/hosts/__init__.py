"""Hosts through pyinfra: our facts, our operations, and how a host fails."""

from numaforge.run.hosts.capture import capture
from numaforge.run.hosts.connect_errors import connect_error
from numaforge.run.hosts.connection import access_to
from numaforge.run.hosts.connector import ask_for, use_own_connectors
from numaforge.run.hosts.display import (
    announce,
    show_alone,
    show_beside,
    show_change,
    show_end,
    show_notices,
    show_progress,
    show_unfinished,
)
from numaforge.run.hosts.facts import as_root, detect, detect_for_change, right
from numaforge.run.hosts.failures import fail_host, fault
from numaforge.run.hosts.host_data import datum
from numaforge.run.hosts.operations import (
    COMMAND_SECONDS,
    Commands,
    host_command,
    host_operation,
    script_command,
)
from numaforge.run.hosts.overview import FORGET, MAINTENANCE
from numaforge.run.hosts.patches import command_line, go_on_without_failed, guard_output, read_frames_once
from numaforge.run.hosts.roles import guarded, planned, remember, role, roles_of, seen
from numaforge.run.hosts.scripts import reached, reached_anew

__all__ = [
    "COMMAND_SECONDS",
    "FORGET",
    "MAINTENANCE",
    "Commands",
    "access_to",
    "announce",
    "as_root",
    "ask_for",
    "capture",
    "command_line",
    "connect_error",
    "datum",
    "detect",
    "detect_for_change",
    "fail_host",
    "fault",
    "go_on_without_failed",
    "guard_output",
    "guarded",
    "host_command",
    "host_operation",
    "planned",
    "reached",
    "reached_anew",
    "read_frames_once",
    "remember",
    "right",
    "role",
    "roles_of",
    "script_command",
    "seen",
    "show_alone",
    "show_beside",
    "show_change",
    "show_end",
    "show_notices",
    "show_progress",
    "show_unfinished",
    "use_own_connectors",
]
