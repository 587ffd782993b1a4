"""Commands that write a ConfigMap with labels of Nodes that choose from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from numaforge.commands.options import Command
from numaforge.report.terminal import save, show_json


def config_map_options(
    name: str, namespace: str = "gpu-operator", what: str = "ConfigMap"
) -> Callable[[Command], Command]:
    """Offer `--name` and `--namespace` of what a command writes, with their defaults."""

    def offer(command: Command) -> Command:
        placed = click.option(
            "--namespace", default=namespace, show_default=True, help=f"Where the {what} belongs."
        )
        named = click.option("--name", default=name, show_default=True, help=f"The {what}'s name.")
        return named(placed(command))

    return offer


def say_config_map(manifest: dict[str, Any], labels: Mapping[str, Mapping[str, str]], output: str) -> None:
    """Print a ConfigMap, and by host the labels that choose from it: as comments, or beside it as JSON."""
    from numaforge.roles.device_plugin.manifests import as_yaml

    if output == "json":
        show_json({"schema": 1, "config_map": manifest, "labels": labels})
        return
    lines = (f"# {host}: {key}={value}\n" for host, said in labels.items() for key, value in said.items())
    save("".join([*lines, as_yaml(manifest)]), None)
