"""A host that lacks a program of the capture has none; a kubelet that does not print its version is named."""

import shutil

import pytest

from numaforge.lib.errors import SnapshotError
from numaforge.lib.programs import CAPTURED_WITH
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.topology.kubelet import read_kubelet
from tests.fixtures.trees import program


@pytest.fixture
def path_without(tmp_path):
    """Give a PATH of the capture's programs but some."""

    def make(*missing):
        folder = tmp_path / "bin"
        folder.mkdir()
        for tool in {*CAPTURED_WITH, "dash", "timeout"} - {*missing}:
            (folder / tool).symlink_to(shutil.which(tool))
        return str(folder)

    return make


@pytest.mark.parametrize("tool", CAPTURED_WITH)
def test_missing_program_is_reported_instead_of_a_wrong_capture(shell, path_without, tool):
    finished = shell(script(), {"PATH": path_without(tool)})
    with pytest.raises(SnapshotError, match=f"the host lacks {tool}, without which"):
        parse_output(finished.stdout)


def test_capture_needs_only_the_tools_on_its_list(shell, path_without):
    captured = parse_output(shell(script(), {"PATH": path_without()}).stdout)
    assert captured.files["/sys/devices/system/cpu/online"]


BROKEN = {
    "it-fails": ("exit 3", "/kubelet --version ended with 3"),
    "it-is-killed": ("kill -9 $$", "/kubelet --version did not answer within 60 s, or was killed"),
    "it-says-something-else": ("echo ok", "kubelet --version says 'ok', which names no version"),
    "it-says-nothing": (":", "kubelet --version says '', which names no version"),
    "it-hangs": ("exec sleep 20", "/kubelet --version did not answer within 60 s, or was killed"),
}


@pytest.mark.parametrize(("body", "problem"), BROKEN.values(), ids=BROKEN)
def test_kubelet_without_a_readable_version_still_counts_as_installed(shell, folder_of_root, body, problem):
    path = program(folder_of_root, "kubelet", body)
    hurried = script().replace('ask 60 "$program"', 'ask 1 "$program"')
    elsewhere = hurried.replace("/usr/bin /usr", f"{path} /usr", 1)
    kubelet = read_kubelet(parse_output(shell(elsewhere).stdout))
    assert (kubelet.version, problem in (kubelet.problem or "")) == (None, True), kubelet.problem
