"""Kernel modules, as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numaforge.roles.modules.part import switch
from numaforge.verification.promise import Promise, Table, asks_names, require, values_of

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def modules(plan: NodePlan) -> Table:
    """Each module to load and, where reboots are allowed, each blocked one."""
    gone = plan.modules.blocked if plan.kernel.reboot == "allowed" else ()
    return {**dict.fromkeys(plan.modules.load, True), **dict.fromkeys(gone, False)}


def module_options(plan: NodePlan) -> Table:
    """Each module option, where reboots are allowed; elsewhere it may still wait for one."""
    if plan.kernel.reboot != "allowed":
        return {}
    return {
        f"{module}-{name}": (f"/sys/module/{module}/parameters/{name}", value or "1")
        for module, options in plan.modules.options.items()
        for name, _, value in (option.partition("=") for option in options)
    }


def _module(node: VerifiedNode, name: str, expected: bool) -> None:
    loaded = name in node.live.of("module")
    found, planned = ("loaded", "not loaded") if loaded else ("not loaded (is it built in?)", "loaded")
    require(loaded is expected, f"{found}, planned {planned}")


def _module_option(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, value = expected
    now = node.value(path)
    if now is None:
        pytest.skip(f"the module does not tell it: there is no {path}")
    require(switch(now.strip()) == switch(value), f"{now.strip()}, planned {value} ({path})")


PROMISES = (
    Promise("module", modules, _module, asks=asks_names("tell_modules", modules)),
    Promise("module_option", module_options, _module_option, values=values_of(module_options)),
)
