"""The commands of a roll-out over live nodes."""

from __future__ import annotations

from importlib import import_module

import click

from numaforge.commands.options import screen_options

COMMANDS = ("plan", "run", "resume", "status", "abort", "unlock", "mig-labels")


class _Commands(click.Group):
    """Each command is a module here; each is imported only when it is called, which saves time."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), module)
        return screen_options(command)


@click.group(cls=_Commands)
def rollout() -> None:
    """Restart kubelets on live nodes: drain, change, prove, undo.

    INVENTORY is pyinfra's. Exits with 0 when every node is as planned, 3 when some are blocked, 4 when some
    were rolled back, 5 when some are held for a person.
    """
