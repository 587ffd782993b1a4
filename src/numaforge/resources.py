"""Where the templates and the ready profiles lie: in a checkout beside the package, in a wheel inside it."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def template_dir() -> Path:
    """Return the folder that holds the templates, one folder per role."""
    return _resource("templates")


def profile_dir() -> Path:
    """Return the folder that holds the ready profiles, one YAML file each."""
    return _resource("profiles")


def _resource(name: str) -> Path:
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parents[1] / name
