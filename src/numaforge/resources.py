"""Where in the package the templates, the ready profiles and the deploys lie."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def template_dir() -> Path:
    """Return the folder that holds the templates, one folder per role."""
    return _PACKAGE / "templates"


def profile_dir() -> Path:
    """Return the folder that holds the ready profiles, one YAML file each.

    Those at its top are for a purpose, those in `machines` for a kind of machine.
    """
    return _PACKAGE / "profiles"


def deploy_dir() -> Path:
    """Return the folder that holds the deploys, one file per thing that an admin runs."""
    return _PACKAGE / "deploys"
