"""What a node's watch makes of what it reads: drift, metrics, and what it says of what it cannot read."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaforge.machine.topology.saved import ready_machine
from numaforge.roles.expectation import Comparison, Expected
from tests.fixtures.tables import cases
from tests.fixtures.watched_folder import WatchedFolder, pressure

BUSYBOX = (
    "awk",
    "base64",
    "cat",
    "chmod",
    "date",
    "grep",
    "head",
    "ls",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "rmdir",
    "sed",
    "sh",
    "sha256sum",
    "stat",
    "tr",
    "xargs",
)


SHELLS = ("dash", "bash", "busybox sh")


def watched(shell: str, folder: Path) -> WatchedFolder:
    """Return a folder with a shell; busybox' with its other programs, and a whole setpriv."""
    words = shell.split()
    found = shutil.which(words[0])
    if found is None:
        pytest.skip(f"{words[0]} is not installed")
    if len(words) == 1:
        return WatchedFolder(folder, (found,))
    programs = folder / "programs"
    programs.mkdir()
    for name in BUSYBOX:
        (programs / name).symlink_to(found)
    (programs / "setpriv").symlink_to(str(shutil.which("setpriv")))
    return WatchedFolder(folder, (found, "sh"), path=str(programs))


@pytest.fixture(params=SHELLS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> WatchedFolder:
    return watched(request.param, tmp_path)


@pytest.fixture(params=SHELLS)
def shared_node(request: pytest.FixtureRequest) -> Iterator[WatchedFolder]:
    """A folder that other users reach, too; those of pytest are for its own user."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        Path(folder).chmod(0o755)
        yield watched(request.param, Path(folder))


def judged(node: WatchedFolder, row: tuple[str, ...], text: str | None) -> str:
    if text is not None:
        node.write("/sys/file", text)
    node.configure([row])
    done = node.run()
    assert (done.returncode, done.stderr) == (0, "")
    return node.drift().get("it", "none")


CASES = [
    pytest.param("is", "8", "8\n", "0", id="the value that is planned is no drift"),
    pytest.param("is", "8", "7\n", "1", id="another value is drift"),
    pytest.param("is", "8", "80\n", "1", id="a value that only begins alike is drift"),
    pytest.param("is", "8", "", "NaN", id="an empty file is unknown"),
    pytest.param("is", "8", None, "NaN", id="a file that is not there is unknown"),
    pytest.param(
        "is", "madvise", "always [madvise] never\n", "0", id="of several words the one in brackets counts"
    ),
    pytest.param(
        "is", "madvise", "[always] madvise never\n", "1", id="a word without brackets does not count"
    ),
    pytest.param("is", "4096 87380 6291456", "4096\t87380\t6291456\n", "0", id="the spacing is the kernel's"),
    pytest.param("least", "100", "1000\n", "0", id="more than the least is no drift"),
    pytest.param("least", "100", "100\n", "0", id="the least itself is no drift"),
    pytest.param("least", "100", "99\n", "1", id="less than the least is drift"),
    pytest.param(
        "has", "iommu=pt", "BOOT=/a:b quiet iommu=pt\n", "0", id="a parameter that is there is no drift"
    ),
    pytest.param("has", "iommu=p", "quiet iommu=pt\n", "1", id="a parameter that only begins alike is drift"),
    pytest.param("lines", "1", "Filename Type\n", "0", id="as many lines as planned are no drift"),
    pytest.param("lines", "1", "Filename Type\n/dev/sda2 partition\n", "1", id="a line more is drift"),
]


@pytest.mark.parametrize(("held", "wanted", "text", "drift"), CASES)
def test_kernel_file_is_compared_with_the_plan(node, held, wanted, text, drift):
    assert judged(node, (held, "it", wanted, "needed", "-", "/sys/file"), text) == drift
    assert ("numaforge_watch_unreadable" in node.metrics) is (drift == "NaN")


def test_missing_optional_file_is_neither_drift_nor_unknown(node):
    assert judged(node, ("is", "it", "8", "optional", "-", "/sys/file"), None) == "none"
    assert "numaforge_watch_unreadable" not in node.metrics


def test_a_path_may_hold_colons(node):
    path = "/sys/bus/pci/devices/0000:1b:00.0/numa_node"
    node.write(path, "1\n")
    node.configure([("is", "it", "1", "needed", "-", path)])
    node.run()
    assert node.drift() == {"it": "0"}


def test_one_deviating_cpu_is_drift_and_one_unreadable_is_unknown(node):
    path = "/sys/cpu{}/governor"
    for cpu in (0, 1, 2, 8, 10, 11):
        node.write(path.format(cpu), "performance\n")
    rows = [("counted", "cpu_governor", 'numaforge_cpu_governor{node="n",governor=', "0-2,8,10-11", path)]
    node.configure([*rows, ("is", "governor", "performance", "needed", "0-2,8,10-11", path)])
    node.run()
    assert node.drift() == {"governor": "0"}
    assert 'numaforge_cpu_governor{node="n",governor="performance"} 6\n' in node.metrics

    node.write(path.format(10), "powersave\n")
    said = node.run().stdout
    assert f"{node.folder}/sys/cpu10/governor: powersave, planned performance" in said
    assert node.drift() == {"governor": "1"}
    assert 'governor="performance"} 5\n' in node.metrics
    assert 'governor="powersave"} 1\n' in node.metrics

    (node.folder / "sys/cpu10/governor").unlink()
    node.run()
    assert node.drift() == {"governor": "NaN"}
    assert 'numaforge_watch_unreadable{node="node-1",what="cpu_governor"} 1\n' in node.metrics


def test_machine_without_frequency_scaling_counts_no_governors(node):
    node.configure(
        [("counted", "cpu_governor", "numaforge_cpu_governor{governor=", "0-255", "/sys/cpu{}/governor")]
    )
    node.run()
    assert "numaforge_cpu_governor" not in node.metrics
    assert "numaforge_watch_unreadable" not in node.metrics


def test_unmeasurable_value_is_unknown_and_never_0(node):
    rows = [
        ("measured", "hugepages_actual", "numaforge_hugepages_actual{}", "/sys/pages"),
        ("stalled", "pressure", "numaforge_pressure{kind=", "/sys/fs/cgroup/a/cpu.pressure"),
    ]
    node.configure(rows)
    node.write("/sys/pages", "many\n")
    node.run()
    assert not re.search("^numaforge_(hugepages|pressure)", node.metrics, re.MULTILINE)
    assert node.metrics.count("numaforge_watch_unreadable{") == 2

    node.write("/sys/pages", "8\n")
    node.write("/sys/fs/cgroup/a/cpu.pressure", pressure(1_500_000, 250_000))
    node.run()
    assert "numaforge_hugepages_actual{} 8\n" in node.metrics
    assert 'numaforge_pressure{kind="some"} 1.500000\n' in node.metrics
    assert 'numaforge_pressure{kind="full"} 0.250000\n' in node.metrics
    assert "numaforge_watch_unreadable" not in node.metrics


def test_unreadable_file_is_unknown_to_metric_and_drift(node):
    pool = "/sys/nr_hugepages"
    rows = [("measured", "hugepages_actual", "numaforge_hugepages_actual{}", pool)]
    node.configure([*rows, ("is", "hugepages", "8", "needed", "-", pool)])
    node.run()
    assert node.drift() == {"hugepages": "NaN"}
    assert node.metrics.count("numaforge_watch_unreadable{") == 2


def test_edited_or_missing_numaforge_file_is_drift(node):
    profile: dict[str, Any] = {
        "name": "n",
        "tuning": {"sysctls": {"vm.swappiness": "1"}},
        "watch": {"enabled": True},
    }
    node.install(ready_machine("dgx-h100"), profile)
    node.run()
    assert set(node.drift().values()) == {"0"}
    edited = node.write("/etc/sysctl.d/90-numaforge.conf", "vm.swappiness = 60\n")
    assert f"{edited} was edited" in node.run().stdout
    edited.unlink()
    node.run()
    assert [what for what, value in node.drift().items() if value == "1"] == [
        "file:/etc/sysctl.d/90-numaforge.conf"
    ]


def test_verdict_is_logged_once_with_at_most_20_details(node):
    node.configure([("is", "governor", "performance", "needed", "0-99", "/sys/cpu{}/governor")])
    for cpu in range(100):
        node.write(f"/sys/cpu{cpu}/governor", "powersave\n")
    said = node.run().stdout.splitlines()
    assert said[0] == "True Drifted not as planned: governor"
    assert said[-1] == "and 80 more"
    assert len(said) == 22
    assert node.run().stdout == ""


def test_metrics_are_replaced_atomically_and_world_readable(node):
    node.configure([("text", "# HELP a b")])
    node.run()
    folder = node.folder / "metrics"
    assert [file.name for file in folder.iterdir()] == ["numaforge.prom"]
    assert (folder / "numaforge.prom").stat().st_mode & 0o777 == 0o644
    node.configuration.write_text("node\t\n")
    done = node.run()
    assert done.returncode != 0
    assert "has no node and no folder" in done.stderr
    assert "# HELP a b" in node.metrics


def test_missing_login_is_reported_once_and_does_not_fail(node):
    missing = node.folder / "kubelet.conf"
    node.configure([], kubeconfig=str(missing))
    if (curl := shutil.which("curl")) and node.path.endswith("programs"):
        (node.folder / "programs" / "curl").symlink_to(curl)
    first = node.run()
    assert first.returncode == 0
    assert f"the Node node-1 is not told: {missing} is not there: the kubelet has not joined" in first.stdout
    assert node.run().stdout == ""
    assert 'numaforge_watch_last_run_timestamp_seconds{node="node-1"}' in node.metrics


UNUSABLE = {
    "a program that logs in": ("users:\n- user:\n    exec:\n      command: aws\n", "has exec"),
    "several users": ("server: https://a\ntoken: x\ntoken: y\n", "has several logins"),
    "no https": ("server: http://a\ntoken: x\n", "names no https server"),
    "no credential": ("server: https://a\n", "neither a client certificate nor a token"),
    "a certificate that is gone": ("server: https://a\nclient-certificate: pem\n", "pem cannot be read"),
    "JSON": ('{"clusters": []}\n', "names no https server"),
}


@pytest.mark.parametrize("fault", UNUSABLE)
def test_unusable_kubeconfig_is_reported(fault, tmp_path):
    node = WatchedFolder(tmp_path)
    if shutil.which("curl", path=node.path) is None:
        pytest.skip("curl is not installed")
    text, why = UNUSABLE[fault]
    node.configure([], kubeconfig=str(node.write("/etc/kubelet.conf", text)))
    done = node.run()
    assert done.returncode == 0
    assert why in done.stdout
    assert not [*(tmp_path / "run/numaforge/watch").glob("login*")], "no key stays"


LINES = st.text("ab12[] \t", max_size=12).filter(str.strip)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=40))
def test_watch_and_verification_compare_values_alike(tmp_path_factory, pairs):
    node = WatchedFolder(tmp_path_factory.mktemp("node"))
    rows = []
    for number, (text, wanted) in enumerate(pairs):
        node.write(f"/sys/{number}", f"{text}\n")
        planned = " ".join(wanted.split())
        rows.append(("is", f"is{number}", planned, "needed", "-", f"/sys/{number}"))
        rows.append(("least", f"least{number}", planned, "needed", "-", f"/sys/{number}"))
    node.configure(rows)
    node.run()
    found = node.drift()
    for number, (text, wanted) in enumerate(pairs):
        planned = " ".join(wanted.split())
        assert (found[f"is{number}"] == "0") is Expected("", "", planned).holds(text), (text, wanted)
        assert (found[f"least{number}"] == "0") is Expected("", "", planned, Comparison.LEAST).holds(text), (
            text,
            wanted,
        )


MALLORY, PROMETHEUS = 54321, 54322
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to other users")


def textfiles(node: WatchedFolder, owner: int, group: int, mode: int = 0o755) -> Path:
    """Make the folder of node_exporter's textfile collector, with links to a secret of root's in it."""
    folder = node.folder / "metrics"
    folder.mkdir()
    secret = node.write("/secret", "secret")
    secret.chmod(0o600)
    for name in ("numaforge.prom", ".numaforge.prom.new"):
        (folder / name).symlink_to(secret)
        os.lchown(folder / name, MALLORY, MALLORY)
    os.chown(folder, owner, group)
    folder.chmod(mode)
    node.configure([("is", "it", "8", "needed", "-", "/sys/file")])
    node.write("/sys/file", "8\n")
    return folder


@as_root
@cases(
    "owner, group, mode, written_by",
    {
        "another user's folder": (MALLORY, MALLORY, 0o755, MALLORY),
        "another user's folder, for a group": (MALLORY, PROMETHEUS, 0o775, MALLORY),
        "root's folder, for a group": (0, PROMETHEUS, 0o775, 65534),
        "root's folder, for everybody": (0, 0, 0o777, 65534),
        "root's folder": (0, 0, 0o755, 0),
    },
)
def test_metrics_follow_no_link_and_get_only_the_folder_writers_rights(
    shared_node, owner, group, mode, written_by
):
    folder = textfiles(shared_node, owner, group, mode)
    done = shared_node.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert shared_node.drift() == {"it": "0"}
    written = (folder / "numaforge.prom").lstat()
    assert stat.S_ISREG(written.st_mode)
    assert (written.st_uid, written.st_mode & 0o777) == (written_by, 0o644)
    secret = shared_node.folder / "secret"
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("secret", 0o600)
    assert shared_node.run("forget", str(shared_node.configuration)).returncode == 0
    assert list(folder.iterdir()) == []


@as_root
def test_metrics_are_not_written_through_a_user_linked_folder(shared_node):
    folder = textfiles(shared_node, MALLORY, MALLORY)
    home, roots = shared_node.folder / "home", shared_node.folder / "roots"
    roots.mkdir()
    home.mkdir()
    shutil.rmtree(folder)
    folder.symlink_to(roots)
    os.lchown(folder, MALLORY, MALLORY)
    done = shared_node.run()
    assert done.returncode == 1
    assert f"nothing could be done in {folder} with the rights of its user {MALLORY}" in done.stderr
    assert list(roots.iterdir()) == []
    assert (shared_node.folder / "run/numaforge/watch/verdict").read_text().startswith("False AsPlanned")


@as_root
def test_missing_metrics_folder_is_created_as_the_parent_folders_owner(shared_node):
    folder = textfiles(shared_node, 0, 0)
    home = shared_node.folder / "home"
    home.mkdir()
    os.chown(home, MALLORY, MALLORY)
    text = shared_node.configuration.read_text().replace(str(folder), str(home / "textfile"))
    shared_node.configuration.write_text(text)
    assert shared_node.run().returncode == 0
    assert [(home / name).stat().st_uid for name in ("textfile", "textfile/numaforge.prom")] == [MALLORY] * 2
    assert shared_node.run("forget", str(shared_node.configuration)).returncode == 0
    assert list(home.iterdir()) == []


@as_root
def test_process_with_user_rights_holds_no_root_lock(shared_node):
    """The commit of a change runs the watch while it holds its lock, as file descriptor 8."""
    folder = textfiles(shared_node, MALLORY, MALLORY)
    programs = shared_node.folder / "wrapped"
    programs.mkdir()
    (programs / "mv").write_text(
        f'#!/bin/sh\nls /proc/$$/fd > {folder}/open.$$\nPATH={shared_node.path} exec mv "$@"\n'
    )
    (programs / "mv").chmod(0o755)
    lock = shared_node.write("/lock", "")
    held = "exec 8< $0 9< $0; exec " + " ".join(shared_node.shell) + ' "$@"'
    watch = (str(shared_node.script()), "watch", str(shared_node.configuration))
    done = subprocess.run(
        ["sh", "-c", held, str(lock), *watch],
        env={"PATH": f"{programs}:{shared_node.path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    listed = [file for file in folder.glob("open.*") if file.stat().st_uid == MALLORY]
    assert len(listed) == 1
    assert not {"8", "9"} & {*listed[0].read_text().split()}


@as_root
def test_unit_state_until_the_next_boot_is_readable_only_by_root(shared_node):
    textfiles(shared_node, 0, 0)
    shared_node.run()
    kept = shared_node.folder / "run/numaforge"
    assert [path.stat().st_mode & 0o777 for path in (kept, kept / "watch")] == [0o700, 0o700]


@as_root
@pytest.mark.parametrize("others", ["the file", "its folder"])
def test_kubeconfig_writable_by_others_is_not_used(shared_node, others):
    """It would name any file of root's as a token, and the server that gets it."""
    textfiles(shared_node, 0, 0)
    login = shared_node.write("/login/kubelet.conf", "tokenFile: /etc/shadow\nserver: https://127.0.0.1:1\n")
    os.chown(login if others == "the file" else login.parent, MALLORY, MALLORY)
    shared_node.configuration.write_text(f"kubeconfig\t{login}\n{shared_node.configuration.read_text()}")
    done = shared_node.run()
    assert done.returncode == 0
    assert "the Node node-1 is not told: " in done.stdout
    assert "another user could redirect it" in done.stdout or "is not root's alone to write" in done.stdout
