"""A host to write to without writing to this machine: a private mount namespace with its own sshd.

The sandbox's root is an overlay over this machine's root, or another one, with an empty upper layer, so that
everything installed there is there and everything written is gone afterwards. /sys is a generated tree,
/proc/sys, /proc/irq, /proc/swaps and /proc/cmdline are generated files over a proc of its own; neither
reaches the kernel. Needs root, for the mounts.
"""

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.errors import LabError
from lab.ports import reserved_port as free_port
from lab.ports import started_on_free_ports
from tests.ssh import pyinfra_forks

REPOSITORY = Path(__file__).resolve().parents[2]
SSHD = "/usr/sbin/sshd"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What a login has; the tests' own may lead through wrappers that start a dozen shells for one Python."""
NETWORK = "/run/network"
"""The network namespace of a sandbox, for what runs there and has no business with sshd."""

_BOOTS_THIS_MACHINE = (
    "boot etc/default/grub* etc/grub.d etc/kernel usr/bin/grub* usr/sbin/grub* usr/sbin/update-grub*"
)
"""What a sandbox over this machine's root lacks: which kernel it would boot, and by what, is for the test."""

_MOUNT = r"""
set -eu
mount -t tmpfs tmpfs "$BASE"
mkdir "$BASE/upper" "$BASE/work" "$BASE/root"
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$BASE/upper,workdir=$BASE/work" "$BASE/root"
cd "$BASE/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=0755 tmpfs run
mkdir -p run/sshd
mount -t tmpfs tmpfs sys
cp -a "$TREE/sys/." sys/
for folder in proc/sys proc/irq; do
    mount -t tmpfs tmpfs "$folder"
    cp -a "$TREE/$folder/." "$folder/"
done
for file in swaps cmdline; do mount --bind "$TREE/proc/$file" "proc/$file"; done
rm -rf etc/numaforge etc/kubernetes var/lib/numaforge var/lib/kubelet root/.bashrc root/.profile
rm -rf $LACKS
mkdir -p boot
cp -a "$TREE/etc/." etc/
cp -a "$TREE/usr/." usr/
cp -a "$TREE/var/." var/
exec chroot . sh -c "$INIT"
"""

_INIT = f"""
: > {NETWORK}
# A root without iproute2 has Python, which takes ten times as long.
unshare --net={NETWORK} -- ip link set lo up ||
    nsenter --net={NETWORK} python3 -IS -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh22x", b"lo", 1))' # SIOCSIFFLAGS: up
exec {SSHD} -D -e -f /etc/ssh/sandbox_config
"""

_UNSHARE = (
    *("setpriv", "--pdeathsig", "KILL"),  # with the tests, whatever ends them
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"),
    *("sh", "-c", _MOUNT),
)


@dataclass(frozen=True)
class Sandbox:
    """A running sandbox: `root` shows its files here, `port` is its sshd's on loopback."""

    process: subprocess.Popen[bytes]
    pid: int
    port: int
    keys: Path

    @property
    def root(self) -> Path:
        """The sandbox's root folder as this machine sees it."""
        return Path(f"/proc/{self.pid}/root")

    def path(self, path: str) -> Path:
        """Return a file of the sandbox."""
        return self.root / path.lstrip("/")

    def run(
        self, script: str, shell: str = "sh -s", *, own_network: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a script inside, without SSH, in the sandbox's own network or in that of its sshd."""
        network = [f"--net={self.path(NETWORK)}"] if own_network else []
        return subprocess.run(
            ["nsenter", "-t", str(self.pid), "-m", "-p", "-r", "-w", *network, *shlex.split(shell)],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env={**os.environ, "PATH": PATH},
        )

    def log_in_with(self, shell: str) -> None:
        """Have root's commands over SSH run by a shell of the test's, given as its lines before `exec sh`."""
        path = "/usr/local/bin/login-shell"
        self.path(path).write_text(f'#!/bin/sh\n{shell}\nexec /bin/sh "$@"\n')
        self.run(f"chmod 755 {path}; sed -i 's#^\\(root:.*:\\).*#\\1{path}#' /etc/passwd")

    def data(self, user: str = "root") -> dict[str, object]:
        """Return the host data with which pyinfra reaches the sandbox, its host key checked."""
        return {
            "ssh_hostname": "127.0.0.1",
            "ssh_port": self.port,
            "ssh_user": user,
            "ssh_key": str(self.keys / "user"),
            "ssh_known_hosts_file": str(self.keys / "known_hosts"),
            "ssh_strict_host_key_checking": "yes",
        }


@contextmanager
def running_sandbox(folder: Path, files: Mapping[str, str], lower: Path = Path("/")) -> Iterator[Sandbox]:
    """Start a sandbox with these files over the root `lower`, and end all of it.

    They lie below /sys, /proc/sys, /proc/irq, /etc, /usr or /var.

    A file whose text begins with "#!" is executable.
    """
    tree, keys, base = folder / "tree", folder / "keys", folder / "base"
    for part in ("sys", "proc/sys", "proc/irq", "etc", "usr", "var"):
        (tree / part).mkdir(parents=True)
    (tree / "proc/swaps").write_text("Filename\tType\tSize\tUsed\tPriority\n")
    (tree / "proc/cmdline").write_text("BOOT_IMAGE=/boot/vmlinuz root=/dev/sda1 ro quiet\n")
    for path, text in files.items():
        target = tree / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755 if text.startswith("#!") else 0o644)
    base.mkdir()
    _make_keys(keys)
    _make_users(tree, keys, lower)
    (tree / "etc/ssh").mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if name == "LANG"},
        "PATH": PATH,
        "BASE": str(base),
        "LOWER": str(lower),
        "LACKS": _BOOTS_THIS_MACHINE if lower == Path("/") else "",
        "TREE": str(tree),
        "INIT": _INIT,
    }
    started: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        port = free_port()
        (keys / "known_hosts").write_text(f"[127.0.0.1]:{port} {(keys / 'host.pub').read_text()}")
        (tree / "etc/ssh/sandbox_config").write_text(_sshd_config(port))
        with (folder / "sshd.log").open("wb") as log:
            started.append(subprocess.Popen(_UNSHARE, env=environment, stderr=log))
        _await_sshd(port, started[-1], folder / "sshd.log")
        return port

    def end() -> None:
        for process in started:
            process.kill()
            process.wait()

    port = started_on_free_ports(start, end)
    process = started[-1]
    try:
        pid = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        yield Sandbox(process, pid, port, keys)
    finally:
        end()


def cannot_run() -> str | None:
    """Say why there can be no sandbox here, if so."""
    if os.geteuid() != 0:
        return "the sandbox needs root, for its mounts"
    if not Path(SSHD).exists():
        return "the sandbox needs sshd: install openssh-server"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    return None if tried.returncode == 0 else f"the sandbox needs namespaces: {tried.stderr.decode().strip()}"


def pyinfra(
    folder: Path, hosts: Mapping[str, Mapping[str, object]], *arguments: str, columns: int = 1000
) -> subprocess.CompletedProcess[str]:
    """Run pyinfra from the repository's root against hosts with their data, nobody at the terminal.

    Lines are as wide as `columns`, so that a test finds a sentence whole.
    """
    inventory = folder / "inventory.py"
    inventory.write_text(f"nodes = {[(name, dict(data)) for name, data in hosts.items()]!r}\n")
    environment = {**os.environ, "HOME": str(folder), "PYINFRA_PROGRESS": "off", "COLUMNS": str(columns)}
    return pyinfra_forks.run([str(inventory), *arguments], environment, 120)


def succeed(
    folder: Path, hosts: Mapping[str, Mapping[str, object]], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run pyinfra, which succeeds."""
    run = pyinfra(folder, hosts, *arguments)
    assert run.returncode == 0, run.stdout
    return run


@cache
def _key_pairs() -> Mapping[str, bytes]:
    """Return the files of a host's and a user's keys: another program of 20 ms for each sandbox otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("host", "user"):
            words = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", f"{folder}/{name}"]
            subprocess.run(["ssh-keygen", *words], check=True)
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def _make_keys(keys: Path) -> None:
    keys.mkdir()
    for name, text in _key_pairs().items():
        (keys / name).write_bytes(text)
        (keys / name).chmod(0o600)


def _make_users(tree: Path, keys: Path, lower: Path) -> None:
    """Let the key in for root, `operator` (no right to sudo) and `deployer` (sudo without a password)."""
    for name, uid in (("operator", 4001), ("deployer", 4002)):
        line = f"{name}:x:{uid}:{uid}::/tmp:/bin/sh\n"
        with (tree / "etc/passwd").open("a") as passwd:
            passwd.write(("" if passwd.tell() else (lower / "etc/passwd").read_text()) + line)
    with (tree / "etc/shadow").open("w") as shadow:
        shadow.write((lower / "etc/shadow").read_text() + "operator:*:1::::::\ndeployer:*:1::::::\n")
    (tree / "etc/shadow").chmod(0o600)
    (tree / "etc/sudoers.d").mkdir()
    (tree / "etc/sudoers.d/deployer").write_text("deployer ALL=(ALL) NOPASSWD: ALL\n")
    (tree / "etc/sudoers.d/deployer").chmod(0o440)
    folder = tree / "etc/ssh-sandbox"
    folder.mkdir()
    (folder / "authorized_keys").write_text((keys / "user.pub").read_text())
    (folder / "host").write_text((keys / "host").read_text())
    (folder / "host").chmod(0o600)


def _sshd_config(port: int) -> str:
    return f"""ListenAddress 127.0.0.1:{port}
HostKey /etc/ssh-sandbox/host
AuthorizedKeysFile /etc/ssh-sandbox/authorized_keys
StrictModes no
UsePAM no
UseDNS no
KexAlgorithms -sntrup*,mlkem*
PermitRootLogin prohibit-password
PasswordAuthentication no
PidFile none
LogLevel VERBOSE
"""


def _await_sshd(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when sshd says that it listens, which a connection does not show: another may hold the port."""
    while f"Server listening on 127.0.0.1 port {port}." not in log.read_text(errors="replace"):
        if process.poll() is not None:
            raise LabError(f"the sandbox's sshd did not start: {log.read_text(errors='replace')}")
        time.sleep(0.02)
