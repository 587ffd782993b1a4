"""pyinfra's connector for a root on this machine, which has /proc and /dev while a command runs in it."""

from __future__ import annotations

from typing import Any

from pyinfra.api import QuoteString, StringCommand
from pyinfra.connectors.chroot import ChrootConnector
from pyinfra.connectors.util import CommandOutput, extract_control_arguments, make_unix_command_for_host

from numaforge.lib import shell


class RootConnector(ChrootConnector):
    """Runs each command in a mount namespace of its own; the rest is pyinfra's."""

    def run_shell_command(
        self, command: StringCommand, print_output: bool = False, print_input: bool = False, **arguments: Any
    ) -> tuple[bool, CommandOutput]:
        """Run a command in the root; returns whether it succeeded, and its output."""
        control = extract_control_arguments(arguments)  # type: ignore[arg-type]
        within = make_unix_command_for_host(self.state, self.host, command, **arguments)
        root = self.host.connector_data["chroot_directory"]
        words = (shell.library("run/hosts/enter_root"), "sh", root, within)
        enter = StringCommand("sh", "-c", *map(QuoteString, words))
        return self.local.run_shell_command(
            enter, print_output=print_output, print_input=print_input, **control
        )
