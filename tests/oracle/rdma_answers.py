"""What we say of a configuration of the shared RDMA device plugin, in the form of its own answers."""

from typing import Any

from numaforge.lib.errors import PlanError
from numaforge.roles.rdma.shared_plugin import PluginFunction, parse_plugin_config, refusal, selected


def answer(config: str, functions: list[dict[str, str]]) -> dict[str, Any]:
    """Return whether the plugin reads a configuration, what it ends with, and what its resources get."""
    try:
        read = parse_plugin_config(config, "config.json")
    except PlanError:
        return {"read": False}
    refused = refusal(read)
    if refused:
        return {"read": True, "error": refused[1]}
    there = [PluginFunction(**function, devices=()) for function in functions]
    return {
        "read": True,
        "error": "",
        "selected": [[each.address for each in selected(there, pool.selectors)] for pool in read.pools],
    }


def comparable(theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the plugin's answer without what is Go's own: how it words a text that it cannot read."""
    if not theirs["read"]:
        return {"read": False}
    return {key: theirs[key] for key in ("read", "error", "selected") if key in theirs}
