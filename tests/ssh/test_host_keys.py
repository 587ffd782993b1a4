"""Which host keys are accepted over a real sshd: those that are known, and no other unless it is said."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from numaforge.ssh.known_hosts import known_keys
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, pyinfra

STRANGER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFeMVwYHHpXj1jn1rT7TzQuf7Y6DjYYvtd/qHhzMv8bE\n"


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home without ~/.ssh."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def data(node: Sandbox, **more: object) -> dict[str, object]:
    """Return how to log in, with nothing said of host keys."""
    login = node.data()
    del login["ssh_known_hosts_file"], login["ssh_strict_host_key_checking"]
    return {**login, **more}


def says(home: Path, login: Mapping[str, object]) -> tuple[int, str]:
    run = pyinfra(home, {"node": login}, "-y", "exec", "--", "echo it answers")
    assert "Traceback" not in run.stdout, run.stdout
    return run.returncode, " ".join(run.stdout.split())


def fingerprint(node: Sandbox) -> str:
    return node.run("ssh-keygen -lf /etc/ssh-sandbox/host").stdout.split()[1]


def test_unknown_key_is_refused_with_the_command_to_accept_the_key(node, home):
    code, said = says(home, data(node))
    assert code == 1
    assert f"is not known: ssh-ed25519 {fingerprint(node)}" in said
    assert f"ssh-keyscan -p {node.port} 127.0.0.1 >> {home}/.ssh/known_hosts" in said
    assert not (home / ".ssh").exists()


def test_changed_key_is_refused_with_both_fingerprints(node, home):
    (home / ".ssh").mkdir()
    (home / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{node.port} {STRANGER}")
    code, said = says(home, data(node, ssh_strict_host_key_checking="accept-new"))
    assert code == 1
    assert f"is not the known one: ssh-ed25519 {fingerprint(node)}, known is ssh-ed25519" in said
    assert f"ssh-keygen -R '[127.0.0.1]:{node.port}'" in said


def test_accept_new_stores_the_first_key_and_creates_the_ssh_folder(node, home):
    code, said = says(home, data(node, ssh_strict_host_key_checking="accept-new"))
    assert (code, "it answers" in said) == (0, True), said
    (key,) = known_keys(str(home / ".ssh/known_hosts"), f"[127.0.0.1]:{node.port}")
    assert key.kind == "ssh-ed25519"
    assert (home / ".ssh").stat().st_mode & 0o777 == 0o700
