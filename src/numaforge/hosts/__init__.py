"""Hosts through pyinfra: our facts, our operations, and how a host fails."""

from numaforge.hosts.capture import capture
from numaforge.hosts.display import announce, show_changes, show_lines, show_once
from numaforge.hosts.facts import FIRST_LINE, detect, parse_values, values_script
from numaforge.hosts.failures import fail_host, go_on_without_failed
from numaforge.hosts.inspection import inspect_once
from numaforge.hosts.operations import (
    Commands,
    file_bundle,
    file_states,
    host_command,
    host_operation,
    script_command,
)
from numaforge.hosts.read_ahead import script_output, will_read
from numaforge.hosts.roles import planned, remember, role, roles_of, seen
from numaforge.hosts.scripts import reached

__all__ = [
    "FIRST_LINE",
    "Commands",
    "announce",
    "capture",
    "detect",
    "fail_host",
    "file_bundle",
    "file_states",
    "go_on_without_failed",
    "host_command",
    "host_operation",
    "inspect_once",
    "parse_values",
    "planned",
    "reached",
    "remember",
    "role",
    "roles_of",
    "script_command",
    "script_output",
    "seen",
    "show_changes",
    "show_lines",
    "show_once",
    "values_script",
    "will_read",
]
