"""Shells as hosts have them, and a libnvidia-ml without a GPU."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

FAKE = Path(__file__).parents[2] / "fakes" / "nvml"


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


@pytest.fixture(params=["dash", "busybox"])
def shell(request):
    """Run a script on a shell's standard input, as a connector does, and give what it printed."""
    if request.param == "busybox":
        search = request.getfixturevalue("busybox_path")
        command = [f"{search}/sh", "-s"]
    elif shutil.which("dash") is None:
        pytest.skip("dash is not installed")
    else:
        search, command = os.environ["PATH"], ["dash", "-s"]

    def run(script, environment=None):
        search_path = (environment or {}).get("PATH_FIRST")
        path = f"{search_path}:{search}" if search_path else search
        return subprocess.run(
            command,
            input=script,
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": path, **(environment or {})},
        )

    return run


@pytest.fixture(scope="session")
def nvml_library():
    """Build the fake libnvidia-ml.so.1, once for each state of its sources, and give its folder."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")

    def build(*flags):
        sources = sorted(FAKE.glob("*.[ch]"))
        contents = b"".join(source.read_bytes() for source in sources) + " ".join(flags).encode()
        digest = hashlib.sha256(contents).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"numaforge-fake-nvml-{os.getuid()}-{digest}"
        library = folder / "libnvidia-ml.so.1"
        if not library.exists():
            folder.mkdir(exist_ok=True)
            unfinished = folder / f"{library.name}.{os.getpid()}"
            compiler = ["gcc", "-shared", "-fPIC", "-std=c11", "-Wall", "-Wextra", "-Werror", *flags]
            linked = [f"-Wl,-soname,{library.name}", "-o", str(unfinished), *map(str, FAKE.glob("*.c"))]
            subprocess.run([*compiler, *linked], check=True)
            unfinished.rename(library)
        return str(folder)

    return build
