"""The node's side of a rehearsal, under the shells that hosts have; what it does is in tests/lab."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from numaforge.lib.shell import library
from numaforge.roles.kubelet.rehearsal import Rehearsal, Verdict, read_rehearsed

ON_A_NODE = ("systemd-run", "unshare", "mount", "base64", "find", "mktemp", "timeout", "stat", "cat", "grep")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param("system.slice", "system.slice", id="at-the-top"),
        pytest.param("a-b-c.slice", "a.slice/a-b.slice/a-b-c.slice", id="each-dash-is-a-level"),
        pytest.param("kube", "kube.slice", id="without-its-suffix"),
    ],
)
def test_slice_path_matches_systemd(shell: list[str], name: str, path: str) -> None:
    done = subprocess.run(
        [*shell, "-c", library("node/rehearsal"), "sh", "slice", name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == path


def cpuinfo(cpus: Iterable[int]) -> str:
    return "".join(f"processor\t: {cpu}\nphysical id\t: {cpu // 8}\n\n" for cpu in cpus)


MEMORY = "Node 2 MemTotal:       98304 kB\nNode 2 MemFree:          512 kB\n"


@pytest.mark.parametrize(
    ("text", "words", "planned"),
    [
        pytest.param(
            cpuinfo(range(12)),
            ("without_cpus", "1|10", ...),
            cpuinfo((0, *range(2, 10), 11)),
            id="cpus-offline",
        ),
        pytest.param(
            MEMORY, ("with_figure", ..., "MemTotal", "0"), MEMORY.replace("98304", "0"), id="memory-of-a-node"
        ),
    ],
)
def test_kernel_file_is_rewritten_as_planned(
    shell: list[str], text: str, words: tuple[object, ...], planned: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    arguments = [str(file if word is ... else word) for word in words]
    done = subprocess.run(
        [*shell, "-c", library("node/rehearsal"), "sh", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == planned


@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        pytest.param("unshare", "the node lacks unshare", id="a-program"),
        pytest.param("", "systemd does not run", id="systemd"),
    ],
)
def test_missing_prerequisite_is_named(shell: list[str], lacks: str, why: str, tmp_path: Path) -> None:
    if lacks == "" and Path("/run/systemd/system").exists():
        pytest.skip("systemd runs here")
    for name in {*ON_A_NODE} - {lacks}:
        (tmp_path / name).symlink_to(shutil.which(name) or "/bin/true")
    wanted = Rehearsal(
        program="/usr/bin/kubelet",
        unit="kubelet.service",
        runtime="containerd",
        endpoint="/run/containerd/containerd.sock",
        root_dir="/var/lib/kubelet",
        arguments=("--v=2", "--node-labels=a=$(reboot) 'b'"),
    )
    done = subprocess.run(
        shell,
        input=wanted.script,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    said = read_rehearsed(done.stdout)
    assert (said.verdict, said.words) == (Verdict.UNKNOWN, why)
    assert not list(Path("/run").glob("numaforge-rehearsal*"))
