"""pyinfra's connector for SSH that reaches hosts as OpenSSH does."""

import time
from collections.abc import Iterable
from random import uniform
from typing import Any

from pyinfra.api import Host, QuoteString, StringCommand
from pyinfra.connectors.base import DataMeta
from pyinfra.connectors.chroot import ChrootConnector
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.util import CommandOutput, extract_control_arguments, make_unix_command_for_host

from numaforge.lib import shell
from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.run.hosts.errors import HostConnectError, fault
from numaforge.ssh import Destination, ask_openssh, connect, destination_of
from numaforge.ssh.openssh import CHECKING


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


_DATA = {**SSHConnector.data_meta, CHECKING: DataMeta("SSH strict host key checking")}


class OpenSshConnector(SSHConnector):
    """Logs in as OpenSSH would, and refuses an unknown key; commands and files are pyinfra's own."""

    data_meta = _DATA

    def connect(self) -> None:
        """Connect; retry ssh_connect_retries times while the host is silent; raises HostConnectError."""
        retries = self.data["ssh_connect_retries"]
        while True:
            try:
                seconds = self.state.config.CONNECT_TIMEOUT or 10
                client = connect(destination(self.host), dict(self.data), seconds)
                self.client = client  # type: ignore[assignment] # has what is used
                return
            except HostUnreachableError as error:
                if retries <= 0:
                    raise HostConnectError(error) from error
            except HostError as error:
                raise HostConnectError(error) from error
            except Exception as error:
                raise HostConnectError(fault(error)) from error
            retries -= 1
            time.sleep(
                uniform(self.data["ssh_connect_retry_min_delay"], self.data["ssh_connect_retry_max_delay"])  # noqa: S311
            )


def destination(host: Host) -> Destination:
    """Return how OpenSSH would reach a host; raises HostError where it cannot use its configuration."""
    return destination_of(*_name_and_data(host))


def ask_for(hosts: Iterable[Host]) -> None:
    """Ask OpenSSH how it would reach hosts, all at once; skips other connectors."""
    ask_openssh(_name_and_data(host) for host in hosts if issubclass(host.connector_cls, OpenSshConnector))


def use_own_connectors(hosts: Iterable[Host]) -> None:
    """Use our connectors for SSH and for a root; those to remote containers refuse unknown keys, too."""
    for host in hosts:
        if host.connector_cls is SSHConnector:
            host.connector_cls = OpenSshConnector
        elif host.connector_cls is ChrootConnector:
            host.connector_cls = RootConnector
        elif CHECKING in host.connector_cls.data_meta and host.data.get(CHECKING) is None:
            setattr(host.data, CHECKING, "yes")


def _name_and_data(host: Host) -> tuple[str, dict[str, Any]]:
    data = host.data.dict()  # type: ignore[no-untyped-call]
    return host.name, data
