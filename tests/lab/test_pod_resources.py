"""The pod-resources API as the kubelet serves it: its own gRPC library and messages, no virtual node."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import gobuild
from lab.qmp import listens
from lab.waiting import wait_until
from numaforge.machine.snapshot.pod_resources_probe import FIRST_WINDOW, answer, exchange

pytestmark = pytest.mark.lab


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[str]:
    """Serve a number of pods, and say at which socket."""
    program, path = gobuild.build(gobuild.POD_RESOURCES) / "podresources", folder / "kubelet.sock"
    process = subprocess.Popen([program, path, *arguments])
    try:
        wait_until(lambda: listens(path), "the server takes no connection", where=str(path))
        yield str(path)
    finally:
        process.kill()
        process.wait()


def held(pods: int) -> list[tuple[str, ...]]:
    """Return what the server has given."""
    devices = ((number // 2, f"GPU-{number:036}") for number in range(2 * pods))
    return sorted((f"team-a/train-{pod}", "main", "nvidia.com/gpu", device) for pod, device in devices)


@pytest.mark.parametrize("pods", [0, 1, 250, 5000], ids=lambda pods: f"{pods}-pods")
def test_every_allocated_device_is_listed(socket_folder, pods):
    with serving(socket_folder, str(pods)) as path:
        assert answer(path) == held(pods)


def test_answer_larger_than_the_initial_http2_window_is_read(socket_folder):
    with serving(socket_folder, "1000") as path:
        assert len(exchange(path)) > 4 * FIRST_WINDOW


def test_throttled_kubelet_query_counts_as_unanswered(socket_folder):
    with serving(socket_folder, "1", "refuse") as path:
        assert answer(path) == "its answer cannot be read: an error instead of a list"
