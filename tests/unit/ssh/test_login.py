"""A connection that is cut in a login: a host that is away, or one that has refused enough keys."""

import socket
import subprocess
import threading
from pathlib import Path

import pytest
from paramiko import AUTH_FAILED, Ed25519Key, PKey, ServerInterface, Transport

from numaforge.lib.errors import HostError, HostRefusedError, HostUnreachableError
from numaforge.ssh.login import connect
from numaforge.ssh.openssh import Destination, Question


class CutsAfter(ServerInterface):
    """A server that hangs up on the last of so many keys, and refuses those before it."""

    def __init__(self, transport: Transport, keys: int) -> None:
        self.transport, self.keys = transport, keys

    def get_allowed_auths(self, _username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, _username: str, _key: PKey) -> int:
        self.keys -= 1
        if not self.keys:
            self.transport.close()
        return AUTH_FAILED


def serve(listener: socket.socket, host_key: Path, keys: int) -> None:
    connection, _ = listener.accept()
    transport = Transport(connection)
    transport.add_server_key(Ed25519Key.from_private_key_file(str(host_key)))
    transport.start_server(threading.Event(), CutsAfter(transport, keys))
    transport.join()


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        pytest.param(1, HostUnreachableError, "the host does not answer the login", id="one-key-is-no-limit"),
        pytest.param(3, HostRefusedError, "the host has hung up after 3 tries", id="many-keys-may-be-one"),
    ],
)
def test_login_that_is_cut(tmp_path: Path, keys: int, error: type[HostError], message: str) -> None:
    files = [tmp_path / name for name in ("host", "first", "second", "third")]
    for file in files:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    settings = {
        "hostname": ["127.0.0.1"],
        "identityfile": [str(file) for file in files[1:]],
        "identitiesonly": ["yes"],
        "stricthostkeychecking": ["no"],
        "userknownhostsfile": ["/dev/null"],
        "globalknownhostsfile": ["/dev/null"],
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener, files[0], keys))
        server.start()
        settings["port"] = [str(listener.getsockname()[1])]
        with pytest.raises(error, match=message):
            connect(Destination(Question("gpu-01"), settings), {"ssh_allow_agent": False})
        server.join()
