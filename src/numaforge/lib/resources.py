"""The package's folders of templates, ready profiles, ready machines and deploys."""

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def template_dir() -> Path:
    """Return the folder that holds the templates, one folder per role."""
    return _PACKAGE / "templates"


def own_template_dir() -> Path | None:
    """Return the folder in NUMAFORGE_TEMPLATES, whose templates override ours."""
    folder = os.environ.get("NUMAFORGE_TEMPLATES")
    return Path(folder).resolve() if folder else None


def profile_dir() -> Path:
    """Return the folder of the ready profiles, YAML files; those for a kind of machine are in `machines`."""
    return _PACKAGE / "profiles"


def machine_dir() -> Path:
    """Return the folder that holds the ready machines, one topology document each."""
    return _PACKAGE / "machines"


def deploy_dir() -> Path:
    """Return the folder that holds the deploys, one file each."""
    return _PACKAGE / "deploys"
