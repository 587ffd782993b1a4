"""Shells as hosts have them, and a libnvidia-ml without a GPU."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from numaforge.machine.snapshot.capture import script
from tests.fakes.nvml.build import build
from tests.fixtures.trees import write


@pytest.fixture(scope="session")
def busybox_path(tmp_path_factory):
    """Give a PATH that holds busybox's applets and nothing else."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    folder = tmp_path_factory.mktemp("busybox")
    for applet in subprocess.run(
        [busybox, "--list"], capture_output=True, text=True, check=True
    ).stdout.split():
        (folder / applet).symlink_to(busybox)
    return str(folder)


@pytest.fixture(params=["dash", "busybox", "dash packed"])
def shell(request):
    """Run a script on a shell's standard input, as a connector does, and give what it printed.

    `packed` is told to it where the connection brings every byte.
    """
    if request.param == "busybox":
        search = request.getfixturevalue("busybox_path")
        command = [f"{search}/sh", "-s"]
    elif shutil.which("dash") is None:
        pytest.skip("dash is not installed")
    else:
        search, command = os.environ["PATH"], [request.param.split()[0], "-s", *request.param.split()[1:]]

    def run(script, environment=None):
        search_path = (environment or {}).get("PATH_FIRST")
        path = f"{search_path}:{search}" if search_path else search
        finished = subprocess.run(
            command,
            input=script.encode(),
            capture_output=True,
            check=True,
            env={"PATH": path, **(environment or {})},
        )
        finished.stdout = finished.stdout.decode("utf-8", "surrogateescape")
        finished.stderr = finished.stderr.decode()
        return finished

    return run


@pytest.fixture
def live(tmp_path_factory):
    """Give the script for a live host on which NVIDIA's driver runs."""
    said = write(tmp_path_factory.mktemp("proc"), "/version", "NVRM version: 580.95.05\n")
    return lambda: script().replace("proc/driver/nvidia/version", str(said))


@pytest.fixture
def folder_of_root():
    """Give a folder below folders that root alone may write, as the temporary ones are not."""
    if os.getuid() != 0:
        pytest.skip("needs root: programs and files that are not root's are left alone")
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def nvml_library():
    """Build the fake libnvidia-ml.so.1 with the compiler flags that are asked for, and give its folder."""
    return lambda *flags: str(build(*flags))
