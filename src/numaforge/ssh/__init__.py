"""Logging in over SSH: OpenSSH decides how a host is reached, and paramiko carries the connection."""

from numaforge.ssh.login import DATA, Login, connect
from numaforge.ssh.openssh import Destination, ask_openssh, destination_of, without_openssh

__all__ = ["DATA", "Destination", "Login", "ask_openssh", "connect", "destination_of", "without_openssh"]
