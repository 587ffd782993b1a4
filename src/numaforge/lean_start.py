"""Import pyinfra quickly, without the modules that our runs do not need.

gevent reads what every installed package offers 25 times, typeguard and pyinfra four times more; paramiko
imports invoke, with a parser of YAML, for a line `Match exec` of an ssh_config; typeguard imports
unittest.mock, with asyncio, to let mocks pass; pyinfra imports packaging, with two dozen patterns, for a
config.py that requires packages, and jinja2, which it calls for templates of its own, before any host is
asked. Together that is a quarter of a second of CPU.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from numaforge import lean_classes, lean_process

_LATER = (
    "jinja2",
    "packaging.markers",
    "packaging.requirements",
    "packaging.specifiers",
    "packaging.version",
)


def begin() -> None:
    """Patch this process for gevent as pyinfra does, and import paramiko and pyinfra."""
    if "paramiko" in sys.modules:
        import_module("gevent.monkey").patch_all()  # patched modules stay as they are
        return
    proceed()
    with _offers_read_once():
        import_module("gevent.monkey").patch_all()
        with _standing_in(_Invoke("invoke")):
            import_module("paramiko.config")
        with ExitStack() as absent:
            for module in (_Mocks("unittest.mock"), *map(_Later, _LATER)):
                absent.enter_context(_standing_in(module))
            import_module("pyinfra.api")


def proceed() -> None:
    """Do what is left to do where pyinfra has begun by itself: for our own imports, which come after its."""
    lean_process.begin()
    lean_classes.begin()


@contextmanager
def _standing_in(module: ModuleType) -> Iterator[None]:
    """Have what is imported within it find this module, unless the real one is here already."""
    if module.__name__ in sys.modules:
        yield
        return
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        del sys.modules[module.__name__]


@contextmanager
def _offers_read_once() -> Iterator[None]:
    """Have what is imported within it read once what installed packages offer; plugins are still found."""
    metadata: Any = importlib.metadata
    real = metadata.entry_points
    metadata.entry_points = cache(real().select)
    try:
        yield
    finally:
        metadata.entry_points = real


class _Invoke(ModuleType):
    """A placeholder for invoke until it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module("invoke"), name)


class _Later(ModuleType):
    """A placeholder for a module until one of its classes is called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Named(self.__name__, name)


@dataclass(frozen=True)
class _Named:
    """A placeholder for a class until it is called, or passed to one that is."""

    module: str
    name: str

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.real()(*map(_real, given), **{key: _real(value) for key, value in named.items()})

    def real(self) -> Any:
        return getattr(import_module(self.module), self.name)


def _real(value: Any) -> Any:
    return value.real() if isinstance(value, _Named) else value


class _Mocks(ModuleType):
    """A placeholder for unittest.mock while typeguard is imported."""

    class Mock:
        """A class without instances: no mock is made here."""

    @staticmethod
    def patch(*args: Any, **kwargs: Any) -> Any:
        """Patch by the real one: typeguard's hook for imports would, which is not installed here."""
        return import_module("unittest.mock").patch(*args, **kwargs)
