"""Machines that differ in name, address, port and key, bastions before others, and a controller.

All are in the network namespace of one sandbox, so that each has port 22 of an address of its own. A machine
is an sshd in a mount namespace of its own: its host name and its /etc/hosts are its own, so that a bastion
knows names that the controller does not. The controller is this machine with another /etc/passwd, whose root
has a home of the test's (OpenSSH ignores HOME), and without this machine's /etc/ssh and /etc/hosts.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ssh.machine import machine
from tests.ssh.sandbox import PATH, REPOSITORY, SSHD, Sandbox, running_sandbox

PROGRAMS = Path(sys.executable).parent
_CONTROLLER = """
set -eu
for file in passwd hosts resolv.conf; do mount --bind "$FOLDER/$file" "/etc/$file"; done
mount --bind "$FOLDER/ssh" /etc/ssh
exec "$@"
"""
_START = """
set -eu
mount --bind /machines/{name}/hostname /proc/sys/kernel/hostname
mount --bind /machines/{name}/swappiness /proc/sys/vm/swappiness
mount --bind /machines/{name}/hosts /etc/hosts
mount --bind /machines/{name}/numaforge /etc/numaforge
exec {sshd} -f /machines/{name}/sshd_config -E /machines/{name}/log
"""
_LISTENS = """
for name in {names}; do
    tries=0
    until grep -q '^Server listening' "/machines/$name/log"; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || {{ cat "/machines/$name/log" >&2; exit 1; }}
        sleep 0.05
    done
done
"""


@dataclass(frozen=True)
class Machine:
    """A machine: its name, its address and port, the keys that it lets in, and the names that it knows."""

    name: str
    address: str
    port: int = 22
    keys: tuple[str, ...] = ("fleet",)
    hosts: str = ""
    more: str = ""
    host_keys: tuple[str, ...] = ("ed25519",)


@dataclass(frozen=True)
class Answer:
    """What a command on the controller has printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """All that was printed, each run of blanks as one."""
        return " ".join(f"{self.out}\n{self.err}".split())


@dataclass(frozen=True)
class Controller:
    """The machine that logs in to the others; `folder/home` is root's home there.

    The path of a socket has 107 bytes, so those in `sockets` have a short one.
    """

    sandbox: Sandbox
    folder: Path
    sockets: Path

    @property
    def home(self) -> Path:
        """Root's home."""
        return self.folder / "home"

    def run(
        self, *words: str, seconds: float = 300, environment: Mapping[str, str] | None = None, stdin: str = ""
    ) -> Answer:
        """Run a command as root of the controller."""
        done = subprocess.run(
            self._command(words),
            env=self._environment(environment or {}),
            cwd=REPOSITORY,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command that goes on, such as an agent; it ends with the sandbox, whatever ends that."""
        return subprocess.Popen(
            ["nsenter", f"--target={self.sandbox.pid}", "--pid", *self._command(words)],
            env=self._environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def _command(self, words: Sequence[str]) -> list[str]:
        network = f"--net={self.sandbox.path('/run/network')}"
        return ["nsenter", network, "unshare", "--mount", "sh", "-c", _CONTROLLER, "sh", *words]

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": f"{PROGRAMS}:{PATH}",
            "HOME": str(self.home),
            "FOLDER": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "PYINFRA_PROGRESS": "off",
            "COLUMNS": "1000",
            **more,
        }


@contextmanager
def running_machines(
    folder: Path,
    machines: Sequence[Machine],
    hosts: str,
    key_kinds: Mapping[str, Sequence[str]],
    prepare: Callable[[Controller], None],
) -> Iterator[Controller]:
    """Start machines, and yield the controller, which has `hosts` as its /etc/hosts.

    The private keys that machines let in are in ~/.ssh of the controller, by their names; each is ed25519 or
    of its kind. What `prepare` does is done before any sshd is started.
    """
    (folder / "sandbox").mkdir()
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as sockets,
        running_sandbox(folder / "sandbox", machine()) as sandbox,
    ):
        controller = Controller(sandbox, folder, Path(sockets))
        _make_controller(folder, hosts)
        for key in dict.fromkeys(key for each in machines for key in each.keys):
            make_key(controller.home / ".ssh" / key, *key_kinds.get(key, ("ed25519",)))
        for number, each in enumerate(machines):
            _make_machine(sandbox, controller.home / ".ssh", each, number)
        sandbox.path("/etc/numaforge").mkdir()
        prepare(controller)
        addresses = "".join(
            f"ip addr add {each.address}/128 dev lo\n" for each in machines if ":" in each.address
        )
        starts = "".join(
            f"unshare --mount sh -c '{_START.format(name=each.name, sshd=SSHD)}'\n" for each in machines
        )
        listens = _LISTENS.format(names=" ".join(each.name for each in machines))
        started = sandbox.run(f"set -e\n{addresses}{starts}{listens}")
        if started.returncode:
            raise RuntimeError(started.stderr)
        yield controller


def swappiness(number: int) -> int:
    """Return the vm.swappiness by which the machine of a number is known in a plan's differences."""
    return 100 + number


def make_key(file: Path, kind: str = "ed25519", *more: str, passphrase: str = "") -> None:
    """Make a pair of keys."""
    more = ("-b", "2048", *more) if kind == "rsa" else more
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", file.name, *more, "-f", str(file)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def host_key(controller: Controller, name: str, kind: str = "ed25519") -> str:
    """Return a machine's public host key, without its comment."""
    return " ".join(controller.sandbox.path(f"/machines/{name}/{kind}.pub").read_text().split()[:2])


def _make_controller(folder: Path, hosts: str) -> None:
    ssh = folder / "home/.ssh"
    ssh.mkdir(parents=True, mode=0o700)
    (folder / "ssh").mkdir()
    lines = Path("/etc/passwd").read_text().splitlines()
    root, others = [line for line in lines if line.startswith("root:")], lines
    fields = root[0].split(":")
    fields[5] = str(folder / "home")
    (folder / "passwd").write_text(
        "\n".join([":".join(fields), *(line for line in others if not line.startswith("root:"))]) + "\n"
    )
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
    (folder / "resolv.conf").write_text("")


def _make_machine(sandbox: Sandbox, keys: Path, of: Machine, number: int) -> None:
    place = sandbox.path(f"/machines/{of.name}")
    place.mkdir(parents=True)
    (place / "hostname").write_text(f"{of.name}\n")
    (place / "swappiness").write_text(f"{swappiness(number)}\n")
    (place / "hosts").write_text(f"127.0.0.1 localhost\n{of.hosts}")
    (place / "numaforge").mkdir()
    (place / "authorized_keys").write_text("".join((keys / f"{key}.pub").read_text() for key in of.keys))
    host_keys = ""
    for kind in of.host_keys:
        make_key(place / kind, kind)
        host_keys += f"HostKey /machines/{of.name}/{kind}\n"
    (place / "sshd_config").write_text(
        f"{of.more.format(machine=f'/machines/{of.name}')}"
        f"AddressFamily any\nListenAddress {_bracketed(of.address)}:{of.port}\n{host_keys}"
        f"AuthorizedKeysFile /machines/{of.name}/authorized_keys\n"
        "StrictModes no\nUsePAM no\nUseDNS no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        "KexAlgorithms -sntrup*,mlkem*\n"
        "KbdInteractiveAuthentication no\n"
        f"MaxStartups 1000\nMaxSessions 100\nPidFile /machines/{of.name}/pid\nLogLevel VERBOSE\n"
    )


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
