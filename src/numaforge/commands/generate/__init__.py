"""The commands that write files for the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from numaforge.commands.options import LazyGroup
from numaforge.lib.errors import NumaforgeError

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {"Commands": ("cluster", "monitoring", "runtime-class", "amd-config-manager")}


@click.group(cls=LazyGroup, package=__name__, groups=COMMANDS)
def generate() -> None:
    """Write manifests for schedulers and monitoring.

    Applies nothing. The files of device plugins and of the MIG manager are beside their checks: `mig
    operator-config`, `device-plugin config`, `rdma config` and `rdma manifests`.
    """


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files below a folder, which may exist; other files in it stay."""
    for name, text in texts.items():
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise NumaforgeError(f"cannot be written: {error.strerror}", where=str(file)) from error
