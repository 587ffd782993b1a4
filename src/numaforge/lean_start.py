"""What pyinfra imports, for a process that is to begin at once: without what no run of ours needs.

gevent reads what every installed package offers 25 times, and paramiko imports invoke, with a parser of YAML
and unittest, for a line `Match exec` of an ssh_config. Together that is a fifth of a second of CPU.
"""

from __future__ import annotations

import importlib.metadata
import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any


def begin() -> None:
    """Patch this process for gevent as pyinfra does, and import paramiko; pyinfra is imported after that."""
    if "paramiko" in sys.modules:
        return
    _patch()
    if "invoke" in sys.modules:
        return
    sys.modules["invoke"] = _Invoke("invoke")
    try:
        import_module("paramiko.config")
    finally:
        del sys.modules["invoke"]


def _patch() -> None:
    from gevent import monkey  # type: ignore[import-untyped]

    metadata: Any = importlib.metadata
    real = metadata.entry_points
    metadata.entry_points = cache(real().select)  # plugins of gevent are still called
    try:
        monkey.patch_all()
    finally:
        metadata.entry_points = real


class _Invoke(ModuleType):
    """Stands for invoke until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module("invoke"), name)
