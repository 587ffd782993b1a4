"""Logging in over SSH: OpenSSH decides how a host is reached, and paramiko carries the connection."""

from numaforge.ssh.login import DATA, connect
from numaforge.ssh.openssh import Destination, ask_openssh, destination_of, without_openssh

__all__ = ["DATA", "Destination", "ask_openssh", "connect", "destination_of", "without_openssh"]
