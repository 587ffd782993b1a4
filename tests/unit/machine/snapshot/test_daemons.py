"""A look runs no program and reads no file that a process names; a daemon is what systemd's manager says.

The processes are real, those of an unprivileged user too; what systemd says of units is the test's.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.kubelet import read_kubelet
from numaforge.machine.topology.userland import read_userland
from tests.fixtures.trees import program

NOBODY = 65534
DUMP = "version = 2\\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\\ndefault_runtime_name = 'nvidia'"
CONTAINERD = f"""case "$*" in
--version) echo containerd github.com/containerd/containerd v1.7.27 ;;
"--config $FOLDER/config.toml config dump") printf "{DUMP}\\n" ;;
*) exit 1 ;;
esac"""
SYSTEMCTL = """[ "$1 $2" = "show -p" ] || exit 1
shift 3
for unit; do cat "$FOLDER/units/$unit" 2> /dev/null || echo MainPID=0; echo; done"""


class Host:
    """This machine with a systemd of the test's, whose files lie below a folder of root's."""

    def __init__(self, folder: Path, shell, processes: ExitStack) -> None:
        self.folder, self._shell, self._processes = folder, shell, processes
        (folder / "units").mkdir()
        program(folder / "bin", "systemctl", SYSTEMCTL)

    def unit(self, name: str, pid: int = 0, start: str = "", group: str = "") -> None:
        """Have systemd say this of a unit."""
        (self.folder / "units" / name).write_text(
            f"MainPID={pid}\nControlGroup={group or f'/system.slice/{name}'}\n"
            f"ExecStart={{ path={start} ; argv[]={start} $ARGS ; ignore_errors=no }}\n"
        )

    def process(self, words: list[str], name: str = "", user: int = 0) -> int:
        """Start a process that waits, with these words; `name` is what the kernel calls it."""
        text = (
            "import os, sys; open('/proc/self/comm', 'w').write(sys.argv[1]); "
            f"os.setuid({user}); print(flush=True); input()"
        )
        started = self._processes.enter_context(
            subprocess.Popen(
                [words[0], "-c", text, name, *words[1:]],
                executable=sys.executable,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        started.stdout.readline()  # it has its name
        self._processes.callback(started.kill)
        return started.pid

    def captured(self, *, systemd: bool = True) -> Snapshot:
        """Capture it; its programs are looked for in a folder without any."""
        text = script().replace("/usr/bin /usr/local/bin", str(self.folder / "none"), 1)
        text = text.replace(
            "proc/1/ns", f"proc/{os.getpid()}/ns"
        )  # a container may not read its first process'
        if systemd:
            text = text.replace("-d run/systemd/system", f"-d {self.folder}")
        path = str(self.folder / "bin")
        return parse_output(self._shell(text, {"PATH_FIRST": path, "FOLDER": str(self.folder)}).stdout)


@pytest.fixture
def host(shell, folder_of_root: Path) -> Iterator[Host]:
    with ExitStack() as processes:
        yield Host(folder_of_root, shell, processes)


@pytest.fixture
def trap(tmp_path: Path) -> tuple[str, Path]:
    """Give a program of a user's, and the file that it leaves when it is run."""
    ran = tmp_path / "ran"
    return f"{program(tmp_path, 'trap', f'id -u > {ran}')}/trap", ran


# ---- what is run ----


@pytest.mark.parametrize("systemd", [True, False], ids=["with-systemd", "without-systemd"])
@pytest.mark.parametrize("name", ["containerd", "kubelet", "crio", "k3s-agent"])
def test_program_named_by_a_process_is_not_run(host, trap, name, systemd):
    path, ran = trap
    named = Path(path).with_name(name)
    Path(path).rename(named)
    host.process([str(named), f"--config={named}"], name, NOBODY)
    snapshot = host.captured(systemd=systemd)
    assert not ran.exists()
    assert "containerd --version" not in snapshot.commands
    assert read_kubelet(snapshot) is None
    assert "/cmdline" not in " ".join(each for each in snapshot.files if each != "/proc/cmdline")


def test_containerd_gets_the_arguments_of_its_main_process(host, trap):
    path, ran = trap
    host.process([path], "containerd", NOBODY)  # one of /proc that comes before
    config = host.folder / "config.toml"
    config.write_text("version = 2\n")
    pid = host.process(["containerd", "--config", str(config)], "containerd")
    host.unit("containerd.service", pid, f"{program(host.folder, 'containerd', CONTAINERD)}/containerd")
    snapshot = host.captured()
    containerd = read_userland(snapshot).containerd
    assert (containerd.version, containerd.default_runtime) == ("1.7.27", "nvidia")
    assert containerd.versions == {str(config): 2}
    assert not ran.exists()


VERSION = "echo Kubernetes v1.36.3"


def test_kubelet_version_comes_from_the_units_main_process(host):
    folder = host.folder / "opt"
    folder.mkdir()
    (folder / "kubelet").write_bytes(Path("/bin/sleep").read_bytes())
    (folder / "kubelet").chmod(0o755)
    with subprocess.Popen([f"{folder}/kubelet", "1000"]) as process:
        host.unit("kubelet.service", process.pid, f"{program(host.folder, 'kubelet', VERSION)}/kubelet")
        try:
            said = host.captured().commands
        finally:
            process.kill()
    assert said["kubelet binary"].endswith(f" {folder}/kubelet")
    assert said["kubelet --version"].startswith("sleep (")


@pytest.mark.parametrize("systemd", [True, False], ids=["its-unit-names-it", "in-a-folder-of-programs"])
def test_stopped_kubelet_is_read_from_the_program_that_starts_next(host, systemd):
    folder = program(host.folder / "none", "kubelet", VERSION)
    if systemd:
        folder = program(host.folder / "own", "kubelet", VERSION)
    host.unit("kubelet.service", 0, f"{folder}/kubelet")
    said = host.captured(systemd=systemd).commands
    assert said["kubelet --version"] == "Kubernetes v1.36.3"
    assert said["kubelet binary"].endswith(f" {folder}/kubelet")


WAYS = {
    "the-program-is-another-user's": lambda folder: os.chown(folder / "kubelet", NOBODY, 0),
    "others-may-write-the-program": lambda folder: (folder / "kubelet").chmod(0o757),
    "its-group-may-write-the-program": lambda folder: (folder / "kubelet").chmod(0o775),
    "its-folder-is-another-user's": lambda folder: os.chown(folder, NOBODY, 0),
    "others-may-write-its-folder": lambda folder: folder.chmod(0o777),
    "a-folder-above-is-another-user's": lambda folder: os.chown(folder.parent, NOBODY, 0),
}


@pytest.mark.parametrize("spoil", WAYS.values(), ids=WAYS)
def test_kubelet_replaceable_by_others_is_not_run(host, tmp_path, spoil):
    folder = host.folder / "a" / "b"
    program(folder, "kubelet", f": > {tmp_path}/ran")
    host.unit("kubelet.service", 0, f"{folder}/kubelet")
    spoil(folder)
    snapshot = host.captured()
    assert not (tmp_path / "ran").exists()
    assert "kubelet --version" not in snapshot.commands
    assert read_kubelet(snapshot).problem.startswith(
        f"{folder}/kubelet was not run: it, or a folder above it"
    )


def test_kubelet_in_another_mount_namespace_is_not_run(host, tmp_path):
    """Its path says what it is in there; out here it may be anything."""
    folder = host.folder / "opt"
    program(folder, "kubelet", f": > {tmp_path}/ran")
    inside = 'mount -t tmpfs tmpfs "$1" && cp /bin/sleep "$1/kubelet" && exec "$1/kubelet" 99'
    with _in_a_mount_namespace(inside, str(folder)) as pid:
        host.unit("kubelet.service", pid)
        said = host.captured().commands
    assert not (tmp_path / "ran").exists()
    assert "kubelet --version" not in said


@contextmanager
def _in_a_mount_namespace(inside: str, *arguments: str) -> Iterator[int]:
    command = ["unshare", "--mount", "sh", "-c", inside, "sh", *arguments]
    with subprocess.Popen(command) as process:
        comm = Path(f"/proc/{process.pid}/comm")
        try:
            while process.poll() is None and comm.read_text() != "kubelet\n":
                os.sched_yield()
            assert process.poll() is None
            yield process.pid
        finally:
            process.kill()


# ---- what is read ----


HIDDEN = "kind: KubeletConfiguration\nstaticPodURL: http://hidden\n"


@pytest.fixture
def secret(host: Host) -> Path:
    """Write a file that only root may read, and that no look reads by itself."""
    file = host.folder / "secret" / "s.conf"
    file.parent.mkdir()
    file.write_text(HIDDEN)
    file.chmod(0o600)
    return file


def _flags(user_folder: Path) -> list[str]:
    return [
        f"--config={user_folder}/k.yaml",
        f"--config-dir={user_folder}/k.d",
        f"--root-dir={user_folder}/root",
    ]


def _links_to(secret: Path, folder: Path) -> None:
    """Make what a user makes of files that a kubelet reads."""
    (folder / "root").mkdir()
    (folder / "k.yaml").symlink_to(secret)
    (folder / "k.d").symlink_to(secret.parent)
    (folder / "root" / "cpu_manager_state").symlink_to(secret)
    for path in (folder, folder / "root"):
        os.chown(path, NOBODY, NOBODY)


def test_file_named_in_a_process_command_line_is_not_read(host, tmp_path, secret):
    _links_to(secret, tmp_path)
    host.process(["kubelet", *_flags(tmp_path)], "kubelet", NOBODY)
    assert HIDDEN not in host.captured().files.values()


def test_user_link_in_kubelet_folders_is_not_followed(host, tmp_path, secret):
    _links_to(secret, tmp_path)
    host.unit("kubelet.service", host.process(["kubelet", *_flags(tmp_path)], "kubelet"))
    snapshot = host.captured()
    assert HIDDEN not in snapshot.files.values()
    assert f"{tmp_path}/k.yaml" in snapshot.unreadable


def test_root_owned_link_is_followed(host, secret):
    own = host.folder / "etc"
    own.mkdir()
    (own / "k.yaml").symlink_to("../secret/s.conf")
    (own / "k.d").symlink_to(secret.parent)
    host.unit("kubelet.service", host.process(["kubelet", *_flags(own)], "kubelet"))
    files = host.captured().files
    assert files[f"{own}/k.yaml"] == HIDDEN
    assert files[f"{own}/k.d/s.conf"] == HIDDEN
